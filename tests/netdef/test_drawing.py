"""Drawings of nets: boxes do not overlap, texts lie in their boxes, arrows pass beside boxes."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rnncc.errors import NetError
from rnncc.netdef import NetDef, OperatorDef, load, parse_text
from rnncc.netdef.drawing import MOST, draw, graphviz, layout
from rnncc.netdef.drawing.order import ordered
from tests.draw import examples
from tests.golden import FILES, GOLDEN

ATTENTION = GOLDEN / "caffe2/attention_regular/net.pb"
SVG = "{http://www.w3.org/2000/svg}"
Box = tuple[Any, ...]
"""left, top, right, bottom, and the class or the text"""
needs_dot = pytest.mark.skipif(not graphviz.available(), reason="graphviz is not installed")


@dataclass
class Drawing:
    """The shapes of an SVG in the coordinates of the page."""

    size: tuple[float, float] = (0, 0)
    boxes: list[Box] = field(default_factory=list[Box])
    texts: list[Box] = field(default_factory=list[Box])
    arrows: list[list[tuple[float, float]]] = field(default_factory=list[list[tuple[float, float]]])
    """Points along each arrow."""


def read(svg: str) -> Drawing:
    root = ElementTree.fromstring(svg)
    drawing = Drawing((float(root.get("width", 0)), float(root.get("height", 0))))
    _walk(root, 0.0, 0.0, drawing)
    return drawing


def _walk(element: ElementTree.Element, x: float, y: float, drawing: Drawing) -> None:
    for child in element:
        if child.tag == f"{SVG}g":
            moved = re.findall(r"-?[\d.]+", child.get("transform", "0 0"))
            _walk(child, x + float(moved[0]), y + float(moved[1]), drawing)
        elif child.tag == f"{SVG}rect" and child.get("class") != "page":
            left, top, w, h = (float(child.get(k, 0)) for k in ("x", "y", "width", "height"))
            place = (x + left, y + top, x + left + w, y + top + h)
            drawing.boxes.append((*place, child.get("class", "")))
        elif child.tag == f"{SVG}text":
            text, size = child.text or "", float(child.get("font-size", 0))
            width = 0.603 * size * len(text)  # DejaVu Sans Mono, the widest of the usual fonts
            left = x + float(child.get("x", 0))
            left -= width / 2 if child.get("text-anchor") == "middle" else 0
            base = y + float(child.get("y", 0))
            drawing.texts.append((left, base - 0.76 * size, left + width, base + 0.24 * size, text))
        elif child.tag == f"{SVG}path":
            numbers = [float(n) for n in re.findall(r"-?[\d.]+", child.get("d", ""))]
            points = [(x + a, y + b) for a, b in zip(numbers[::2], numbers[1::2], strict=True)]
            drawing.arrows.append(_along(points))


def _along(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points on a row of cubic curves."""
    found: list[tuple[float, float]] = []
    for k in range(0, len(points) - 1, 3):
        p = points[k : k + 4]
        for step in range(13):
            t = step / 12
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
            found.append(
                (
                    sum(w * q[0] for w, q in zip(weights, p, strict=True)),
                    sum(w * q[1] for w, q in zip(weights, p, strict=True)),
                )
            )
    return found


def overlap(a: Box, b: Box, slack: float = 0.2) -> bool:
    across = min(a[2], b[2]) - max(a[0], b[0]) > slack
    return across and min(a[3], b[3]) - max(a[1], b[1]) > slack


def within(inner: Box, outer: Box, slack: float = 0.2) -> bool:
    low = inner[0] >= outer[0] - slack and inner[1] >= outer[1] - slack
    return low and inner[2] <= outer[2] + slack and inner[3] <= outer[3] + slack


def check(drawing: Drawing, arrows: bool = True) -> None:
    page = (0, 0, *drawing.size)
    for i, a in enumerate(drawing.boxes):
        assert within(a, page), a
        for b in drawing.boxes[:i]:
            assert not overlap(a, b) or within(a, b) or within(b, a), (a, b)
    closed = [box for box in drawing.boxes if box[4] not in ("group", "part")]
    for i, text in enumerate(drawing.texts):
        assert within(text, page), text
        for other in drawing.texts[:i]:
            assert not overlap(text, other), (text, other)
        for box in drawing.boxes:
            assert not overlap(text, box) or within(text, box), (text, box)
    for points in drawing.arrows if arrows else ():
        xs, ys = zip(*points, strict=True)
        hull = (min(xs), min(ys), max(xs), max(ys))
        for box in closed:
            if overlap(hull, box, slack=-1):
                assert not [p for p in points if within((*p, *p), box, slack=-1)], (points, box)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_nothing_overlaps(path: Path) -> None:
    check(read(draw(load(path), by="own")))


@needs_dot
@pytest.mark.parametrize("path", FILES[::9], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_nothing_overlaps_where_graphviz_places(path: Path) -> None:
    check(read(draw(load(path), by="dot")), arrows=False)


@pytest.mark.parametrize("by", ["own", pytest.param("dot", marks=needs_dot)])
def test_attention(by: str) -> None:
    """Every operator and every blob of the step net is there once for each version of it."""
    net = load(ATTENTION)
    drawing = read(draw(net, by=by))
    step = next(arg.n for op in net.op for arg in op.arg if arg.name == "step_net")
    types = [text[4] for text in drawing.texts]
    for op in [*net.op, *step.op]:
        assert op.type in types
    assert types.count("FC") == 5
    assert types.count("att/decoder/gates_t") == 2  # of FC, and of Sum in its place
    assert types.count("att/decoder/gates_t_w") == 1  # in the box of the FC that reads it
    assert "att/att/decoder/cell_t_prev_states[t+1]" in types
    (group,) = [box for box in drawing.boxes if box[4] == "group"]
    inside = [text[4] for text in drawing.texts if within(text, group)]
    assert "LSTMUnit" in inside and "step_net" in inside and "enc" not in inside
    inputs = [text for box in drawing.boxes if box[4] == "input" for text in drawing.texts
              if within(text, box)]  # fmt: skip
    assert {"enc", "dec", "h0", "timestep"} <= {text[4] for text in inputs}


def test_branches_stand_beside_each_other() -> None:
    path = GOLDEN / "control/if_else_t/net.pb"
    if not path.exists():
        pytest.skip("the nets with control operators are not at hand")
    drawing = read(draw(load(path), by="own"))
    titles = {text[4]: text for text in drawing.texts if text[4] in ("then_net", "else_net")}
    assert titles["then_net"][1] == titles["else_net"][1]
    assert titles["then_net"][2] < titles["else_net"][0]


def test_it_needs_no_other_file() -> None:
    svg = draw(load(ATTENTION), by="own")
    links = re.findall(r"https?://[^\"' ]*|@import|url\([^#]|<script|<image", svg)
    assert set(links) == {"http://www.w3.org/2000/svg"}
    assert "prefers-color-scheme: dark" in svg


def test_names_from_a_net_stay_text() -> None:
    net = NetDef(external_input=["<b>&\"'"])
    net.op.append(OperatorDef(type="A<script>", input=["<b>&\"'"], output=["é漢字" * 30]))
    drawing = read(draw(net, by="own"))
    assert {"A<script>", "<b>&\"'"} <= {text[4] for text in drawing.texts}
    assert max(len(text[4]) for text in drawing.texts) < 60


def test_weights_are_those_of_the_init_net() -> None:
    net = parse_text('op { input: "x" input: "w" output: "y" type: "Mul" }', "")
    kinds = [box[4] for box in read(draw(net, by="own")).boxes]
    assert kinds.count("input") == 2
    kinds = [box[4] for box in read(draw(net, {"w"}, by="own")).boxes]
    assert kinds.count("input") == 1


def test_what_is_far_is_shown_again() -> None:
    net = NetDef(external_output=["b20"])
    net.op.append(OperatorDef(type="Relu", input=["x"], output=["b0"]))
    for k in range(20):
        net.op.append(OperatorDef(type="Sum", input=[f"b{k}", "b0"], output=[f"b{k + 1}"]))
    drawing = read(draw(net, by="own"))
    check(drawing)
    again = [box for box in drawing.boxes if box[4] == "again"]
    assert 2 <= len(again) <= 4


def test_an_empty_net() -> None:
    assert read(draw(NetDef(), by="own")).boxes == []


def test_hostile_nets() -> None:
    net = NetDef()
    for k in range(MOST + 1):
        net.op.append(OperatorDef(type="Relu", input=[f"b{k}"], output=[f"b{k + 1}"]))
    with pytest.raises(NetError, match=f"has {MOST + 1} operators"):
        draw(net)
    wide = NetDef()
    wide.op.append(OperatorDef(type="Sum", input=[f"b{k}" for k in range(30_000)], output=["y"]))
    with pytest.raises(NetError, match="has 30000 inputs"):
        draw(wide)


def test_dot_is_asked_for_and_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    net = load(ATTENTION)
    with pytest.raises(NetError, match="graphviz is not installed"):
        draw(net, by="dot")
    assert draw(net, by="auto") == draw(net, by="own")


@needs_dot
def test_dot_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("dot", 20)

    net = load(ATTENTION)
    assert draw(net, by="auto") != draw(net, by="own")
    monkeypatch.setattr(subprocess, "run", late)
    assert draw(net, by="auto") == draw(net, by="own")


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[tuple[float, float]], list[tuple[int, int]]]:
    count = draw(st.integers(1, 25))
    rng = random.Random(draw(st.integers(0, 10_000)))
    sizes = [(float(rng.randint(10, 400)), float(rng.randint(10, 90))) for _ in range(count)]
    pairs = {(rng.randrange(count), rng.randrange(count)) for _ in range(rng.randint(0, 40))}
    return sizes, sorted((a, b) for a, b in pairs if a < b)


@settings(max_examples=examples(200), deadline=None)
@given(graphs())
def test_any_graph(graph: tuple[list[tuple[float, float]], list[tuple[int, int]]]) -> None:
    sizes, edges = graph
    made = layout.place(sizes, edges)
    boxes = [
        (x - w / 2, y - h / 2, x + w / 2, y + h / 2)
        for (x, y), (w, h) in zip(made.centres, sizes, strict=True)
    ]
    for i, a in enumerate(boxes):
        assert within(a, (0, 0, *made.size))
        assert not any(overlap(a, b) for b in boxes[:i])
    for (source, target), curve in zip(edges, made.curves, strict=True):
        assert boxes[source][0] <= curve[0][0] <= boxes[source][2]
        assert curve[0][1] == pytest.approx(boxes[source][3])
        assert boxes[target][0] <= curve[-1][0] <= boxes[target][2]
        assert curve[-1][1] == pytest.approx(boxes[target][1])
        for x, y in _along(curve):
            assert not any(b[0] < x < b[2] and b[1] + 0.1 < y < b[3] - 0.1 for b in boxes)


def test_arrows_that_need_not_cross_do_not() -> None:
    ranks = [0, 0, 0, 1, 1, 1]
    links = [(0, 5), (1, 4), (2, 3)]
    layers = ordered(ranks, links)
    assert [layers[1].index(dict(links)[node]) for node in layers[0]] == [0, 1, 2]
