"""What the tests of planning share."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, pairwise

from rnncc.ir.dims import Dim
from rnncc.kern.program import KernelProgram, Port
from rnncc.planning.layout import Plan
from tests.kern_samples import Kern, N, port, row_major


def check_apart(plan: Plan, sizes: dict[str, int]) -> None:
    """Buffers alive at once lie apart, but for one that takes over another's memory."""
    for a, b in combinations(plan.buffers, 2):
        starts = [p.offset.evaluate(sizes) for p in (a, b)]
        ends = [s + p.size.evaluate(sizes) for s, p in zip(starts, (a, b), strict=True)]
        assert max(ends) <= plan.peak(sizes)
        if a.lifetime.overlaps(b.lifetime) and starts != ends:
            handed = a.lifetime.last == b.lifetime.first or b.lifetime.last == a.lifetime.first
            same = handed and starts[0] == starts[1]
            assert same or ends[0] <= starts[1] or ends[1] <= starts[0]


@dataclass(frozen=True)
class Place:
    """A slot of a shared block."""

    port: Port
    offset: Dim


def chain() -> KernelProgram:
    """x -> a -> b -> y, b in place of a."""
    k, size = Kern(), N * 16
    names = [("x", "input"), ("a", "scratch"), ("b", "scratch"), ("y", "output")]
    buffers = [k.buffer(name, role, size) for name, role in names]
    for source, target in pairwise(buffers):
        ins, outs = [(source, row_major([size]))], [(target, row_major([size]))]
        k.map([size], ins, outs, lambda _, v: [v])
    return k.program([port("x", size)], [port("y", size)])
