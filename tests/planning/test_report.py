from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import combinations

from xdsl.ir import SSAValue

from rnncc.ir.attributes import dim_attr
from rnncc.ir.dims import Dim
from rnncc.kern.program import KernelProgram
from rnncc.planning.layout import make_plan, plan
from rnncc.planning.report import PlanReport, SharedBlock, plan_report
from tests.kern_samples import Kern, N, T, lstm, port, row_major
from tests.planning.helpers import Place, chain


def report_of(program: KernelProgram, sizes: dict[str, int] | None = None) -> PlanReport:
    return plan_report("net", [("run", program, plan(program))], sizes)


def test_report_of_an_lstm() -> None:
    report = report_of(lstm(64, 40, panel=16, chunk=32), {"T": 20, "N": 5})
    (run,) = report.programs
    rows = {row.name: row for row in run.buffers}
    assert list(rows) == ["x", "h0", "c0", "w", "u", "hidden_all", "hidden_last", "cell", "gates"]
    assert (rows["x"].role, rows["x"].size, rows["x"].offset) == ("input", "160*T*N", None)
    assert (rows["u"].role, rows["u"].offset, rows["u"].start) == ("param", "40960", 40960)
    gates, cell = rows["gates"], rows["cell"]
    assert (gates.size, gates.bytes) == ("1024*N + 32768", 1024 * 5 + 32768)
    assert cell.first < gates.first < gates.last <= cell.last < run.end
    assert run.workspace == "1792*N + 32768"
    assert run.weights == 4 * 4 * 64 * (64 + 40)
    assert report.sizes == {"T": 20, "N": 5}
    assert run.peak == run.bound == 1792 * 5 + 32768
    assert run.ratio == 1


def test_kernels_and_loops_stand_in_order() -> None:
    (run,) = report_of(lstm(64, 40, panel=16, chunk=32)).programs
    told = [(row.name, row.depth, row.writes) for row in run.kernels]
    assert told == [
        ("map", 0, ["cell"]),
        ("for t0 in T, run at a time", 0, []),
        ("gemm", 1, ["gates"]),
        ("for t in run", 1, []),
        ("gemm", 2, ["cell", "hidden_all"]),
        ("map", 0, ["hidden_last"]),
    ]
    loop, inner = run.kernels[1], run.kernels[3]
    assert loop.position < inner.position < inner.last < loop.last
    used = {row.position for row in run.kernels} | {row.last for row in run.kernels}
    held = [row for row in run.buffers if row.role != "param"]
    assert {row.first for row in held} | {row.last for row in held} <= used


def test_planned_buffers_do_not_overlap_in_the_figures() -> None:
    (run,) = report_of(lstm(64, 40), {"T": 9, "N": 3}).programs
    held = [r for r in run.buffers if r.start is not None and r.role != "param" and r.bytes]
    assert len(held) >= 3
    for a, b in combinations(held, 2):
        assert a.start is not None and b.start is not None
        if a.first <= b.last and b.first <= a.last:
            assert a.start + a.bytes <= b.start or b.start + b.bytes <= a.start


def test_a_shared_place_names_the_buffer_it_came_from() -> None:
    (run,) = report_of(chain()).programs
    assert [row.shares for row in run.buffers] == [None, None, "a", None]
    assert run.ratio == 1


def test_several_programs_and_what_they_share() -> None:
    forward, backward = lstm(6, 5), chain()
    slots = [Place(port=port("saved:h", T, N, 6), offset=Dim.of(64))]
    tape = SharedBlock("tape", "saved", slots, T * N * 24 + 64)
    halves = [("forward", forward, plan(forward)), ("backward", backward, plan(backward))]
    report = plan_report("net", halves, {"T": 3, "N": 2}, [tape])
    again = json.loads(json.dumps(report.to_dict()))
    assert [program["title"] for program in again["programs"]] == ["forward", "backward"]
    assert again["shared"] == [
        {
            "title": "tape",
            "size": "24*T*N + 64",
            "bytes": 208,
            "slots": [
                {
                    "name": "saved:h",
                    "role": "saved",
                    "size": "24*T*N",
                    "bytes": 144,
                    "offset": "64",
                    "start": 64,
                }
            ],
        }
    ]


def test_the_report_shows_the_offsets_that_a_library_has_set() -> None:
    """Its programs share one block of weights."""
    program = lstm(6, 5)
    plan(program)
    moved = next(b for b in program.buffers if b.label.data == "u")
    moved.offset = dim_attr(4096)
    (run,) = plan_report("net", [("run", program, make_plan(program))]).programs
    assert next(row for row in run.buffers if row.name == "u").start == 4096


def test_a_net_without_workspace() -> None:
    (run,) = report_of(Kern().program()).programs
    assert (run.workspace, run.peak, run.ratio, run.buffers) == ("0", 0, 1, [])


def test_a_loop_that_counts_backwards() -> None:
    k = Kern()
    a = k.buffer("a", "scratch", N)

    def body(inner: Kern, *carried: SSAValue) -> Sequence[SSAValue]:
        inner.map([N], [], [(a, row_major([N]))], lambda b: [b.fill(1, ())])
        return carried

    k.loop("t", T, [], body, reverse=True)
    (run,) = report_of(k.program()).programs
    assert [row.name for row in run.kernels] == ["for t in T, backwards", "map"]
