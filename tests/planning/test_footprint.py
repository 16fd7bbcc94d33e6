from __future__ import annotations

from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rnncc.ir.dims import Dim
from rnncc.planning.footprint import Footprint, covered

SIZES = [{"N": n, "t": t} for n, t in product((0, 1, 2, 5), (0, 1, 3))]

formulas = st.sampled_from(["0", "1", "2", "3", "4", "6", "N", "2*N", "3*N", "N + 1", "t", "t*N"])
axes = st.tuples(formulas, formulas)


def footprint(offset: str, *axes: tuple[str, str]) -> Footprint:
    pairs = tuple((Dim.parse(size), Dim.parse(stride)) for size, stride in axes)
    return Footprint(Dim.parse(offset), pairs)


footprints = st.builds(
    lambda offset, axes: footprint(offset, *axes), formulas, st.lists(axes, max_size=3)
)


def elements(part: Footprint, env: dict[str, int]) -> set[int]:
    ranges = [range(size.evaluate(env)) for size, _ in part.axes]
    strides = [stride.evaluate(env) for _, stride in part.axes]
    start = part.offset.evaluate(env)
    return {
        start + sum(i * s for i, s in zip(index, strides, strict=True))
        for index in product(*ranges)
    }


@given(footprints, st.lists(footprints, max_size=4))
@example(footprint("0", ("2", "1")), [footprint("0"), footprint("1")])
def test_what_counts_as_covered_is_covered(read: Footprint, written: list[Footprint]) -> None:
    if covered(read, written):
        for env in SIZES:
            assert elements(read, env) <= set().union(*(elements(w, env) for w in written))


@pytest.mark.parametrize(
    ("read", "written"),
    [
        (footprint("0", ("N", "6"), ("6", "1")), [footprint("0", ("6*N", "1"))]),
        (footprint("0", ("N", "6"), ("3", "2")), [footprint("0", ("N", "6"), ("6", "1"))]),
        (footprint("N", ("N", "0")), [footprint("0", ("2*N + 1", "1"))]),
        (
            footprint("0", ("5*N", "1")),
            [footprint("3", ("N", "5"), ("2", "1")), footprint("0", ("N", "5"), ("3", "1"))],
        ),
        (footprint("1", ("N", "4"), ("2", "1")), [footprint("1", ("N", "4"), ("2", "1"))]),
    ],
)
def test_covered(read: Footprint, written: list[Footprint]) -> None:
    assert covered(read, written)


@pytest.mark.parametrize(
    ("read", "written"),
    [
        (footprint("0"), []),
        (footprint("0"), [footprint("0", ("N", "1"))]),
        (footprint("0", ("N", "1")), [footprint("0", ("N", "2"))]),
        (footprint("t", ("N", "1")), [footprint("0", ("N", "1"))]),
        (footprint("0", ("7", "1")), [footprint("0", ("N", "0"), ("7", "1"))]),
        (footprint("0", ("2", "1"), ("2", "1"), ("2", "2")), [footprint("0", ("4", "1"))]),
    ],
)
def test_not_covered(read: Footprint, written: list[Footprint]) -> None:
    assert not covered(read, written)
