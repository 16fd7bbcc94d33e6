"""Published models against ONNX Runtime: 200 random frames, the state carried; also through C."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import rnncc
from benchmarks.published import MODELS, PUBLISHED, Published, frames
from tests.frontends.onnx.models import assert_close

pytest.importorskip("onnx")


each = pytest.mark.parametrize("case", PUBLISHED, ids=lambda case: case.name)
there = pytest.mark.skipif(not MODELS.exists(), reason="the published models are not here")


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
