"""What tools make of models: `python variant_models.py MODELS OUTDIR`.

MODELS is a folder of models as the other scripts make them. Of each: quantised dynamically with
weights of int8 and of uint8, by calibration as QDQ pairs and as operators of integers, converted
to float16, and as a session saves it after its basic optimisations and after all of them; what
onnxsim and onnxslim leave of it, and the fusions of onnxscript. What a tool refuses or leaves as it
was, or what is not installed, is left out. It needs what `quantised_models.py` needs.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantType,
    quant_pre_process,
    quantize_static,
)

from tests.frontends.onnx.corpus.comparing import draws, told_beside
from tests.frontends.onnx.corpus.optimised_models import ALL, BASIC, optimised
from tests.frontends.onnx.corpus.quantised_models import (
    I8,
    INTEGERS,
    QDQ,
    TOLERANCE,
    U8,
    dynamic,
    halves,
    is_new,
    load_apart,
)


class Drawn(CalibrationDataReader):
    """The inputs that the model is compared with later."""

    def __init__(self, source: Path) -> None:
        session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
        self._left: Iterator[Any] = draws(session, told_beside(source))

    def get_next(self) -> Any:
        return next(self._left, (None, None))[0]


def static(source: Path, target: Path, **more: Any) -> None:
    """All by calibration."""
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder) / "ready.onnx"
        quant_pre_process(source, ready, skip_symbolic_shape=True)
        quantize_static(ready, target, Drawn(source), **more)


def simplified(source: Path, target: Path) -> None:
    """By onnxsim."""
    import onnxsim

    onnx.save(onnxsim.simplify(onnx.load(source))[0], target)


def slimmed(source: Path, target: Path) -> None:
    """By onnxslim."""
    import onnxslim

    onnx.save(onnxslim.slim(onnx.load(source)), target)


def fused(source: Path, target: Path) -> None:
    """By onnxscript, into operators of com.microsoft."""
    import onnx_ir
    from onnxscript.rewriter.ort_fusions import optimize_for_ort

    made: Any = optimize_for_ort(onnx_ir.load(source))
    onnx_ir.save(made[0] if isinstance(made, tuple) else made, target)


BY_16_BITS = {
    "activation_type": QuantType.QUInt16,
    "extra_options": {"UseQDQContribOps": True},
}

KINDS: dict[str, tuple[Callable[..., None], dict[str, Any]]] = {
    "basic": (optimised, {"level": BASIC}),
    "all": (optimised, {"level": ALL}),
    "dynamic": (dynamic, I8),
    "dynamic_u8": (dynamic, U8),
    "qdq": (static, {"quant_format": QDQ}),
    "qdq_by_channel": (static, {"quant_format": QDQ, "per_channel": True}),
    "integers": (static, {"quant_format": INTEGERS}),
    "qdq_by_16_bits": (static, {"quant_format": QDQ, **BY_16_BITS}),
    "halves": (halves, {}),
    "simplified": (simplified, {}),
    "slimmed": (slimmed, {}),
    "fused": (fused, {}),
}
EXACT = ("basic", "all", "simplified", "slimmed", "fused")


def main() -> None:
    """All kinds of all models of the folder, or of those kinds that follow it."""
    models, folder = map(Path, sys.argv[1:3])
    folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    for source in sorted(models.glob("*.onnx")):
        for kind in sys.argv[3:] or KINDS:
            make, options = KINDS[kind]
            target = folder / f"{kind}_{source.stem}.onnx"
            try:
                make(source, target, **options)
                load_apart(target)
                assert is_new(source, target), "as it was"
            except Exception as error:
                print(f"{target.stem}: {str(error).splitlines()[:1]}", file=sys.stderr)
                target.unlink(missing_ok=True)
                continue
            told = told_beside(source) | ({} if kind in EXACT else {"tolerance": TOLERANCE})
            target.with_suffix(".json").write_text(json.dumps(told))
            print(target.stem, flush=True)


if __name__ == "__main__":
    main()
