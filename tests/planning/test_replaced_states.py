"""Each step has states a and b; what it does to them tells which may be replaced in place."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.ir import SSAValue

from rnncc.ir.dims import Dim
from rnncc.kern.moves import Gather
from rnncc.options import Options
from rnncc.planning.replaced_states import in_place
from rnncc.stages.reading import import_source
from tests.codegen.streamed import library_of
from tests.kern_samples import Kern, N, T, row_major, strided
from tests.passes.streams import STREAMED

H = 8
ROWS = [N, H]
NEXTS = {"a": "next:a", "b": "next:b"}
BOTH = {"a", "b"}


class Case:
    """A step with an output y."""

    def __init__(self) -> None:
        self.k = Kern()
        self.a, self.b = (self.k.buffer(name, "input", N * H) for name in "ab")
        self.y = self.k.buffer("y", "output", N * H)
        self.next_a, self.next_b = (
            self.k.buffer(name, "output", N * H, fallback_size=N * H) for name in NEXTS.values()
        )

    def in_place(self) -> set[str]:
        return in_place(self.k.program(), NEXTS)

    def add(self, one: SSAValue, other: SSAValue, out: SSAValue) -> None:
        access = row_major(ROWS)
        ins = [(one, access), (other, access)]
        self.k.map(ROWS, ins, [(out, access)], lambda b, x, y: [b.add(x, y)])


@pytest.fixture
def case() -> Case:
    return Case()


def test_maps_of_their_own(case: Case) -> None:
    case.k.copy(ROWS, case.a, case.next_a)
    case.k.copy(ROWS, case.b, case.next_b)
    assert case.in_place() == BOTH


def test_one_map_of_both(case: Case) -> None:
    access = row_major(ROWS)
    ins, outs = (case.a, case.b), (case.next_b, case.next_a)
    read, written = ([(value, access) for value in values] for values in (ins, outs))
    case.k.map(ROWS, read, written, lambda b, x, y: [b.add(x, y), x])
    assert case.in_place() == BOTH


def test_a_state_that_is_read_later(case: Case) -> None:
    case.k.copy(ROWS, case.b, case.next_a)
    case.k.copy(ROWS, case.a, case.next_b)
    assert case.in_place() == {"b"}


def test_elements_elsewhere(case: Case) -> None:
    turned = strided(1, N)
    case.k.map(ROWS, [(case.a, turned)], [(case.next_a, row_major(ROWS))], lambda b, x: [x])
    case.k.copy(ROWS, case.b, case.next_b)
    assert case.in_place() == {"b"}


def test_a_loop_that_may_end_as_it_began(case: Case) -> None:
    def iteration(k: Kern, carried: SSAValue) -> list[SSAValue]:
        k.copy(ROWS, carried, case.y)
        return [case.y]

    (last,) = case.k.loop("t", T, [case.a], iteration)
    case.k.copy(ROWS, last, case.next_a)
    case.add(last, case.b, case.next_b)
    assert case.in_place() == {"b"}


def test_written_within_a_loop(case: Case) -> None:
    def iteration(k: Kern) -> list[SSAValue]:
        k.copy(ROWS, case.a, case.next_a)
        return []

    case.k.loop("t", T, [], iteration)
    case.k.copy(ROWS, case.b, case.next_b)
    assert case.in_place() == {"b"}


def test_written_twice(case: Case) -> None:
    case.k.copy(ROWS, case.a, case.next_a)
    case.k.copy(ROWS, case.a, case.next_a)
    assert case.in_place() == set()


def test_what_may_fail_comes_first(case: Case) -> None:
    index = case.k.buffer("index", "input", N, "i32")
    case.k.copy(ROWS, case.a, case.next_a)
    case.k.add(Gather([case.b, index, case.y], (Dim.of(1), N, Dim.of(H)), N))
    case.k.copy(ROWS, case.b, case.next_b)
    assert case.in_place() == {"b"}


@pytest.mark.parametrize("case", STREAMED[::4], ids=lambda path: path.name)
def test_hidden_states_of_recurrent_nets_are(case: Path) -> None:
    program = import_source(case / "net.pb", case / "init.pb", Options(name="net"))
    streaming = library_of(program).streaming
    assert streaming is not None
    floats = [slot for slot in streaming.slots if slot.port.dtype == "f32"]
    assert any(slot.in_place for slot in floats)
    assert [slot for slot in floats if slot in streaming.copied] == []
