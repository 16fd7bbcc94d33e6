"""Models as ONNX Runtime's optimisers save them: `python optimised_models.py MODELS OUTDIR`.

MODELS is a folder of models as the other scripts make them. Each becomes `extended_NAME.onnx`, the
graph after the session's extended optimisations, which fuses nodes into operators of
com.microsoft. Graphs in which nothing was fused are left out. The fusions for transformers, which
are a tool of their own, make `fused_NAME.onnx`.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import onnx
import onnxruntime

BASIC = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
ALL = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
EXTENDED = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED


def optimised(source: Path, target: Path, level: Any = EXTENDED) -> None:
    """Save the graph that a session runs."""
    options: Any = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.optimized_model_filepath, options.log_severity_level = str(target), 4
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def fused(source: Path, target: Path) -> None:
    """Fuse what transformers have: attention, layer norms, activations with their biases."""
    from onnxruntime.transformers import optimizer

    made = optimizer.optimize_model(str(source), "bert", num_heads=2, hidden_size=16, opt_level=1)
    made.save_model_to_file(str(target))


def contributed(path: Path) -> set[str]:
    """The operators of a file that are not the standard's."""
    return {node.op_type for node in onnx.load(path).graph.node if node.domain}


def main() -> None:
    """All models of the folder."""
    models, folder = map(Path, sys.argv[1:3])
    folder.mkdir(parents=True, exist_ok=True)
    for source in sorted(models.glob("*.onnx")):
        if source.stem.startswith(("extended_", "fused_")):
            continue
        for kind, make in (("extended", optimised), ("fused", fused)):
            target = folder / f"{kind}_{source.stem}.onnx"
            try:
                make(source, target)
            except Exception as error:
                print(f"{target.stem}: {str(error).splitlines()[:1]}", file=sys.stderr)
                continue
            if not contributed(target):
                target.unlink()
                continue
            print(target.stem, *sorted(contributed(target)))
            beside = source.with_suffix(".json")
            if beside.exists():
                shutil.copy(beside, target.with_suffix(".json"))


if __name__ == "__main__":
    main()
