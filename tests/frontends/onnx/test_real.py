"""Published models against ONNX Runtime: 200 random frames, the state carried; also through C."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest

import rnncc
from tests.frontends.onnx.models import Arrays, assert_close

pytest.importorskip("onnx")
MODELS = Path(__file__).parents[4] / "shared/models"
FRAMES = 200


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
each = pytest.mark.parametrize("case", PUBLISHED, ids=lambda case: case.name)
there = pytest.mark.skipif(not MODELS.exists(), reason="the published models are not here")


def frames(case: Published) -> np.ndarray[Any, Any]:
    shape = (FRAMES, *case.x[1])
    return (np.random.default_rng(0).standard_normal(shape) * 0.3).astype(np.float32)


@there
@pytest.mark.peers
@each
def test_frames_with_state(case: Published) -> None:
    """Each side carries its own state; a stream and `run` give the same bits."""
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(case.path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    given, shape, following = case.state
    model = rnncc.compile(case.path, shapes=case.shapes, state={given: following})
    stream = model.stream()
    theirs = ours = np.zeros(shape, np.float32)
    for frame in frames(case):
        inputs = {case.x[0]: frame, **case.fixed}
        want = dict(zip(names, session.run(None, {**inputs, given: theirs}), strict=True))
        got = model.run({**inputs, given: ours})
        assert_close(got, want)
        steps = stream.step(inputs)
        assert all(np.array_equal(steps[name], got[name]) for name in got)
        theirs, ours = want[following], got[following]


MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "dtln_1.h"

int main(void) {
    static float x[257], y[257];
    void *state = aligned_alloc(64, dtln_1_state_bytes(1));
    void *workspace = aligned_alloc(64, dtln_1_workspace_bytes(1, 1));
    dtln_1_inputs inputs = {.input_2 = x};
    dtln_1_outputs outputs = {.activation_2 = y};
    float zeros[512] = {0};
    inputs.input_3 = zeros;
    int code = dtln_1_state_init(&inputs, state, workspace, 1);
    inputs.input_3 = 0;
    while (!code && fread(x, sizeof x, 1, stdin) == 1) {
        code = dtln_1_step(&inputs, &outputs, state, workspace, 1, 1);
        fwrite(y, sizeof y, 1, stdout);
    }
    return code;
}
"""


@there
def test_frames_through_c(tmp_path: Path) -> None:
    case = PUBLISHED[0]
    given, _, following = case.state
    rnncc.build(case.path, out=tmp_path, products=["a", "h"], state={given: following})
    (tmp_path / "main.c").write_text(MAIN)
    command = ["cc", "-O1", "-o", "main", "main.c", "libdtln_1.a", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    made = subprocess.run(
        [tmp_path / "main"], input=frames(case).tobytes(), capture_output=True, check=True
    ).stdout
    stream = rnncc.compile(case.path, state={given: following}).stream()
    want = [stream.step({case.x[0]: frame})["activation_2"] for frame in frames(case)]
    np.testing.assert_array_equal(np.frombuffer(made, np.float32), np.ravel(want))


LEAST = {"dtln_1": 2.0, "dtln_2": 1.5, "silero_16k_op15": 1.5}
"""How many times as fast as ONNX Runtime a frame is at least."""


@there
@pytest.mark.slow
@pytest.mark.peers
@each
def test_speed_beside_onnxruntime(case: Published) -> None:
    """Both in turn on one core, arrays made before; medians of many rounds."""
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(case.path, options, providers=["CPUExecutionProvider"])
    given, shape, _ = case.state
    model = rnncc.compile(case.path, shapes=case.shapes)
    inputs = {case.x[0]: frames(case)[0], given: np.zeros(shape, np.float32), **case.fixed}
    outputs = model.run(inputs)
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_cpu_input(name, array)
    for name, array in outputs.items():
        place = array.ctypes.data
        binding.bind_output(name, "cpu", 0, np.float32, array.shape, place)
    sides = (lambda: model.run(inputs, outputs), lambda: session.run_with_iobinding(binding))
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(60):
        for side, spent in zip(sides, times, strict=True):
            start = perf_counter()
            for _ in range(100):
                side()
            spent.append(perf_counter() - start)
    ours, theirs = (float(np.median(spent[10:])) * 1e4 for spent in times)
    print(f"{case.name}: rnncc {ours:.1f} us, ONNX Runtime {theirs:.1f} us a frame")
    assert theirs / ours >= LEAST[case.name]
