from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from rnncc.ir.dims import Dim
from rnncc.planning.lifetimes import Lifetime
from rnncc.planning.placement import Block, place

MONOMIALS = [(), ("N",), ("T",), ("T", "N"), ("N", "S")]
SIZES = [{"T": t, "N": n, "S": s} for t in (0, 1, 7) for n in (0, 1, 3) for s in (0, 5)]

sizes = st.dictionaries(st.sampled_from(MONOMIALS), st.integers(1, 3000), max_size=3).map(
    lambda terms: Dim(terms.items())
)
items = st.sampled_from([1, 4, 8])
lifetimes = st.tuples(st.integers(0, 12), st.integers(0, 12)).map(
    lambda pair: Lifetime(min(pair), max(pair))
)


blocks = st.builds(
    lambda size, alive, item: Block(size * item, alive, item), sizes, lifetimes, items
)


@given(st.lists(blocks, max_size=12))
def test_what_lives_at_once_lies_apart(blocks: list[Block]) -> None:
    offsets, total = place(blocks)
    for env in SIZES:
        starts = [offset.evaluate(env) for offset in offsets]
        ends = [s + b.size.evaluate(env) for s, b in zip(starts, blocks, strict=True)]
        assert all(0 <= e <= total.evaluate(env) for e in ends)
        for i, j in combinations(range(len(blocks)), 2):
            if blocks[i].lifetime.overlaps(blocks[j].lifetime):
                apart = ends[i] <= starts[j] or ends[j] <= starts[i]
                assert apart or starts[i] == ends[i] or starts[j] == ends[j]


@given(st.lists(lifetimes, min_size=1), st.sampled_from(["256", "20*N", "T*N*640 + N*64"]))
def test_blocks_of_one_size_take_no_more_than_live_at_once(
    alive: list[Lifetime], size: str
) -> None:
    unit = Dim.parse(size)
    _, total = place([Block(unit, lifetime, 4) for lifetime in alive])
    most = max(sum(a.first <= at <= a.last for a in alive) for at in range(13))
    assert total.formulas == (unit * most,)


@given(st.lists(blocks, max_size=12))
def test_blocks_start_at_multiples_of_their_elements(blocks: list[Block]) -> None:
    offsets, _ = place(blocks)
    for block, offset in zip(blocks, offsets, strict=True):
        assert all(factor % block.item == 0 for _, factor in offset.terms)


def test_rows_that_fill_lines_start_at_lines() -> None:
    """Whatever other blocks there are."""
    blocks = [Block(Dim.parse(f"{row}*N"), Lifetime(0, 1), 4) for row in (20, 64, 84, 640, 4)]
    offsets, total = place(blocks)
    assert int(offsets[1].coefficient(("N",))) % 64 == int(offsets[3].coefficient(("N",))) % 64 == 0
    assert str(total) == "812*N"


def test_a_size_that_may_be_negative_takes_its_positive_part() -> None:
    """T*N - N is -N at T = 0."""
    offsets, total = place([Block(Dim.parse("64*T*N - 64*N"), Lifetime(0, 1), 4)] * 2)
    assert [str(offset) for offset in offsets] == ["0", "64*T*N"]
    assert str(total) == "128*T*N"


def test_nothing_takes_nothing() -> None:
    offsets, total = place([])
    assert offsets == []
    assert str(total) == "0" and not total


def test_phases_of_different_growth_do_not_add_up() -> None:
    """Only one of them is the largest at any sizes; the workspace is no sum of both."""
    sizes = [("40*T*N", 0), ("16*T*N + 24576", 1)]
    blocks = [Block(Dim.parse(size), Lifetime(at, at), 4) for size, at in sizes]
    _, total = place(blocks)
    assert total.evaluate({"T": 1, "N": 1}) == 24592
    assert total.evaluate({"T": 100, "N": 100}) == 400000
