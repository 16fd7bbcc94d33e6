"""Compiled golden nets against Caffe2 and the interpreter, unmapped pages around all memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rnncc.ir.interpreter import run
from tests.codegen.compiled import bare_net
from tests.codegen.guarded import guards
from tests.golden import CASES, KINDS, arrays_of, random_inputs, sizes_of, take_rows

SIZES = [(0, 1, 3), (2, 33, 2), (13, 7, 4), (1, 1, 1), (3, 4, 7), (50, 2, 5), (50, 1, 3)]
"""T, N, S: the first three for every net, all of them for one of each kind."""
SIZED = [(case, size) for case in CASES for size in (SIZES if case in KINDS else SIZES[:3])]

every_case = pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
both_sides = pytest.mark.parametrize("end", [False, True], ids=["before", "behind"])


@every_case
@both_sides
def test_what_caffe2_computed(case: Path, end: bool) -> None:
    program, bare = bare_net(case)
    inputs = arrays_of(case, "in:")
    sizes = sizes_of(program, inputs)
    inputs = {**random_inputs(program, sizes), **inputs}
    with guards(end) as memory:
        outputs = bare.run(inputs, sizes, memory)
    for name, want in arrays_of(case, "out:").items():
        np.testing.assert_allclose(outputs[name], want, 1e-5, 1e-5, err_msg=name)


@pytest.mark.parametrize(("case", "size"), SIZED, ids=lambda v: getattr(v, "name", str(v)))
def test_other_sizes(case: Path, size: tuple[int, int, int]) -> None:
    program, bare = bare_net(case)
    sizes: dict[str, int] = dict(zip("TNS", size, strict=True))
    inputs = random_inputs(program, sizes)
    want = run(program, inputs, sizes=sizes)
    with guards(end=False) as memory:
        outputs = bare.run(inputs, sizes, memory)
    with guards(end=True) as memory:
        again = bare.run(inputs, sizes, memory)
    for name in want:
        np.testing.assert_array_equal(again[name], outputs[name], err_msg=name)
        # what cancels keeps the rounding of the larger values that it comes from
        scale = max(1.0, float(np.abs(want[name]).max(initial=0.0)))
        np.testing.assert_allclose(outputs[name], want[name], 1e-5, 1e-5 * scale, err_msg=name)


@every_case
def test_absent_outputs_change_nothing(case: Path) -> None:
    program, bare = bare_net(case)
    sizes = {"T": 6, "N": 5, "S": 3}
    inputs = random_inputs(program, sizes)
    with guards(True) as memory:
        every = bare.run(inputs, sizes, memory)
        for kept in every:
            some = bare.run(inputs, sizes, memory, absent=every.keys() - {kept})
            np.testing.assert_array_equal(some[kept], every[kept])
        assert bare.run(inputs, sizes, memory, absent=set(every)) == {}


@every_case
def test_a_row_alone_gives_the_same_bits(case: Path) -> None:
    program, bare = bare_net(case)
    sizes = {"T": 9, "N": 8, "S": 4}
    inputs = random_inputs(program, sizes)
    with guards(True) as memory:
        batch = bare.run(inputs, sizes, memory)
        for first, rows in ((0, 1), (3, 1), (2, 3), (1, 7)):
            part = take_rows(program.net.inputs, inputs, first, rows)
            alone = bare.run(part, {**sizes, "N": rows}, memory)
            want = take_rows(program.net.outputs, batch, first, rows)
            for name in want:
                np.testing.assert_array_equal(alone[name], want[name], err_msg=name)
