"""Convolutions and pools beside ONNX Runtime: `taskset -c 1 python -m benchmarks.convolutions`

Each case is a model of its own, in turn on one core with arrays that are there before; the
least processor time of many rounds. Names that are given choose the cases.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import process_time
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

import rnncc

ROUNDS, SECONDS = 30, 0.004
"""How often each side has its turn, and about how long one is."""


@dataclass(frozen=True)
class Case:
    """One node, with an activation behind it where it has weights; or several behind each other.

    Attributes:
        x: the input's shape; of what stands behind another, nothing.
        weights: [M, C / groups, taps...], or none.
    """

    name: str
    op: str
    x: tuple[int, ...] = ()
    weights: tuple[int, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    activation: str = ""
    behind: tuple[Case, ...] = ()

    @property
    def model(self) -> Any:
        """As ONNX."""
        nodes, arrays = list[Any](), list[Any]()
        for number, case in enumerate((self, *self.behind)):
            case._add(number, nodes, arrays)
        x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, self.x)
        y = helper.make_tensor_value_info(nodes[-1].output[0], onnx.TensorProto.FLOAT, None)
        graph = helper.make_graph(nodes, "case", [x], [y], arrays)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)

    def _add(self, number: int, nodes: list[Any], arrays: list[Any]) -> None:
        """The nodes of one of several, and their weights."""
        inputs = [nodes[-1].output[0] if nodes else "x"]
        rng = np.random.default_rng(number)
        if self.weights:
            w = rng.standard_normal(self.weights) / math.sqrt(math.prod(self.weights[1:]))
            for name, array in ((f"w{number}", w), (f"b{number}", rng.random(self._outputs))):
                arrays.append(numpy_helper.from_array(array.astype(np.float32), name))
                inputs.append(name)
        nodes.append(helper.make_node(self.op, inputs, [f"z{number}"], **self.attributes))
        if self.activation:
            nodes.append(helper.make_node(self.activation, [f"z{number}"], [f"y{number}"]))

    @property
    def _outputs(self) -> int:
        if self.op != "ConvTranspose":
            return self.weights[0]
        return self.weights[1] * self.attributes.get("group", 1)


def _conv(
    name: str, x: Sequence[int], w: Sequence[int], activation: str = "Relu", **attributes: Any
) -> Case:
    pads = [(taps - 1) // 2 for taps in w[2:]]
    attributes = {"pads": [*pads, *pads], **attributes}
    return Case(name, "Conv", tuple(x), tuple(w), attributes, activation)


CASES = [
    _conv("1-D k=3 64->64", (1, 64, 500), (64, 64, 3)),
    _conv("1-D k=1 128->128", (1, 128, 500), (128, 128, 1)),
    _conv("1-D k=3 dilation 4", (1, 64, 500), (64, 64, 3), dilations=[4], pads=[4, 4]),
    _conv("1-D k=5 stride 2", (1, 64, 500), (64, 64, 5), strides=[2]),
    _conv("1-D depthwise k=5", (1, 128, 500), (128, 1, 5), group=128),
    _conv("2-D 3x3 32->32", (1, 32, 32, 100), (32, 32, 3, 3)),
    _conv("2-D 3x3 64->64 small", (1, 64, 8, 25), (64, 64, 3, 3)),
    _conv("2-D 3x3 1->32 stride 2", (1, 1, 80, 200), (32, 1, 3, 3), strides=[2, 2]),
    _conv("2-D 3x3 1->32", (1, 1, 32, 100), (32, 1, 3, 3)),
    _conv("2-D 3x3 3->32 stride 2", (1, 3, 64, 128), (32, 3, 3, 3), strides=[2, 2]),
    _conv("2-D 1x1 64->64", (1, 64, 16, 50), (64, 64, 1, 1)),
    _conv("2-D 5x5 16->32 groups 4", (1, 16, 32, 50), (32, 4, 5, 5), group=4),
    _conv("2-D depthwise 3x3", (1, 64, 32, 50), (64, 1, 3, 3), group=64),
    _conv("2-D depthwise 3x3 stride 2", (1, 64, 32, 50), (64, 1, 3, 3), group=64, strides=[2, 2]),
    Case(
        "2-D transposed 4x4 stride 2",
        "ConvTranspose",
        (1, 32, 16, 25),
        (32, 16, 4, 4),
        {"strides": [2, 2], "pads": [1, 1, 1, 1]},
        "Relu",
    ),
    Case(
        "MaxPool 2x2", "MaxPool", (1, 64, 32, 50), (), {"kernel_shape": [2, 2], "strides": [2, 2]}
    ),
    Case(
        "MaxPool 3x3 same",
        "MaxPool",
        (1, 64, 32, 50),
        (),
        {"kernel_shape": [3, 3], "pads": [1] * 4},
    ),
    Case(
        "AveragePool 2x2",
        "AveragePool",
        (1, 64, 32, 50),
        (),
        {"kernel_shape": [2, 2], "strides": [2, 2]},
    ),
    Case("MaxPool 1-D 2", "MaxPool", (1, 64, 500), (), {"kernel_shape": [2], "strides": [2]}),
    Case("GlobalAveragePool", "GlobalAveragePool", (1, 64, 32, 50)),
    replace(
        _conv("a stem of an image", (1, 1, 32, 100), (32, 1, 3, 3)),
        behind=(
            Case("", "MaxPool", attributes={"kernel_shape": [2, 2], "strides": [2, 2]}),
            _conv("", (), (64, 32, 3, 3)),
            Case("", "MaxPool", attributes={"kernel_shape": [2, 2], "strides": [2, 2]}),
            _conv("", (), (64, 64, 3, 3)),
        ),
    ),
    replace(
        _conv("a stem of blocks", (1, 3, 64, 128), (32, 3, 3, 3), strides=[2, 2]),
        behind=(
            _conv("", (), (32, 1, 3, 3), group=32),
            _conv("", (), (64, 32, 1, 1)),
            _conv("", (), (64, 1, 3, 3), group=64, strides=[2, 2]),
            _conv("", (), (128, 64, 1, 1)),
            Case("", "GlobalAveragePool"),
        ),
    ),
]


def sides(case: Case) -> tuple[Callable[[], object], Callable[[], object]]:
    """A call of rnncc and one of ONNX Runtime, with arrays that are bound before.

    Raises:
        AssertionError: they differ.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    model = case.model
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    x = np.random.default_rng(1).standard_normal(case.x).astype(np.float32)
    ours = rnncc.compile(model)
    [(name, y)] = ours.run({"x": x}).items()
    theirs = np.asarray(session.run(None, {"x": x})[0])
    np.testing.assert_allclose(y, theirs, 1e-4, 1e-5)
    binding, out = session.io_binding(), {name: y}
    binding.bind_cpu_input("x", x)
    binding.bind_output(name, "cpu", 0, np.float32, theirs.shape, theirs.ctypes.data)

    def call(kept: object = theirs) -> None:
        session.run_with_iobinding(binding)

    return lambda: ours.run({"x": x}, out=out), call


def measured(both: Sequence[Callable[[], object]]) -> list[float]:
    """Seconds of processor time of a call of each, in turn."""
    times: list[list[float]] = [[] for _ in both]
    counts = [_calls(side) for side in both]
    for _ in range(ROUNDS):
        for side, spent, count in zip(both, times, counts, strict=True):
            start = process_time()
            for _ in range(count):
                side()
            spent.append((process_time() - start) / count)
    return [min(spent) for spent in times]


def _calls(side: Callable[[], object]) -> int:
    side()
    start = process_time()
    side()
    return max(1, int(SECONDS / (process_time() - start)))


def main() -> None:
    """Measure the cases whose names hold one of those that are given; all of none."""
    print("| case | rnncc, us | ONNX Runtime, us | ONNX Runtime's time over ours |")
    print("|---|---|---|---|")
    for case in CASES:
        if len(sys.argv) > 1 and not any(word in case.name for word in sys.argv[1:]):
            continue
        ours, theirs = (1e6 * seconds for seconds in measured(sides(case)))
        print(f"| {case.name} | {ours:.1f} | {theirs:.1f} | {theirs / ours:.2f} |", flush=True)


if __name__ == "__main__":
    main()
