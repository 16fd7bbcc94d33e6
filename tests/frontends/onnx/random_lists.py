"""Random models on lists of tensors: made, changed, joined, carried and chosen between."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st
from onnx import TensorProto, helper

from tests.frontends.onnx.models import graph, info, model, node

Shapes = list[tuple[int, int]]
WIDTH = 3


def list_info(name: str) -> Any:
    """The declaration of a list of float tensors."""
    return helper.make_tensor_sequence_value_info(name, TensorProto.FLOAT, None)


@dataclass
class Lists:
    """A model that grows by a node at a time.

    Attributes:
        lists: name of a list -> the shapes of its elements.
        constants: the initialisers.
    """

    draw: Any
    lists: dict[str, Shapes]
    nodes: list[Any] = field(default_factory=list[Any])
    constants: dict[str, Any] = field(default_factory=dict[str, Any])
    outputs: list[Any] = field(default_factory=list[Any])

    def fresh(self) -> str:
        return f"v{len(self.nodes)}"

    def constant(self, value: Any) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = value
        return name

    def some(self, least: int = 0) -> str:
        """A list of so many elements at least."""
        return self.draw(st.sampled_from([n for n, s in self.lists.items() if len(s) >= least]))

    def place(self, count: int, last: int) -> tuple[str, int]:
        place = self.draw(st.integers(-count, last))
        return self.constant(np.array(place)), place

    # A node each

    def construct(self) -> None:
        name, count = self.fresh(), self.draw(st.integers(1, 3))
        self.nodes.append(node("SequenceConstruct", " ".join(["x"] * count), name))
        self.lists[name] = [(4, WIDTH)] * count

    def insert(self) -> None:
        name, given = self.fresh(), self.some()
        shapes = list(self.lists[given])
        if self.draw(st.booleans()):
            where, place = self.place(len(shapes), len(shapes))
        else:
            where, place = "", len(shapes)
        self.nodes.append(node("SequenceInsert", f"{given} x {where}", name))
        shapes.insert(place, (4, WIDTH))
        self.lists[name] = shapes

    def erase(self) -> None:
        name, given = self.fresh(), self.some(1)
        shapes = list(self.lists[given])
        last = self.draw(st.booleans())
        where, place = ("", -1) if last else self.place(len(shapes), len(shapes) - 1)
        self.nodes.append(node("SequenceErase", f"{given} {where}", name))
        del shapes[place]
        self.lists[name] = shapes

    def split(self) -> None:
        name, rows = self.fresh(), [1] * 4
        where = ""
        if self.draw(st.booleans()):
            size = self.draw(st.integers(1, 5))
            rows = [min(size, 4 - start) for start in range(0, 4, size)]
            form: Any = np.array(size) if self.draw(st.booleans()) else np.array(rows)
            where = self.constant(form)
        self.nodes.append(node("SplitToSequence", f"x {where}", name, axis=0))
        self.lists[name] = [(count, WIDTH) for count in rows]

    def map(self) -> None:
        name, given = self.fresh(), self.some(1)
        body = graph([node("Exp", "e", "f"), node("Add", "f b", "g")], [], [])
        body.input.extend([info("e", None), info("b", None)])
        body.output.append(info("g", None))
        scale = self.constant(np.arange(WIDTH, dtype=np.float32))
        self.nodes.append(node("SequenceMap", f"{given} {scale}", name, body=body))
        self.lists[name] = self.lists[given]

    def choose(self) -> None:
        """Either of two lists of the same shapes, as the run decides."""
        name, given = self.fresh(), self.some()
        shapes = self.lists[given]
        other = self.draw(st.sampled_from([n for n, s in self.lists.items() if s == shapes]))
        branches = [
            graph([node("Identity", chosen, f"{name}_{i}")], [], [list_info(f"{name}_{i}")])
            for i, chosen in enumerate((given, other))
        ]
        one, two = branches
        self.nodes.append(node("If", "c", name, then_branch=one, else_branch=two))
        self.lists[name] = shapes

    def loop(self) -> None:
        """Each iteration appends one more, of the number of elements so far or of the iteration."""
        name, given, iterations = self.fresh(), self.some(), self.draw(st.integers(0, 3))
        counted = self.draw(st.booleans())
        inner = [node("SequenceLength", "s", "k")] if counted else [node("Identity", "i", "k")]
        inner += [node("Cast", "k", "q", to=1), node("Add", "x q", "y")]
        inner += [node("SequenceInsert", "s y", "s2"), node("Identity", "go", "go2")]
        inputs = [info("i", [], "i64"), info("go", [], "i1"), list_info("s")]
        body = graph(inner, inputs, [info("go2", [], "i1"), list_info("s2")])
        count = self.constant(np.array(iterations))
        self.nodes.append(node("Loop", f"{count} _ {given}", name, body=body))
        self.lists[name] = self.lists[given] + [(4, WIDTH)] * iterations

    # Outputs

    def at(self) -> None:
        name, given = self.fresh(), self.some(1)
        count = len(self.lists[given])
        where, _ = self.place(count, count - 1)
        self.nodes.append(node("SequenceAt", f"{given} {where}", name))
        self.outputs.append(info(name, None))

    def length(self) -> None:
        name = self.fresh()
        self.nodes.append(node("SequenceLength", self.some(), name))
        self.outputs.append(info(name, None, "i64"))

    def join(self) -> None:
        name, given = self.fresh(), self.some(1)
        new = len({*self.lists[given]}) == 1 and self.draw(st.booleans())
        axis = self.draw(st.integers(-3, 2)) if new else self.draw(st.sampled_from([0, -2]))
        made = node("ConcatFromSequence", given, name, axis=axis, new_axis=int(new))
        self.nodes.append(made)
        self.outputs.append(info(name, None))


STEPS = ("construct", "insert", "erase", "split", "map", "choose", "loop", "at", "length", "join")


@st.composite
def list_models(draw: Any) -> tuple[Any, dict[str, Any]]:
    """A model and its inputs: a tensor, a condition and a list."""
    counts = draw(st.lists(st.integers(1, 3), max_size=3))
    made = Lists(draw, {"s0": [(count, WIDTH) for count in counts]})
    made.construct()
    for step in draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=7)):
        getattr(made, step)()
    made.outputs.append(list_info(draw(st.sampled_from([n for n in made.lists if n != "s0"]))))
    inputs = [info("x", [4, WIDTH]), info("c", [], "i1"), list_info("s0")]
    values = np.random.default_rng(draw(st.integers(0, 99)))
    x, *s0 = (values.standard_normal((n, WIDTH)).astype(np.float32) for n in (4, *counts))
    given = {"x": x, "c": np.array(draw(st.booleans())), "s0": s0}
    return model(made.nodes, inputs, made.outputs, made.constants), given
