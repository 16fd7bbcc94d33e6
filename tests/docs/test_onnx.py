"""docs/onnx.md: the example beside it runs."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_example_file_is_that_of_its_script() -> None:
    folder = ROOT / "examples/onnx"
    spec = importlib.util.spec_from_file_location("make_gru", folder / "make_gru.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (folder / "gru.onnx").read_bytes() == module.make().SerializeToString()


def test_example_in_c(tmp_path: Path) -> None:
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    rnncc = f"{sys.executable} -m rnncc"
    command = ["make", "-s", "-C", ROOT / "examples/onnx", "run", f"BUILD={tmp_path}"]
    command += [f"PYTHON={sys.executable}", f"RNNCC={rnncc}"]
    environment = {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "step 0: 0.4867 0.5133"
    assert len(done.stdout.splitlines()) == 5
