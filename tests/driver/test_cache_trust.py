"""The cache trusts its own files alone: of others, of other users, damaged, or no files at all."""

from __future__ import annotations

import os
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rnncc
from rnncc.driver import cache
from rnncc.packaging.image import Image, ImageError
from tests.driver.cached import entries, init, net, result


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:20],
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:],
        lambda data: data[:-9] + bytes([data[-9] ^ 128]) + data[-8:],
    ],
)
def test_damaged_entries_are_made_anew(folder: Path, damage: Any) -> None:
    expected = result(rnncc.compile(net(), init()))
    (entry,) = entries(folder)
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))
    assert result(rnncc.compile(net(), init())) == expected
    assert len(entry.read_bytes()) == len(whole)
    entry.unlink()
    entry.mkdir()  # no file at all
    assert result(rnncc.compile(net(), init())) == expected


def test_folders_that_others_write_to_are_not_used(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    rnncc.compile(net(), init())
    assert list(folder.iterdir()) == []


def test_files_of_others_stay(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever their names: they are neither counted nor touched."""
    rnncc.compile(net(), init())
    (entry,) = entries(folder)
    foreign: list[Path] = []
    for place in (folder, entry.parent):
        foreign += [place / name for name in ("thesis.model", ".old.model.bak", f"{entry.name}x")]
    foreign += [folder / entry.name, folder / f".rnncc-{16 * '0'}"]
    for path in foreign:
        path.write_bytes(bytes(entry.stat().st_size))
        os.utime(path, (0, 0))
    strange = [entry.parent / f"{digit * 40}.model" for digit in "0123"]
    os.mkfifo(strange[0])
    strange[1].mkdir()
    strange[2].symlink_to(foreign[0])
    strange[3].symlink_to("/dev/zero")
    monkeypatch.setenv("RNNCC_CACHE_BYTES", str(entry.stat().st_size * 3 // 2))
    rnncc.compile(net(), init(2.0))
    assert not entry.exists()  # one was too much
    for path in foreign:
        assert path.stat().st_mtime == 0
    for path in strange:
        assert path.lstat()
    assert len(entries(folder)) == 1 + len(strange) + len(("thesis.model",))


def replaced_by_fifo(entry: Path) -> None:
    os.mkfifo(entry)


def replaced_by_folder(entry: Path) -> None:
    entry.mkdir()


def replaced_by_device(entry: Path) -> None:
    entry.symlink_to("/dev/zero")


def replaced_by_link(entry: Path) -> None:
    other = entry.with_name("elsewhere")
    other.write_bytes(b"mine")
    entry.symlink_to(other)


@pytest.mark.parametrize(
    "put", [replaced_by_fifo, replaced_by_folder, replaced_by_device, replaced_by_link]
)
def test_what_is_no_file_is_no_entry(folder: Path, put: Any) -> None:
    expected = result(rnncc.compile(net(), init()))
    (entry,) = entries(folder)
    entry.unlink()
    put(entry)
    assert result(rnncc.compile(net(), init())) == expected
    if put is replaced_by_link:
        assert entry.with_name("elsewhere").read_bytes() == b"mine"


def test_only_the_user_may_write(folder: Path) -> None:
    before = os.umask(0)
    try:
        rnncc.compile(net(), init())
    finally:
        os.umask(before)
    (entry,) = entries(folder)
    assert entry.stat().st_mode & 0o777 == 0o600
    for made in (entry.parent, folder):
        assert made.stat().st_mode & 0o777 == 0o700
    entry.chmod(0o666)
    assert cache.find(entry.stem) is None  # others may have written it
    entry.chmod(0o600)
    assert cache.find(entry.stem) is not None
    entry.parent.chmod(0o777)
    assert cache.find(entry.stem) is None


def test_a_folder_behind_a_link_is_not_used(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.mkdir(mode=0o700)
    (folder / cache.FOLDER).symlink_to(tmp_path / "elsewhere")
    rnncc.compile(net(), init())
    assert list((tmp_path / "elsewhere").iterdir()) == []


def broken_images(whole: bytes) -> list[bytes]:
    """What is no image, although it may begin as one."""
    image = Image.from_bytes(whole)
    codes = [b"", b"junk", image.code[:64], image.code[: len(image.code) // 2]]
    codes += [image.code[:64] + bytes(len(image.code) - 64), b"\x7fELF\x02\x01" + bytes(200)]
    changed = [replace(image, code=code) for code in codes]
    others: list[Any] = [{"run": "other"}, {"run": 3}, []]
    changed += [replace(image, symbols=symbols) for symbols in others]
    changed += [replace(image, metadata=data) for data in ({}, {**image.metadata, "inputs": 1})]
    lengths = struct.pack("<QQQ", 2**63, 2**63, 0)
    junk = [b"", b"[]", bytes(24), lengths, whole[:-1], whole + b"\0", b"\xff" * 24]
    junk.append(struct.pack("<QQQ", 10**5, 0, 0) + b"[" * 10**5)
    return junk + [other.to_bytes() for other in changed]


def test_junk_with_its_checksum_is_compiled_anew(folder: Path) -> None:
    expected = result(rnncc.compile(net(), init()))
    (entry,) = entries(folder)
    whole = cache.find(entry.stem)
    assert whole is not None
    for content in broken_images(whole):
        cache.keep(entry.stem, [content])
        with pytest.raises(ImageError):
            Image.from_bytes(content)
    assert result(rnncc.compile(net(), init())) == expected
    assert cache.find(entry.stem) == whole


def test_an_entry_under_the_name_of_another_is_none(folder: Path) -> None:
    rnncc.compile(net(), init())
    (first,) = entries(folder)
    first.rename(first.with_name(f"{40 * 'a'}.model"))
    assert cache.find(40 * "a") is None
