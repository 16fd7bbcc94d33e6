"""Large programs are functions of some kernels each, with the bits of one function."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rnncc_runtime import Pool
from xdsl.ir import SSAValue

import rnncc
from rnncc import cells
from rnncc.codegen.cpu import parts
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.ir.builder import Builder
from rnncc.ir.gates import repeat, when
from rnncc.ir.program import Program
from rnncc.nn.reduction import reduce_keepdims
from rnncc.options import Options
from rnncc.stages.reading import import_source
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.compiling import lower, text_of
from tests.golden import KINDS, Arrays, random_inputs

Values = list[SSAValue]


def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every program be in parts."""
    monkeypatch.setattr(parts, "MANY", 0)
    monkeypatch.setattr(parts, "PART", 1)


@pytest.mark.parametrize("case", KINDS, ids=lambda path: path.name)
def test_nets(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = Options(name="net")
    program = import_source(case / "net.pb", case / "init.pb", options)
    every = [{"T": t, "N": n, "S": 2} for t, n in ((0, 1), (5, 3), (7, 1))]
    compare(program, [(random_inputs(program, sizes), sizes) for sizes in every], monkeypatch)


@pytest.mark.parametrize("skipped", [False, True])
def test_loops_that_data_ends(skipped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    b = Builder.net("ends")
    x, h, k, skip = (
        *(b.input("x", ["T", "N", 4]), b.input("h", ["N", 4])),
        *(b.input("k", [], "i64"), b.input("skip", ["T"], "i1")),
    )

    def iteration(inner: Builder, consts: Values, carry: Values) -> Values:
        count = inner.add(carry[1], inner.full_like(carry[1], 1))
        return [inner.compare("lt", count, consts[0]), count, inner.tanh(carry[2])]

    def step(inner: Builder, consts: Values, carry: Values) -> Values:
        zero = inner.full_like(consts[1], 0)
        start = [inner.compare("lt", zero, consts[1]), zero, inner.add(carry[0], consts[0])]
        return [repeat(inner, [consts[1]], start, iteration, 5)[2]]

    def body(inner: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        new = when(inner, inner.logical_not(rows[1]), [rows[0], consts[0]], carry, step)
        return new, new

    (last,), (ys,) = b.scan([k], [h], [x, skip], body)
    program = b.finish({"ys": ys, "last": last})
    drawn = np.random.default_rng(1)
    inputs = {
        "x": drawn.standard_normal((3, 2, 4), np.float32),
        "h": drawn.standard_normal((2, 4), np.float32),
        "k": np.array(3),
        "skip": np.array([False, skipped, False]),
    }
    compare(program, [(inputs, {"T": 3, "N": 2})], monkeypatch)


def compare(
    program: Program, calls: list[tuple[Arrays, dict[str, int]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bits of one function and of parts, of all outputs and of the first alone."""
    kernels, found = lower(program.copy(), Options()), list[list[bytes]]()
    for setting in (lambda: None, lambda: in_parts(monkeypatch)):
        setting()
        code = Bare(kernels, resolve_target())
        found.append([])
        for inputs, sizes in calls:
            with guards(True) as memory:
                every = code.run(inputs, sizes, memory)
                first = next(iter(every))
                some = code.run(inputs, sizes, memory, absent=every.keys() - {first})
            found[-1] += [array.tobytes() for array in (*every.values(), *some.values())]
    assert found[0] == found[1]


def test_threads_and_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    net = cells.lstm(12, 20, direction="both", seed=3)
    x = np.random.default_rng(3).standard_normal((9, 5, 12), np.float32)
    found = list[list[bytes]]()
    with Pool(2) as pool:
        for setting in (lambda: None, lambda: in_parts(monkeypatch)):
            setting()
            model: Any = rnncc.compile(net, train=True, threads=True)
            outputs, tape = model.forward({"x": x}, pool=pool)
            grads = model.backward(tape, {n: np.cos(y) for n, y in outputs.items()}, pool=pool)
            found.append([array.tobytes() for array in (*outputs.values(), *grads.values())])
    assert found[0] == found[1]


def many_inputs(b: Builder, count: int) -> dict[str, SSAValue]:
    return {"y": b.concat([b.input(f"x{i}", (1, 4)) for i in range(count)], 0)}


def many_outputs(b: Builder, count: int) -> dict[str, SSAValue]:
    y = b.tanh(b.input("x", ["T", 4]))
    return {f"y{i}": y for i in range(count)}


@pytest.mark.parametrize("write", [many_inputs, many_outputs])
def test_functions_stay_short(
    write: Callable[[Builder, int], dict[str, SSAValue]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "MANY", 128)
    monkeypatch.setattr(parts, "PART", 8)
    lengths = list[int]()
    for count in (300, 600):
        b = Builder.net("made")
        net = b.finish(write(b, count))
        text = text_of(net, None, Options.of(net, {}), "llvm")
        lengths.append(max(body.count("\n") for body in re.split("^define", text, flags=re.M)[1:]))
    assert lengths[1] < 1.2 * lengths[0]


def test_a_part_writes_each_formula_of_sizes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    b = Builder.net("made")
    x = b.input("x", ["S", "T", "N", 4])
    y = x
    for axis in (0, 1, 2) * 8:  # sums are buffers of several sizes, one behind another
        y = b.add(y, b.tanh(reduce_keepdims(b, "sum", y, [axis])))
    net = b.finish({"y": y})
    products = list[int]()
    for setting in (lambda: None, lambda: monkeypatch.setattr(parts, "MANY", 0)):
        setting()
        text = text_of(net.copy(), None, Options.of(net, {}), "llvm")
        products.append(text.count("mul i64"))
    assert products[1] < 1.1 * products[0]


def test_missing_inputs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    in_parts(monkeypatch)
    model = rnncc.compile(cells.gru(4, 4))
    with pytest.raises(ValueError, match="x"):
        model.run({})
