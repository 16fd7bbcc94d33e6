"""Damaged, wrong and hostile models: each ends in its one line, quickly and without much memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from time import process_time

import numpy as np
import onnx
import pytest

from rnncc.errors import CompileError
from rnncc.frontends.onnx.importer import import_model
from tests.frontends.onnx.bad_models import CASES, STARTS, WHOLE, deep, external, one


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder: a short file, and a link that leads out."""
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    inner.mkdir()
    outer.mkdir()
    (inner / "short.bin").write_bytes(b"abc")
    (outer / "w.bin").write_bytes(bytes(16))
    (inner / "link").symlink_to(outer)
    return inner


def error_of(name: str, folder: Path) -> str:
    made = CASES[name][0]
    (folder / "m.onnx").write_bytes(made if isinstance(made, bytes) else made.SerializeToString())
    with pytest.raises(CompileError) as caught:
        import_model(folder / "m.onnx")
    text = str(caught.value)
    assert "\n" not in text
    place, _, rest = text.partition("m.onnx: ")
    assert place == f"{folder}/"
    return rest


@pytest.mark.parametrize("name", CASES)
def test_one_line(name: str, folder: Path) -> None:
    start = process_time()
    told = error_of(name, folder)
    assert process_time() - start < 10
    if name in STARTS:
        assert told.startswith(STARTS[name]), told
    else:
        assert told == CASES[name][1]


def test_long_texts_are_cut() -> None:
    with pytest.raises(CompileError, match=r"\(Einsum\): has an input of 2 axes for 'iii") as error:
        import_model(one("Einsum", equation="i" * 100_000))
    assert len(str(error.value)) < 3000


def test_branches_in_branches_are_built_once() -> None:
    start = process_time()
    assert str(import_model(deep(20)).module).count("rnn.scan") == 40
    assert process_time() - start < 5


def test_little_memory(folder: Path) -> None:
    tracemalloc.start()
    for name in CASES:
        if name != "loops in loops":
            error_of(name, folder)
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()


def test_external_data(tmp_path: Path) -> None:
    made = external("w.bin")
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    (tmp_path / "w.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    program = import_model(tmp_path / "m.onnx")
    np.testing.assert_array_equal(program.arrays["w"] if program.arrays else np.arange(4), range(4))
    with pytest.raises(
        CompileError, match=r"has its data in another file \(give the model's path\)"
    ):
        import_model(made)


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(
        CompileError, match=r"need the package onnx \(pip install 'rnncc\[onnx\]'\)"
    ):
        import_model(b"")


def test_what_is_a_model(tmp_path: Path) -> None:
    from rnncc.frontends.onnx.reading import is_onnx

    (tmp_path / "model").write_bytes(WHOLE)
    assert is_onnx(tmp_path / "model") and is_onnx("x.onnx") and is_onnx(WHOLE)
    assert is_onnx(onnx.ModelProto())
    assert not is_onnx("x.pb") and not is_onnx(b"\x0a\x04name") and not is_onnx(3)
