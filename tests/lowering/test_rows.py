"""Sequences that loops hand to loops: rows that would share a cache's sets lie a line apart."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.ir import SSAValue

from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.driver.compiling import build_library
from rnncc.ir.attributes import get_dim
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.kern.dialect import Buffer, Row, ShiftedRow
from rnncc.options import Options
from rnncc.platforms import LINE
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.compiling import lower

Values = list[SSAValue]
N = Dim.of("N")


def two_loops(units: int, shifted: bool, whole: bool) -> Program:
    """One adds rows up, another multiplies the sums backwards, or those of the steps before."""
    b = Builder.net("rows")
    x, h = b.input("x", ["T", "N", units]), b.input("h", ["N", units])

    def add(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        total = i.add(carry[0], rows[0])
        return [total], [total]

    def multiply(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        return [i.mul(carry[0], rows[0])], []

    _, [sums] = b.scan([], [h], [x], add)
    read = b.shift(sums, h) if shifted else sums
    [product], _ = b.scan([], [h], [read], multiply, reverse=True)
    outputs = {"product": product} | ({"mean": b.reduce("sum", sums, [0])} if whole else {})
    return b.finish(outputs)


@pytest.mark.parametrize("shifted", [False, True], ids=["as they are", "shifted"])
@pytest.mark.parametrize(
    "units, whole, gap",
    [(1024, False, LINE // 4), (1040, False, 0), (1024, True, 0)],
    ids=["of 4 KB", "of other lengths", "read as a whole"],
)
def test_rows_lie_apart(units: int, whole: bool, gap: int, shifted: bool) -> None:
    program = two_loops(units, shifted, whole)
    kernels = lower(program.copy(), Options())
    rows = [op for op in kernels.module.walk() if isinstance(op, Row | ShiftedRow)]
    owners = [(op, op.buffer.owner) for op in rows]
    scratch = [
        op for op, buffer in owners if isinstance(buffer, Buffer) and "scan" in buffer.label.data
    ]
    assert scratch and {get_dim(op.stride) for op in scratch} == {N * units + gap}
    rng, code = np.random.default_rng(0), Bare(kernels, resolve_target())
    for steps in (0, 1, 5):
        shapes = {"x": (steps, 2, units), "h": (2, units)}
        inputs = {name: rng.standard_normal(s, np.float32) for name, s in shapes.items()}
        sizes = {"T": steps, "N": 2}
        with guards(True) as memory:
            found = code.run(inputs, sizes, memory)
        for name, want in run(program, inputs, sizes=sizes).items():
            np.testing.assert_allclose(found[name], want, 1e-5, 1e-6, err_msg=name)


def test_gradients_still_take_over_the_tape() -> None:
    """Backward's sequences from loop to loop have the places of the tape's, whatever the length."""
    b, dims = Builder.net("loops"), ["N", 1024]
    x, h = b.input("x", ["T", *dims]), b.input("h", dims)

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        after = i.tanh(i.add(i.mul(carry[0], i.sigmoid(rows[0])), rows[0]))
        return [after], [i.mul(after, i.sigmoid(rows[0]))]

    rows = x
    for _ in range(3):
        _, [rows] = b.scan([], [h], [rows], step)
    library = build_library(b.finish({"y": rows}), None, Options(train=True))
    workspace = library.programs["backward"].workspace
    assert workspace.evaluate({"T": 1000, "N": 2}) == workspace.evaluate({"T": 2000, "N": 2})
