"""Each pass that reorders work, and the whole sequence, on random programs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.ops.control import Scan
from rnncc.ir.ops.linear import SumRows
from rnncc.ir.program import Program
from rnncc.ir.rewriting import NetPass
from rnncc.passes.cleanup.simplify import Simplify
from rnncc.passes.loops.add_before_sums import AddBeforeSums
from rnncc.passes.loops.hoist import Hoist
from rnncc.passes.loops.mask_rows import MaskRows
from rnncc.passes.loops.merge_matmuls import MergeMatmuls
from rnncc.passes.loops.reassociate_sums import ReassociateSums
from rnncc.passes.loops.separate_parts import SeparateParts
from rnncc.passes.loops.split_scans import SplitScans
from tests.passes.helpers import applied, quick, whole_sequence
from tests.strategies import assert_same_meaning, programs, ragged_programs

Value = SSAValue
Values = list[SSAValue]
PASSES = [
    Hoist(),
    MergeMatmuls(),
    ReassociateSums(),
    SplitScans(),
    MaskRows(),
    SeparateParts(),
]


@pytest.mark.parametrize("a_pass", PASSES, ids=lambda p: p.name)
@quick
@given(program=programs())
def test_pass_keeps_values(a_pass: NetPass, program: Program):
    assert_same_meaning(program, applied(a_pass), rtol=1e-9)


@pytest.mark.parametrize("a_pass", PASSES, ids=lambda p: p.name)
@quick
@given(program=programs())
def test_pass_keeps_values_of_simple_programs(a_pass: NetPass, program: Program):
    assert_same_meaning(program, applied(Simplify(), a_pass), rtol=1e-9)
    assert not a_pass.rewrite(program.net)  # a second run finds nothing


BEHIND: list[Callable[[Builder, Value, Value], Value]] = [
    lambda b, x, y: b.add(x, y),
    lambda b, x, y: b.sub(x, y),
    lambda b, x, y: b.add(x, b.neg(y)),
    lambda b, x, y: b.add(b.neg(x), y),
    lambda b, x, y: b.sub(b.neg(x), b.neg(y)),
    lambda b, x, y: b.sub(x, b.neg(y)),
]


@pytest.mark.parametrize("in_loop", [False, True])
@pytest.mark.parametrize("behind", BEHIND, ids=map(str, range(len(BEHIND))))
def test_terms_are_added_before_their_sums(
    behind: Callable[[Builder, Value, Value], Value], in_loop: bool
) -> None:
    """However the sums of a loop's carries, or of rows outside, meet behind them."""
    b = Builder.net("sums")
    rows, zeros = [b.input(name, ["T", "N", 4]) for name in "xy"], b.fill(0.0, [4])

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        both = zip(carry, rows, strict=True)
        return [i.add(total, i.reduce("sum", row, [0])) for total, row in both], []

    if in_loop:
        sums, _ = b.scan([], [zeros] * 2, rows, step)
    else:
        sums = [b.sum_rows(zeros, b.reshape(x, ["T*N", 4]), True) for x in rows]
    program = b.finish({"y": behind(b, *sums)})
    joined = program.copy()
    assert AddBeforeSums().rewrite(joined.net)
    last = joined.net.body.block.last_op
    assert last is not None and isinstance(last.operands[0].owner, Scan if in_loop else SumRows)
    assert_same_meaning(program, applied(AddBeforeSums()), rtol=1e-9)


@pytest.mark.parametrize("shown", [False, True])
def test_sums_that_are_read_in_the_loop_stay_what_they_are(shown: bool) -> None:
    """Of two carries that sum up rows and are added behind the loop; `shown`: as a sequence."""
    b = Builder.net("sums")
    rows = [b.input(name, ["T", "N", 4]) for name in "xy"]

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        both = zip(carry, rows, strict=True)
        totals = [i.add(total, i.reduce("sum", row, [0])) for total, row in both]
        return totals, [totals[0]] if shown else []

    (one, other), ys = b.scan([], [b.fill(0.0, [4])] * 2, rows, step)
    results = [b.add(one, other), other, *ys]
    program = b.finish({f"y{i}": value for i, value in enumerate(results)})
    assert AddBeforeSums().rewrite(program.copy().net) is not shown
    assert_same_meaning(program, applied(AddBeforeSums()), rtol=1e-9)


@quick
@given(program=ragged_programs())
def test_masks_keep_values(program: Program):
    assert_same_meaning(program, applied(Simplify(), MaskRows()), rtol=1e-12)


@quick
@given(program=programs())
def test_sequence_keeps_values(program: Program):
    assert_same_meaning(program, whole_sequence, rtol=1e-5)


@quick
@given(program=programs(known=False))
def test_sequence_keeps_values_of_unknown_parameters(program: Program):
    assert_same_meaning(program, whole_sequence, rtol=1e-9)
