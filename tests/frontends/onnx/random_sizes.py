"""Random arithmetic with the sizes T and N of x: what it gives, and as many rows as it says."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.frontends.onnx.models import info, model, node

DIVIDED = ("Div", "Mod", "fmod")
LIMITED = ("Min", "Max", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal")
BINARY = ("Add", "Sub", "Mul", *DIVIDED, *LIMITED)
ROUNDED = ("Floor", "Ceil", "Round", "")
ENDS = (2**31 - 1, 2**63 - 1, -(2**31), 10**9, -(10**10))
MOST = 9
"""Rows of the result."""


@st.composite
def size_models(draw: Any) -> Any:
    """A model of x [T, N] with the outputs v, one integer, and y of v rows, of 0 to `MOST`."""
    nodes = [
        node("Shape", "x", "T", start=0, end=1),
        node("Shape", "x", "N", start=1, end=2),
    ]
    constants = {"none": np.array(0), "most": np.array(MOST)}
    names = ["T", "N"]

    def constant(value: Any) -> str:
        name = f"c{len(constants)}"
        constants[name] = np.array([value])
        return name

    def a_number(kind: str) -> str:
        if kind in DIVIDED:
            return constant(draw(st.sampled_from([1, 2, 3, 4, 5, -1, -2, -3])))
        ends = ENDS if kind in LIMITED else ()
        return constant(draw(st.sampled_from([*range(-4, 8), *ends])))

    for step in range(draw(st.integers(2, 5))):
        kind, made = draw(st.sampled_from([*BINARY, *ROUNDED, "Neg", "Abs"])), f"v{step}"
        x = draw(st.sampled_from(names[-3:]))
        divides = kind in DIVIDED
        y = a_number(kind) if divides or draw(st.booleans()) else draw(st.sampled_from(names))
        pair = f"{x} {y}" if divides or draw(st.booleans()) else f"{y} {x}"
        if kind == "fmod":
            nodes.append(node("Mod", pair, made, fmod=1))
        elif kind in ("Neg", "Abs"):
            nodes.append(node(kind, x, made))
        elif kind in ROUNDED:
            factor = draw(st.sampled_from([0.25, 0.5, 1.5, 2.0, -2.0, 3.0, 7.0]))
            operator = draw(st.sampled_from(["Mul", "Div", "Add"]))
            held = constant(np.float32(factor))
            nodes += [
                node("Cast", x, f"{made}f", to=1),
                node(operator, f"{made}f {held}", f"{made}g"),
            ]
            moved, rounded = f"{made}g", f"{made}r" if kind else f"{made}g"
            if draw(st.booleans()):
                whole = constant(np.float32(draw(st.integers(-4, 4))))
                order = f"{moved} {whole}" if draw(st.booleans()) else f"{whole} {moved}"
                moved, rounded = f"{made}h", f"{made}r" if kind else f"{made}h"
                nodes.append(node(draw(st.sampled_from(["Add", "Sub"])), order, moved))
            nodes += [node(kind, moved, rounded)] if kind else []
            nodes.append(node("Cast", rounded, made, to=7))
        elif kind in LIMITED[2:]:
            nodes += [node(kind, pair, f"{made}b"), node("Where", f"{made}b {x} N", made)]
        else:
            nodes.append(node(kind, pair, made))
        names.append(made)
    nodes += [
        node("Identity", names[-1], "v"),
        node("Clip", "v none most", "rows"),
        node("ConstantOfShape", "rows", "y"),
    ]
    outputs = [info("v", None, "i64"), info("y", None)]
    return model(nodes, [info("x", ["T", "N"])], outputs, constants)
