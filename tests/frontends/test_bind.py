"""Inputs that are constants: what they decide, what they must fit, and how they are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import rnncc
from rnncc import cells
from rnncc.cli import cli
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.driver import cache
from rnncc.errors import CompileError
from rnncc.options import Options
from rnncc.stages.reading import import_source
from tests.frontends.onnx.models import by_onnxruntime, graph, info, model, node

LSTM = Path("examples/lstm.pbtxt"), Path("examples/lstm_init.pbtxt")
X = np.arange(8, dtype=np.float32).reshape(2, 4)


def rated(dims: list[Any] | None = None) -> bytes:
    """As voice detectors have it: the rate tells how x [N, 4] is cut; only rows of 4 can be halved
    into [2 N, 2], and only those of 6 into [3 N, 2]."""
    branches = {
        name: graph([node("Reshape", f"x {name}", f"{name}_y")], [], [info(f"{name}_y", None)])
        for name in ("halves", "thirds")
    }
    nodes = [
        node("Equal", "sr rate", "c"),
        node("If", "c", "cut", then_branch=branches["halves"], else_branch=branches["thirds"]),
        node("Neg", "cut", "y"),
    ]
    constants = {
        "rate": np.array(16000),
        "halves": np.array([2, 2, -1]),
        "thirds": np.array([2, 3, -1]),
    }
    inputs = [info("x", dims or [2, 4]), info("sr", [], "i64")]
    return model(nodes, inputs, [info("y", None)], constants).SerializeToString()


def weighted() -> bytes:
    """x [N, 4] times w [N, 1], with flags, lengths and one number in a vector."""
    nodes = [
        node("Mul", "x w", "a"),
        node("Where", "flag a x", "b"),
        node("Add", "b one", "y"),
        node("Cast", "lengths", "z", to=1),
    ]
    inputs = [info("x", ["N", 4]), info("w", ["N", 1]), info("flag", ["N", 1], "i1")]
    inputs += [info("one", [1]), info("lengths", ["N"], "i32")]
    return model(nodes, inputs, [info("y", None), info("z", None)]).SerializeToString()


def inputs_of(net: Any, **options: Any) -> dict[str, str]:
    """Inputs that are left, and their types."""
    found = import_source(net, None, Options.of(net, options)).net.inputs
    return {name: str(value.type) for name, value in found.items()}


def test_a_branch_that_is_not_taken_need_not_fit() -> None:
    made = rnncc.compile(rated(), bind={"sr": 16000})
    assert list(made.inputs) == ["x"]
    np.testing.assert_array_equal(made.run({"x": X})["y"], -X.reshape(2, 2, 2))
    six = np.arange(12, dtype=np.float32).reshape(2, 6)
    other = rnncc.compile(rated([2, 6]), bind={"sr": 8000})
    np.testing.assert_array_equal(other.run({"x": six})["y"], -six.reshape(2, 3, 2))


def test_a_branch_that_may_be_taken_is_named() -> None:
    with pytest.raises(CompileError) as error:
        rnncc.compile(rated())
    assert str(error.value) == (
        "<model>: node 'cut' (If): may take its else branch, which cannot be built "
        "(node 'thirds_y' (Reshape): cannot bring 2 x 4 into the shape 2 x 3 x -1) "
        "(--bind sr=VALUE may decide the condition)"
    )
    with pytest.raises(CompileError, match=r"its then branch, which .*--bind sr=VALUE may"):
        rnncc.compile(rated(["N", 3]))


def test_against_onnxruntime() -> None:
    pytest.importorskip("onnxruntime")
    import onnx

    inputs = {"x": X, "sr": np.array(16000)}
    open_sizes = rated(["N", "M"])
    want = by_onnxruntime(onnx.load_from_string(open_sizes), inputs)
    made = rnncc.compile(open_sizes, shapes={"x": "2,4"}, bind="sr=16000")
    np.testing.assert_array_equal(made.run({"x": X})["y"], want["y"])


def test_constants_of_all_types() -> None:
    bind = {
        "w": np.array([[0.5], [2]]),
        "flag": [[True], [False]],
        "one": 1,
        "lengths": [3, 4.0],
    }
    made = rnncc.compile(weighted(), bind=bind)
    assert {name: tuple(map(str, a.shape)) for name, a in made.inputs.items()} == {"x": ("2", "4")}
    y = made.run({"x": X})
    np.testing.assert_array_equal(y["y"], np.where([[True], [False]], X * bind["w"], X) + 1)
    np.testing.assert_array_equal(y["z"], [3, 4])


def test_sizes_follow() -> None:
    found = inputs_of(weighted(), bind={"lengths": [1, 2, 3]})
    assert "lengths" not in found and found["x"].startswith("tensor<3x4xf32")
    with pytest.raises(CompileError, match="--bind w: has the shape 2 x 1, the input 3 x 1"):
        inputs_of(weighted(), bind={"lengths": [1, 2, 3], "w": [[1], [2]]})
    with pytest.raises(CompileError, match="--bind w: has the shape 2 x 1, the input 3 x 1"):
        inputs_of(weighted(), shapes={"x": "3,4"}, bind={"w": [[1], [2]]})


@pytest.mark.parametrize(
    ("bind", "message"),
    [
        ({"rate": 1}, "<model>: --bind rate: is no input of the model (inputs: x, sr)"),
        ({"sr": 16000.5}, "<model>: --bind sr: 16000.5 does not fit the input's int64"),
        ({"sr": 2**63}, "<model>: --bind sr: 9223372036854775808 does not fit the input's int64"),
        ({"sr": True}, "<model>: --bind sr: true does not fit the input's int64"),
        ({"sr": float("nan")}, "<model>: --bind sr: NaN does not fit the input's int64"),
        ({"sr": [1]}, "<model>: --bind sr: has the shape 1, the input scalar"),
        ({"x": 2**24 + 1}, "<model>: --bind x: has the shape scalar, the input 2 x 4"),
        (
            {"x": [[2**24 + 1] * 4] * 2},
            "<model>: --bind x: [[16777217, 16777217, 16777217, 16777217",
        ),
        ({"x": [[1e39] * 4] * 2}, "<model>: --bind x: [[1e+39, 1e+39, 1e+39, 1e+39], [1e+39"),
        ({"sr": "a"}, "--bind sr: is neither a number nor numbers in lists"),
        ({"sr": []}, "--bind sr: is neither a number nor numbers in lists"),
        ({"sr": [[1], [2, 3]]}, "--bind sr: has rows of different lengths"),
        ({"sr": 1j}, "--bind sr: is neither a number nor numbers in lists"),
        ("sr", "--bind: 'sr' is not of the form INPUT=NUMBER or INPUT=[NUMBER, ...]"),
        (["sr=16 kHz"], "--bind: 'sr=16 kHz' is not of the form"),
        ("sr=" + "[" * 5000, "--bind: 'sr=[[[["),
        (["sr=1", "sr=1"], "--bind sr: is given twice"),
    ],
)
def test_refused(bind: Any, message: str) -> None:
    with pytest.raises(CompileError) as error:
        rnncc.compile(rated(), bind=bind)
    assert str(error.value).startswith(message) and "\n" not in str(error.value)


def test_nets_with_shapes_of_their_own() -> None:
    layer = cells.lstm(3, 4)
    with pytest.raises(CompileError, match="constants given for a net that has its own"):
        rnncc.compile(layer, bind={"x": 1})


def test_a_constant_is_part_of_what_the_cache_knows(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("RNNCC_CACHE", "1")
    monkeypatch.setenv("RNNCC_CACHE_DIR", str(tmp_path))
    long = np.arange(5000.0)
    other = long.copy()
    other[2500] = -1
    keys = set[str | None]()
    for bind in ({}, {"sr": 1}, {"sr": 2}, {"x": long}, {"x": other}):
        options = Options.of(rated(), {"bind": bind})
        keys.add(cache.key_of(rated(), None, options, resolve_target()))
    assert len(keys) == 5


def test_caffe2() -> None:
    x = np.ones((3, 2, 64), np.float32)
    plain = rnncc.compile(*LSTM)
    states = {name: np.zeros((1, 2, 128), np.float32) for name in ("h0", "c0")}
    want = plain.run({"x": x, "seq_lengths": np.array([3, 2], np.int32), **states})
    bound = rnncc.compile(*LSTM, bind={"seq_lengths": [3, 2]})
    assert list(bound.inputs) == ["x", "h0", "c0"]
    got = bound.run({"x": x, **states})
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array)
    for bind, message in (
        ({"n": 1}, "is no input of the net (inputs: x, "),
        ({"out_w": 1}, "is no input of the net (inputs: x, "),
        ({"seq_lengths": [0.5]}, "[0.5] does not fit the input's int32"),
    ):
        with pytest.raises(CompileError) as error:
            rnncc.compile(*LSTM, bind=bind)
        assert message in str(error.value) and "--bind" in str(error.value)


def test_commands(tmp_path: Path) -> None:
    net, x = tmp_path / "rated.onnx", tmp_path / "x.npz"
    net.write_bytes(rated())
    np.savez(x, x=X)
    np.save(tmp_path / "sr.npy", np.array(16000))
    run = CliRunner().invoke
    for value in ("16000", str(tmp_path / "sr.npy")):
        done = run(cli, ["run", str(net), "-i", str(x), "--bind", f"sr={value}"])
        assert done.exit_code == 0 and "float32   [2, 2, 2]" in done.output
    for command in (["inspect"], ["plan"], ["compile", "--emit", "rnn"], ["check"]):
        done = run(cli, [*command, str(net), "--bind", "sr=16000"])
        assert done.exit_code == 0, (command, done.output, done.exception)
    assert run(cli, ["inspect", str(net)]).output.count("--bind sr=VALUE may decide") == 1
