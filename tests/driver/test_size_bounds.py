"""No program whose sizes may be negative becomes code that runs with such sizes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from xdsl.ir import SSAValue

from rnncc import pipeline
from rnncc.driver.trace import run
from rnncc.errors import CompileError
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.ops.control import Scan
from rnncc.ir.program import Program
from rnncc.options import Options
from rnncc.passes.gradients.checkpointing.checkpoint import checkpoint
from rnncc.stages import size_bounds
from rnncc.stages.compilation import Compilation
from tests.compiling import training_of

T = Dim.of("T")
Values = Sequence[SSAValue]


def tanh_of_rows() -> Program:
    b = Builder.net("net")
    return b.finish({"y": b.tanh(b.input("x", ["T", 3]))})


def recurrent() -> Program:
    def body(inner: Builder, _: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        h = inner.tanh(inner.add(rows[0], carry[0]))
        return [h], [h]

    b = Builder.net("net")
    x, h = b.input("x", ["T", 3]), b.input("h", [3])
    return b.finish({"y": b.scan([], [h], [x], body)[1][0]})


def require(program: Program, size: Dim) -> None:
    """A value of that size, which nothing reads."""
    last = program.net.body.block.last_op
    assert last is not None
    Builder.before(last).require(size)


@pytest.mark.parametrize("half", ["forward", "backward"])
def test_sizes_that_only_a_half_of_training_has(half: str) -> None:
    c = training_of(tanh_of_rows(), Options(train=True))
    require(c.programs[half], T - 3)
    require(c.programs[half], T * 2 - 4)
    assert c.bounds == ()
    run(c, pipeline.LOWERING)
    assert c.planned.bounds == (T - 3, T * 2 - 4)


def test_what_follows_from_bounds_is_none() -> None:
    c = training_of(tanh_of_rows(), Options(train=True))
    c.bounds = (T - 3,)
    require(c.programs["backward"], T * 2 - 5)
    size_bounds.complete(c)
    assert c.bounds == (T - 3,)


def test_pieces_of_streams_keep_no_bound_of_the_sequence() -> None:
    c = Compilation(Options(), recurrent())
    run(c, [*pipeline.IMPORT, *pipeline.STREAMING])
    c.bounds = (T - 3,)
    size_bounds.complete(c)
    assert c.piece_bounds == ()
    require(c.programs["step"], T - 2)
    run(c, pipeline.LOWERING)
    assert c.planned.bounds == (T - 3,)
    assert c.planned.piece_bounds == (T - 2,)


def test_runs_between_checkpoints() -> None:
    c = training_of(recurrent(), Options(train=True))
    assert c.phases is not None
    cut = checkpoint(c.phases, (4,))
    assert cut is not None
    c.set_phases(cut)
    size_bounds.complete(c)
    assert c.bounds == ()
    scan = next(
        op
        for op in c.programs["backward"].net.walk()
        if isinstance(op, Scan) and op.steps != T and op.steps.is_symbol
    )
    Builder.before(scan).require(4 - scan.steps)
    size_bounds.complete(c)
    Builder.before(scan).require(scan.steps - 2)
    with pytest.raises(CompileError, match="- 2 is negative"):
        size_bounds.complete(c)


def test_a_number_that_is_negative() -> None:
    c = training_of(tanh_of_rows(), Options(train=True))
    c.trip_counts = {"K": 2}
    require(c.programs["forward"], Dim.of("K") - 3)
    with pytest.raises(CompileError, match="a size -1 is negative"):
        size_bounds.complete(c)
