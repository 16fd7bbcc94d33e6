"""The commands on ONNX files, and what is kept of them on disk."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import rnncc_runtime

import rnncc
from rnncc.cli import main
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.driver import cache
from rnncc.errors import CompileError
from rnncc.options import Options
from tests.frontends.onnx.models import info, model, node

ROOT = Path(__file__).parents[3]
GRU = str(ROOT / "examples/onnx/gru.onnx")
Capture = pytest.CaptureFixture[str]


def test_compile_and_run(tmp_path: Path, capsys: Capture) -> None:
    assert main(["compile", GRU, "--state", "h=h_next", "-o", str(tmp_path)]) == 0
    loaded = rnncc_runtime.load(tmp_path / "libgru.so")
    assert isinstance(loaded, rnncc_runtime.Model)
    stream, x = loaded.stream(), np.ones((1, 4), np.float32)
    first = [stream.step({"x": x})["y"] for _ in range(2)]
    np.savez(tmp_path / "in.npz", x=x, h=np.zeros((1, 16), np.float32))
    assert main(["run", GRU, "-i", str(tmp_path / "in.npz"), "-o", str(tmp_path / "y.npz")]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "y.npz")["y"], first[0])
    assert not np.array_equal(first[0], first[1])
    assert "gru_step" in (tmp_path / "gru.h").read_text()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", ["check", "plan", "inspect"])
def test_reports(command: str, capsys: Capture) -> None:
    assert main([command, GRU, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)
    assert main([command, GRU]) == 0
    assert "h_next" in capsys.readouterr().out


def test_inspect_says_what_is_not_supported(tmp_path: Path, capsys: Capture) -> None:
    made = model([node("Relux", "x", "y")], [info("x", [2])], [info("y", [2])])
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    assert main(["inspect", str(tmp_path / "m.onnx")]) == 0
    assert "no shapes: " in capsys.readouterr().out


def test_ops(capsys: Capture) -> None:
    assert main(["ops", "--onnx", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {"LSTM", "Scan", "com.microsoft.DynamicQuantizeLSTM"} <= set(listed["supported"])
    assert "StringConcat" in listed["refused"]
    assert main(["ops", "--onnx"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in (*listed["supported"], *listed["refused"]))


def test_an_init_net_is_refused(capsys: Capture) -> None:
    assert main(["compile", GRU, "--init", GRU]) == 2
    assert "an ONNX model holds its parameters itself" in capsys.readouterr().err


def test_any_source() -> None:
    x, h = np.ones((1, 4), np.float32), np.zeros((1, 16), np.float32)
    data = Path(GRU).read_bytes()
    results = [
        rnncc.compile(source).run({"x": x, "h": h})["y"] for source in (GRU, Path(GRU), data)
    ]
    assert all(np.array_equal(results[0], other) for other in results[1:])


STATES = {
    "a name that is no input": ({"z": "h_next"}, 'state: no input is named "z"'),
    "a name that is no output": ({"h": "z"}, 'state: no output is named "z"'),
    "a pair of several shapes": (
        {"h": "y"},
        'state: input "h" is f32 1 x 16, output "y" f32 1 x 2',
    ),
    "one output twice": ({"h": "h_next", "x": "h_next"}, 'input "x" is f32 1 x 4'),
    "a text without a sign": (["h"], "'h' is not of the form INPUT=OUTPUT"),
    "an input twice": (["h=h_next", "h=y"], "h is given twice"),
}


@pytest.mark.parametrize("name", STATES)
def test_states_that_do_not_fit(name: str) -> None:
    state, told = STATES[name]
    with pytest.raises(CompileError) as caught:
        rnncc.compile(GRU, state=state)
    assert told in str(caught.value)


def test_a_state_does_not_grow_with_the_steps_of_a_call() -> None:
    """Its bytes follow from the other sizes alone."""
    kept = model([node("Add", "h x", "n")], [info("h", "TN"), info("x", "TN")], [info("n", None)])
    with pytest.raises(CompileError, match='state: input "h" is T x N, which depends on T'):
        rnncc.compile(kept.SerializeToString(), state={"h": "n"})


def test_a_state_is_for_inference() -> None:
    with pytest.raises(CompileError, match="a kept state is for inference"):
        rnncc.compile(GRU, state={"h": "h_next"}, train=True)


def test_a_state_begins_where_the_user_says() -> None:
    whole = rnncc.compile(GRU)
    stream = rnncc.compile(GRU, state="h=h_next").stream(
        inputs={"h": np.full((1, 16), 0.5, np.float32)}
    )
    x = np.ones((1, 4), np.float32)
    want = whole.run({"x": x, "h": np.full((1, 16), 0.5, np.float32)})
    np.testing.assert_array_equal(stream.step({"x": x})["y"], want["y"])
    kept = stream.state
    again = stream.step({"x": x})["y"]
    stream.state = kept
    np.testing.assert_array_equal(stream.step({"x": x})["y"], again)


def test_training() -> None:
    """Gradients of an ONNX model by reverse mode, checked by the check command too."""
    made = rnncc.compile(GRU, train=True, outputs_with_grads=["y"])
    assert set(made.parameters) == {"W", "R", "B", "V"}


def test_a_sequence_streams_where_time_is_called_t() -> None:
    rng = np.random.default_rng(0)
    weights = {
        n: rng.standard_normal(s).astype("f4") for n, s in (("W", (1, 8, 3)), ("R", (1, 8, 2)))
    }
    made = model(
        [node("LSTM", "x W R", "y _ _", hidden_size=2)],
        [info("x", ["steps", "batch", 3])],
        [info("y", None)],
        weights,
    )
    compiled = rnncc.compile(made, shapes={"x": "T,N,?"})
    x = rng.standard_normal((7, 2, 3)).astype("f4")
    stream = compiled.stream()
    parts = [stream.step({"x": x[a:b]})["y"] for a, b in ((0, 3), (3, 4), (4, 7))]
    np.testing.assert_array_equal(np.concatenate(parts), compiled.run({"x": x})["y"])


def test_keys_follow_data_in_other_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from onnx import TensorProto

    monkeypatch.delenv("RNNCC_CACHE", raising=False)
    monkeypatch.setenv("RNNCC_CACHE_DIR", str(tmp_path / "cache"))
    made = model(
        [node("Add", "x w", "y")], [info("x", [4])], [info("y", [4])], {"w": np.ones(4, "f4")}
    )
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="w.bin")
    path, data = tmp_path / "m.onnx", tmp_path / "w.bin"
    path.write_bytes(made.SerializeToString())

    def key() -> str | None:
        target = resolve_target(None, None)
        return cache.key_of(path, None, Options.of(path, {}), target)

    data.write_bytes(np.ones(4, "f4").tobytes())
    x, before = np.zeros(4, np.float32), key()
    assert before is not None and before == key()
    assert rnncc.compile(path).run({"x": x})["y"].tolist() == [1, 1, 1, 1]
    data.write_bytes(np.arange(5, dtype="f4").tobytes()[:16] + b"more")
    assert key() != before
    assert rnncc.compile(path).run({"x": x})["y"].tolist() == [0, 1, 2, 3]
