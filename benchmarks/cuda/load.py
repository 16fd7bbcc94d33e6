"""A library from the disk to its first result, in a fresh process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import rnncc
from rnncc import cells

ROOT = Path(__file__).parents[2]
UNITS = 256
IMAGES = {
    "PTX, the driver's cache off": (None, {"CUDA_CACHE_DISABLE": "1"}),
    "PTX, compiled before": (None, {}),
    "cubin": ("here", {"CUDA_CACHE_DISABLE": "1"}),
}
"""Chips that the library has machine code for, and variables of the process that loads it."""
RUNS = 3


def cases() -> list[dict[str, Any]]:
    """Each kind of image."""
    return [{"image": image, "units": UNITS} for image in IMAGES]


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Seconds of each part; the run whose sum is least of a few."""
    chips, variables = IMAGES[case["image"]]
    options: dict[str, Any] = {}
    if chips:
        if shutil.which("ptxas") is None:
            return {"error": "no ptxas was found to make a cubin"}
        options["cpu"] = _chip()
    with tempfile.TemporaryDirectory() as folder:
        built = rnncc.build(
            cells.lstm(UNITS, UNITS), out=folder, target="nvptx", products=("so",), **options
        )
        assert built.library is not None
        command = [sys.executable, "-m", "benchmarks.cuda.loaded", str(built.library)]
        runs: list[dict[str, Any]] = []
        for _ in range(RUNS):
            done = subprocess.run(
                command,
                cwd=ROOT,
                env={**os.environ, **variables},
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                last = (done.stderr.strip() or "no words").splitlines()[-1]
                return {"error": f"exit code {done.returncode}: {last}"[:300]}
            runs.append(json.loads(done.stdout))
        size = Path(built.library).stat().st_size
    return {**min(runs, key=lambda row: row["load"] + row["first"]), "bytes": size}


def _chip() -> str:
    """The device's, as ptxas names it."""
    query = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    capability = subprocess.run(query, capture_output=True, text=True, check=True).stdout
    return "sm_" + capability.split()[0].replace(".", "")
