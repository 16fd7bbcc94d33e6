"""Published models against ONNX Runtime: 200 random frames, the state carried; also through C."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import rnncc
from benchmarks.published import PUBLISHED, Published, frames
from tests.frontends.onnx.models import assert_close

pytest.importorskip("onnx")


each = pytest.mark.parametrize("case", PUBLISHED, ids=lambda case: case.name)


@pytest.mark.shared
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
#include "model.h"

int main(void) {
    static float x[X_SIZE], y[Y_SIZE], zeros[STATE_SIZE];
    static const int64_t rate = 16000;
    void *state = aligned_alloc(64, model_state_bytes(1));
    void *workspace = aligned_alloc(64, model_workspace_bytes(1, 1));
    model_inputs inputs = {.X = x, .STATE = zeros FIXED};
    model_outputs outputs = {.Y = y};
    int code = model_state_init(&inputs, state, workspace, 1);
    inputs.STATE = 0;
    while (!code && fread(x, sizeof x, 1, stdin) == 1) {
        code = model_step(&inputs, &outputs, state, workspace, 1, 1);
        fwrite(y, sizeof y, 1, stdout);
    }
    (void)rate;
    return code;
}
"""


@pytest.mark.shared
@each
def test_frames_through_c(case: Published, tmp_path: Path) -> None:
    given, shape, following = case.state
    options = {"shapes": case.shapes, "state": {given: following}}
    rnncc.build(case.path, out=tmp_path, name="model", products=["a", "h"], **options)
    stream = rnncc.compile(case.path, **options).stream()
    [shown] = [name for name in stream.outputs if name != following]
    want = [stream.step({case.x[0]: frame, **case.fixed})[shown] for frame in frames(case)]
    words = {"X": case.x[0], "Y": shown, "STATE": given, "X_SIZE": np.prod(case.x[1])}
    words |= {"Y_SIZE": want[0].size, "STATE_SIZE": np.prod(shape)}
    words["FIXED"] = "".join(f", .{name} = &rate" for name in case.fixed)
    (tmp_path / "main.c").write_text(MAIN)
    defined = [f"-D{word}={value}" for word, value in words.items()]
    command = ["cc", "-O1", *defined, "-o", "main", "main.c", "libmodel.a", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    made = subprocess.run(
        [tmp_path / "main"], input=frames(case).tobytes(), capture_output=True, check=True
    ).stdout
    np.testing.assert_array_equal(np.frombuffer(made, np.float32), np.ravel(want))
