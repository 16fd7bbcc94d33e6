"""Tensors in other files: each region is read once, all are bounded, no path leaves the folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

import rnncc
from rnncc.cli import main
from rnncc.errors import CompileError
from rnncc.frontends.onnx import reading
from rnncc.frontends.onnx.importer import import_model
from rnncc.sources import limited
from tests.frontends.onnx.models import info, interpreted, model, node

SIZE = 1000


def held_elsewhere(count: int, offsets: Callable[[int], int] = lambda i: 0, **entries: str) -> Any:
    """y = x + w0 + w1 + ..., each of which lies in w.bin."""
    names = [f"w{i}" for i in range(count)]
    sums = ["x", *(f"s{i}" for i in range(count - 1)), "y"]
    nodes = [node("Add", f"{sums[i]} {name}", sums[i + 1]) for i, name in enumerate(names)]
    constants = {name: np.zeros(SIZE, np.float32) for name in names}
    made = model(nodes, [info("x", ["N", SIZE])], [info("y", None)], constants)
    for i, tensor in enumerate(made.graph.initializer):
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        fields = {"location": "w.bin", "offset": str(offsets(i)), **entries}
        for key, value in fields.items():
            tensor.external_data.add(key=key, value=value)
    return made


def saved(made: Any, folder: Path) -> Path:
    path = folder / "m.onnx"
    path.write_bytes(made.SerializeToString())
    data = np.arange(SIZE + 8, dtype=np.float32).tobytes()
    (folder / "w.bin").write_bytes(data)
    return path


def test_a_region_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[object] = []
    read = reading._FileRange.read

    def counted(self: Any) -> bytes:
        reads.append(self)
        return read(self)

    monkeypatch.setattr(reading._FileRange, "read", counted)
    path = saved(held_elsewhere(9, lambda i: 4 * (i % 2)), tmp_path)
    x = np.zeros((1, SIZE), np.float32)
    got = rnncc.compile(path).run({"x": x})["y"]
    np.testing.assert_array_equal(got[0], 9 * np.arange(SIZE) + 4)
    assert len(reads) == 2


@pytest.mark.parametrize("step", [0, 1])
def test_all_of_them_are_bounded(step: int, tmp_path: Path) -> None:
    """Whether they share a region, or overlap."""
    path = saved(held_elsewhere(5, lambda i: step * i), tmp_path)
    with limited(5 * 4 * SIZE):
        import_model(path)
    message = r'initialiser "w4": the model\'s tensors in other files take more than 19999 bytes'
    with limited(5 * 4 * SIZE - 1), pytest.raises(CompileError, match=message):
        import_model(path)


LOCATIONS = {
    "long": "x" * 300,
    "long path": "x/" * 3000 + "w.bin",
    "NUL": "w\0.bin",
    "empty": "",
    "folder": "inside",
    "parent": "inside/../../w.bin",
    "absolute": "/etc/passwd",
    "FIFO": "fifo",
    "device": "device",
    "loop": "loop",
    "link outside": "outside",
    "link to nothing": "dangling",
    "backslashes": "..\\w.bin",
    "not ASCII": "größe.bin",
}


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder with everything that is no file of data."""
    folder = tmp_path / "model"
    (folder / "inside").mkdir(parents=True)
    (tmp_path / "w.bin").write_bytes(bytes(4 * SIZE))
    os.mkfifo(folder / "fifo")
    links = {"device": "/dev/zero", "loop": "loop", "outside": "../w.bin", "dangling": "none"}
    for name, target in links.items():
        (folder / name).symlink_to(target)
    return folder


@pytest.mark.parametrize("kind", LOCATIONS)
def test_locations(kind: str, hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the cache asks for the files first."""
    monkeypatch.setenv("RNNCC_CACHE", "1")
    monkeypatch.setenv("RNNCC_CACHE_DIR", str(hostile.parent / "cache"))
    path = saved(held_elsewhere(1, location=LOCATIONS[kind]), hostile)
    for read in (import_model, rnncc.compile):
        with pytest.raises(
            CompileError, match='initialiser "w0": tensor "w0" has its data in'
        ) as e:
            read(path)
        assert "\n" not in str(e.value)


def test_locations_that_are_not_utf8(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RNNCC_CACHE", "1")
    monkeypatch.setenv("RNNCC_CACHE_DIR", str(hostile.parent / "cache"))
    made = (
        held_elsewhere(1, location="QQQQ").SerializeToString().replace(b"QQQQ", b"\xff\xfe\xff\xfe")
    )
    (hostile / "m.onnx").write_bytes(made)
    for read in (import_model, rnncc.compile):
        with pytest.raises(CompileError, match="damaged"):
            read(hostile / "m.onnx")


@pytest.mark.parametrize(
    "entries",
    [
        {"offset": "-4"},
        {"offset": "x"},
        {"offset": "9" * 30},
        {"offset": "9" * 5000},
        {"offset": "4100"},
        {"offset": "1e2"},
        {"length": "3"},
        {"length": "-1"},
        {"length": str(1 << 62)},
    ],
    ids=lambda entries: str(entries)[:30],
)
def test_places_in_the_file(entries: Any, tmp_path: Path) -> None:
    path = saved(held_elsewhere(1, **entries), tmp_path)
    with pytest.raises(CompileError, match=r"damaged external data|wants 4000 bytes") as error:
        import_model(path)
    assert len(str(error.value)) < 300


PACKED = {TensorProto.INT4: "4", TensorProto.UINT4: "4", TensorProto.INT2: "2"}


@pytest.mark.parametrize("kind", PACKED, ids=TensorProto.DataType.Name)
def test_numbers_of_less_than_a_byte(kind: Any, tmp_path: Path) -> None:
    nodes = [node("DequantizeLinear", "w0 k", "d"), node("Add", "x d", "y")]
    made = model(
        nodes, [info("x", ["N", SIZE])], [info("y", None)], {"k": np.float32(0.5)}, opset=25
    )
    data = np.random.default_rng(0).integers(0, 256, SIZE, np.uint8).tobytes()
    tensor = TensorProto(name="w0", data_type=kind, dims=[SIZE])
    tensor.raw_data = data[3 : 3 + SIZE * int(PACKED[kind]) // 8]
    made.graph.initializer.append(tensor)
    x = np.zeros((1, SIZE), np.float32)
    want = interpreted(made, {"x": x})["y"]
    tensor = made.graph.initializer[-1]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="w.bin")
    tensor.external_data.add(key="offset", value="3")
    path = saved(made, tmp_path)
    (tmp_path / "w.bin").write_bytes(data)
    assert np.unique(want).size == 1 << int(PACKED[kind])
    np.testing.assert_array_equal(interpreted(path, {"x": x})["y"], want)


def test_numbers_of_six_bits(tmp_path: Path) -> None:
    made = held_elsewhere(1)
    made.graph.initializer[0].data_type = TensorProto.FLOAT6E2M3
    with pytest.raises(CompileError, match="numbers of 6 bits"):
        import_model(saved(made, tmp_path))


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ("w.bin", ["compile", "m.onnx", "--emit", "obj", "-o", "w.bin"]),
        ("w.o", ["compile", "m.onnx", "--products", "h,o", "--name", "w"]),
        ("w.bin", ["plan", "m.onnx", "--html", "w.bin"]),
        ("w.svg", ["draw", "m.onnx", "-o", "w.svg"]),
        ("w.bin", ["run", "m.onnx", "-i", "x=x.npy", "-o", "w.bin"]),
    ],
)
def test_no_file_of_tensors_is_replaced(
    other: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    saved(held_elsewhere(1, location=other), tmp_path)
    Path("w.bin").rename(other)
    np.save("x.npy", np.zeros((1, SIZE), np.float32))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert main(words) == 2
    assert "is read, too: what is written would take its place" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
