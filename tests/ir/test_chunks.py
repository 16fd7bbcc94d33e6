"""`rnn.chunks`: runs of steps give what single steps give; and sizes that are quotients."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp, StringAttr
from xdsl.ir import Block
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.interpreter import run
from rnncc.ir.ops.chunks import Chunks
from rnncc.ir.ops.control import Net, Yield
from rnncc.ir.program import Program
from rnncc.ir.rnn import RNN
from rnncc.ir.types import tensor

T, N = Dim.of("T"), Dim.of("N")


def running_sums(chunk: int, reverse: bool) -> Program:
    """Row sums that go on from run to run; what each run starts with, given back twice."""
    run_of, row = tensor([Dim.of("E"), N], "f32"), tensor([N], "f32")
    inner = Block(arg_types=[row, row, run_of])
    scale, total, segment = inner.args
    b = Builder(inner)
    after = b.sum_rows(total, segment, reverse=reverse)
    scaled = b.mul(segment, b.broadcast(scale, ["E", "N"], [1]))
    inner.add_op(Yield([after, scaled, total]))
    outer = Block(arg_types=[row, row, tensor([T, N], "f32")])
    scale, start, x = outer.args
    first = Chunks(([scale], [start], [x], []), inner, T, chunk, "E", reverse, marked=1)
    inner = Block(arg_types=[row, row])
    least, mark = inner.args
    inner.add_op(Yield([Builder(inner).maximum(least, mark), mark]))
    second = Chunks(([], [start], [], list(first.marked)), inner, T, chunk, "E", marked=1)
    outer.add_ops([first, second, Yield([*first.results, *second.results])])
    names = ["final", "scaled", "marks", "largest", "again"]
    return Program(ModuleOp([Net("net", ["scale", "start", "x"], names, outer)]))


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4, 10])
@pytest.mark.parametrize("reverse", [False, True])
def test_runs(steps: int, reverse: bool) -> None:
    program = running_sums(3, reverse)
    program.module.verify()
    x = np.arange(steps * 2.0).reshape(steps, 2).astype(np.float32)
    scale, start = np.array([2, 3], np.float32), np.array([10, 20], np.float32)
    got = run(program, {"scale": scale, "start": start, "x": x})
    np.testing.assert_array_equal(got["final"], start + x.sum(0))
    np.testing.assert_array_equal(got["scaled"], scale * x)
    firsts = range(0, steps, 3)
    before = [x[t + 3 :] if reverse else x[:t] for t in firsts]
    marks = np.array([start + rows.sum(0) for rows in before]).reshape(-1, 2)
    np.testing.assert_array_equal(got["marks"], marks)
    np.testing.assert_array_equal(got["again"], marks)
    np.testing.assert_array_equal(got["largest"], np.max([start, *marks], axis=0))


def test_it_is_read_as_it_is_printed() -> None:
    module = running_sums(4, True).module
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(RNN)
    again = Parser(context, str(module)).parse_module()
    again.verify()
    assert str(again) == str(module)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("extent", StringAttr("F"), "the body takes"),
        ("length", StringAttr("S"), "has not S rows"),
    ],
)
def test_what_does_not_fit_is_refused(name: str, value: StringAttr, message: str) -> None:
    program = running_sums(3, False)
    first = program.net.body.block.first_op
    assert isinstance(first, Chunks)
    first.properties[name] = value
    with pytest.raises(VerifyException, match=message):
        first.verify_()


@pytest.mark.parametrize(("text", "value"), [("T/4", 3), ("2*N*T/4 + T", 57), ("T/4*T/8", 6)])
def test_quotients_are_rounded_up(text: str, value: int) -> None:
    dim = Dim.parse(text)
    assert Dim.parse(str(dim)) == dim
    assert dim.evaluate({"T": 9, "N": 8}) == value
    assert dim.symbols <= {"T", "N"}
    assert dim.substitute({"T": 9}).evaluate({"N": 8}) == value
    assert dim.substitute({"T": Dim.of("S")}).evaluate({"S": 9, "N": 8}) == value
