from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import combinations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rnncc.ir.dims import Dim
from rnncc.planning.lifetimes import Lifetime
from rnncc.planning.offsets import PlannedBlock, place

MONOMIALS = [(), ("N",), ("T",), ("T", "N"), ("N", "S")]
VALUES = [{"T": t, "N": n, "S": s} for t in (0, 1, 7, 1000) for n in (0, 1, 3, 64) for s in (0, 5)]

sizes = st.dictionaries(st.sampled_from(MONOMIALS), st.integers(1, 3000), max_size=3).map(
    lambda terms: Dim(terms.items())
)
items = st.sampled_from([1, 4, 8])
lifetimes = st.tuples(st.integers(0, 12), st.integers(0, 12)).map(
    lambda pair: Lifetime(min(pair), max(pair))
)
blocks = st.builds(
    lambda size, alive, item: PlannedBlock(size * item, alive, item), sizes, lifetimes, items
)


def assert_apart(blocks: Sequence[PlannedBlock]) -> None:
    """Blocks alive at once lie apart at many sizes, and all within the height."""
    offsets, total = place(blocks)
    for env in VALUES:
        starts = [offset.evaluate(env) for offset in offsets]
        ends = [s + b.size.evaluate(env) for s, b in zip(starts, blocks, strict=True)]
        assert all(0 <= e <= total.evaluate(env) for e in ends)
        for i, j in combinations(range(len(blocks)), 2):
            if blocks[i].lifetime.overlaps(blocks[j].lifetime):
                apart = ends[i] <= starts[j] or ends[j] <= starts[i]
                assert apart or starts[i] == ends[i] or starts[j] == ends[j]


@settings(max_examples=30)  # a tenth of a second each
@given(st.lists(blocks, max_size=12))
def test_what_lives_at_once_lies_apart(blocks: list[PlannedBlock]) -> None:
    assert_apart(blocks)


def random_blocks(seed: int, count: int) -> list[PlannedBlock]:
    """Blocks as nets have them: of few kinds of sizes, most of them alive for a short time."""
    random = Random(seed)
    kinds = [Dim.parse(f"{random.randint(1, 200)}*{kind}") for kind in ("T*N", "N", "N*S", "64")]
    found: list[PlannedBlock] = []
    for _ in range(count):
        size = random.choice(kinds) * random.choice([1, 1, 4]) + random.choice([0, 0, 4096])
        first, item = random.randrange(2 * count), random.choice([1, 4, 4, 4, 8])
        last = first + min(random.randint(0, 20) ** random.choice([1, 1, 2]), 2 * count)
        found.append(PlannedBlock(size * item, Lifetime(first, last), item))
    return found


@pytest.mark.parametrize("count", [20, 60, 120])
@pytest.mark.parametrize("seed", range(3))
def test_many_blocks(seed: int, count: int) -> None:
    assert_apart(random_blocks(seed, count))


def test_very_many_blocks_are_placed_in_reasonable_time() -> None:
    """As a long unrolled net has them."""
    many = [PlannedBlock(Dim.parse("40*N"), Lifetime(i, i + i % 7), 4) for i in range(1500)]
    began = time.process_time()
    offsets, total = place(many)
    assert time.process_time() - began < 5
    assert len(offsets) == len(many)
    assert total.evaluate({"N": 3}) < 40 * 3 * 8


@given(st.lists(lifetimes, min_size=1), st.sampled_from(["256", "20*N", "T*N*640 + N*64"]))
def test_blocks_of_one_size_take_no_more_than_live_at_once(
    alive: list[Lifetime], size: str
) -> None:
    unit = Dim.parse(size)
    _, total = place([PlannedBlock(unit, lifetime, 4) for lifetime in alive])
    most = max(sum(a.first <= at <= a.last for a in alive) for at in range(13))
    assert total.formulas == (unit * most,)


@settings(max_examples=30)  # a tenth of a second each
@given(st.lists(blocks, max_size=12))
def test_blocks_start_at_multiples_of_their_elements(blocks: list[PlannedBlock]) -> None:
    offsets, _ = place(blocks)
    for block, offset in zip(blocks, offsets, strict=True):
        assert all(f % block.item == 0 for part in offset.formulas for _, f in part.terms)


def test_rows_that_fill_lines_start_at_lines() -> None:
    """Whatever other blocks there are."""
    blocks = [
        PlannedBlock(Dim.parse(f"{row}*N"), Lifetime(0, 1), 4) for row in (20, 64, 84, 640, 4)
    ]
    offsets, total = place(blocks)
    assert offsets[1].evaluate({"N": 1}) % 64 == offsets[3].evaluate({"N": 1}) % 64 == 0
    assert str(total) == "812*N"


def test_a_size_that_may_be_negative_takes_its_positive_part() -> None:
    """T*N - N is -N at T = 0."""
    offsets, total = place([PlannedBlock(Dim.parse("64*T*N - 64*N"), Lifetime(0, 1), 4)] * 2)
    assert [str(offset) for offset in offsets] == ["0", "64*T*N"]
    assert str(total) == "128*T*N"


def test_nothing_takes_nothing() -> None:
    offsets, total = place([])
    assert offsets == []
    assert str(total) == "0" and not total


def test_phases_of_different_growth_do_not_add_up() -> None:
    """Only one of them is the largest at any sizes; the workspace is no sum of both."""
    sizes = [("40*T*N", 0), ("16*T*N + 24576", 1)]
    blocks = [PlannedBlock(Dim.parse(size), Lifetime(at, at), 4) for size, at in sizes]
    _, total = place(blocks)
    assert total.evaluate({"T": 1, "N": 1}) == 24592
    assert total.evaluate({"T": 100, "N": 100}) == 400000


def test_growing_blocks_at_both_ends_of_life() -> None:
    """Neither T*N nor N wins at all sizes: only a largest of several formulas is tight."""
    sizes = [("24*T*N", 0, 4), ("16*T*N", 3, 7), ("96*N + 18432", 1, 2), ("64*N + 12288", 5, 6)]
    blocks = [
        PlannedBlock(Dim.parse(size), Lifetime(first, last), 4) for size, first, last in sizes
    ]
    offsets, total = place(blocks)
    for env in VALUES:
        most = max(
            sum(b.size.evaluate(env) for b in blocks if b.lifetime.overlaps(Lifetime(at, at)))
            for at in range(8)
        )
        assert total.evaluate(env) <= 1.02 * most
    assert any(len(offset.formulas) > 1 for offset in offsets)


def test_an_odd_constant_does_not_move_rows_off_their_lines() -> None:
    sizes = [("196", 0, 5), ("100352*N", 1, 4), ("256*T*N", 0, 9), ("512*N", 3, 9)]
    blocks = [
        PlannedBlock(Dim.parse(size), Lifetime(first, last), 4) for size, first, last in sizes
    ]
    offsets, _ = place(blocks)
    for env in VALUES:
        assert all(offset.evaluate(env) % 64 == 0 for offset in offsets)
