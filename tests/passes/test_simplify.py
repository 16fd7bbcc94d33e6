"""Simplify keeps every value bit for bit, and reaches the forms that later passes count on."""

from __future__ import annotations

from hypothesis import given

from rnncc.ir.builder import Builder
from rnncc.ir.program import Program
from rnncc.passes.canonicalize import Canonicalize
from rnncc.passes.cse import Cse
from rnncc.passes.dce import Dce
from rnncc.passes.fold_constants import fold_constants
from rnncc.passes.simplify import Simplify
from rnncc.passes.simplify_scans import SimplifyScans
from tests.passes.helpers import applied, quick
from tests.strategies import assert_same_meaning, programs


@quick
@given(programs())
def test_canonicalize_keeps_values(program: Program):
    assert_same_meaning(program, applied(Canonicalize()))


@quick
@given(programs())
def test_merge_and_remove_keep_values(program: Program):
    assert_same_meaning(program, applied(Cse(), Dce()))


@quick
@given(programs())
def test_simplify_scans_keeps_values(program: Program):
    assert_same_meaning(program, applied(SimplifyScans()))


@quick
@given(programs())
def test_simplify_keeps_values_and_settles(program: Program):
    assert_same_meaning(program, applied(Simplify()))
    assert not Simplify().rewrite(program.net)


@quick
@given(programs())
def test_folding_keeps_values(program: Program):
    assert_same_meaning(program, lambda p: (fold_constants(p), fold_constants(p)), rtol=1e-5)


def test_a_negative_zero_keeps_its_sign_below_a_broadcast():
    b = Builder.net("zero")
    v = b.broadcast(b.input("v", (3,)), (4, 3), (1,))
    program = b.finish({"y": b.mul(b.fill(-0.0, (4, 3)), v)})
    assert_same_meaning(program, applied(Simplify()))
