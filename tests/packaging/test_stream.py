"""A C program that feeds a compiled net piece by piece and saves its state."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import rnncc_runtime
from rnncc_runtime import Model

import rnncc
from rnncc.packaging.compiled import Artifacts
from tests.golden import GOLDEN

CASE = GOLDEN / "caffe2" / "lstm_two_layers"
STRICT = "-Wall -Wextra -Wpedantic -Wconversion -Werror".split()
MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "net.h"

enum { T = 9, N = 2, IN = 5, H = 6, OUT = 8 };

static void *block(size_t bytes) { return aligned_alloc(64, (bytes + 63) / 64 * 64); }

int main(void) {
    static float x[T][N][IN], h0[N][H], c0[N][H], h1[N][OUT], c1[N][OUT];
    static float whole[T][N][OUT], pieces[T][N][OUT], last[N][OUT], whole_last[N][OUT];
    const int32_t lengths[N] = {9, 4};
    const int64_t chunks[] = {1, 0, 3, 1, 4};
    for (int i = 0; i < T * N * IN; i++) ((float *)x)[i] = (float)(i % 13) / 13.0f - 0.4f;
    h0[0][0] = 0.5f;
    c1[1][2] = -0.5f;
    const net_inputs all = {.x = x[0][0], .seq_lengths = lengths, .h0_0 = h0[0], .c0_0 = c0[0],
        .h0_1 = h1[0], .c0_1 = c1[0]};
    const net_outputs everything = {.rnn_layer_1_hidden_state_all = whole[0][0],
        .rnn_layer_1_hidden_state_last = whole_last[0]};
    void *workspace = block(net_workspace_bytes(T, N));
    if (net_run(&all, &everything, workspace, T, N)) return 1;

    size_t bytes = net_state_bytes(N);
    void *state = block(bytes);
    net_inputs begin = all;
    begin.x = NULL;
    if (net_state_init(&begin, state, workspace, N)) return 2;
    int64_t t = 0;
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        const net_inputs inputs = {.x = x[t][0]};
        const net_outputs outputs = {.rnn_layer_1_hidden_state_all = pieces[t][0],
            .rnn_layer_1_hidden_state_last = last[0]};
        void *moved = block(bytes);
        memcpy(moved, state, bytes);
        memset(state, 255, bytes);
        free(state);
        state = moved;
        if (net_step(&inputs, &outputs, state, workspace, chunks[i], N)) return 3;
        t += chunks[i];
    }
    const net_inputs nothing = {.x = NULL};
    if (net_step(&nothing, &everything, state, workspace, 1, N) != 1) return 4;
    if (net_state_bytes(-1) != (size_t)-1) return 5;
    printf("%d %d %.4f\\n", memcmp(whole, pieces, sizeof whole),
        memcmp(whole_last, last, sizeof last), (double)last[0][0]);
    free(state);
    free(workspace);
    return 0;
}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Artifacts:
    out = tmp_path_factory.mktemp("net")
    return rnncc.build(CASE / "net.pb", CASE / "init.pb", out=out, name="net")


def test_c_program(built: Artifacts, tmp_path: Path) -> None:
    assert built.library is not None
    folder = built.library.parent
    (tmp_path / "main.c").write_text(MAIN)
    linked = [f"-I{folder}", "main.c", f"-L{folder}", "-lnet", f"-Wl,-rpath,{folder}"]
    subprocess.run(["cc", "-std=c11", *STRICT, *linked, "-o", "main"], cwd=tmp_path, check=True)
    told = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    model = rnncc_runtime.load(built.library)
    assert isinstance(model, Model)
    x = (np.arange(9 * 2 * 5) % 13).astype(np.float32).reshape(9, 2, 5) / np.float32(13)
    zeros = {name: np.zeros(s, np.float32) for name, s in shapes(model).items()}
    zeros["h0_0"][0, 0, 0], zeros["c0_1"][0, 1, 2] = 0.5, -0.5
    lengths = np.array([9, 4], np.int32)
    outputs = model.run({"x": x - np.float32(0.4), "seq_lengths": lengths, **zeros})
    assert told == f"0 0 {outputs['rnn/layer_1/hidden_state_last'][0, 0, 0]:.4f}\n"


def shapes(model: Model) -> dict[str, list[int]]:
    """Of the initial states, for a batch of two."""
    initial = {n: s for n, s in model.inputs.items() if n[:2] in ("h0", "c0")}
    return {n: [2 if size == "N" else int(size) for size in s.shape] for n, s in initial.items()}


@pytest.mark.parametrize("standard", ["c99", "c++11"])
def test_the_header_is_clean(built: Artifacts, standard: str) -> None:
    assert built.header is not None
    language = "c++" if "+" in standard else "c"
    flags = [f"-std={standard}", *STRICT, "-x", language, "-fsyntax-only"]
    subprocess.run(["cc", *flags, built.header], check=True)


def test_the_header_tells_of_the_state(built: Artifacts) -> None:
    assert built.header is not None
    text = built.header.read_text()
    assert "size_t net_state_bytes(int64_t N);" in text
    assert "Bytes of the state: " in text
    assert max(map(len, text.splitlines())) <= 120


def test_python_module(built: Artifacts) -> None:
    assert built.wrapper is not None
    code = (
        "import net, numpy as np; stream = net.stream(batch=2)\n"
        "y = stream.step({'x': np.ones((2, 5), 'f4')})['rnn/layer_1/hidden_state_all']\n"
        "print(y.shape)"
    )
    command = [sys.executable, "-B", "-c", code]
    told = subprocess.run(command, cwd=built.wrapper.parent, capture_output=True, check=True)
    assert told.stdout == b"(2, 8)\n"


def test_a_net_without_steps_has_no_such_functions(tmp_path: Path) -> None:
    case = GOLDEN / "caffe2" / "lstm_bidirectional"
    made = rnncc.build(case / "net.pb", case / "init.pb", out=tmp_path, name="net")
    assert made.header is not None
    assert "state" not in made.header.read_text().replace("hidden_state", "").replace(
        "keeps no state", ""
    )
