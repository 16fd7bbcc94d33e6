"""Libraries that are not all there, and paths that are none: a LoadError, before the loader."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rnncc_runtime import LoadError, Model, Stream, describe, load

import rnncc
from rnncc.packaging.elf import Elf

_LOAD_ALL = """
import sys
import numpy as np
from rnncc_runtime import LoadError, load
for path in sys.argv[1:]:
    try:
        model = load(path)
        model.run({name: np.ones((2, 2), np.float32) for name in model.inputs})
        print("loaded")
    except LoadError as error:
        print(error)
"""
"""Loads and calls libraries, and says of each what came of it."""


@pytest.mark.parametrize("part", [0.01, 0.1, 0.3, 0.5, 0.9])
def test_a_library_that_is_cut_off(part: float, twice_library: Path, tmp_path: Path) -> None:
    """The system's loader would map what is missing, and crash."""
    whole, path = twice_library.read_bytes(), tmp_path / "libtwice.so"
    loaded = max(s.offset + s.size for s in Elf(whole).sections if s.flags & 2 and s.kind != 8)
    path.write_bytes(whole[: int(loaded * part)])
    with pytest.raises(LoadError, match=r"is cut off|is damaged|file too short"):
        load(path)
    path.write_bytes(whole)
    assert load(path).name == "twice"


def test_a_library_with_holes(twice_library: Path, tmp_path: Path) -> None:
    """A block that never came to the disk is zeros; the loader, or a call, would crash."""
    whole, size = twice_library.read_bytes(), 4096
    paths = list[Path]()
    for start in range(0, len(whole), size):
        paths.append(tmp_path / f"{start}" / "libtwice.so")
        paths[-1].parent.mkdir()
        stop = min(start + size, len(whole))
        paths[-1].write_bytes(whole[:start] + bytes(stop - start) + whole[stop:])
    process = subprocess.run(
        [sys.executable, "-c", _LOAD_ALL, *map(str, paths)], capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    errors = process.stdout.splitlines()
    code = {s.offset // size for s in Elf(whole).sections if s.flags & 4 or s.kind == 6}
    for number in code:
        assert "is damaged: zeros from byte" in errors[number] or number == 0
    assert "is damaged" in errors[-1]  # the table of sections


def test_a_library_whose_metadata_has_another_format(twice_library: Path, tmp_path: Path) -> None:
    path = tmp_path / "libtwice.so"
    path.write_bytes(twice_library.read_bytes().replace(b'{"format": 2', b'{"format": 1'))
    with pytest.raises(LoadError, match=rf"^{path}: metadata of format 1, expected 2$"):
        load(path)


@pytest.mark.parametrize("load_or_describe", [load, describe])
def test_elements_of_no_known_type(
    load_or_describe: Any, twice_library: Path, tmp_path: Path
) -> None:
    path = tmp_path / "libtwice.so"
    path.write_bytes(twice_library.read_bytes().replace(b'"dtype": "f32"', b'"dtype": "f36"'))
    with pytest.raises(LoadError, match=rf"^{path}: its metadata lacks inputs, or it is damaged$"):
        load_or_describe(path)


def test_a_workspace_that_is_a_number(twice_library: Path, tmp_path: Path) -> None:
    """As that of a library may be whose sizes are all known."""
    path, formula, content = tmp_path / "libtwice.so", b'"64 + 4*T*N"', twice_library.read_bytes()
    assert formula in content
    path.write_bytes(content.replace(formula, b"64".ljust(len(formula))))
    assert "workspace: 64 bytes" in str(load(path))


def test_a_library_without_its_functions(twice_library: Path, tmp_path: Path) -> None:
    path = tmp_path / "libtwice.so"
    path.write_bytes(twice_library.read_bytes().replace(b"\0twice_run\0", b"\0twice_ran\0"))
    with pytest.raises(LoadError, match="a function is missing"):
        load(path)


@pytest.mark.parametrize("kind", ["none.so", "x" * 300, "a\0b", "folder", "fifo", "zero", "text"])
def test_paths_that_are_no_library(kind: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "text").write_text("text")
    with pytest.raises(LoadError) as error:
        load(f"{tmp_path}/{kind}", "m")
    assert len(str(error.value)) < 300 and "\n" not in str(error.value)


def test_an_interruption_leaves_no_folder(
    twice_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library that is loaded again is found in a folder of its own."""
    load(twice_library)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    remove = tempfile.TemporaryDirectory.cleanup

    def interrupted(folder: tempfile.TemporaryDirectory[str]) -> None:
        signal.raise_signal(signal.SIGINT)
        remove(folder)

    monkeypatch.setattr(tempfile.TemporaryDirectory, "cleanup", interrupted)
    with pytest.raises(KeyboardInterrupt):
        load(twice_library)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that lacks what Linux alone has."""
    for name in ("memfd_create", "RTLD_NOLOAD", "uname"):
        monkeypatch.delattr(os, name)


def test_systems_other_than_linux(elsewhere: None, twice_library: Path) -> None:
    model = load(twice_library)
    copied = pickle.loads(pickle.dumps(model))
    again = pickle.loads(pickle.dumps(copied))
    x = {"in/x": np.ones((4, 2, 3), np.float32), "lengths": np.full(2, 4, np.int32)}
    for name, array in model.run(x).items():
        assert np.array_equal(again.run(x)[name], array)
    folders = set(Path(tempfile.gettempdir()).glob("rnncc-*/twice"))
    assert folders
    del copied, again
    gc.collect()
    assert not folders & set(Path(tempfile.gettempdir()).glob("rnncc-*/twice"))


FILES = {
    "aarch64": ("libnet.so", "compiled for aarch64, and this machine is"),
    "windows-x64": ("net.dll", "compiled for Windows on x86_64, and this is Linux"),
    "macos-arm64": ("libnet.dylib", "compiled for macOS on aarch64, and this is Linux"),
}


# `zig` compiles mingw's start files for a minute and a half before it first links for Windows
@pytest.mark.parametrize(
    "target", ["aarch64", pytest.param("windows-x64", marks=pytest.mark.slow), "macos-arm64"]
)
def test_libraries_of_other_systems(target: str, tmp_path: Path) -> None:
    """They are described, and a refusal to load them says what they are for."""
    name, message = FILES[target]
    try:
        rnncc.build(rnncc.cells.gru(2, 3), out=tmp_path, name="net", target=target)
    except rnncc.CompileError as error:
        pytest.skip(str(error))
    assert describe(tmp_path / name)["name"] == "net"
    with pytest.raises(LoadError, match=message):
        load(tmp_path / name)


def test_a_dll_keeps_its_beginning(tmp_path: Path, twice_library: Path) -> None:
    """`lib` is part of a name there; of `libtwice.so` it is not."""
    dll = tmp_path / "libtwice.dll"
    dll.write_bytes(twice_library.read_bytes())
    with pytest.raises(LoadError, match="no model named libtwice in it"):
        load(dll)
    assert load(dll, "twice").name == "twice"


@pytest.mark.parametrize("kind", [Model, Stream])
def test_metadata_that_is_none(kind: Any) -> None:
    with pytest.raises(TypeError, match="metadata is of type list"):
        kind([], {})
    with pytest.raises(LoadError, match="metadata of format None"):
        kind({}, {})


def test_table_beyond_the_end(tmp_path: Path) -> None:
    """The place of the table of sections, beyond what a file can have."""
    file = tmp_path / "libfar.so"
    file.write_bytes(b"\x7fELF\x02\x01".ljust(32, b"\0") + b"@".ljust(8, b"\0") + b"\xff" * 8)
    file.write_bytes(file.read_bytes() + bytes(6) + b"\x38\0\0\0" + b"@\0\x04\0\x03\0")
    with pytest.raises(LoadError, match="cut off at 64 bytes"):
        load(file)
