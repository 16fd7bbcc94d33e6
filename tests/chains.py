"""Nets of any length, a family of operators each: what a chain of them costs.

`python -m tests.chains [FAMILY...] [--train]` prints the seconds that nets of 500, 1000, ... take,
up to their kernels.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rnncc.driver.compiling import build_library
from rnncc.netdef import NetDef
from rnncc.options import Options
from tests.frontends.caffe2.nets import op
from tests.frontends.onnx.models import graph, info, model, node

LENGTHS = (500, 1000, 2000, 4000)
EYE = np.eye(4, dtype=np.float32)
ROW = np.arange(4, dtype=np.float32)


@dataclass(frozen=True)
class Family:
    """Chains of one kind.

    Attributes:
        link: number, input, output -> the nodes of one link.
        length: one that CI takes a moment for.
    """

    link: Callable[[int, str, str], list[Any]]
    constants: dict[str, Any] = field(default_factory=dict[str, Any])
    length: int = 50

    def model(self, length: int) -> bytes:
        """An ONNX model that maps x [N, 4] to y."""
        nodes = [n for i in range(length) for n in self.link(i, *_ends(i, length))]
        outputs = [info("y", None)]
        return model(nodes, [info("x", ["N", 4])], outputs, self.constants).SerializeToString()


def _ends(i: int, length: int) -> tuple[str, str]:
    return f"v{i}" if i else "x", f"v{i + 1}" if i + 1 < length else "y"


def _branch(i: int, a: str, b: str) -> list[Any]:
    then, other = (
        graph([node(kind, a, f"{kind}{i}")], [], [info(f"{kind}{i}", None)])
        for kind in ("Tanh", "Neg")
    )
    flag = [node("ReduceSum", a, f"s{i}", keepdims=0), node("Greater", f"s{i} zero", f"f{i}")]
    return [*flag, node("If", f"f{i}", b, then_branch=then, else_branch=other)]


def _recurrent(kind: str) -> Callable[[int, str, str], list[Any]]:
    return lambda i, a, b: [
        node("Unsqueeze", f"{a} axis0", f"x{i}"),
        node(kind, f"x{i} W R", f"_ h{i}", hidden_size=4),
        node("Squeeze", f"h{i} axis0", b),
    ]


AXIS = {"axis0": np.array([0])}
ENDS = {"one": np.array([1]), "last": np.array([2**62]), **AXIS}
FAMILIES: dict[str, Family] = {
    "views": Family(
        lambda i, a, b: [node("Transpose", a, f"t{i}"), node("Reshape", f"t{i} dims", b)],
        {"dims": np.array([4, -1])},
    ),
    "unary": Family(lambda i, a, b: [node(("Tanh", "Neg")[i % 2], a, b)]),
    "sums": Family(lambda i, a, b: [node("Add", f"{a} row", b)], {"row": ROW}),
    "same twice": Family(lambda i, a, b: [node("Add", f"{a} {a}", b)]),
    "residual": Family(
        lambda i, a, b: [
            node("MatMul", f"{a} w", f"m{i}"),
            node("Relu", f"m{i}", f"r{i}"),
            node("Add", f"r{i} {a}", b),
        ],
        {"w": EYE},
        25,
    ),
    "one for all": Family(
        lambda i, a, b: [node("Less", f"{a} x", f"l{i}"), node("Where", f"l{i} x {a}", b)],
    ),
    "reductions": Family(
        lambda i, a, b: [node("ReduceSum", a, f"s{i}", keepdims=1), node("Add", f"s{i} {a}", b)],
        length=60,
    ),
    "rows less their sums": Family(
        lambda i, a, b: [
            node("ReduceSum", f"{a} axis", f"s{i}", keepdims=1),
            node("Sub", f"{a} s{i}", b),
        ],
        {"axis": np.array([1])},
        12,
    ),
    "products": Family(lambda i, a, b: [node("MatMul", f"{a} w", b)], {"w": EYE}),
    "slices": Family(
        lambda i, a, b: [
            node("Split", a, f"p{i} q{i}", axis=1),
            node("Concat", f"q{i} p{i}", b, axis=1),
        ]
    ),
    "queue": Family(
        lambda i, a, b: [
            node("Concat", f"{a} w", f"c{i}", axis=0),
            node("Slice", f"c{i} one last axis0", b),
        ],
        {"w": EYE[:1], **ENDS},
    ),
    "longer": Family(lambda i, a, b: [node("Concat", f"{a} x", b, axis=0)]),
    "gathers": Family(
        lambda i, a, b: [node("Gather", f"{a} order", b, axis=1)],
        {"order": np.array([3, 1, 0, 2])},
    ),
    "running sums": Family(
        lambda i, a, b: [node("CumSum", f"{a} axis", b)], {"axis": np.array(1)}, 40
    ),
    "softmax": Family(lambda i, a, b: [node("Softmax", a, b)], length=14),
    "norms": Family(lambda i, a, b: [node("LayerNormalization", f"{a} row", b)], {"row": ROW}, 8),
    "layers": Family(_recurrent("RNN"), {"W": EYE[None], "R": EYE[None], **AXIS}, 12),
    "branches": Family(_branch, {"zero": np.float32(0)}, 9),
    "shapes": Family(
        lambda i, a, b: [
            node("Shape", a, f"s{i}"),
            node("Add", f"s{i} one", f"p{i}"),
            node("Sub", f"p{i} one", f"q{i}"),
            node("Reshape", f"{a} q{i}", f"r{i}"),
            node("Tanh", f"r{i}", b),
        ],
        {"one": np.array([1])},
    ),
}


def caffe2_net(length: int) -> NetDef:
    """Views, sums in place and copies, one after another."""
    net = NetDef(name="m", external_input=["x"], external_output=["y"])
    for i in range(length):
        a, b = _ends(i, length)
        net.op.extend(
            [
                op("Transpose", a, f"t{i}", axes=[1, 0]),
                op("Reshape", f"t{i}", f"r{i} old{i}", shape=[4, -1]),
                op("Tanh", f"r{i}", f"r{i}"),
                op("Copy", f"r{i}", b),
            ]
        )
    return net


def build(net: Any, **options: Any) -> None:
    """Up to planned kernels, without code."""
    chosen = Options(name="m", **options)
    build_library(net, None, chosen)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.chains", description=__doc__)
    parser.add_argument("families", nargs="*", choices=[[], *FAMILIES], default=[])
    parser.add_argument("--train", action="store_true")
    chosen = parser.parse_args()
    print(f"{'seconds for':14}", *(f"{n:>7}" for n in LENGTHS))
    for name in chosen.families or FAMILIES:
        print(f"{name:14}", end="")
        for length in LENGTHS:
            net, begun = FAMILIES[name].model(length), time.perf_counter()
            build(net, train=chosen.train)
            print(f" {time.perf_counter() - begun:7.2f}", end="")
            sys.stdout.flush()
        print()


if __name__ == "__main__":
    main()
