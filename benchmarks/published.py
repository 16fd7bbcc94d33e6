"""Published ONNX models beside ONNX Runtime: `taskset -c 1 python -m benchmarks.published`

The models are not the repository's: they lie beside it, in ../shared/models.

Frame by frame, both in turn on one core, with arrays that are there before; medians of many rounds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import rnncc

MODELS = Path(__file__).parents[2] / "shared/models"
FRAMES = 200
ROUNDS, CALLS = 60, 100

Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass
class Published:
    """A model of one step.

    Attributes:
        x: the input that is new in each step, and its shape.
        state: the input of the state, its shape, and the output that is the next one.
        shapes: sizes that the file leaves open.
        fixed: what else it takes.
    """

    name: str
    x: tuple[str, tuple[int, ...]]
    state: tuple[str, tuple[int, ...], str]
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    fixed: Arrays = field(default_factory=dict[str, Any])

    @property
    def path(self) -> Path:
        return MODELS / f"{self.name}.onnx"


PUBLISHED = [
    Published(
        "dtln_1", ("input_2", (1, 1, 257)), ("input_3", (1, 2, 128, 2), "tf_op_layer_stack_2")
    ),
    Published(
        "dtln_2", ("input_4", (1, 1, 512)), ("input_5", (1, 2, 128, 2), "tf_op_layer_stack_5")
    ),
    Published(
        "silero_16k_op15",
        ("input", (1, 576)),
        ("state", (2, 1, 128), "stateN"),
        {"input": (1, 576), "state": (2, 1, 128)},
        {"sr": np.array(16000)},
    ),
]


def frames(case: Published) -> np.ndarray[Any, Any]:
    """Random ones."""
    shape = (FRAMES, *case.x[1])
    return (np.random.default_rng(0).standard_normal(shape) * 0.3).astype(np.float32)


def sides(case: Published) -> tuple[Callable[[], object], Callable[[], object]]:
    """A frame by a stream of rnncc, and by ONNX Runtime with arrays that are bound before."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(case.path, options, providers=["CPUExecutionProvider"])
    state, shape, next_state = case.state
    new = {case.x[0]: frames(case)[0], **case.fixed}
    inputs = {**new, state: np.zeros(shape, np.float32)}
    outputs = rnncc.compile(case.path, shapes=case.shapes).run(inputs)
    stream = rnncc.compile(case.path, shapes=case.shapes, state={state: next_state}).stream()
    out = {name: array for name, array in outputs.items() if name in stream.outputs}
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_cpu_input(name, array)
    for name, array in outputs.items():
        binding.bind_output(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
    return lambda: stream.step(new, out=out), lambda: session.run_with_iobinding(binding)


def main() -> None:
    """Measure all."""
    if not MODELS.is_dir():
        sys.exit(f"the published models are not here: they are looked for in {MODELS}")
    for case in PUBLISHED:
        both = sides(case)
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(ROUNDS):
            for side, spent in zip(both, times, strict=True):
                start = perf_counter()
                for _ in range(CALLS):
                    side()
                spent.append((perf_counter() - start) / CALLS)
        ours, theirs = (float(np.median(spent)) * 1e6 for spent in times)
        ratio = f"{theirs / ours:.2f} times"
        print(f"{case.name}: rnncc {ours:.1f} us a frame, ONNX Runtime {theirs:.1f} us: {ratio}")


if __name__ == "__main__":
    main()
