"""Nets of HSoftmax, and their trees of words."""

from __future__ import annotations

from typing import Any

from rnncc.netdef import NetDef
from rnncc.netdef.netdef_pb2 import HierarchyProto, PathNodeProto, PathProto
from tests.frontends.caffe2.nets import net, op

Path = list[tuple[int, int, int]]
PATHS: list[Path] = [[(0, 3, 0)], [(0, 3, 1), (3, 2, 1)], [(0, 3, 2), (5, 4, 3), (9, 2, 0)]]
ROWS, WIDTH = 11, 5


def tree(paths: list[Path], order: tuple[int, ...] = ()) -> bytes:
    """The argument `hierarchy`; the words in that order."""
    words = order or tuple(range(len(paths)))
    made = [
        PathProto(
            word_id=word,
            path_nodes=[PathNodeProto(index=i, length=n, target=t) for i, n, t in path],
        )
        for word, path in zip(words, paths, strict=True)
    ]
    return HierarchyProto(size=ROWS, paths=made).SerializeToString()


def made(hierarchy: Any, gradient: bool = False) -> NetDef:
    """HSoftmax of x, w, b and labels, and its gradient."""
    ops = [op("HSoftmax", "x w b labels", "y scratch", hierarchy=hierarchy)]
    if gradient:
        of_gradient = "x w b labels scratch dy", "dx dw db dscratch"
        ops.append(op("HSoftmaxGradient", *of_gradient, hierarchy=hierarchy))
    inputs = "x w b labels" + " dy" * gradient
    return net(ops, inputs, "y" + " dx dw db" * gradient)


def shapes() -> dict[str, Any]:
    return {"x": f"N,{WIDTH}", "w": (ROWS, WIDTH), "b": (ROWS,), "labels": "N"}


def misread(kind: str) -> tuple[NetDef, dict[str, Any]]:
    """A net that gives what an operator's last output holds."""
    read = made(tree(PATHS), gradient=True)
    read.external_output[:] = ["scratch" if kind == "HSoftmax" else "dscratch"]
    return read, {**shapes(), "dy": "N"}


def doubled(kind: str) -> tuple[NetDef, dict[str, Any]]:
    """A net whose tree has a word twice."""
    return made(tree(PATHS, (0, 1, 1))), shapes()
