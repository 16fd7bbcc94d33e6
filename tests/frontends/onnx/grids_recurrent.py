"""Grids of LSTM, GRU and RNN."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from tests.frontends.onnx.grids import Array, Case, floats

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
STATES = {"LSTM": 2, "GRU": 1, "RNN": 1}
FUNCTIONS: dict[str, tuple[tuple[str, ...] | None, ...]] = {
    "LSTM": (None, ("Sigmoid", "Relu", "Tanh"), ("HardSigmoid", "Softsign", "ScaledTanh")),
    "GRU": (None, ("Sigmoid", "Relu"), ("HardSigmoid", "Affine")),
    "RNN": (None, ("Relu",), ("LeakyRelu",), ("Elu",), ("ThresholdedRelu",), ("Softplus",)),
}
PARAMETERS: dict[str, tuple[dict[str, list[float]], ...]] = {
    "ScaledTanh": ({"activation_alpha": [0.4, 0.9], "activation_beta": [0.6, 0.8]},),
    "Affine": ({"activation_alpha": [0.4, 0.9], "activation_beta": [0.6, 0.1]},),
    "LeakyRelu": ({}, {"activation_alpha": [0.3]}),
    "Elu": ({}, {"activation_alpha": [0.3]}),
    "ThresholdedRelu": ({"activation_alpha": [0.3]},),
}
"""Last of the functions -> alphas and betas that are tried; of those before it too, in order."""
T, N, WIDTH, H = 3, 2, 2, 3


def _grid(op: str, special: list[dict[str, Any]]) -> Callable[[], Iterator[Case]]:
    def cases() -> Iterator[Case]:
        for direction, layout, lengths, clip, functions, bias, starts, more in product(
            ("forward", "reverse", "bidirectional"),
            (0, 1),
            (None, (T, 1), (2, 3)),
            (None, 0.3),
            FUNCTIONS[op],
            (False, True),
            (False, True),
            special,
        ):
            attributes: dict[str, Any] = {"hidden_size": H, "direction": direction, **more}
            peepholes = attributes.pop("peepholes", False)
            if clip is not None:
                attributes["clip"] = clip
            several = 2 if direction == "bidirectional" else 1
            if functions is not None:
                attributes["activations"] = functions * several
            inputs = _inputs(op, direction, bias, starts, peepholes)
            if lengths is not None:
                inputs["lengths"] = np.array(lengths, np.int32)
            for parameters in PARAMETERS.get(functions[-1], ({},)) if functions else ({},):
                more = {name: values * several for name, values in parameters.items()}
                yield _in_layout(op, {**attributes, **more}, inputs, layout)

    return cases


def _inputs(
    op: str, direction: str, bias: bool, starts: bool, peepholes: bool
) -> dict[str, Array | None]:
    directions, rows = 2 if direction == "bidirectional" else 1, GATES[op] * H
    found: dict[str, Array | None] = {
        "x": floats(T, N, WIDTH),
        "w": floats(directions, rows, WIDTH, seed=1),
        "r": floats(directions, rows, H, seed=2),
        "b": floats(directions, 2 * rows, seed=3) if bias else None,
        "lengths": None,
    }
    for k in range(STATES[op]):
        found[f"h{k}"] = floats(directions, N, H, seed=4 + k) if starts else None
    if peepholes:
        found["p"] = floats(directions, 3 * H, seed=6)
    return found


def _in_layout(
    op: str, attributes: dict[str, Any], inputs: dict[str, Array | None], layout: int
) -> Case:
    """A case; one with the batch in front is compared with ONNX Runtime's other layout."""
    fixed = [name for name in ("w", "r", "b", "p") if inputs.get(name) is not None]
    case = Case(op, inputs, attributes, fixed, 1 + STATES[op])
    if not layout:
        return case
    turned = {n: _swapped(a) if n in ("x", "h0", "h1") else a for n, a in inputs.items()}
    attributes = {**attributes, "layout": 1}
    made = replace(case, inputs=turned, attributes=attributes)
    return replace(made, reference=case, turned=_batch_first)


def _swapped(array: Array | None) -> Array | None:
    return None if array is None else np.ascontiguousarray(array.swapaxes(0, 1))


def _batch_first(outputs: Any) -> dict[str, Array]:
    """Y [T, directions, N, H] and states [directions, N, H] with N in front."""
    y, *states = outputs.values()
    made = [np.transpose(y, (2, 0, 1, 3)), *(np.swapaxes(state, 0, 1) for state in states)]
    return dict(zip(outputs, made, strict=True))


LSTMS = [
    {"peepholes": peepholes, "input_forget": coupled}
    for peepholes, coupled in product((False, True), (0, 1))
]
GRIDS: dict[str, Callable[[], Iterator[Case]]] = {
    "LSTM": _grid("LSTM", LSTMS),
    "GRU": _grid("GRU", [{"linear_before_reset": 0}, {"linear_before_reset": 1}]),
    "RNN": _grid("RNN", [{}]),
}
