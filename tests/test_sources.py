"""Inputs that have no end, are no files, or are in another encoding."""

from __future__ import annotations

import os
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import rnncc
from rnncc.errors import CompileError
from rnncc.netdef import NetDef, OperatorDef, load
from rnncc.sources import Content, limited, read_bytes, settled

LIMIT = 4 << 20


def tanh() -> NetDef:
    op = OperatorDef(type="Tanh", input=["x"], output=["y"])
    return NetDef(name="größe", op=[op], external_input=["x"], external_output=["y"])


def fifo(path: Path, data: bytes) -> Path:
    """A pipe that holds some bytes, then ends."""
    os.mkfifo(path)
    threading.Thread(target=path.write_bytes, args=(data,), daemon=True).start()
    return path


def sparse(folder: Path) -> Path:
    path = folder / "sparse.pb"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    return path


def endless_pipe(folder: Path) -> Path:
    path = folder / "pipe"
    os.mkfifo(path)

    def write() -> None:
        with path.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 16))
            except BrokenPipeError:
                pass

    threading.Thread(target=write, daemon=True).start()
    return path


ENDLESS: list[Callable[[Path], Path]] = [lambda folder: Path("/dev/zero"), sparse, endless_pipe]


@pytest.mark.parametrize("make", ENDLESS)
@pytest.mark.parametrize("reader", [read_bytes, load, rnncc.compile])
def test_no_more_than_the_limit_is_held(
    make: Callable[[Path], Path], reader: Callable[[Path], object], tmp_path: Path
) -> None:
    path = make(tmp_path)
    tracemalloc.start()
    try:
        with (
            limited(LIMIT),
            pytest.raises(
                CompileError, match=rf"^{path}: holds more than {LIMIT} bytes \(--max-in"
            ),
        ):
            reader(path)
        assert tracemalloc.get_traced_memory()[1] < 3 * LIMIT
    finally:
        tracemalloc.stop()


def test_who_says_what_the_limit_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "net.pb"
    path.write_bytes(tanh().SerializeToString())
    size = path.stat().st_size
    monkeypatch.setenv("RNNCC_MAX_INPUT", str(size - 1))
    with pytest.raises(CompileError, match=f"holds more than {size - 1} bytes"):
        rnncc.compile(path, shapes={"x": ("N", 3)})
    rnncc.compile(path, shapes={"x": ("N", 3)}, max_input=size)
    rnncc.build(path, shapes={"x": ("N", 3)}, max_input="1K", out=tmp_path, products=["o"])
    monkeypatch.setenv("RNNCC_MAX_INPUT", "much")
    with pytest.raises(CompileError, match="RNNCC_MAX_INPUT: 'much' is not a number of bytes"):
        load(path)
    with pytest.raises(CompileError, match="max_input: 'more' is not a number of bytes"):
        rnncc.compile(path, max_input="more")


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    """Although its kind, its name and its content are asked for one after another."""
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    for number in range(2):
        path = fifo(tmp_path / f"net{number}", tanh().SerializeToString())
        model = rnncc.compile(path, shapes={"x": ("N", 3)}, name="m")
        np.testing.assert_allclose(model.run({"x": x})["y"], np.tanh(x), 1e-5, 1e-6)


def test_what_was_read_keeps_its_name(tmp_path: Path) -> None:
    content = settled(fifo(tmp_path / "pipe", b"\xff\xff"))
    assert isinstance(content, Content)
    with pytest.raises(CompileError, match=rf"^{tmp_path}/pipe: is no NetDef"):
        load(content)
    for path in (tmp_path, tmp_path / "none", "a\0b", "x" * 300):
        assert settled(path) is path


@pytest.mark.parametrize("path", ["a\0b", "x" * 300, "/dev", ""])
def test_paths_that_name_nothing(path: str) -> None:
    with pytest.raises(CompileError) as error:
        rnncc.compile(path)
    assert "\n" not in str(error.value)


TEXT = 'name: "m"\nop { type: "Tanh" input: "x" output: "größe" }\n'


def test_a_byte_order_mark_is_none_of_the_text() -> None:
    assert load(TEXT.encode("utf-8-sig")).op[0].output == ["größe"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1"])
def test_texts_in_other_encodings(encoding: str) -> None:
    marks = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}
    with pytest.raises(CompileError) as error:
        load(marks.get(encoding, b"") + TEXT.encode(encoding), "net.pbtxt")
    told = {"latin-1": "net.pbtxt: is no NetDef: a text that is not UTF-8 at byte 50"}
    expected = "net.pbtxt: is text in UTF-16 (the text form of a NetDef is UTF-8)"
    assert str(error.value) == told.get(encoding, expected)
