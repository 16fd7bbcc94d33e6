"""Each pass that reorders work, and the whole sequence, on random programs."""

from __future__ import annotations

import pytest
from hypothesis import given

from rnncc.ir.program import Program
from rnncc.ir.rewriting import NetPass
from rnncc.passes.hoist import Hoist
from rnncc.passes.mask_rows import MaskRows
from rnncc.passes.merge_matmuls import MergeMatmuls
from rnncc.passes.reassociate_sums import ReassociateSums
from rnncc.passes.simplify import Simplify
from rnncc.passes.split_scans import SplitScans
from tests.passes.helpers import applied, quick, whole_sequence
from tests.strategies import assert_same_meaning, programs, ragged_programs

PASSES = [Hoist(), MergeMatmuls(), ReassociateSums(), SplitScans(), MaskRows()]


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


@quick
@given(program=ragged_programs())
def test_masks_keep_values(program: Program):
    assert_same_meaning(program, applied(Simplify(), MaskRows()))


@quick
@given(program=programs())
def test_sequence_keeps_values(program: Program):
    assert_same_meaning(program, whole_sequence, rtol=1e-5)


@quick
@given(program=programs(known=False))
def test_sequence_keeps_values_of_unknown_parameters(program: Program):
    assert_same_meaning(program, whole_sequence, rtol=1e-9)
