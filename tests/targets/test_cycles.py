"""The estimate of a step's cycles on a Cortex-M4 beside what qemu executes (`make targets`)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rnncc_runtime import Model

import rnncc
from rnncc.codegen.cpu.cycles import straight_cycles
from rnncc.driver.planning import report_of
from rnncc.options import Options
from tests.golden import KINDS
from tests.targets.executed import OBJDUMP, executed_cycles, log_instructions
from tests.targets.running import compiled_for

ON_M4: Any = {"target": "cortex-m4", "max_steps": 1}
measured = pytest.mark.skipif(
    OBJDUMP is None or not os.environ.get("RNNCC_TARGETS"),
    reason="with RNNCC_TARGETS=1 and arm-none-eabi-objdump",
)
LAYERS = [(cell, kind) for cell in ("gru", "lstm") for kind in ("fp32", "bf16", "int8")]
STREAMED = {
    "attention_regular",
    "basic_rnn_tanh",
    "gru",
    "layernorm_lstm",
    "lstm",
    "milstm",
    "sum_cell",
}


def estimated(net: Any, init: Any, **options: Any) -> int:
    machine = report_of(net, init, Options(name="net", **ON_M4, **options), None).machine
    assert machine is not None and list(machine.cycles) == [
        *("products", "functions", "elements", "call")
    ]
    return sum(machine.cycles.values())


def executed(net: Any, init: Any, **options: Any) -> int:
    """Of a step in the midst of a sequence."""
    model = compiled_for(net, init, "cortex-m4", max_steps=1, **options)
    assert isinstance(model, Model)
    log = log_instructions(model)
    arrays = dict[str, Any]()
    for name, spec in model.inputs.items():
        shape = [1 if size.symbols else size.evaluate({}) for size in spec.sizes]
        arrays[name] = np.full(shape, 9 if spec.dtype.kind == "i" else 0.5, spec.dtype)
    timed = {n for n, spec in model.inputs.items() if "T" in {s.text for s in spec.sizes}}
    begin = {name: array for name, array in arrays.items() if name not in timed}
    stream = model.stream(inputs=begin) if begin else model.stream(batch=1)
    stream.step({name: arrays[name] for name in timed})
    return executed_cycles(log, "net")


@measured
@pytest.mark.parametrize(("cell", "precision"), LAYERS)
def test_layers(cell: str, precision: str) -> None:
    net = getattr(rnncc.cells, cell)(16, 16)
    want = executed(net, None, precision=precision)
    assert abs(estimated(net, None, precision=precision) / want - 1) < 0.02


@measured
@pytest.mark.parametrize(
    "case", [case for case in KINDS if case.name in STREAMED], ids=lambda case: case.name
)
def test_golden_nets(case: Path) -> None:
    paths = case / "net.pb", case / "init.pb"
    assert abs(estimated(*paths) / executed(*paths) - 1) < 0.15


def test_a_function_without_branches() -> None:
    """Of instructions that take more than one cycle, and constants behind it that take none."""
    lines = "vldr s0, .LCPI0_0", "vmov r0, s4", "vfma.f32 s4, s0, s2", "vdiv.f32 s0, s0, s6"
    body = "".join("\t" + line.replace(" ", "\t", 1) + "\n" for line in lines)
    text = f"\nnet_f:\n\t.fnstart\n{body}\tbx\tlr\n.LCPI0_0:\n\t.long\t0x42b0\n.Lfunc_end0:\n"
    assert straight_cycles(text, "net_f") == 2 + 2 + 3 + 14 + 3
    assert straight_cycles(text, "net_g") is None


def test_what_there_are_no_timings_of() -> None:
    net = rnncc.cells.gru(3, 5)
    for name in ("cortex-m7", "riscv32"):
        machine = report_of(net, None, Options(name="net", target=name), None).machine
        assert machine is not None and machine.cycles == {}
