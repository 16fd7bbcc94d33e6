"""What operations make of NaN, infinities, zeros and numbers between integers, on each target."""

from __future__ import annotations

import numpy as np
import pytest
from rnncc_runtime import Model

from rnncc.ir import interpreter
from rnncc.ir.builder import Builder
from rnncc.ir.program import Program
from tests.targets.running import (
    ALWAYS,
    EVERYWHERE,
    NAMES,
    compiled_for,
    skip_without_hardware,
)

EDGES = np.array([0, -0.0, 0.5, -1.5, 2.5, 89, 3e9, np.inf, -np.inf, np.nan], np.float32)
FUNCTIONS = ("exp", "log", "tanh", "sigmoid", "erf", "sin", "sqrt", "relu", "abs", "neg")
BINARY = ("maximum", "minimum", "add", "mul", "div", "rem")
RELATIONS = ("lt", "le", "gt", "ge", "eq", "ne")


def edges() -> Program:
    """Rows of a vector, a few elements more, with themselves, constants and one number of a row."""
    b = Builder.net("net")
    x, y, row = b.input("x", ["N", 19]), b.input("y", ["N", 19]), b.input("row", ["N"])
    others = {"": y, " 0": b.full_like(x, 0.0), " 1.5": b.full_like(x, 1.5)}
    others[" row"] = b.broadcast(row, ["N", 19], [0])
    outputs = {name: getattr(b, name)(x) for name in FUNCTIONS}
    outputs |= {f"round {kind}": b.round(kind, x) for kind in ("floor", "ceil", "even", "trunc")}
    for of, z in others.items():
        outputs |= {f"{name}{of}": getattr(b, name)(x, z) for name in BINARY[: 2 if of else None]}
        outputs |= {f"{k}{of}": b.compare(k, x, z) for k in RELATIONS}
        outputs |= {f"{k}{of}, other side": b.compare(k, z, x) for k in RELATIONS}
    outputs |= {f"largest {k}": b.reduce(k, x, [1]) for k in ("max", "min")}
    outputs["is nan"] = b.compare("ne", x, x)
    return b.finish(outputs)


@pytest.mark.parametrize("name", NAMES if EVERYWHERE else ALWAYS)
def test_edges(name: str) -> None:
    skip_without_hardware(name)
    net = edges()
    model = compiled_for(net, None, name)
    assert isinstance(model, Model)
    pairs = np.stack(np.meshgrid(EDGES, EDGES)).reshape(2, -1)
    x, y = np.resize(pairs, (2, 6, 19))
    inputs = {"x": x, "y": y, "row": np.resize(EDGES[::-1], 6)}
    with np.errstate(all="ignore"):
        want = interpreter.run(net, inputs)
    for output, array in model.run(inputs).items():
        np.testing.assert_allclose(array, want[output], rtol=1e-6, atol=1e-6, err_msg=output)
