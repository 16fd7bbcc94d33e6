"""Libraries that are not all there, and paths that are none: a LoadError, before the loader."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from rnncc_runtime import LoadError, load

from rnncc.packaging.elf import Elf


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
