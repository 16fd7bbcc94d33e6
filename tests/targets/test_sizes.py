"""What a small net takes of a microcontroller: the limits that the documentation states."""

from __future__ import annotations

from typing import Any

import pytest

import rnncc
from rnncc.driver.planning import report_of
from rnncc.options import Options
from rnncc.planning.rows import MachineReport
from rnncc.platforms import PLATFORMS

GRU = rnncc.cells.gru(16, 16)
SMALL = [name for name, row in PLATFORMS.items() if row.compact]


def of_machine(net: Any = GRU, **options: Any) -> MachineReport:
    report = report_of(net, None, Options(name="net", **options), None)
    assert report.machine is not None
    return report.machine


@pytest.mark.parametrize(
    ("precision", "flash", "ram"), [("fp32", 10_000, 328), ("int8", 6_500, 368)]
)
def test_a_gru_on_cortex_m4(precision: str, flash: int, ram: int) -> None:
    machine = of_machine(target="cortex-m4", max_steps=1, precision=precision)
    assert sum(machine.flash.values()) <= flash
    assert machine.flash["weights"] <= (6500 if precision == "fp32" else 2400)
    assert sum(row.bytes for row in machine.ram) <= ram
    assert sum(machine.functions.values()) <= machine.flash["code"]
    assert {"net_step", "net_run", "net_state_init"} <= machine.functions.keys()


@pytest.mark.parametrize("name", SMALL)
def test_code_is_small_and_nothing_is_computed_ahead(name: str) -> None:
    machine = of_machine(target=name)
    assert machine.flash["code"] <= (2500 if PLATFORMS[name].lanes == 1 else 4500)
    assert max(row.bytes for row in machine.ram) <= 600
