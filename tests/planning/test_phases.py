"""Kernels of a loop's body, one after another: who has to wait behind each, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.ir import SSAValue

from rnncc.ir.dims import Dim
from rnncc.kern.access import Access
from rnncc.kern.dialect import Buffer, For
from rnncc.kern.kernels import Map, Reduce
from rnncc.planning.layout import plan
from rnncc.planning.phases import MOST_PENDING, MOST_WIDTH, NamedMemory, Wait, phases, row_points
from tests.kern_samples import Kern, N, T, region, row_major, strided

H = 8
t = Dim.of("t")
OWN, TURNED = row_major([N, H]), strided(1, N)
APART = 1 << 20
"""Bytes a row, from buffer to buffer."""
NONE, ROWS, ALL = Wait.NONE, Wait.ROWS, Wait.ALL


class Body:
    """A loop's body over scratch of [N, H] each, by letters."""

    def __init__(self, buffers: str = "abcdx", size: Dim | int = N * H) -> None:
        self.k = Kern()
        self.buffers = {name: self.k.buffer(name, "scratch", size) for name in buffers}
        self.kinds = list[type]()

    def map(
        self,
        source: str,
        target: str,
        read: Access = OWN,
        write: Access = OWN,
        domain: Sequence[Dim | int] = (N, H),
    ) -> Callable[[Kern], object]:
        ins, outs = (self.buffers[source], read), (self.buffers[target], write)
        return lambda k: k.map(list(domain), [ins], [outs], lambda b, v: [v])

    def columns(self, source: str, target: str) -> Callable[[Kern], object]:
        """The sum over all rows."""
        return self._reduce([H, N], source, target, strided(1, H), strided(1, 0))

    def sums(self, source: str, target: str) -> Callable[[Kern], object]:
        """The sum of each row."""
        return self._reduce([N, H], source, target, OWN, strided(1, 0))

    def _reduce(
        self, domain: Sequence[Dim | int], source: str, target: str, read: Access, write: Access
    ) -> Callable[[Kern], object]:
        ins = [(self.buffers[source], read)]
        dims = [Dim.of(d) for d in domain]

        def add(k: Kern) -> object:
            block = region(ins, lambda b, v: [v])
            return k.add(Reduce("sum", 1, dims, ins, (self.buffers[target], write), block))

        return add

    def waits(
        self, *kernels: Callable[[Kern], object], offsets: dict[str, str] | None = None
    ) -> list[Wait]:
        """Behind each kernel; buffers lie apart but where offsets say otherwise."""

        def body(inner: Kern) -> Sequence[SSAValue]:
            for kernel in kernels:
                kernel(inner)
            return []

        self.k.loop("t", T, [], body)
        program = self.k.program()
        for number, op in enumerate(program.buffers):
            apart = f"{APART * number}*N"
            op.properties["offset"] = StringAttr((offsets or {}).get(op.label.data, apart))
        self.phases, self.program = phases(program.func, NamedMemory.of(program.func)), program
        loop = next(op for op in program.func.walk() if isinstance(op, For))
        self.ops = [op for op in loop.body.block.ops if isinstance(op, Map | Reduce)]
        return [self.phases.behind(op) for op in self.ops]

    @property
    def shared_by_rows(self) -> list[bool]:
        return [op in self.phases.rows for op in self.ops]


def test_nothing_in_common() -> None:
    body = Body()
    assert body.waits(body.map("a", "b"), body.map("c", "d"), body.map("a", "x")) == [
        NONE,
        NONE,
        ALL,
    ]
    assert body.shared_by_rows == [False] * 3


def test_row_by_row() -> None:
    body = Body()
    kernels = body.map("a", "b"), body.sums("b", "c"), body.map("b", "d")
    assert body.waits(*kernels) == [ROWS, ROWS, ALL]
    assert body.shared_by_rows == [True] * 3
    assert [row_points(op) for op in body.ops] == [H, 1, H]


def test_rows_of_others() -> None:
    """A sum over the batch needs all rows; what follows it and reads none of its does not wait."""
    body = Body()
    kernels = body.map("a", "b"), body.columns("b", "c"), body.columns("b", "d"), body.map("a", "x")
    assert body.waits(*kernels) == [ALL, NONE, NONE, ALL]


@pytest.mark.parametrize(
    ("read", "write", "wait"),
    [
        (OWN, OWN, ROWS),
        (TURNED, OWN, ALL),
        (OWN, TURNED, ALL),
        (row_major([N, H], offset=H), OWN, ALL),
        (row_major([N, H], offset=H), row_major([N, H], offset=H), ALL),
        (strided(2 * H, 1), strided(2 * H, 1, offset=H), ROWS),
        (strided(2 * H, 1), strided(2 * H, 1, offset=H + 1), ALL),
        (strided(2 * H, 1), OWN, ALL),
        (strided(0, 1), strided(0, 1), ALL),
        (strided(H, -1, offset=H - 1), OWN, ALL),
    ],
)
def test_accesses(read: Access, write: Access, wait: Wait) -> None:
    body = Body(size=N * 3 * H)
    assert body.waits(body.map("a", "b", write=write), body.map("b", "c", read=read))[0] is wait


def test_a_write_behind_a_read() -> None:
    body = Body()
    assert body.waits(body.columns("a", "b"), body.map("c", "a")) == [ALL, ALL]
    body = Body()
    assert body.waits(body.map("a", "b"), body.map("c", "a")) == [ROWS, ALL]
    body = Body()
    assert body.waits(body.map("a", "b"), body.map("c", "b", write=TURNED)) == [ALL, ALL]


def test_memory_in_one_place() -> None:
    """What a buffer was, another is: rows of the same size lie at the same place, others do not."""
    body = Body()
    kernels = body.map("a", "b"), body.map("c", "d")
    assert body.waits(*kernels, offsets={"d": "0"}) == [ROWS, ALL]
    body = Body()
    half = row_major([N, H // 2])
    other = body.map("c", "d", read=half, write=half, domain=[N, H // 2])
    assert body.waits(body.map("a", "b"), other, offsets={"d": "0"}) == [ALL, ALL]
    body = Body()
    kernels = body.map("a", "b"), body.map("c", "d")
    assert body.waits(*kernels, offsets={"a": "0", "d": "16*N"}) == [ALL, ALL]
    body = Body()
    kernels = body.map("a", "b"), body.map("c", "d")
    assert body.waits(*kernels, offsets={"a": "max(16*N, 32*N)", "d": "max(48*N, 64*N)"}) == [
        NONE,
        ALL,
    ]


def test_rows_that_are_long() -> None:
    body = Body(size=N * MOST_WIDTH * 2)
    for width, wait in ((MOST_WIDTH, ROWS), (MOST_WIDTH + 1, ALL)):
        body = Body(size=N * MOST_WIDTH * 2)
        own = row_major([N, width])
        kernels = [body.map(x, y, read=own, write=own, domain=[N, width]) for x, y in ("ab", "bc")]
        assert body.waits(*kernels) == [wait, ALL]


def test_groups_are_bounded() -> None:
    """Kernels that have nothing in common wait now and then: proofs take time in proportion."""
    names = [chr(ord("a") + number) for number in range(2 * MOST_PENDING + 2)]
    body = Body("".join(names))
    waits = body.waits(*(body.map(x, y) for x, y in zip(names[::2], names[1::2], strict=True)))
    assert waits == [*[NONE] * (MOST_PENDING - 1), ALL, ALL]


@pytest.mark.parametrize(("of_state", "wait"), [((), NONE), (("h", "next"), ALL)])
def test_states_of_a_stream_may_share_memory(of_state: Sequence[str], wait: Wait) -> None:
    k = Kern()
    roles = {"h": "input", "next": "output", "y": "output"}
    values = {name: k.buffer(name, role, N * H) for name, role in roles.items()}
    for name in of_state:
        buffer = values[name].owner
        assert isinstance(buffer, Buffer)
        buffer.of_state = UnitAttr()

    def body(inner: Kern) -> Sequence[SSAValue]:
        inner.map([N, H], [(values["h"], TURNED)], [(values["y"], OWN)], lambda b, v: [v])
        inner.map([N, H], [], [(values["next"], OWN)], lambda b: [b.fill(0.0, [])])
        return []

    k.loop("t", T, [], body)
    func = k.program().func
    first = next(op for op in func.walk() if isinstance(op, Map))
    assert phases(func, NamedMemory.of(func)).behind(first) is wait


@pytest.mark.parametrize(("spread", "waits"), [(False, [ROWS, ALL, ROWS]), (True, [ROWS] * 3)])
def test_memory_that_saves_a_wait(spread: bool, waits: list[Wait]) -> None:
    """The third map's result would take the place of the first one's, in rows of another size."""
    k = Kern()
    x, z = k.buffer("x", "input", N * H * T), k.buffer("z", "output", N * H)
    a, c = k.buffer("a", "scratch", N * H), k.buffer("c", "scratch", N)
    d = k.buffer("d", "scratch", N * H * 2)
    wide, row = strided(2 * H, 1), strided(1)

    def body(inner: Kern) -> Sequence[SSAValue]:
        at = row_major([N, H], offset=t * N * H)
        inner.map([N, H], [(x, at)], [(a, OWN)], lambda b, v: [v])
        inner.map([N], [(a, strided(H))], [(c, row)], lambda b, v: [v])
        inner.map([N, 2 * H], [(c, strided(1, 0))], [(d, wide)], lambda b, v: [v])
        inner.map([N, H], [(d, wide)], [(z, OWN)], lambda b, v: [v])
        return []

    k.loop("t", T, [], body)
    program = k.program()
    plan(program, spread)
    maps = [op for op in program.func.walk() if isinstance(op, Map)]
    found = phases(program.func, NamedMemory.of(program.func))
    assert [found.behind(op) for op in maps[:3]] == waits
