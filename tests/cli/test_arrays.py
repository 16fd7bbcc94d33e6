"""Files of arrays for `rnncc run`: every plain form is read, everything else is one line."""

from __future__ import annotations

import io
import json
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from rnncc import arrays
from rnncc.cli import main
from rnncc.errors import CompileError
from rnncc.sources import limited

ROOT = Path(__file__).parents[2]
NET = [str(ROOT / "examples/lstm.pbtxt"), "--init", str(ROOT / "examples/lstm_init.pbtxt")]

ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)
PLAIN = {
    "float32": ROWS,
    "columns": np.asfortranarray(ROWS),
    "big endian": ROWS.astype(">f4"),
    "big endian columns": np.asfortranarray(ROWS.astype(">i8")),
    "nothing": np.zeros((0, 3), np.int32),
    "scalar": np.array(3.5),
    "bool": ROWS > 2,
    "half": ROWS.astype(np.float16),
    "strided": ROWS[:, ::2],
}
OTHER = {
    "objects": np.array([{}, None], object),
    "bytes": np.array([b"a", b"b"]),
    "records": np.zeros(2, [("a", "f4"), ("b", "i4")]),
    "times": np.zeros(2, "M8[s]"),
    "void": np.zeros(2, "V4"),
    "complex": np.zeros(2, np.complex64),
}


def npy(array: Any, version: tuple[int, int] | None = None) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=version)
    return file.getvalue()


def npz(method: int = zipfile.ZIP_STORED, **members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as made:
        for name, content in members.items():
            made.writestr(f"{name}.npy", content)
    return file.getvalue()


def read(content: bytes, folder: Path) -> Any:
    path = folder / "arrays"
    path.write_bytes(content)
    return arrays.read(path)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("kind", PLAIN)
def test_plain_arrays(kind: str, version: tuple[int, int], tmp_path: Path) -> None:
    want = PLAIN[kind]
    whole = npy(want, version)
    packed = read(npz(zipfile.ZIP_DEFLATED, a=whole, b=whole), tmp_path)
    assert packed.keys() == {"a", "b"}
    for got in (read(whole, tmp_path), *packed.values()):
        native = want.astype(want.dtype.newbyteorder("="))
        np.testing.assert_array_equal(got, native, strict=True)
        assert got.flags.c_contiguous and got.flags.aligned


@pytest.mark.parametrize("kind", OTHER)
def test_arrays_of_other_things(kind: str, tmp_path: Path) -> None:
    whole = npy(OTHER[kind])
    for content in (whole, npz(a=whole)):
        with pytest.raises(CompileError, match=r"is no .npy or .npz file of plain arrays"):
            read(content, tmp_path)


def test_texts(tmp_path: Path) -> None:
    words = np.array([["a", "naïve"], ["", "b c"]])
    array = read(npy(words), tmp_path)
    assert isinstance(array, np.ndarray) and array.tolist() == words.tolist()
    for damaged in (np.array(["a"]), np.array([""])):
        content = npy(damaged).replace("a".encode("utf-32-le"), b"\xff\xff\xff\x7f")
        content = content.replace(b"<U1", b"<U1" if damaged[0] else b"<U0")
        with pytest.raises(CompileError, match=r"a text holds no characters|have no bytes"):
            read(content, tmp_path)


HEADERS = {
    "Python 2": "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }",
    "another order": "{'shape':(2,3),'fortran_order':False,'descr':'<f4'}",
}
WRONG_HEADERS = {
    "cut": "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3",
    "code": "__import__('os').system('true')",
    "nested": "(" * 9000,
    "negative": "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, -3), }",
    "huge": "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, 3), }",
    "large": "{'descr': '<f4', 'fortran_order': False, 'shape': (1073741824, 1073741824), }",
    "too many axes": "{'descr': '|u1', 'fortran_order': False, 'shape': (%s), }" % ("1, " * 99),
    "no shape": "{'descr': '<f4', 'fortran_order': False, }",
    "twice the same": "{'descr': '<f4', 'descr': '<f4', 'shape': (2, 3), }",
    "shape of a text": "{'descr': '<f4', 'fortran_order': False, 'shape': '(2, 3)', }",
    "dtype of a truth": "{'descr': True, 'fortran_order': False, 'shape': (2, 3), }",
    "order of a text": "{'descr': '<f4', 'fortran_order': 'False', 'shape': (2, 3), }",
    "unknown dtype": "{'descr': '<f5', 'fortran_order': False, 'shape': (2, 3), }",
    "list of dtypes": "{'descr': '<f4,<f4', 'fortran_order': False, 'shape': (3,), }",
    "control": "{'descr': '\x00f4', 'fortran_order': False, 'shape': (2, 3), }",
    "empty": "",
    "long": "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }" + " " * 20_000,
}


def headed(text: str, data: bytes = ROWS.tobytes()) -> bytes:
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode("latin-1") + data


@pytest.mark.parametrize("kind", HEADERS)
def test_other_headers(kind: str, tmp_path: Path) -> None:
    np.testing.assert_array_equal(read(headed(HEADERS[kind]), tmp_path), ROWS, strict=True)


@pytest.mark.parametrize("kind", WRONG_HEADERS)
def test_wrong_headers(kind: str, tmp_path: Path) -> None:
    whole = headed(WRONG_HEADERS[kind])
    for content in (whole, npz(a=whole)):
        with pytest.raises(CompileError, match=r"is no .npy or .npz file of plain arrays"):
            read(content, tmp_path)


def changed(content: bytes, at: int, new: bytes) -> bytes:
    return content[:at] + new + content[at + len(new) :]


WHOLE = npz(a=npy(ROWS))
TABLE = WHOLE.index(b"PK\1\2")
WRONG_FILES = {
    "empty": b"",
    "text": b"x: 3",
    "no array inside": npz(a=b"text"),
    "empty inside": npz(a=b""),
    "cut": WHOLE[:-30],
    "cut array": npy(ROWS)[:-1],
    "more than an array": npy(ROWS) + b"\0",
    "version 9": b"\x93NUMPY\x09\0" + npy(ROWS)[8:],
    "magic alone": b"\x93NUMPY",
    "bad checksum": changed(WHOLE, WHOLE.index(ROWS.tobytes()), b"\1"),
    "encrypted": changed(WHOLE, TABLE + 8, b"\1"),
    "bzip2": npz(zipfile.ZIP_BZIP2, a=npy(ROWS)),
    "lzma": npz(zipfile.ZIP_LZMA, a=npy(ROWS)),
    "unknown method": changed(WHOLE, TABLE + 10, b"\x63"),
    "offset beyond": changed(WHOLE, TABLE + 42, b"\xff\xff\xff\x7f"),
    "damaged deflate": changed(npz(zipfile.ZIP_DEFLATED, a=npy(ROWS)), 40, b"\xff" * 9),
}


@pytest.mark.parametrize("kind", WRONG_FILES)
def test_wrong_files(kind: str, tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"arrays: is no .npy or .npz file of plain arrays") as e:
        read(WRONG_FILES[kind], tmp_path)
    assert "\n" not in str(e.value)


def test_two_members_of_one_name(tmp_path: Path) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made, pytest.warns(UserWarning, match="Duplicate"):
        for _ in range(2):
            made.writestr("a.npy", npy(ROWS))
    with pytest.raises(CompileError, match="two arrays named 'a'"):
        read(file.getvalue(), tmp_path)


def test_mutated_files() -> None:
    """Whatever bytes change, arrays or one line come of it."""
    random, refused = Random(0), 0
    seeds = [npy(ROWS), npy(ROWS, (2, 0)), WHOLE, npz(zipfile.ZIP_DEFLATED, a=npy(ROWS), b=b"x")]
    for _ in range(4000):
        content = bytearray(random.choice(seeds))
        for _ in range(random.choice((1, 1, 2, 6))):
            content[random.randrange(len(content))] = random.choice(
                (0, 1, 255, random.randrange(256))
            )
        if random.random() < 0.2:
            del content[random.randrange(len(content)) :]
        try:
            found = arrays.parse(bytes(content), "x.npz")
        except CompileError as error:
            assert str(error).startswith("x.npz: is no .npy") and "\n" not in str(error)
            refused += 1
        else:
            values = found.values() if isinstance(found, dict) else [found]
            assert all(array.dtype.kind in "biuf" for array in values)
    assert 1000 < refused < 4000


def large_member() -> bytes:
    return npz(zipfile.ZIP_DEFLATED, a=npy(np.zeros(16 << 20, np.uint8)))


def many_members() -> bytes:
    part = npy(np.zeros(1 << 20, np.uint8))
    return npz(zipfile.ZIP_DEFLATED, **{f"a{i}": part for i in range(6)})


def many_entries() -> bytes:
    """Each is an object, before any is read."""
    return b"PK\1\2" * (arrays.MAX_ARRAYS + 1)


@pytest.mark.parametrize("make", [large_member, many_members, many_entries])
def test_bombs(make: Callable[[], bytes]) -> None:
    content, limit = make(), 4 << 20
    tracemalloc.start()
    try:
        with limited(limit), pytest.raises(CompileError, match="holds more than"):
            arrays.parse(content, "x.npz")
        assert tracemalloc.get_traced_memory()[1] < 4 * limit
    finally:
        tracemalloc.stop()


def test_written_arrays_are_read_again(tmp_path: Path) -> None:
    held = {"a/b": ROWS, "file": ROWS.T, "größe": np.zeros((0, 2)), "self": np.array(True)}
    arrays.write(held, tmp_path / "y.npz")
    found = arrays.read(tmp_path / "y.npz")
    assert isinstance(found, dict) and found.keys() == held.keys()
    with np.load(tmp_path / "y.npz") as loaded:  # NumPy agrees
        for name, array in held.items():
            np.testing.assert_array_equal(found[name], array, strict=True)
            np.testing.assert_array_equal(loaded[name], array, strict=True)
    arrays.write({"a": ROWS.T}, tmp_path / "y.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), ROWS.T, strict=True)


@pytest.mark.parametrize("kind", ["text", "bzip2", "damaged deflate", "magic alone"])
def test_the_command_says_it_in_one_line(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(WRONG_FILES[kind])
    assert main(["run", *NET, "-i", str(path)]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"rnncc: error: {path}: is no .npy") and told.count("\n") == 1
    assert json.dumps(told).isascii()
