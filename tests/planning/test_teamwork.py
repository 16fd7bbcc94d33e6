"""How many threads are worth it for a call."""

from __future__ import annotations

import pytest
from xdsl.ir import SSAValue

import rnncc
from rnncc import cells
from rnncc.codegen.cpu.library.entries import threading_cost_of
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.driver.compiling import build_library
from rnncc.ir.builder import Builder
from rnncc.ir.program import Program
from rnncc.options import Options
from rnncc.planning.threading_cost import ThreadingCost
from rnncc.sizes import TIME

Values = list[SSAValue]


def worth(layer: Program, steps: int, batch: int, train: bool = False) -> int:
    """As the compiled function tells it."""
    model = rnncc.compile(layer, train=train, threads=True)
    return model._functions["threads"](steps, batch)


def formulas(layer: Program) -> ThreadingCost:
    library = build_library(layer, None, Options())
    return ThreadingCost.of(library.programs.values(), resolve_target().lanes)


def test_waits_are_counted() -> None:
    """The first state (two kernels for one layer), the projection of all steps, and each step."""
    assert str(formulas(cells.lstm(8, 8)).waits) == "T + 3"
    assert str(formulas(cells.lstm(8, 8, layers=2)).waits) == "2*T + 5"


def test_loops_that_run_place_by_place_have_no_waits() -> None:
    b = Builder.net("average")
    x, h = b.input("x", ["T", "N", 512]), b.input("h", ["N", 512])

    def step(i: Builder, _: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        after = i.mul(i.add(carry[0], rows[0]), i.full_like(rows[0], 0.5))
        return [after], [i.mul(after, rows[0])]

    net = b.finish({"y": b.scan([], [h], [x], step)[1][0]})
    library = build_library(net, None, Options())
    assert TIME not in threading_cost_of(library, resolve_target()).waits.symbols


def test_the_code_computes_the_formulas() -> None:
    layer = cells.gru(200, 200)
    model, team = rnncc.compile(layer, threads=True), formulas(layer)
    for steps, batch in ((0, 0), (1, 1), (7, 3), (100, 1), (50, 64), (1000, 1000)):
        sizes = {"T": steps, "N": batch}
        assert model._functions["threads"](steps, batch) == team.threads(sizes)


@pytest.mark.parametrize("train", [False, True])
def test_small_calls_are_for_one_thread(train: bool) -> None:
    assert worth(cells.lstm(32, 32), 100, 1, train) == 1
    assert worth(cells.lstm(512, 512), 100, 1, train) >= 4
    assert worth(cells.lstm(256, 256), 50, 32, train) >= 8


def test_sizes_that_a_call_refuses() -> None:
    assert worth(cells.elman(3, 4), -1, 1) == 1
    assert worth(cells.elman(3, 4), 1 << 40, 1) == 1
    assert worth(cells.lstm(1024, 1024), 1 << 20, 1 << 20) >= 1


def test_the_more_work_the_more_threads() -> None:
    model = rnncc.compile(cells.lstm(128, 128), threads=True)
    found = [model._functions["threads"](50, batch) for batch in (1, 8, 32, 128, 512)]
    assert found == sorted(found)
    assert found[0] < found[-1]
