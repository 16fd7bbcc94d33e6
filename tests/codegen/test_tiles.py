"""Register tiles of products: as many sums as registers hold, whatever the number of gates."""

from __future__ import annotations

import re
from functools import reduce
from typing import Any

import numpy as np
import pytest

import rnncc
from rnncc.cells import gru, lstm
from rnncc.codegen.cpu.gemm.terms import Terms
from rnncc.codegen.cpu.machine.core import Core
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.ir.builder import Builder
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.nn.convolution import convolution
from rnncc.nn.windows import Window
from rnncc.options import Options
from tests.compiling import text_of

CPUS = {
    "x86-64-v3": "x86-64-v3",
    "x86-64-v4": "x86-64-v4",
    "znver4": "x86-64-v4",
    "znver5": "x86-64-v4",
    "cooperlake": "x86-64-v4",
    "neoverse-n1": "aarch64",
}
"""CPU -> a platform that has it."""
ADD = re.compile(r"\t(vfmadd|vdpbf16|vpdpbusd|vpmaddwd|fmla)")
EPILOGUE = re.compile(r"\t(vmaxps|vdivps|fmaxnm|fdiv)")
SPILL = re.compile(r", \d*\(%r[sb]p\)|\tst[rpu]+\tq.*\[sp")
FETCH = re.compile(r"\tprefetch(t\d)\s")
ROWS = [1, 2, 3, 4, 7, 13]
CELLS = {"lstm": lstm, "gru": gru}


def loops(assembly: str) -> list[list[str]]:
    """The innermost loops: from a label to a jump back to it."""
    lines = [line for line in assembly.splitlines() if not line.startswith("\t.")]
    labels = {line[:-1]: i for i, line in enumerate(lines) if line.startswith(".L")}
    jumps = [(i, re.match(r"\t[jb][\w.]+\t(\.L\w+)", line)) for i, line in enumerate(lines)]
    spans = [(labels[m[1]], i) for i, m in jumps if m and labels.get(m[1], i) < i]
    starts = sorted(start for start, _ in spans)
    inner = [(s, e) for s, e in spans if not any(s < other < e for other in starts)]
    return [lines[start:end] for start, end in inner]


@pytest.mark.parametrize(
    ("cpu", "precision"),
    [
        *((cpu, precision) for cpu in CPUS for precision in ("fp32", "bf16")),
        *((cpu, "int8") for cpu in ("x86-64-v3", "znver5")),
    ],
)
@pytest.mark.parametrize("cell", CELLS)
def test_sums_stay_in_registers(cell: str, cpu: str, precision: str) -> None:
    """A sum that is spilled in its loop waits for memory in each iteration."""
    net = CELLS[cell](96, 96)
    options = {"target": CPUS[cpu], "cpu": cpu, "precision": precision}
    text = text_of(net, None, Options.of(net, options), "asm")
    assert isinstance(text, str)
    products = [
        body
        for body in loops(text)
        if sum(bool(ADD.match(line)) for line in body) >= 8
        and not any(EPILOGUE.match(line) for line in body)
    ]
    assert len(products) >= 4
    assert not [line for body in products for line in body if SPILL.search(line)]


def test_sums_stay_in_registers_beside_longer_nests() -> None:
    """Of a product between two transposes, whose four constants LLVM would keep for both."""
    b, ones = Builder.net("made"), np.ones((64, 64, 1, 1), np.float32)
    x, w = b.input("x", (1, 64, 32, 50)), b.param("w", (64, 1, 3, 3))
    around = [Window(3, pads=(1, 1))] * 2
    y = b.relu(convolution(b, x, w, None, around, 64))
    y = b.relu(convolution(b, y, b.param("p", ones.shape), None, [Window(1)] * 2))
    program = b.finish({"y": y}, {"w": np.ones((64, 1, 3, 3), np.float32), "p": ones})
    text = text_of(program, None, Options(target="x86-64-v4", cpu="x86-64-v4"), "asm")
    assert isinstance(text, str)
    products = [body for body in loops(text) if sum(bool(ADD.match(line)) for line in body) == 24]
    assert products
    assert not [line for body in products for line in body if SPILL.search(line)]


@pytest.mark.parametrize(
    ("cpu", "units", "caches"),
    [
        ("znver4", 96, {"t1"}),
        ("znver5", 96, {"t0"}),
        ("sapphirerapids", 96, {"t0"}),
        ("sapphirerapids", 256, {"t0", "t1"}),
    ],
)
def test_weights_are_fetched_into_the_cache_that_gains(
    cpu: str, units: int, caches: set[str]
) -> None:
    net = lstm(units, units)
    text = text_of(net, None, Options.of(net, {"target": "x86-64-v4", "cpu": cpu}), "asm")
    assert isinstance(text, str)
    assert set(FETCH.findall(text)) == caches


@pytest.mark.parametrize(("cell", "lines"), [("lstm", 1), ("gru", 2)])
def test_a_line_is_fetched_once(cell: str, lines: int) -> None:
    """It holds two vectors of eight, so that those of three gates are in two lines."""
    net = CELLS[cell](256, 256)
    text = text_of(net, None, Options.of(net, {"target": "x86-64-v3", "cpu": "znver3"}), "asm")
    assert isinstance(text, str)
    tiles = [body for body in loops(text) if sum(bool(ADD.match(line)) for line in body) == 12]
    fetched = {sum(bool(FETCH.match(line)) for line in body) for body in tiles}
    assert lines in fetched
    assert max(fetched) <= 2


@pytest.mark.parametrize(
    ("cpu", "precision", "sums"),
    [
        ("znver4", "fp32", 3),
        ("znver5", "fp32", 6),
        ("sapphirerapids", "fp32", 6),
        ("x86-64-v4", "bf16", 12),
    ],
)
def test_sums_of_one_row_do_not_wait(cpu: str, precision: str, sums: int) -> None:
    """More panels at a time where the second-level cache gives more than three sums take."""
    words = 1 if precision == "fp32" else 2  # rows' values that a word of weights multiplies
    net = gru(128 * words, 128 * words)  # a panel stays in the first-level cache, two do not
    options = {"target": "x86-64-v4", "cpu": cpu, "precision": precision}
    text = text_of(net, None, Options.of(net, options), "asm")
    assert isinstance(text, str)
    added = [
        sum(bool(ADD.match(line)) for line in body)
        for body in loops(text)
        if sum("vbroadcastss" in line for line in body) == words
    ]
    assert sums in added


def gated(
    gates: int, units: int, rows: int | str = 7, weights: np.ndarray | None = None
) -> Program:
    """One product whose columns are so many gates, of which each point needs all."""
    b = Builder.net("gated")
    x, shape = b.input("x", (rows, 24)), (24, gates * units)
    w = b.input("w", shape) if weights is None else b.param("w", shape)
    product = b.matmul(x, w)
    total = b.fill(0.0, [rows, units])
    for gate in range(gates):
        part = b.slice(product, 1, gate * units, units)
        total = b.add(b.mul(total, b.fill(0.5, [rows, units])), b.tanh(part))
    return b.finish({"y": total}, None if weights is None else {"w": weights})


@pytest.mark.parametrize("gates", [7, 15, 16, 17, 100, 200])
def test_many_gates(gates: int) -> None:
    """A point of a kernel reads no more columns than there are registers for."""
    program = gated(gates, 16)
    rng = np.random.default_rng(0)
    inputs = {
        "x": rng.standard_normal((7, 24), np.float32),
        "w": rng.standard_normal((24, gates * 16), np.float32),
    }
    want = run(program, inputs)["y"]
    found = rnncc.compile(program).run(inputs)["y"]
    np.testing.assert_allclose(found, want, 1e-5, 1e-5)


@pytest.mark.parametrize("vectors", [1, 5, 300])
def test_panels_of_any_width(vectors: int) -> None:
    """Settings decide how fast code is, and no bit of its results."""
    net = lstm(40, 200)
    inputs = {"x": np.random.default_rng(0).standard_normal((3, 4, 40), np.float32)}
    tuned = rnncc.compile(net, tuning={"vectors": vectors}).run(inputs)["y"]
    assert tuned.tobytes() == rnncc.compile(net).run(inputs)["y"].tobytes()


@pytest.mark.parametrize("gates", [4, 6, 8])
@pytest.mark.parametrize(
    "options",
    [{}, {"precision": "bf16"}, {"precision": "int8"}, {"threads": True}],
    ids=["fp32", "bf16", "int8", "threads"],
)
def test_stripes_change_no_bit(
    gates: int, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Panels of more vectors than a tile, whose weights are constants or packed by the call."""
    w = np.random.default_rng(0).standard_normal((24, gates * 20), np.float32)

    def results() -> list[bytes]:
        found = []
        for program in (gated(gates, 20, "N", w), gated(gates, 20, "N")):
            model = rnncc.compile(program, **options)
            for rows in ROWS:
                x = np.random.default_rng(rows).standard_normal((rows, 24), np.float32)
                inputs = {"x": x} if "w" in program.arrays else {"x": x, "w": w}
                found.append(model.run(inputs)["y"].tobytes())
        return found

    striped = results()
    assert [*map(len, striped)] == [4 * 20 * rows for rows in ROWS] * 2
    monkeypatch.setattr(Core, "stripe", lambda *_: 0)
    assert results() == striped


def test_sums_stay_within_stripes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of bf16 weights have 2 vectors, and may not read beyond a stripe of 5."""
    w = np.random.default_rng(0).standard_normal((24, 10 * 20), np.float32)
    x = np.random.default_rng(1).standard_normal((7, 24), np.float32)
    monkeypatch.setattr(Core, "tile", lambda *_: (5, 5))

    def result() -> bytes:
        model = rnncc.compile(gated(10, 20, "N", w), precision="bf16")
        return model.run({"x": x})["y"].tobytes()

    striped = result()
    monkeypatch.setattr(Core, "stripe", lambda *_: 0)
    assert result() == striped


@pytest.mark.parametrize(
    ("cpu", "dtype", "units", "vectors"),
    [
        ("znver5", "f32", 256, 6),
        ("znver5", "f32", 40, 3),  # stay in the first-level cache
        ("znver5", "f32", 272, 3),  # the second half of a panel would be far behind the first
        ("znver5", "bf16", 256, 3),
        ("znver5", "u8", 512, 6),
        ("sapphirerapids", "f32", 256, 3),
    ],
)
def test_one_row_reads_one_stream(cpu: str, dtype: str, units: int, vectors: int) -> None:
    """Where two panels side by side come slower, those of three gates are twice as wide."""
    core = resolve_target("x86-64-v4", cpu)
    panel = core.panel(3, units, dtype, units)
    assert 3 * panel == vectors * core.lanes
    assert core.stripe(3, panel) in (0, 3 * panel)


@pytest.mark.parametrize("gates", [1, 3, 4, 5, 6])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_tall_tiles_change_no_bit(
    gates: int, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole panels and a narrower last one, of which high tiles take some vectors at a time."""
    w = np.random.default_rng(0).standard_normal((24, gates * 84), np.float32)
    x = np.random.default_rng(1).standard_normal((23, 24), np.float32)

    def results(tall: int) -> list[bytes]:
        monkeypatch.setattr(Terms, "tall", tall)
        model = rnncc.compile(gated(gates, 84, "N", w), precision=precision)
        return [model.run({"x": x[:rows]})["y"].tobytes() for rows in (*range(2, 10), 16, 23)]

    assert results(8) == results(0)


@pytest.mark.parametrize(
    ("cpu", "units", "most"), [("znver5", 256, 8), ("znver5", 64, 6), ("znver4", 256, 6)]
)
def test_tall_tiles_of_panels_that_leave_the_cache(cpu: str, units: int, most: int) -> None:
    """The product for all steps at once has whole tiles: 8 rows, half of a panel at a time."""
    net = lstm(units, units)
    text = text_of(net, None, Options.of(net, {"target": "x86-64-v4", "cpu": cpu}), "asm")
    assert isinstance(text, str)
    rows = {
        sum("vbroadcastss" in line or "{1to16}" in line for line in body)
        for body in loops(text)
        if sum(bool(ADD.match(line)) for line in body) >= 14
        and not any(EPILOGUE.match(line) for line in body)
    }
    assert max(rows) == most


@pytest.mark.parametrize(
    ("rows", "units"), [(0, 40), (1, 40), (2, 40), (7, 40), (13, 40), (13, 20), (25, 9)]
)
def test_known_numbers_of_rows(rows: int, units: int) -> None:
    """Tiles of few units have more rows, where their number is known: the bits are the same."""

    def product(rows: int | str) -> Program:
        b = Builder.net("made")
        return b.finish({"y": b.matmul(b.input("x", (rows, 24)), b.input("w", (24, units)))})

    rng = np.random.default_rng(0)
    shapes = {"x": (rows, 24), "w": (24, units)}
    inputs = {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    found = rnncc.compile(product(rows)).run(inputs)["y"]
    np.testing.assert_allclose(found, run(product(rows), inputs)["y"], 1e-5, 1e-5)
    assert found.tobytes() == rnncc.compile(product("N")).run(inputs)["y"].tobytes()


def test_tiles_of_few_units_have_more_rows() -> None:
    b = Builder.net("made")
    y = b.matmul(b.input("x", (44, 24)), b.param("w", (24, 32)))
    program = b.finish({"y": y}, {"w": np.zeros((24, 32), np.float32)})
    text = text_of(program, None, Options(target="x86-64-v4", cpu="x86-64-v4"), "asm")
    assert isinstance(text, str)
    sums = [[line for line in body if ADD.match(line) and "zmm" in line] for body in loops(text)]
    assert max(map(len, sums)) == 11 * 2
    assert not [line for body in loops(text) for line in body if SPILL.search(line)]


@pytest.mark.parametrize("gates", [2, 3, 9])
@pytest.mark.parametrize("units", [1, 3, 6, 20])
def test_rows_together_equal_rows_alone_where_gates_share_vectors(gates: int, units: int) -> None:
    """One row's sums fill no vector with units of several gates; those of a tile of rows may."""
    x = np.random.default_rng(0).standard_normal((13, 24), np.float32)
    w = np.random.default_rng(1).standard_normal((24, gates * units), np.float32)
    b = Builder.net("narrow")
    product = b.matmul(b.input("x", ["N", 24]), b.param("w", w.shape))
    values = [b.tanh(b.slice(product, 1, gate * units, units)) for gate in range(gates)]
    program = b.finish({"y": reduce(b.sub, values)}, {"w": w})
    for precision in ("fp32", "bf16", "int8"):
        model = rnncc.compile(program, precision=precision)
        alone = [model.run({"x": row[None]})["y"] for row in x]
        assert model.run({"x": x})["y"].tobytes() == np.concatenate(alone).tobytes()


def test_gates_of_few_units_take_few_vectors() -> None:
    """The four gates of six units are 24 sums a row: two vectors of 16."""
    text = text_of(lstm(6, 6), None, Options(target="x86-64-v4", cpu="x86-64-v4"), "asm")
    assert isinstance(text, str)
    sums = [[line for line in body if ADD.match(line) and "zmm" in line] for body in loops(text)]
    assert max(map(len, sums)) == 6 * 2


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_tiles_run_along_the_axis_that_fills_them(precision: str) -> None:
    """Of few sequences, batch first, they take several steps of one: the bits are the same."""
    w = np.random.default_rng(1).standard_normal((24, 20), np.float32)
    b = Builder.net("turned")
    x = b.transpose(b.input("x", ["N", "T", 24]), [1, 0, 2])
    program = b.finish({"y": b.tanh(b.matmul(x, b.param("w", w.shape)))}, {"w": w})
    model = rnncc.compile(program, precision=precision)
    for batch, steps in [(1, 1), (1, 9), (2, 3), (5, 40), (5, 5), (7, 9), (9, 2), (0, 3), (3, 0)]:
        rows = np.random.default_rng(0).standard_normal((batch, steps, 24), np.float32)
        found = model.run({"x": rows})["y"]
        assert found.shape == (steps, batch, 20)
        for n, t in np.ndindex(batch, steps):
            alone = model.run({"x": rows[n : n + 1, t : t + 1]})["y"]
            assert found[t, n].tobytes() == alone.tobytes()
