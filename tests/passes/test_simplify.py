"""Simplify keeps every value bit for bit, and reaches the forms that later passes count on."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from xdsl.context import Context

from rnncc.ir.program import Program
from rnncc.ir.rewriting import NetPass
from rnncc.passes.canonicalize import Canonicalize
from rnncc.passes.fold_constants import fold_constants
from rnncc.passes.merge_equal import MergeEqual
from rnncc.passes.remove_dead import RemoveDead
from rnncc.passes.simplify import Simplify
from rnncc.passes.simplify_scans import SimplifyScans
from tests.strategies import assert_same_meaning, programs

quick = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def applied(*passes: NetPass):
    def change(program: Program) -> None:
        for a_pass in passes:
            a_pass.apply(Context(), program.module)

    return change


@quick
@given(programs())
def test_canonicalize_keeps_values(program: Program):
    assert_same_meaning(program, applied(Canonicalize()))


@quick
@given(programs())
def test_merge_and_remove_keep_values(program: Program):
    assert_same_meaning(program, applied(MergeEqual(), RemoveDead()))


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
