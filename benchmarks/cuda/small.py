"""Runs the libraries of a folder on the device: `python -m benchmarks.cuda.small FOLDER`

Needs NumPy and rnncc_runtime alone, so that a sanitizer watches nothing else.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import rnncc_runtime


def main() -> None:
    """Compare each library's results with those beside it."""
    for path in sorted(Path(sys.argv[1]).glob("lib*.so")):
        stem = path.stem.removeprefix("lib")
        arrays = dict(np.load(path.with_name(f"{stem}.npz")))
        inputs = {name[3:]: array for name, array in arrays.items() if name.startswith("in:")}
        model: Any = rnncc_runtime.load(path, train=stem.endswith("_train"))
        got = computed(model, inputs)
        wrong = [n for n, a in got.items() if a.tobytes() != arrays[f"out:{n}"].tobytes()]
        if wrong:
            sys.exit(f"{stem}: not the bits of the CPU: {wrong}")


def computed(model: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Outputs, and the gradients of a loss that is the sum of y."""
    if not hasattr(model, "backward"):
        return model.run(inputs)
    outputs, tape = model.forward(inputs)
    grads = model.backward(tape, {"y": np.ones_like(outputs["y"])})
    return {**outputs, **{f"grad_{name}": array for name, array in grads.items()}}


if __name__ == "__main__":
    main()
