"""Random Scan operators, over all attributes, in the form of opset 8 and in that of today."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.frontends.onnx.models import Arrays, graph, info, model, node

ROWS: tuple[tuple[int, ...], ...] = ((), (3,), (2, 3))
"""Shapes of a row and of a state."""
STATE_STEPS, OUTPUTS = ("Tanh", "Sigmoid"), ("Sin", "Neg", "Tanh")


@dataclass
class Case:
    """A model of one Scan, with arrays for its inputs."""

    model: Any
    inputs: Arrays


@st.composite
def scans(draw: st.DrawFn) -> Case:
    """Over any axes in any directions, with states and values of outside; T is open in half."""
    steps, rng = draw(st.integers(1, 4)), np.random.default_rng(draw(st.integers(0, 1 << 30)))
    states, count = draw(st.integers(0, 2)), draw(st.integers(1, 3))
    outputs = draw(st.integers(0 if states else 1, 2))
    wide = draw(st.sampled_from(ROWS))
    rows = [draw(st.sampled_from(ROWS[: ROWS.index(wide) + 1])) for _ in range(count)]
    axes = [draw(st.integers(-len(row) - 1, len(row))) for row in rows]
    symbolic = draw(st.booleans())

    arrays, dims = Arrays(), dict[str, list[int | str]]()
    for i in range(states):
        arrays[f"s{i}"] = rng.standard_normal(wide).astype("f4")
    for i, (row, axis) in enumerate(zip(rows, axes, strict=True)):
        shape = list(row)
        shape.insert(axis % (len(row) + 1), steps)
        arrays[f"x{i}"] = rng.standard_normal(shape).astype("f4")
        dims[f"x{i}"] = list(shape)
        dims[f"x{i}"][axis % (len(row) + 1)] = "T" if symbolic else steps
    where = draw(st.sampled_from(["input", "constant", "inside"]))
    w = rng.standard_normal(wide).astype("f4")
    inside = _body(draw, states, rows, wide, outputs, {"w": w} if where == "inside" else {})
    if where == "input":
        arrays["w"] = w

    output_axes = [draw(st.integers(-len(wide) - 1, len(wide))) for _ in range(outputs)]
    results = [f"l{i}" for i in range(states)] + [f"r{i}" for i in range(outputs)]
    names = [f"s{i}" for i in range(states)] + [f"x{i}" for i in range(count)]
    attributes = _attributes(draw, axes, output_axes)
    made = model(
        [node("Scan", " ".join(names), " ".join(results), body=inside, **attributes)],
        [info(n, dims.get(n, list(a.shape))) for n, a in arrays.items()],
        [info(n, None) for n in results],
        {"w": w} if where == "constant" else None,
    )
    return Case(made, arrays)


@st.composite
def scans_8(draw: st.DrawFn) -> Case:
    """The form of opset 8: a batch in front of everything, time behind it, perhaps lengths."""
    steps, batch = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    states, count = draw(st.integers(0, 2)), draw(st.integers(1, 2))
    outputs, wide = draw(st.integers(0 if states else 1, 2)), draw(st.sampled_from(ROWS))
    arrays = Arrays()
    for i in range(states):
        arrays[f"s{i}"] = rng.standard_normal((batch, *wide)).astype("f4")
    for i in range(count):
        arrays[f"x{i}"] = rng.standard_normal((batch, steps, *wide)).astype("f4")
    w = rng.standard_normal(wide).astype("f4")
    attributes: dict[str, Any] = {"num_scan_inputs": count}
    directions = _directions(draw, count)
    if any(directions) or draw(st.booleans()):
        attributes["directions"] = directions
    names = [*arrays]
    if lengths := not any(directions) and draw(st.booleans()):
        arrays["n"] = rng.integers(1, steps + 1, batch)
    results = [f"l{i}" for i in range(states)] + [f"r{i}" for i in range(outputs)]
    made = model(
        [
            node(
                "Scan",
                " ".join(["n" if lengths else "_", *names]),
                " ".join(results),
                body=_body(draw, states, [wide] * count, wide, outputs, {}),
                **attributes,
            )
        ],
        [info(n, list(a.shape), "i64" if n == "n" else "f32") for n, a in arrays.items()],
        [info(n, None) for n in results],
        {"w": w},
        opset=8,
    )
    return Case(made, arrays)


def _attributes(draw: st.DrawFn, axes: list[int], output_axes: list[int]) -> dict[str, Any]:
    """Those of opset 9 and later; lists of zeros may be left out."""
    lists = {
        "scan_input_axes": axes,
        "scan_input_directions": _directions(draw, len(axes)),
        "scan_output_axes": output_axes,
        "scan_output_directions": _directions(draw, len(output_axes)),
    }
    kept = {n: v for n, v in lists.items() if any(v) or (v and draw(st.booleans()))}
    return {"num_scan_inputs": len(axes), **kept}


def _directions(draw: st.DrawFn, count: int) -> list[int]:
    return [draw(st.integers(0, 1)) for _ in range(count)]


def _body(
    draw: st.DrawFn,
    states: int,
    rows: list[tuple[int, ...]],
    wide: tuple[int, ...],
    outputs: int,
    constants: Arrays,
) -> Any:
    """States and rows added up with `w`; each result is a function of the sum."""
    names = [f"in_s{i}" for i in range(states)] + [f"in_x{i}" for i in range(len(rows))]
    nodes, total = list[Any](), "w"
    for i, name in enumerate(names):
        nodes.append(node("Add", f"{total} {name}", f"t{i}"))
        total = f"t{i}"
    results = [f"out_s{i}" for i in range(states)] + [f"y{i}" for i in range(outputs)]
    for i, name in enumerate(results):
        kind = draw(st.sampled_from(STATE_STEPS if i < states else OUTPUTS))
        source = draw(st.sampled_from([total, names[0]] if states else [total]))
        nodes.append(node(kind, source, name))
    shapes = [wide] * states + rows
    inputs = [info(n, list(s)) for n, s in zip(names, shapes, strict=True)]
    return graph(nodes, inputs, [info(n, list(wide)) for n in results], constants)
