"""Model.run: sizes, checks, memory, threads, on a model made by hand."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rnncc_runtime
from rnncc_runtime import ArrayError, LoadError, Model, RunError
from rnncc_runtime.memory import ALIGNMENT
from rnncc_runtime.prepared import ArraySlot, Prepared

import rnncc
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.packaging.link import link_shared
from tests import samples

Arrays = dict[str, Any]


@pytest.fixture(scope="module")
def model(twice_library: Path) -> Model:
    return rnncc_runtime.load(twice_library)


def inputs(t: int = 4, n: int = 2) -> Arrays:
    x = np.arange(t * n * 3, dtype=np.float32).reshape(t, n, 3)
    return {"in/x": x, "lengths": np.full(n, t, np.int32)}


def test_specs(model: Model) -> None:
    assert model.inputs["in/x"].shape == ("T", "N", 3)
    assert model.inputs["lengths"].dtype == np.int32
    assert list(model.outputs) == ["y", "padded"]
    assert list(model.parameters) == ["w"]
    assert "in/x: float32 [T, N, 3]" in str(model)


@pytest.mark.parametrize(("t", "n"), [(4, 2), (1, 1), (0, 2), (3, 0), (50, 33)])
def test_outputs(model: Model, t: int, n: int) -> None:
    given = inputs(t, n)
    result = model.run(given)
    np.testing.assert_array_equal(result["y"], 2 * given["in/x"])
    np.testing.assert_array_equal(result["padded"], np.full(t * n + 1, 7, np.float32))


@pytest.mark.parametrize("train", [False, True])
def test_large_outputs_begin_with_a_line_of_the_cache(train: bool) -> None:
    b = Builder.net("net")
    model = rnncc.compile(b.finish({"y": b.tanh(b.input("x", ["T", 3]))}), train=train)
    x = np.ones((1000, 3), np.float32)
    outputs = [model.run({"x": x})["y"] for _ in range(4)]
    assert all(y.ctypes.data % ALIGNMENT == 0 and y.flags.writeable for y in outputs)
    np.testing.assert_allclose(outputs, np.tanh([x] * 4), 1e-6)


def test_out_computes_only_what_is_asked_for(model: Model) -> None:
    given, y = inputs(), np.empty((4, 2, 3), np.float32)
    result = model.run(given, out={"y": y})
    assert result.keys() == {"y"}
    assert result["y"] is y
    np.testing.assert_array_equal(y, 2 * given["in/x"])


def test_calls_of_several_forms_in_turn(model: Model) -> None:
    """What one call has prepared is not taken for another's: shapes, outputs, kinds of arrays."""
    y, padded = np.empty((4, 2, 3), np.float32), np.empty(9, np.float32)
    kept = model.run(inputs())["y"]
    for given in (inputs(), inputs(50, 33), inputs(4, 0), inputs(), _read_only_inputs()):
        x = given["in/x"]
        t, n, _ = x.shape
        for _ in range(3):
            result = model.run(given)
            np.testing.assert_array_equal(result["y"], 2 * x)
            np.testing.assert_array_equal(result["padded"], np.full(t * n + 1, 7, np.float32))
            assert not np.shares_memory(result["y"], kept)
            kept = result["y"]
        if x.shape == y.shape:
            for out in ({"y": y, "padded": padded}, {"padded": padded}, {}, {"y": y}):
                y.fill(0)
                padded.fill(0)
                assert model.run(given, out=out).keys() == out.keys()
                assert np.array_equal(y, 2 * x if "y" in out else 0 * x)
                assert padded.all() == ("padded" in out)


def _read_only_inputs() -> Arrays:
    return {name: _read_only(array) for name, array in inputs().items()}


def test_memory_by_its_address(model: Model) -> None:
    """Beside calls on arrays, of the same and of other sizes."""
    for t, n in [(4, 2), (4, 2), (6, 3), (4, 2)]:
        given, expected = inputs(t, n), model.run(inputs(t, n))
        arrays = [*given.values(), *(np.zeros_like(y) for y in expected.values())]
        model.run_at(arrays, [array.ctypes.data for array in arrays])
        for ours, y in zip(arrays[2:], expected.values(), strict=True):
            np.testing.assert_array_equal(ours, y)
    arrays = [*inputs(4, 2).values(), *model.run(inputs(4, 3)).values()]
    with pytest.raises(ArrayError, match="N"):
        model.run_at(arrays, [array.ctypes.data for array in arrays])


def test_pointers_left_half_written_are_written_anew() -> None:
    slots = [ArraySlot(name, i, np.dtype(np.float32), (1,)) for i, name in enumerate("xy")]
    call = Prepared(slots[:1], slots[1:], (1, 2), [])
    inputs, out = {"x": np.ones(1, np.float32)}, {"y": np.ones(1, np.float32)}
    assert call.take(inputs, out) is not None
    table = ctypes.cast(call.arguments[0], ctypes.POINTER(ctypes.c_void_p))
    first = table[0]
    with pytest.raises(TypeError):
        call.point([0, "an exception, such as KeyboardInterrupt"])  # type: ignore[list-item]
    assert table[0] is None
    assert call.take(inputs, out) is not None
    assert table[0] == first


def test_other_layouts_are_copied(model: Model) -> None:
    given = inputs()
    expected = 2 * given["in/x"]
    given["in/x"] = np.asfortranarray(given["in/x"])
    given["lengths"] = np.repeat(given["lengths"], 2)[::2]
    np.testing.assert_array_equal(model.run(given)["y"], expected)
    given["in/x"] = given["in/x"].tolist()
    with pytest.raises(ArrayError, match="in/x is float64, expected float32"):
        model.run(given)


def test_read_only_and_unaligned_inputs(model: Model) -> None:
    given = inputs()
    memory = np.zeros(given["in/x"].nbytes + 1, np.uint8)
    unaligned = memory[1:].view(np.float32).reshape(4, 2, 3)
    unaligned[:] = given["in/x"]
    given["lengths"].flags.writeable = False
    np.testing.assert_array_equal(model.run({**given, "in/x": unaligned})["y"], 2 * given["in/x"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"in/x": None}, "inputs missing: in/x (the model's inputs: in/x, lengths)"),
        ({"z": 1}, "inputs unknown: z (the model's inputs: in/x, lengths)"),
        ({"in/x": np.zeros((4, 2, 3))}, "in/x is float64, expected float32"),
        ({"in/x": np.ma.masked_less(np.zeros((4, 2, 3), np.float32), 1)}, "has masked elements"),
        ({"in/x": np.zeros((4, 2, 3), ">f4")}, "in/x is >f4, expected float32"),
        ({"in/x": [[1.0], []]}, "in/x is a list that is not an array"),
        ({"lengths": np.zeros(5, np.int32)}, "N is 2 in in/x but 5 in lengths"),
        ({"lengths": np.zeros(2, np.int64)}, "lengths is int64, expected int32"),
        ({"in/x": np.zeros((4, 2, 4), np.float32)}, "axis 2 is 4, expected 3"),
        ({"in/x": np.zeros((4, 6), np.float32)}, "in/x has shape [4, 6], expected [T, N, 3]"),
        ({"in/x": np.float32(1)}, "in/x has shape [], expected [T, N, 3]"),
    ],
)
def test_wrong_inputs(model: Model, change: Arrays, message: str) -> None:
    given = {name: value for name, value in {**inputs(), **change}.items() if value is not None}
    with pytest.raises(ArrayError) as caught:
        model.run(given)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def _read_only(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ({"q": np.zeros(3)}, "no output is named q; outputs: y, padded"),
        ([np.zeros(3)], "outputs are list, expected arrays by name: y, padded"),
        (3, "outputs are int, expected arrays by name"),
        ({"y": np.zeros((4, 2, 3))}, "output y is float64, expected float32"),
        ({"y": None}, "output y is a NoneType, expected an array"),
        ({"y": np.zeros((4, 2, 2), np.float32)}, "output y has shape [4, 2, 2]: axis 2 is 2"),
        ({"y": np.zeros((5, 2, 3), np.float32)}, "T is 4 in in/x but 5 in output y"),
        ({"padded": np.zeros(8, np.float32)}, "expected T*N + 1 = 9 (N = 2, T = 4)"),
        ({"y": np.zeros((3, 2, 4), np.float32).T}, "must be contiguous"),
        ({"y": _read_only(np.zeros((4, 2, 3), np.float32))}, "writeable"),
    ],
)
def test_wrong_outputs(model: Model, out: Any, message: str) -> None:
    with pytest.raises(ArrayError) as caught:
        model.run(inputs(), out=out)
    assert message in str(caught.value)


def test_outputs_lie_apart(model: Model) -> None:
    given, memory = inputs(), np.zeros(24 + 9, np.float32)
    y, padded = memory[:24].reshape(4, 2, 3), memory[24:]
    model.run(given, out={"y": y, "padded": padded})
    same = {**given, "lengths": np.zeros(2, np.int32)}
    same["in/x"] = memory[: 4 * 2 * 3].reshape(4, 2, 3)
    model.run(same, out={"padded": padded})
    with pytest.raises(ArrayError, match="output y overlaps input in/x in memory"):
        model.run(given, out={"y": given["in/x"]})
    with pytest.raises(ArrayError, match="output padded overlaps output y in memory"):
        model.run(given, out={"y": y, "padded": memory[20:29]})


def test_refusal_by_the_code(model: Model) -> None:
    given = inputs()
    given["lengths"][1] = 5
    with pytest.raises(RunError, match=r"beyond T \(T = 4, N = 2\)") as caught:
        model.run(given)
    assert caught.value.code == 3


def test_size_that_the_code_refuses() -> None:
    model = Model(
        samples.metadata(), {"run": lambda *_: 0, "workspace_bytes": lambda *_: 2**64 - 1}
    )
    with pytest.raises(RunError, match="too large") as caught:
        model.run(inputs())
    assert caught.value.code == 2


def test_symbol_that_no_array_has() -> None:
    metadata = samples.metadata()
    metadata["inputs"] = metadata["inputs"][1:]
    model = Model(metadata, {"run": lambda *_: 0, "workspace_bytes": lambda *_: 0})
    with pytest.raises(ArrayError, match="determines T"):
        model.run({"lengths": np.zeros(2, np.int32)})
    result = model.run({"lengths": np.zeros(2, np.int32)}, {"y": np.empty((5, 2, 3), np.float32)})
    assert result["y"].shape == (5, 2, 3)


@pytest.mark.parametrize("train", [False, True])
def test_an_output_of_a_size_below_zero(train: bool) -> None:
    b = Builder.net("net")
    x = b.input("x", ["T", "N", 3])
    most = b.slice(x, 0, 1, Dim.of("T") - 1)
    model = rnncc.compile(b.finish({"y": b.tanh(most)}), train=train)
    assert model.run({"x": np.ones((1, 2, 3), np.float32)})["y"].shape == (0, 2, 3)
    message = r"a size T - 1 would be -1 \(T = 0, N = 2\)|y would have shape \[-1, 2, 3\]"
    with pytest.raises(ArrayError, match=message):
        model.run({"x": np.ones((0, 2, 3), np.float32)})


def test_optional_input() -> None:
    metadata = samples.metadata()
    metadata["inputs"][1]["optional"] = True
    seen: list[list[int]] = []

    def run(inputs: int, *_: int) -> int:
        seen.append(list((ctypes.c_void_p * 2).from_address(inputs)))
        return 0

    model = Model(metadata, {"run": run, "workspace_bytes": lambda *_: 0})
    given = inputs()
    model.run({"in/x": given["in/x"]})
    model.run(given)
    assert [pointers[1] is None for pointers in seen] == [True, False]
    assert str(model.inputs["lengths"]) == "lengths: int32 [N] (optional)"
    with pytest.raises(ArrayError, match="inputs missing: in/x"):
        model.run({})
    bare: Any = given["in/x"]
    with pytest.raises(ArrayError, match="inputs are ndarray, expected arrays by name: in/x, len"):
        model.run(bare)


def test_input_and_output_of_one_name() -> None:
    metadata = samples.metadata()
    metadata["outputs"][0]["name"] = "in/x"
    model = Model(metadata, {"run": lambda *_: 0, "workspace_bytes": lambda *_: 0})
    assert model.run(inputs())["in/x"].shape == (4, 2, 3)


def test_metadata_of_another_format() -> None:
    with pytest.raises(LoadError, match="format 1, expected 2"):
        Model({**samples.metadata(), "format": 1}, {})


def test_eight_threads_share_a_model(model: Model) -> None:
    wrong: list[object] = []

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        for _ in range(200):
            given = inputs(int(random.integers(0, 9)), int(random.integers(1, 5)))
            given["in/x"] = random.random(given["in/x"].shape, np.float32)
            if not np.array_equal(model.run(given)["y"], 2 * given["in/x"]):
                wrong.append(given)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_repeated_calls_allocate_nothing_that_grows(model: Model) -> None:
    given = inputs(500, 20)
    out = model.run(given)
    tracemalloc.start()
    try:
        for _ in range(10):
            model.run(given, out=out)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000


def test_a_library_built_anew_is_loaded_anew(tmp_path: Path) -> None:
    path = tmp_path / "libtwice.so"
    code = samples.compiled().code
    link_shared(code, path, "twice", samples.TRIPLE)
    old = rnncc_runtime.load(path)
    changed = code.replace(b"padded", b"PADDED")
    link_shared(
        changed,
        path,
        "twice",
        samples.TRIPLE,
    )
    new = rnncc_runtime.load(path)
    assert list(old.outputs) == ["y", "padded"]
    assert list(new.outputs) == ["y", "PADDED"]
    np.testing.assert_array_equal(new.run(inputs())["PADDED"], old.run(inputs())["padded"])


def test_what_cannot_be_loaded(tmp_path: Path, twice_library: Path) -> None:
    with pytest.raises(LoadError, match="no such file"):
        rnncc_runtime.load(tmp_path / "libnone.so")
    with pytest.raises(LoadError, match="is a folder"):
        rnncc_runtime.load(tmp_path)
    with pytest.raises(LoadError, match="is no regular file"):
        rnncc_runtime.load("/dev/null")
    text = tmp_path / "libtext.so"
    text.write_text("not a library")
    with pytest.raises(LoadError, match=r"^\S+libtext.so: (?!.*libtext)"):
        rnncc_runtime.load(text)
    renamed = tmp_path / "libother.so"
    renamed.write_bytes(twice_library.read_bytes())
    with pytest.raises(LoadError, match="no model named other"):
        rnncc_runtime.load(renamed)
    assert rnncc_runtime.load(renamed, name="twice").name == "twice"


def test_needs_numpy_alone(twice_library: Path) -> None:
    code = f"""if True:
        import sys, rnncc_runtime
        rnncc_runtime.load({str(twice_library)!r})
        assert not {{"rnncc", "llvmlite", "xdsl", "google"}} & set(sys.modules)
    """
    subprocess.run([sys.executable, "-c", code], check=True)


def test_command(twice_library: Path) -> None:
    def call(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "rnncc_runtime", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert (Path(call("--include").stdout.strip()) / "rnncc.h").is_file()
    assert "padded: float32 [T*N + 1]" in call(str(twice_library)).stdout
    assert call("none.so").stderr == "rnncc_runtime: error: none.so: no such file\n"
