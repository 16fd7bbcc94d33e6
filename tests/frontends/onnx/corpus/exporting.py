"""Modules of PyTorch as ONNX models, by both of its exporters.

Each becomes `torch_NAME.onnx` with open sizes; `NAME.json` beside it says how integers are drawn.
Those that the second exporter takes become `dynamo_NAME.onnx` too: it needs the package onnxscript.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

Axes = dict[str, dict[int, str]]
TN: dict[int, str] = {0: "N", 1: "T"}


@dataclass
class Exported:
    """How a module is exported.

    Attributes:
        inputs: example inputs by name.
        axes: input -> axis -> the name of its open size.
        integers: integer input -> the least and the largest of its elements; a text names a size.
        outputs: how many outputs it has.
        script: whether TorchScript compiles it first, which keeps its loops.
    """

    module: Callable[[], nn.Module]
    inputs: dict[str, Tensor]
    axes: Axes
    integers: Mapping[str, tuple[int | str, int | str]] = field(
        default_factory=dict[str, tuple[int | str, int | str]]
    )
    outputs: int = 1
    script: bool = False


def export(name: str, case: Exported, folder: Path) -> None:
    """Both exporters' files of a module, and how its inputs are drawn."""
    torch.manual_seed(0)
    module: Any = case.module().eval()
    outputs = [f"y{i}" for i in range(case.outputs)]
    options: dict[str, Any] = {"input_names": list(case.inputs), "output_names": outputs}
    inputs = tuple(case.inputs.values())
    made = list[str]()
    try:
        scripted = torch.jit.script(module) if case.script else module
        path = folder / f"torch_{name}.onnx"
        torch.onnx.export(scripted, inputs, path, **options, dynamic_axes=case.axes, dynamo=False)
        made.append(path.stem)
    except Exception as error:
        print(f"torch_{name}: not exported: {str(error).splitlines()[0]}", file=sys.stderr)
    shapes = tuple(
        {a: torch.export.Dim(n) for a, n in case.axes.get(i, {}).items()} for i in case.inputs
    )
    try:
        path = folder / f"dynamo_{name}.onnx"
        torch.onnx.export(
            module,
            inputs,
            path,
            **options,
            dynamic_shapes=shapes,
            dynamo=True,
            external_data=False,
            verbose=False,
        )
        made.append(path.stem)
    except Exception as error:
        print(f"dynamo_{name}: not exported: {str(error).splitlines()[0]}", file=sys.stderr)
    for stem in made:
        (folder / f"{stem}.json").write_text(json.dumps({"integers": dict(case.integers)}))


def export_all(models: dict[str, Exported]) -> None:
    """All of them into the folder that the command names, or those whose names follow it."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    for name in sys.argv[2:] or models:
        export(name, models[name], folder)
