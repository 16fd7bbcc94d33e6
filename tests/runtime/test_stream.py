"""Streams of models in memory and in libraries: chunks, states, what they refuse."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rnncc_runtime
from rnncc_runtime import ArrayError, Model, RunError, Stream, StreamError

import rnncc
from rnncc.ir.builder import Builder
from tests.codegen.compiled import model_of
from tests.golden import GOLDEN, Arrays, arrays_of

NO_LENGTHS = pytest.param("gru_no_lengths", marks=pytest.mark.shared)


def compiled(name: str) -> Model:
    return model_of(GOLDEN / "caffe2" / name)


@pytest.fixture
def lstm() -> Model:
    return compiled("lstm")


def given(model: Model, steps: int, batch: int, seed: int = 0) -> Arrays:
    """Random inputs; sequences end within the steps."""
    rng = np.random.default_rng(seed)
    sizes = {"T": steps, "N": batch, "S": 4}
    arrays: Arrays = {}
    for name, spec in model.inputs.items():
        shape = [size if isinstance(size, int) else sizes[size] for size in spec.shape]
        most = sizes["S" if name.startswith("enc") else "T"]
        floats = rng.standard_normal(shape).astype(np.float32)
        lengths = rng.integers(1, most + 1, shape).astype(np.int32)
        arrays[name] = floats if spec.dtype == np.float32 else lengths
    return arrays


def parts(stream: Stream, inputs: Arrays, chunks: Sequence[int]) -> list[Arrays]:
    results: list[Arrays] = []
    at = 0
    for chunk in chunks:
        results.append(stream.step({n: inputs[n][at : at + chunk] for n in stream.inputs}))
        at += chunk
    return results


def starts(stream: Stream, inputs: Arrays) -> Arrays:
    return {name: inputs[name] for name in stream.starts}


def check(results: list[Arrays], whole: Arrays) -> None:
    for name, want in whole.items():
        pieces = [result[name] for result in results]
        got = pieces[-1] if name.endswith("_last") else np.concatenate(pieces)
        np.testing.assert_array_equal(got, want, err_msg=name, strict=True)


@pytest.mark.parametrize("name", ["lstm", "attention_recurrent", NO_LENGTHS])
def test_chunks_are_the_whole_in_memory_and_in_a_library(name: str, tmp_path: Path) -> None:
    case = GOLDEN / "caffe2" / name
    made = rnncc.build(case / "net.pb", case / "init.pb", out=tmp_path)
    assert made.library is not None
    loaded = rnncc_runtime.load(made.library)
    assert isinstance(loaded, Model)
    inputs = given(loaded, 9, 3)
    whole = loaded.run(inputs)
    for model in (loaded, compiled(name)):
        stream = model.stream()
        stream.reset(starts(stream, inputs))
        check(parts(stream, inputs, (1, 0, 5, 3)), whole)
        stream.reset(starts(stream, inputs))
        check(parts(stream, inputs, (9,)), whole)


def test_what_caffe2_computed_step_by_step(lstm: Model) -> None:
    case = GOLDEN / "caffe2" / "lstm"
    inputs, whole = arrays_of(case, "in:"), arrays_of(case, "out:")
    stream = lstm.stream(inputs={n: a for n, a in inputs.items() if n != "x"})
    results = parts(stream, inputs, [1] * len(inputs["x"]))
    all_steps = np.concatenate([result["rnn/hidden_state_all"] for result in results])
    np.testing.assert_allclose(all_steps, whole["rnn/hidden_state_all"], 1e-5, 1e-5)


def test_a_state_goes_on_elsewhere(lstm: Model) -> None:
    inputs = given(lstm, 6, 2)
    first, second = lstm.stream(batch=2), lstm.stream()
    first.reset(starts(first, inputs))
    before = parts(first, inputs, (2, 1))
    second.state = first.state
    assert second.state == first.state
    rest = {**inputs, "x": inputs["x"][3:]}
    check([*before, *parts(second, rest, (1, 2))], lstm.run(inputs))
    check([*before, *parts(first, rest, (3,))], lstm.run(inputs))


def test_states_begin_as_zeros_and_sequences_have_no_end(lstm: Model) -> None:
    inputs = given(lstm, 3, 2)
    zeros = {name: np.zeros((1, 2, 6), np.float32) for name in ("h0_0", "c0_0")}
    whole = lstm.run({**inputs, **zeros, "seq_lengths": np.full(2, 3, np.int32)})
    stream = lstm.stream(batch=2)
    check(parts(stream, inputs, (2, 1)), whole)
    stream.reset()
    check(parts(stream, inputs, (3,)), whole)
    check(parts(lstm.stream(), inputs, (1, 1, 1)), whole)  # the batch is that of the first step


def test_one_step_may_come_without_its_axis(lstm: Model) -> None:
    inputs = given(lstm, 2, 3)
    whole = parts(lstm.stream(), inputs, (1, 1))
    stream = lstm.stream(batch=3)
    for row, want in zip(inputs["x"], whole, strict=True):
        before = stream.state
        out = {"rnn/hidden_state_all": np.empty((3, 6), np.float32)}
        assert stream.step({"x": row}, out=out).keys() == out.keys()
        stream.state = before
        got = stream.step({"x": row})
        assert got["rnn/hidden_state_last"].shape == (1, 3, 6)
        for result in (out, got):
            same = want["rnn/hidden_state_all"][0]
            np.testing.assert_array_equal(result["rnn/hidden_state_all"], same, strict=True)


ALL = "rnn/hidden_state_all"


def test_steps_into_the_same_arrays(lstm: Model) -> None:
    """Whatever happens between two steps: a reset, a state, another length, a new workspace."""
    inputs = given(lstm, 12, 2)
    stream, plain = lstm.stream(batch=2), lstm.stream(batch=2)
    x, out = np.empty((1, 2, 5), np.float32), {ALL: np.empty((1, 2, 6), np.float32)}
    for t, row in enumerate(inputs["x"]):
        if t in (3, 4):
            stream.reset()
            plain.reset()
        if t in (6, 7):
            stream.state = plain.state = lstm.stream(batch=2).state
        if t in (9, 10):
            want, got = plain.step({"x": inputs["x"]}), stream.step({"x": inputs["x"]})
            np.testing.assert_array_equal(got[ALL], want[ALL])
        if t == 11:  # as for a step that needs more
            stream._reserve({"T": 1, "N": 50})
        x[0] = row
        assert stream.step({"x": x}, out=out)[ALL] is out[ALL]
        assert stream._last is not None
        assert stream._last.arguments[3] == stream._workspace.address
        np.testing.assert_array_equal(out[ALL], plain.step({"x": x})[ALL])


def test_steps_on_other_arrays_of_the_same_shapes(lstm: Model) -> None:
    inputs = given(lstm, 8, 1)
    stream, whole = lstm.stream(batch=1), parts(lstm.stream(batch=1), inputs, [1] * 8)
    outs = [{ALL: np.empty((1, 1, 6), np.float32)} for _ in range(3)]
    frozen = inputs["x"].copy()
    frozen.flags.writeable = False
    for t, want in enumerate(whole):
        x = (frozen if t % 3 == 2 else inputs["x"])[t : t + 1]
        got = stream.step({"x": x}, out=outs[t // 2 % 3])
        np.testing.assert_array_equal(got[ALL], want[ALL])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # NumPy 2.5: to set shape and dtype
def test_arrays_that_change_between_steps(lstm: Model) -> None:
    """An array's memory, shape, type or flags may be others than when it was checked."""
    rows = np.random.default_rng(0).standard_normal((4, 2, 5)).astype(np.float32)
    stream, plain = lstm.stream(batch=2), lstm.stream(batch=2)
    x: Any = rows[:1].copy()
    y = np.empty((1, 2, 6), np.float32)

    def check() -> None:
        for _ in range(2):
            want = plain.step({"x": x})[ALL]
            np.testing.assert_array_equal(stream.step({"x": x}, out={ALL: y})[ALL], want)

    check()
    x.resize((4096, 2, 5), refcheck=False)  # moves the memory
    y.resize((4096, 2, 6), refcheck=False)
    x[:] = rows[1]
    check()
    x.resize((1, 2, 5), refcheck=False)
    with pytest.raises(ArrayError, match="T is 1 in x but 4096 in output"):
        stream.step({"x": x}, out={ALL: y})
    y.resize((1, 2, 6), refcheck=False)
    check()
    before = stream.state
    y.flags.writeable = False
    with pytest.raises(ArrayError, match="must be contiguous, aligned and writeable"):
        stream.step({"x": x}, out={ALL: y})
    y.flags.writeable = True
    x.dtype = np.int32
    with pytest.raises(ArrayError, match="x is int32, expected float32"):
        stream.step({"x": x}, out={ALL: y})
    x.dtype = np.float32
    x.shape = (2, 1, 5)
    with pytest.raises(ArrayError, match="N is 2 in the stream but 1 in x"):
        stream.step({"x": x}, out={ALL: y})
    x.shape = (1, 2, 5)
    for wrong, message in (({}, "missing: x"), ({"x": x, "z": x}, "unknown: z")):
        with pytest.raises(ArrayError, match=message):
            stream.step(wrong, out={ALL: y})
    with pytest.raises(ArrayError, match="no output is named z"):
        stream.step({"x": x}, out={"z": y})
    assert stream.state == before
    check()


def test_what_steps_read_and_write_lies_apart(lstm: Model) -> None:
    stream, last = lstm.stream(batch=2), "rnn/hidden_state_last"
    memory = np.zeros(64, np.float32)
    x, y, z = (memory[at : at + n].reshape(1, 2, -1) for at, n in ((0, 10), (16, 12), (32, 12)))
    stream.step({"x": x}, out={ALL: y, last: z})
    before = stream.state
    inside = memory[4:16].reshape(1, 2, 6)
    with pytest.raises(ArrayError, match=f"output {ALL} overlaps input x"):
        stream.step({"x": x}, out={ALL: inside, last: z})
    with pytest.raises(ArrayError, match=f"output {last} overlaps output {ALL}"):
        stream.step({"x": x}, out={ALL: y, last: memory[20:32].reshape(1, 2, 6)})
    assert stream.state == before


def test_what_a_beginning_refuses(lstm: Model) -> None:
    attention = compiled("attention_recurrent")
    with pytest.raises(ArrayError, match="missing: enc "):
        attention.stream(batch=2)
    with pytest.raises(ArrayError, match="missing: enc "):
        attention.stream().step({"dec": np.zeros((1, 2, 5), np.float32)})
    with pytest.raises(ArrayError, match=r"unknown: x \(it takes: seq_lengths, h0_0, c0_0\)"):
        lstm.stream(inputs={"x": np.zeros((1, 2, 5), np.float32)})
    with pytest.raises(ArrayError, match="a stream's first inputs are int, expected arrays by"):
        lstm.stream(inputs=3)  # type: ignore[arg-type]
    with pytest.raises(ArrayError, match=r"batch is 1\.5, expected an integer"):
        lstm.stream(batch=1.5)  # type: ignore[arg-type]
    with pytest.raises(ArrayError, match="batch is no number of 64 bits"):
        lstm.stream(batch=2**70)
    with pytest.raises(ArrayError, match="N is 3 in h0_0 but 2 in the stream"):
        lstm.stream(batch=2, inputs={"h0_0": np.zeros((1, 3, 6), np.float32)})
    with pytest.raises(ArrayError, match="h0_0 is float64, expected float32"):
        lstm.stream(batch=2, inputs={"h0_0": np.zeros((1, 2, 6))})
    with pytest.raises(RunError, match=r"too large .*\(N = 2147483648\)"):
        lstm.stream(batch=2**31)


@pytest.mark.parametrize("inputs", [0, "", [], np.zeros(3)], ids=repr)
def test_a_beginning_with_no_arrays_by_name(lstm: Model, inputs: Any) -> None:
    stream = lstm.stream(batch=2)
    with pytest.raises(ArrayError, match="expected arrays by name"):
        stream.reset(inputs)


def test_what_a_step_refuses(lstm: Model) -> None:
    stream = lstm.stream(batch=2)
    x = np.zeros((3, 2, 5), np.float32)
    before = stream.state
    wrong: list[tuple[Arrays, str]] = [
        ({}, "missing: x"),
        ({"x": x[:, :1]}, "N is 2 in the stream but 1 in x"),
        ({"x": x[..., :4]}, "axis 2 is 4, expected 5"),
        ({"x": x[0, 0]}, r"x has shape \[5\], expected \[T, N, 5\]"),
        ({"x": x.astype(np.float64)}, "x is float64, expected float32"),
        ({"x": x, "h0_0": x}, "unknown: h0_0"),
    ]
    for inputs, message in wrong:
        with pytest.raises(ArrayError, match=message):
            stream.step(inputs)
    short = {"rnn/hidden_state_all": np.empty((2, 2, 6), np.float32)}
    with pytest.raises(ArrayError, match="T is 3 in x but 2 in output rnn/hidden_state_all"):
        stream.step({"x": x}, out=short)
    assert stream.state == before


def test_sizes_that_steps_alone_show() -> None:
    """Neither the beginning nor the batch tells them: the sequences begin with the first step."""
    onnx = pytest.importorskip("onnx")
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[T, N, W] x, float[N, 2] s) => (float[T, N, 2] y) {
      k = Constant <value = float[1, 1, 4] {1, 1, 1, 1}> () w = Slice (x, a, e, z) v = Add (w, k)
      m = ReduceMean <axes = [2], keepdims = 1> (v) y = Add (m, s)
    }"""
    made = onnx.parser.parse_model(text)  # of W, the last four are read: there have to be as many
    for name, value in (("a", -4), ("e", 1 << 40), ("z", 2)):
        made.graph.initializer.append(onnx.numpy_helper.from_array(np.array([value]), name))
    model = rnncc.compile(made)
    start, x = np.ones((3, 2), np.float32), np.full((1, 3, 5), 2, np.float32)
    stream = model.stream(3, {"s": start})
    start[:] = 7
    with pytest.raises(StreamError, match="no state yet"):
        assert stream.state
    for each in (pickle.loads(pickle.dumps(stream)), stream):
        np.testing.assert_array_equal(each.step({"x": x})["y"], np.full((1, 3, 2), 4))
    with pytest.raises(ArrayError, match="W is 5 in the stream but 6 in x"):
        stream.step({"x": np.ones((1, 3, 6), np.float32)})
    with pytest.raises(ArrayError, match="N is 3 in s but 2 in the stream"):
        model.stream(2, {"s": start})


def test_a_batch_of_another_name() -> None:
    """The one open size of the states is the batch, whatever the model calls it."""
    onnx = pytest.importorskip("onnx")
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[batch, 2] x, float[batch, 2] h) => (float[batch, 2] y) { y = Add (x, h) }"""
    model = rnncc.compile(onnx.parser.parse_model(text), state={"h": "y"})
    stream, x = model.stream(3), np.ones((3, 2), np.float32)
    assert [stream.step({"x": x})["y"][2, 1] for _ in range(2)] == [1, 2]
    with pytest.raises(StreamError, match="a state of batch = 3 for a stream of batch = 2"):
        model.stream(2).state = stream.state


def test_states_that_do_not_fit(lstm: Model) -> None:
    stream = lstm.stream(batch=2)
    saved = stream.state
    wrong = {
        "not the state of a stream": b"something else" * 10,
        "is damaged": saved[:-1],
        "of another model": compiled("basic_rnn_tanh").stream(batch=2).state,
        "a state of N = 3 for a stream of N = 2": lstm.stream(batch=3).state,
        "version 2, expected 1": saved[:16] + b"\2" + saved[17:],
    }
    flipped = bytearray(saved)
    flipped[-1] ^= 1
    for message, content in [*wrong.items(), ("is damaged", bytes(flipped))]:
        with pytest.raises(StreamError, match=message):
            stream.state = content
        assert stream.state == saved
    with pytest.raises(StreamError, match="no state yet"):
        _ = lstm.stream().state


def test_nets_without_steps_say_why() -> None:
    with pytest.raises(StreamError, match=r"whole sequences only: .*reverse_segments along time"):
        compiled("lstm_bidirectional").stream(batch=1)


def test_streams_of_one_model_in_threads(lstm: Model) -> None:
    wrong: list[int] = []

    def work(seed: int) -> None:
        for iteration in range(50):
            inputs = given(lstm, 5, 1 + seed % 3, seed * 100 + iteration)
            stream = lstm.stream(inputs={n: a for n, a in inputs.items() if n != "x"})
            results = parts(stream, inputs, (2, 3))
            got = np.concatenate([result["rnn/hidden_state_all"] for result in results])
            if not np.array_equal(got, lstm.run(inputs)["rnn/hidden_state_all"]):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.shared
def test_a_stream_keeps_its_model_alive() -> None:
    case = GOLDEN / "caffe2" / "gru_no_lengths"
    model = rnncc.compile(case / "net.pb", case / "init.pb")
    assert isinstance(model, Model)
    stream, x = model.stream(), np.ones((2, 1, 5), np.float32)
    want = stream.step({"x": x})
    del model
    stream.reset()
    got = stream.step({"x": x})
    np.testing.assert_array_equal(got["rnn/hidden_t_all"], want["rnn/hidden_t_all"])


def test_values_of_every_type_are_kept() -> None:
    b = Builder.net("net")
    x, v, n = b.input("x", ["T", "N", 3]), b.input("v", ["N", 3]), b.input("n", ["N", 1], "i32")
    wide = b.cast(b.mul(n, n), "i64")
    late = b.cast(b.cast(b.compare("ge", b.iota(["T", "N", 1], 0), n), "i64"), "f32")
    y = b.select(b.compare("lt", v, b.fill(0.0, [])), x, b.mul(late, b.cast(wide, "f32")))
    model = rnncc.compile(b.finish({"y": y, "wide": wide}))
    assert isinstance(model, Model)
    kept = {slot["dtype"] for slot in model.metadata["stream"]["slots"]}
    assert kept == {"f32", "i1", "i32", "i64"}
    rng = np.random.default_rng(0)
    inputs: Arrays = {
        "x": rng.standard_normal((5, 2, 3)).astype(np.float32),
        "v": rng.standard_normal((2, 3)).astype(np.float32),
        "n": np.array([[2], [4]], np.int32),
    }
    stream = model.stream(inputs={"v": inputs["v"], "n": inputs["n"]})
    results = parts(stream, inputs, (2, 1))
    other = model.stream()
    other.state = stream.state
    results += parts(other, {"x": inputs["x"][3:]}, (2,))
    whole = model.run(inputs)
    np.testing.assert_array_equal(np.concatenate([r["y"] for r in results]), whole["y"])
    for result in results:
        np.testing.assert_array_equal(result["wide"], whole["wide"])
