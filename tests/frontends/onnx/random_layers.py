"""Random LSTM, GRU and RNN operators, over all attributes and optional inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.frontends.onnx.models import Arrays, info, model, node

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
FUNCTIONS = {"LSTM": 3, "GRU": 2, "RNN": 1}
DIRECTIONS = ("forward", "reverse", "bidirectional")
WITH_ALPHA = ("LeakyRelu", "ThresholdedRelu", "Elu")
WITH_BOTH = ("Affine", "ScaledTanh", "HardSigmoid")
BOUNDED = ("Sigmoid", "HardSigmoid", "Tanh", "ScaledTanh", "Softsign")
"""What gates may be, so that states do not grow beyond all bounds."""
PLAIN = ("Relu", "Tanh", "Sigmoid", "Softsign", "Softplus")
EVERY = (*PLAIN, *WITH_ALPHA, *WITH_BOTH)


@dataclass
class Case:
    """A layer as two models with arrays for their inputs: as drawn, and with time in front, which
    is the one layout that ONNX Runtime takes."""

    model: Any
    inputs: Arrays
    plain: Any
    plain_inputs: Arrays
    batch_first: bool

    def turned(self, outputs: Arrays) -> Arrays:
        """Outputs of `plain` in the layout of `model`."""
        if not self.batch_first:
            return outputs
        perms = {"Y": (2, 0, 1, 3)}
        return {n: a.transpose(perms.get(n, (1, 0, 2))) for n, a in outputs.items()}


@st.composite
def layers(draw: st.DrawFn, kind: str) -> Case:
    """One layer; T and N are symbols of the model in half of the cases."""
    steps, batch, size, hidden = (draw(st.integers(1, n)) for n in (6, 4, 5, 9))
    direction = draw(st.sampled_from(DIRECTIONS))
    directions = 2 if direction == "bidirectional" else 1
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    gates, state = GATES[kind] * hidden, (directions, batch, hidden)
    attributes = {"hidden_size": hidden, "direction": direction, **_options(draw, kind, directions)}

    def random(*shape: int) -> np.ndarray[Any, Any]:
        return (rng.standard_normal(shape) * 0.5).astype(np.float32)

    arrays = {
        "X": random(steps, batch, size),
        "W": random(directions, gates, size),
        "R": random(directions, gates, hidden),
        "B": random(directions, 2 * gates),
        "lengths": rng.integers(1, steps + 1, batch).astype(np.int32),
        "h0": random(*state),
        "c0": random(*state),
        "P": random(directions, 3 * hidden),
    }
    optional = ["B", "lengths", "h0", *(["c0", "P"] if kind == "LSTM" else [])]
    missing = {*arrays} - {"X", "W", "R", *(n for n in optional if draw(st.booleans()))}
    kept = {name: array for name, array in arrays.items() if name not in missing}
    symbolic, batch_first = draw(st.booleans()), draw(st.booleans())
    plain = _model(kind, kept, attributes, False, symbolic)
    made = _model(kind, kept, attributes, batch_first, symbolic)
    inputs = {n: a for n, a in kept.items() if n in ("X", "lengths", "h0", "c0")}
    turned = {
        n: a.swapaxes(0, 1) if batch_first and n != "lengths" else a for n, a in inputs.items()
    }
    return Case(made, turned, plain, inputs, batch_first)


def _model(
    kind: str, arrays: Arrays, attributes: dict[str, Any], batch_first: bool, symbolic: bool
) -> Any:
    order = ["X", "W", "R", "B", "lengths", "h0", "c0", "P"][: 8 if kind == "LSTM" else 6]
    names = " ".join(name if name in arrays else "_" for name in order)
    outputs = ["Y", "Y_h", "Y_c"][: 3 if kind == "LSTM" else 2]
    layout = {"layout": 1} if batch_first else {}
    dims: dict[str, list[int | str]] = {
        name: list(arrays[name].shape) for name in ("X", "lengths", "h0", "c0") if name in arrays
    }
    for name, sizes in dims.items():
        if symbolic:
            sizes[: 2 if name == "X" else 1] = ["T", "N"] if name == "X" else sizes[:1]
            sizes[0 if name == "lengths" else 1] = "N"
        if batch_first and name != "lengths":
            sizes[:2] = sizes[1::-1]
    return model(
        [node(kind, names, " ".join(outputs), **attributes, **layout)],
        [info(n, d, "i32" if n == "lengths" else "f32") for n, d in dims.items()],
        [info(name, None) for name in outputs],
        {n: arrays[n] for n in ("W", "R", "B", "P") if n in arrays},
        opset=14,
    )


def _options(draw: st.DrawFn, kind: str, directions: int) -> dict[str, Any]:
    """Attributes that say what is computed."""
    found: dict[str, Any] = {}
    if draw(st.booleans()):
        found["clip"] = draw(st.sampled_from([0.3, 1.0, 3.0]))
    if kind == "LSTM":
        found["input_forget"] = draw(st.integers(0, 1))
    if kind == "GRU":
        found["linear_before_reset"] = draw(st.integers(0, 1))
    if draw(st.booleans()):
        names = [
            draw(st.sampled_from(BOUNDED if kind != "RNN" and k == 0 else EVERY))
            for _ in range(directions)
            for k in range(FUNCTIONS[kind])
        ]
        found["activations"] = names
        # ONNX Runtime takes one number for each function that has some, in order
        alphas = [draw(st.sampled_from([0.1, 0.5, 1.0])) for n in names if n not in PLAIN]
        betas = [draw(st.sampled_from([0.2, 0.5])) for n in names if n in WITH_BOTH]
        if alphas:
            found["activation_alpha"] = alphas
        if betas:
            found["activation_beta"] = betas
    return found
