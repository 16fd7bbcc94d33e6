"""Pictures of nets: what the equations say, where loops stand; every kind of net has one."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from xdsl.ir import SSAValue

from rnncc import CompileError, cells, drawing
from rnncc.cli import main
from rnncc.drawing import draw, page
from rnncc.drawing.reading import read
from rnncc.frontends.caffe2 import import_net
from rnncc.ir.builder import Builder
from rnncc.ir.program import Program
from rnncc.netdef.drawing.graph import DrawnGraph
from tests.codegen.random_programs import examples
from tests.golden import CASES, CONTROL_KINDS, arrays_of
from tests.ir.ops_by_name import samples
from tests.strategies import programs

ROOT = Path(__file__).parents[2]
LSTM = [str(ROOT / "examples/lstm.pbtxt"), str(ROOT / "examples/lstm_init.pbtxt")]
SVG = "{http://www.w3.org/2000/svg}"


def texts(graph: DrawnGraph) -> dict[str, str]:
    """Of each box, by its first line without the shape, the other lines; loops by their titles."""
    found = dict[str, str]()
    for node in graph.nodes:
        head, *rest = (line.text for line in node.lines)
        found[head.partition(" [")[0]] = " ".join(rest)
        for _, inner in node.parts:
            found |= texts(inner)
    return found


def edges(graph: DrawnGraph) -> set[tuple[str, str]]:
    names = [node.lines[0].text.partition(" [")[0] for node in graph.nodes]
    return {(names[a], names[b]) for a, b in graph.edges}


def test_the_equations_of_an_lstm() -> None:
    told = texts(read(cells.lstm(3, 5)))
    assert told["projection"] == "x @ W + b"
    assert told["sums"] == "h' @ RW + projection[t]"
    assert told["i"] == "\N{GREEK SMALL LETTER SIGMA}(sums[0:5])"
    assert told["c"] in ("f · c' + i · g", "for the next step")
    assert told["h'"] == "at first 0"
    assert "for t = 0 … T - 1" in told


def test_gates_of_a_gru_and_a_masked_step() -> None:
    told = texts(read(cells.gru(3, 5)))
    assert {"r", "z", "n", "reset", "sums"} <= told.keys()
    told = texts(read(import_net(LSTM[0], LSTM[1])))
    assert told["live"] == "t < seq_lengths"
    assert told["cell"] in ("live ? c : cell'", "for the next step")


def test_arrows_lead_from_what_is_read() -> None:
    b = Builder.net("net")
    x, y = b.input("x", ["T"]), b.input("y", ["T"])
    total = b.add(x, b.mul(y, b.fill(2.0, ["T"])))
    total.name_hint = "total"
    graph = read(b.finish({"out": b.tanh(b.reshape(total, ["T", 1]))}))
    assert texts(graph)["total"] == "x + y · 2"
    assert texts(graph)["out.tanh"] == "tanh(total)"
    assert edges(graph) == {
        ("x", "total"), ("y", "total"), ("total", "out.tanh"), ("out.tanh", "out"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda b, x, y: b.sub(x, b.sub(y, x)), "x - (y - x)"),
        (lambda b, x, y: b.sub(b.sub(x, y), x), "x - y - x"),
        (lambda b, x, y: b.div(x, b.mul(x, y)), "x / (x · y)"),
        (lambda b, x, y: b.mul(b.add(x, y), y), "(x + y) · y"),
        (lambda b, x, y: b.neg(b.add(x, y)), "-(x + y)"),
        (
            lambda b, x, y: b.multiply_add("sub", x, b.add(x, y), b.sub(y, x)),
            "x · (x + y) - (y - x)",
        ),
        (lambda b, x, y: b.multiply_add("from", x, y, b.sub(x, y)), "x - y - x · y"),
        (lambda b, x, y: b.select(b.compare("le", x, y), x, y), "x ≤ y ? x : y"),
        (lambda b, x, y: b.maximum(b.exp(x), y), "maximum(exp(x), y)"),
        (lambda b, x, y: b.slice(x, 1, 1, 2), "x[1:3]"),
        (lambda b, x, y: b.slice(x, 0, 1, 1), "x[1 @ axis 0]"),
        (lambda b, x, y: b.concat([x, y], 1), "[x, y]"),
        (lambda b, x, y: b.matmul(x, y, transpose_b=True), "x @ y\N{MODIFIER LETTER CAPITAL T}"),
    ],
)
def test_formulas(make: Callable[..., SSAValue], text: str) -> None:
    b = Builder.net("net")
    x, y = b.input("x", [4, 5]), b.input("y", [4, 5])
    program = b.finish({"out": make(b, x, y)})
    (node,) = [node for node in read(program).nodes if node.kind == "op"]
    assert " ".join(line.text for line in node.lines[1:]) == text


def boxes(svg: str) -> int:
    root = ElementTree.fromstring(svg)
    return sum(1 for rect in root.iter(f"{SVG}rect") if rect.get("class") in ("box", "group"))


def check(program: Program) -> None:
    """A drawing that parses, with a box a loop and each arrow from one box to another."""
    svg = draw(program)
    root = ElementTree.fromstring(svg)
    loops = [op for op in program.net.walk() if op.name == "rnn.scan"]
    groups = [rect for rect in root.iter(f"{SVG}rect") if rect.get("class") == "group"]
    assert len(groups) <= len(loops)
    ends = [text for text in root.iter(f"{SVG}text") if text.text]
    assert len(ends) >= len(program.net.outputs)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_golden_nets(case: Path) -> None:
    check(import_net(case / "net.pb", case / "init.pb"))


@pytest.mark.parametrize("case", CONTROL_KINDS, ids=lambda case: case.name)
def test_control(case: Path) -> None:
    shapes = {name: array.shape for name, array in arrays_of(case, "in:").items()}
    program = import_net(case / "net.pb", case / "init.pb", shapes, max_iterations=5)
    check(program)
    gated = any(op.name == "rnn.scan" and "gate" in op.properties for op in program.net.walk())
    assert gated == any(re.match("while |if ", head) for head in texts(read(program)))


@examples(15)
@given(programs())
def test_random_programs(program: Program) -> None:
    check(program)


def test_every_operation_has_a_text() -> None:
    for name, op in samples().items():
        block = op.parent
        assert block is not None, name
        b = Builder(block)
        for number, arg in enumerate(block.args):
            arg.name_hint = f"x{number}"
        b._inputs = [f"x{number}" for number in range(len(block.args))]
        b._name = "net"
        check(b.finish({"y": op.results[0]}))


def test_colours_follow_the_reader() -> None:
    svg = draw(cells.lstm(3, 5))
    assert "@media (prefers-color-scheme: dark)" in svg
    assert page(svg, "a <net>").count("<title>a &lt;net&gt;</title>") == 1


def test_large_nets(monkeypatch: pytest.MonkeyPatch) -> None:
    b = Builder.net("net")
    w = b.input("x", ["T"])
    weight = b.param("w", ["T"])
    for _ in range(1500):
        w, weight = b.tanh(w), b.tanh(weight)
    program = b.finish({"y": b.add(w, weight)})
    assert len(draw(program)) < 1_000_000
    monkeypatch.setattr(drawing, "MOST", 3000)
    with pytest.raises(CompileError, match="has 3004 operations, of which at most 3000 can be"):
        draw(program)


def test_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["draw", *LSTM]) == 0
    svg = capfd.readouterr().out
    assert boxes(svg) > 10
    for name in ("lstm.svg", "lstm.html"):
        assert main(["draw", *LSTM, "-o", str(tmp_path / name)]) == 0
    assert (tmp_path / "lstm.svg").read_text() == svg
    assert re.search(r"^<!doctype html>.*<svg ", (tmp_path / "lstm.html").read_text(), re.DOTALL)


def test_half_compiled_nets(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.rnn.mlir"
    for step, status in (("read", 0), ("simplify-last", 2)):
        command = ["compile", *LSTM, "--emit", "rnn", "--stop-after", step, "-o", str(path)]
        assert main(command) == 0
        assert main(["draw", str(path)]) == status
    assert "is cut into parts already (init, step) (draw the net)" in capfd.readouterr().err


def test_what_cannot_be_drawn(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    library = tmp_path / "liblstm.so"
    library.write_bytes(b"\x7fELF" + bytes(64))
    assert main(["draw", str(library)]) == 2
    assert "is a library, which holds no net to draw" in capfd.readouterr().err
    np.save(tmp_path / "x.npy", np.zeros(3))
    assert main(["draw", str(tmp_path / "x.npy")]) == 2
