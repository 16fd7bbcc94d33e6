"""Which kind of file was found is told where a net was expected."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from rnncc.cli import main
from rnncc.formats import kind_of


def zipped(*names: str) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as file:
        for name in names:
            file.writestr(name, b"")
    return held.getvalue()


def array() -> bytes:
    held = io.BytesIO()
    np.save(held, np.zeros(3))
    return held.getvalue()


HEADER = b'{"a":{"dtype":"F32"}}'
FILES = {
    "a.npy": (array(), "an array of NumPy (.npy)"),
    "a.npz": (zipped("x.npy"), "arrays of NumPy (.npz)"),
    "a.h5": (b"\x89HDF\r\n\x1a\n" + bytes(50), "an HDF5 file, as Keras writes"),
    "a.keras": (zipped("metadata.json", "config.json"), "a model of Keras"),
    "a.pt": (zipped("a/data.pkl", "a/data/0"), "a pickle of torch.save"),
    "script.pt": (zipped("a/data.pkl", "a/constants.pkl"), "a program of TorchScript"),
    "a.zip": (zipped("a.txt"), "a zip file"),
    "a.pkl": (b"\x80\x04\x95" + bytes(20), "a pickle of Python, which is not read"),
    "a.onnxtxt": (b'<ir_version: 8, opset_import: ["": 17]> g ()', "an ONNX model as text"),
    "a.parquet": (b"PAR1" + bytes(20) + b"PAR1", "a table in Parquet"),
    "a.tflite": (b"\x1c\0\0\0TFL3" + bytes(50), "a model of TensorFlow Lite"),
    "a.safetensors": (len(HEADER).to_bytes(8, "little") + HEADER, "weights without a graph"),
    "a.gguf": (b"GGUF" + bytes(50), "weights without a graph (GGUF)"),
    "a.json": (b'{"layers": []}', "JSON"),
    "a.pb.gz": (b"\x1f\x8b\x08" + bytes(30), "packed by gzip"),
    "a.pb": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a pointer of Git LFS"),
    "a.py": (b"'A net.'\nimport torch\n", "a program in Python (in it, rnncc.build"),
    "b.py": (b"class Net(Module):\n    pass\n", "a program in Python"),
    "page.onnx": (b"<!DOCTYPE html>", "is no ONNX model but XML or HTML"),
    "weights.onnx": (
        zipped("a/data.pkl", "a/data/0"),
        "is no ONNX model but a pickle of torch.save",
    ),
    "page.pt2": (b"<!DOCTYPE html>", "is XML or HTML, no program of torch.export.save"),
}

READERS = {".onnx": "onnx", ".pt2": "torch"}
"""Endings of names -> the package that reads such files."""


@pytest.mark.parametrize("name", FILES)
def test_kind(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content, kind = FILES[name]
    if reader := READERS.get(Path(name).suffix):
        pytest.importorskip(reader)
    path = tmp_path / name
    path.write_bytes(content)
    assert main(["inspect", str(path)]) == 2
    told = capsys.readouterr().err
    assert kind in told and told.count("\n") == 1


def test_notes_with_programs_in_them() -> None:
    assert kind_of(b"# Notes\n\n```python\nimport torch\n\nclass Net(Module):\n```\n") is None


def test_a_zip_of_very_many_files_is_not_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(zipped("x.npy") + b"PK\x01\x02" * 20_000)
    assert main(["inspect", str(path)]) == 2
    assert "a zip file" in capsys.readouterr().err
