"""Small nets under compute-sanitizer: no access that is out of bounds, unordered or undefined."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import rnncc
from benchmarks.cuda.small import computed
from rnncc import cells
from rnncc.driver.drawn import drawn

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
ROOT = Path(__file__).parents[2]
UNITS, SIZES = 40, {"T": 5, "N": 3}
"""Of no multiple of a warp or a tile."""
TROUBLE, SECONDS = 9, 60
NETS = {
    "lstm": lambda: cells.lstm(24, UNITS),
    "gru": lambda: cells.gru(24, UNITS),
    "layernorm": lambda: cells.lstm(24, UNITS, layer_norm=True),
}


def cases() -> list[dict[str, Any]]:
    """Each tool."""
    return [{"tool": tool} for tool in TOOLS]


def run(case: dict[str, Any]) -> dict[str, Any]:
    """What a tool says of programs that load libraries and run them."""
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        checks = [tool, "--tool", case["tool"], "--error-exitcode", str(TROUBLE)]
        program = [sys.executable, "-m", "benchmarks.cuda.small", folder]
        try:
            done = subprocess.run(
                [*checks, *program],
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"error": f"took more than {SECONDS} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("=========")]
    report = [line.strip("= ") for line in lines if line.strip("= ")]
    if done.returncode not in (0, TROUBLE) and not any("ERROR SUMMARY" in x for x in report):
        last = (done.stderr.strip() or done.stdout.strip() or "no words").splitlines()[-1]
        return {"error": f"exit code {done.returncode}: {last}"[:300]}
    clean = done.returncode == 0
    return {"clean": clean, "told": report[-1:] if clean else report[:12]}


def build(folder: Path) -> None:
    """Libraries for the device, and beside each what it has to compute, by the CPU."""
    for name, net in NETS.items():
        for train in (False, True):
            stem = f"{name}_train" if train else name
            rnncc.build(net(), out=folder, name=stem, target="nvptx", train=train, products=("so",))
            model: Any = rnncc.compile(net(), train=train)
            inputs = drawn(model.inputs, SIZES)
            arrays: dict[str, Any] = {f"in:{name}": array for name, array in inputs.items()}
            arrays |= {f"out:{name}": array for name, array in computed(model, inputs).items()}
            np.savez(folder / f"{stem}.npz", **arrays)
