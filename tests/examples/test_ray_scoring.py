"""examples/ray_scoring.py: a table scored by Ray's workers has what the model gives row by row."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rnncc_runtime

import rnncc

for needed in ("ray", "ray.data", "pyarrow"):
    pytest.importorskip(needed, reason="scoring by Ray needs rnncc[ray]")
ROOT = Path(__file__).parents[2]


def test_scores(tmp_path: Path) -> None:
    pa: Any = import_module("pyarrow")
    parquet: Any = import_module("pyarrow.parquet")
    rnncc.build(rnncc.cells.gru(2, 4, seed=1), out=tmp_path, name="reader", products=("so",))
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(int(n), 2)).astype(np.float32) for n in rng.integers(1, 9, 40)]
    flat = pa.array([row.ravel() for row in rows], pa.list_(pa.float32()))
    parquet.write_table(pa.table({"id": range(40), "x": flat}), tmp_path / "in.parquet")
    library = tmp_path / "libreader.so"
    words = [library, tmp_path / "in.parquet", tmp_path / "out", "--batch", "8", "--workers", "2"]
    done = subprocess.run(
        [sys.executable, ROOT / "examples/ray_scoring.py", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT / "runtime")},
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    assert "40 rows in" in done.stdout
    made = parquet.read_table(tmp_path / "out").sort_by("id").to_pydict()
    assert made["id"] == list(range(40))
    model = rnncc_runtime.load(library)
    for row, scores in zip(rows, made["y"], strict=True):
        want = model.run({"x": row[:, None]})["y"][:, 0]
        np.testing.assert_array_equal(np.array(scores, np.float32), want)
