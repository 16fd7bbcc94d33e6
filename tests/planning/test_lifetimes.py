"""Each program has one buffer `b` of interest; its lifetime is told by the ops around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from xdsl.ir import SSAValue

from rnncc.ir.dims import Dim
from rnncc.kern.dialect import Buffer, For
from rnncc.planning.lifetimes import Lifetime, lifetimes
from rnncc.planning.uses import Timeline, timeline
from tests.kern_samples import Kern, N, T, row_major, strided

H = 8
STEP = N * H
t = Dim.of("t")


class Case:
    """A function with a sequence x, an output y, and the buffer b."""

    def __init__(self, size: Dim = STEP, role: str = "scratch") -> None:
        self.k = Kern()
        self.x = self.k.buffer("x", "input", T * STEP)
        self.y = self.k.buffer("y", "output", T * STEP)
        self.b = self.k.buffer("b", role, size)
        self.loops: list[For] = []
        self.line: Timeline | None = None

    def loop(self, body: Callable[[Kern], object], k: Kern | None = None, index: str = "t") -> None:
        def emit(inner: Kern) -> Sequence[SSAValue]:
            body(inner)
            return []

        k = k or self.k
        k.loop(index, T, [], emit)
        last = k.block.last_op
        assert isinstance(last, For)
        self.loops.append(last)

    def x_row(self, k: Kern) -> SSAValue:
        return k.row(self.x, t, STEP)

    def y_row(self, k: Kern) -> SSAValue:
        return k.row(self.y, t, STEP)

    def lifetime(self) -> tuple[Lifetime, Timeline]:
        self.line = self.line or timeline(self.k.program().func)
        assert isinstance(self.b.owner, Buffer)
        return lifetimes(self.line)[self.b.owner], self.line

    def is_for_whole_loop(self, loop: int = 0) -> bool:
        alive, line = self.lifetime()
        return alive == Lifetime(*line.spans[self.loops[loop]])

    def is_inside_a_turn(self, loop: int = 0) -> bool:
        alive, line = self.lifetime()
        first, last = line.spans[self.loops[loop]]
        return first < alive.first and alive.last < last


def test_written_before_it_is_read_in_each_turn() -> None:
    case = Case()

    def body(k: Kern) -> None:
        k.copy([N, H], case.x_row(k), case.b)
        k.copy([N, H], case.b, case.y_row(k))

    case.loop(body)
    assert case.is_inside_a_turn()


def test_read_before_it_is_written() -> None:
    case = Case(role="state")

    def body(k: Kern) -> None:
        k.copy([N, H], case.b, case.y_row(k))
        k.copy([N, H], case.x_row(k), case.b)

    case.loop(body)
    assert case.is_for_whole_loop()


def test_written_in_part() -> None:
    case = Case()

    def body(k: Kern) -> None:
        k.copy([N, H - 1], case.x_row(k), case.b)
        k.copy([N, H], case.b, case.y_row(k))

    case.loop(body)
    assert case.is_for_whole_loop()


def test_read_in_part() -> None:
    case = Case(STEP * 2)

    def body(k: Kern) -> None:
        k.copy([N, H], case.x_row(k), case.b)
        part = [(case.b, strided(H, 2))]
        k.map([N, H // 2], part, [(case.y_row(k), row_major([N, H // 2]))], lambda b, v: [v])

    case.loop(body)
    assert case.is_inside_a_turn()


def test_written_by_two_kernels_end_to_end() -> None:
    case = Case(STEP * 2)

    def body(k: Kern) -> None:
        for half in (1, 0):
            k.copy([N, H], case.x_row(k), k.row(case.b, half, STEP))
        k.copy([N, H], k.row(case.b, 0, STEP), case.y_row(k))
        whole = [(case.b, row_major([N * 2, H]))]
        k.map([N * 2, H], whole, [(case.y_row(k), strided(0, 1))], lambda b, v: [v])

    case.loop(body)
    assert case.is_inside_a_turn()


@pytest.mark.parametrize("parts", [2, 3])
def test_written_in_columns(parts: int) -> None:
    """Concat: three columns, of which a program may forget one."""
    case = Case(N * 3)

    def body(k: Kern) -> None:
        for part in range(parts):
            out = [(case.b, strided(3, offset=part))]
            k.map([N], [(case.x_row(k), strided(1))], out, lambda b, v: [v])
        k.copy([N, 3], case.b, case.y_row(k))

    case.loop(body)
    assert case.is_inside_a_turn() == (parts == 3)


def test_rows_written_in_an_inner_loop_and_read_after_it() -> None:
    case = Case(T * STEP)
    inner = Dim.of("i")

    def body(k: Kern) -> None:
        case.loop(lambda j: j.copy([N, H], case.x_row(j), j.row(case.b, inner, STEP)), k, "i")
        k.copy([T, N, H], case.b, case.y)

    case.loop(body)
    assert case.is_inside_a_turn(1)
    alive, line = case.lifetime()
    assert alive.first == line.spans[case.loops[0]][0]


@pytest.mark.parametrize(("lag", "inside"), [(0, True), (1, False)])
def test_an_inner_loop_reads_the_row_it_wrote_or_the_one_before(lag: int, inside: bool) -> None:
    case = Case((T + 1) * STEP)
    row = Dim.of("i")

    def body(k: Kern) -> None:
        def step(j: Kern) -> None:
            j.copy([N, H], case.x_row(j), j.row(case.b, row + 1, STEP))
            j.copy([N, H], j.row(case.b, row + 1 - lag, STEP), case.y_row(j))

        case.loop(step, k, "i")

    case.loop(body)
    assert case.is_inside_a_turn(1) == inside
    assert case.is_inside_a_turn(0) == inside


def test_written_before_the_loop_and_read_in_it() -> None:
    case = Case()
    case.k.copy([N, H], case.x, case.b)
    case.loop(lambda k: k.copy([N, H], case.b, case.y_row(k)))
    alive, line = case.lifetime()
    start, end = line.spans[case.loops[0]]
    assert alive == Lifetime(start - 1, end)


def test_written_in_the_loop_and_read_after_it() -> None:
    case = Case()
    case.loop(lambda k: k.copy([N, H], case.x_row(k), case.b))
    case.k.copy([N, H], case.b, case.y)
    alive, line = case.lifetime()
    start, end = line.spans[case.loops[0]]
    assert alive == Lifetime(start, end + 1)


def test_carried_buffers_live_for_the_loop_and_until_the_result_is_read() -> None:
    case = Case()
    other = case.k.buffer("other", "state", STEP)
    case.k.copy([N, H], case.x, case.b)

    def body(k: Kern, h: SSAValue) -> list[SSAValue]:
        k.copy([N, H], h, case.y_row(k))
        k.copy([N, H], case.x_row(k), other)
        return [other]

    (last,) = case.k.loop("t", T, [case.b], body)
    case.k.copy([N, H], last, case.y)
    line = timeline(case.k.program().func)
    alive = {b.label.data: alive for b, alive in lifetimes(line).items()}
    ((start, end),) = line.spans.values()
    assert alive["b"] == Lifetime(start - 1, end + 1)
    assert alive["other"] == Lifetime(start, end + 1)


def test_a_ring_is_never_taken_for_its_rows() -> None:
    """Row t of a ring is where row t-2 was."""
    case = Case(STEP * 2)
    case.b = case.k.buffer("ring", "state", STEP * 2, ring=2)

    def body(k: Kern) -> None:
        k.copy([N, H], case.x_row(k), k.row(case.b, t, STEP))
        k.copy([N, H], k.row(case.b, t, STEP), case.y_row(k))

    case.loop(body)
    assert case.is_for_whole_loop()


def test_a_chunk_is_written_ahead_of_its_steps() -> None:
    case = Case((N + 8) * H)
    first, extent = Dim.of("t0"), Dim.of("run")

    def chunk(k: Kern) -> list[SSAValue]:
        k.copy([extent, N, H], k.row(case.x, first, STEP), case.b)

        def step(k: Kern) -> list[SSAValue]:
            k.copy([N, H], k.row(case.b, t - first, STEP), case.y_row(k))
            return []

        k.loop("t", extent, [], step, start=first)
        return []

    case.k.loop("t0", T, [], chunk, chunk=("run", 8, N))
    alive, line = case.lifetime()
    inner, outer = line.spans.values()
    assert alive == Lifetime(outer[0] + 2, inner[1])
