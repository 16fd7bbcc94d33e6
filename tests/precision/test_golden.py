"""Golden nets with weights of low precision: near fp32, as in NumPy, the same bits row by row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.codegen.compiled import bare_net
from tests.codegen.guarded import guards
from tests.golden import CASES, KINDS, random_inputs, take_rows
from tests.precision.nets import BOUNDS, ONE_OFF, assert_near, golden

SIZES = [(1, 1, 1), (3, 4, 7), (13, 7, 4), (20, 1, 3)]
"""T, N, S."""

NETS = [(case, p) for p in BOUNDS for case in (CASES if p == "int8" else KINDS)]
"""What takes most from fp32 for every net, all precisions for one of each kind."""
each_precision = pytest.mark.parametrize(
    ("case", "precision"), NETS, ids=lambda value: getattr(value, "name", value)
)


@each_precision
def test_near_fp32_and_as_in_numpy(case: Path, precision: str) -> None:
    low, (_, exact) = golden(case, precision), bare_net(case)
    for size in SIZES:
        sizes: dict[str, int] = dict(zip("TNS", size, strict=True))
        inputs = random_inputs(low.program, sizes)
        got = low.run(inputs, sizes)
        with guards(end=True) as memory:
            assert_near(got, exact.run(inputs, sizes, memory), BOUNDS[precision])
        assert_near(got, low.meaning(inputs, sizes), ONE_OFF)


@each_precision
def test_a_row_alone_gives_the_same_bits(case: Path, precision: str) -> None:
    low = golden(case, precision)
    sizes = {"T": 9, "N": 8, "S": 4}
    inputs, net = random_inputs(low.program, sizes), low.program.net
    batch = low.run(inputs, sizes)
    for first, rows in ((0, 1), (3, 1), (1, 7)):
        part = take_rows(net.inputs, inputs, first, rows)
        alone = low.run(part, {**sizes, "N": rows})
        for name, want in take_rows(net.outputs, batch, first, rows).items():
            np.testing.assert_array_equal(alone[name], want, err_msg=name)


@pytest.mark.parametrize("case", KINDS, ids=lambda path: path.name)
def test_widened_bf16_is_computed_as_fp32_is(case: Path) -> None:
    """Without instructions for bf16 only weights are rounded, so nothing is rounded otherwise."""
    low = golden(case, "bf16", "x86-64-v3")
    sizes = {"T": 13, "N": 7, "S": 4}
    inputs = random_inputs(low.program, sizes)
    assert_near(low.run(inputs, sizes), low.meaning(inputs, sizes), 2e-5)
