"""Many instances of a net in one: each has what the net gives for it alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.passes.instances import instances
from tests.passes.differentiable_ops import OPS, net_of
from tests.passes.helpers import count, quick
from tests.strategies import SIZES, make_inputs, programs


def check_instances(program: Program, sizes: Mapping[str, int], of: Collection[str]) -> None:
    """Two of them, which have these inputs of their own."""
    many = instances(program, of, "I")
    many.module.verify()
    drawn = [make_inputs(program, dict(sizes), seed)[1] for seed in (0, 1)]
    own = [{name: arrays[name] for name in of} for arrays in drawn]
    together = {name: np.stack([arrays[name] for arrays in own]) for name in of}
    made = run(many, drawn[0] | together, np.float64, {**sizes, "I": 2})
    each = [run(program, drawn[0] | arrays, np.float64, sizes) for arrays in own]
    for name, array in made.items():
        want = np.stack([outputs[name] for outputs in each])
        np.testing.assert_allclose(array, want, 1e-12, 1e-12, err_msg=name)


@pytest.mark.parametrize("name", OPS)
def test_op(name: str) -> None:
    program = net_of(*OPS[name])
    for of in {tuple(program.net.inputs), *((one,) for one in program.net.inputs)}:
        check_instances(program, SIZES, of)


@quick
@given(programs(), st.data())
def test_random_programs(program: Program, data: Any) -> None:
    of = data.draw(st.sets(st.sampled_from(list(program.net.inputs)), min_size=1))
    for steps in (4, 0):
        check_instances(program, {**SIZES, "T": steps}, of)


def test_what_is_the_same_for_all_is_computed_once() -> None:
    program = net_of(lambda b, x, w: b.matmul(x, b.tanh(w)), [["N", 3], [3, 3]])
    ops = count(instances(program, ["x0"], "I").net.body.block)
    assert ops["matmul"] == ops["tanh"] == 1 and ops["scan"] == 0
