"""The cache of models compiled in memory: what is found, what is not, and what may go wrong."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rnncc_runtime import Model

import rnncc
from rnncc import cells
from rnncc.driver import cache
from rnncc.errors import CompileError, InternalError
from rnncc.netdef import Argument, NetDef, OperatorDef
from rnncc.packaging.image import Image, ImageError
from rnncc.stages import reading

WIDTH = 5


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a cache of this test's own."""
    monkeypatch.setenv("RNNCC_CACHE", "1")
    monkeypatch.setenv("RNNCC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("RNNCC_CACHE_BYTES", raising=False)
    return tmp_path / "cache"


def net(kind: str = "Tanh") -> NetDef:
    """y = kind(w x + b), row by row."""
    ops = [
        OperatorDef(type="FC", input=["x", "w", "b"], output=["z"]),
        OperatorDef(type=kind, input=["z"], output=["y"]),
    ]
    return NetDef(name="made", op=ops, external_input=["x", "w", "b"], external_output=["y"])


def init(scale: float = 1.0) -> NetDef:
    """The net of w and b."""
    made = NetDef()
    for name, shape in (("w", [WIDTH, WIDTH]), ("b", [WIDTH])):
        values = np.linspace(-scale, scale, int(np.prod(shape))).tolist()
        args = [Argument(name="shape", ints=shape), Argument(name="values", floats=values)]
        made.op.append(OperatorDef(type="GivenTensorFill", output=[name], arg=args))
    return made


X = np.linspace(-2, 2, 3 * WIDTH, dtype=np.float32).reshape(3, WIDTH)


def result(model: Model) -> bytes:
    """The bits of y."""
    return model.run({"x": X})["y"].tobytes()


def entries(folder: Path) -> list[Path]:
    """The entries there are."""
    return sorted((folder / cache.FOLDER).glob("*.model"))


def never(*arguments: object) -> Any:
    """In place of what an entry that is found saves."""
    raise AssertionError("compiled, although it was compiled before")


def test_found_without_compiling(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = rnncc.compile(net(), init())
    assert len(entries(folder)) == 1
    monkeypatch.setattr(reading, "import_source", never)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))  # what fails leaves its IR there
    again = rnncc.compile(net(), init())
    assert result(again) == result(first)
    assert list(again.inputs.values()) == list(first.inputs.values())
    assert list(again.outputs.values()) == list(first.outputs.values())
    with pytest.raises(InternalError, match="step 'read' failed"):
        rnncc.compile(net(), init(2.0))


def test_files_count_by_content(folder: Path, tmp_path: Path) -> None:
    for name in ("one.pb", "two.pb"):
        (tmp_path / name).write_bytes(net().SerializeToString())
        rnncc.compile(tmp_path / name, init(), name="same")
    assert len(entries(folder)) == 1
    (tmp_path / "two.pb").write_bytes(net("Sigmoid").SerializeToString())
    changed = rnncc.compile(tmp_path / "two.pb", init(), name="same")
    assert len(entries(folder)) == 2
    assert result(changed) == result(rnncc.compile(net("Sigmoid"), init()))


@pytest.mark.parametrize(
    "options",
    [
        {"shapes": {"x": ("N", WIDTH)}},
        {"name": "other"},
        {"cpu": "x86-64-v2" if os.uname().machine == "x86_64" else "generic"},
        {"seed": 1},
        {"precision": "bf16"},
        {"threads": True},
        {"train": True},
    ],
)
def test_options_are_told_apart(folder: Path, options: dict[str, Any]) -> None:
    rnncc.compile(net(), init())
    rnncc.compile(net(), init(), **options)
    assert len(entries(folder)) == 2


def test_another_rnncc_finds_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rnncc.compile(net(), init())
    monkeypatch.setattr(cache, "_sources", lambda: "another")
    rnncc.compile(net(), init())
    assert len(entries(folder)) == 2


def test_training(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = rnncc.compile(net(), init(), train=True)
    monkeypatch.setattr(reading, "import_source", never)
    again = rnncc.compile(net(), init(), train=True)
    found: list[dict[str, bytes]] = []
    for model in (first, again):
        parameters = model.parameters.items()
        outputs, tape = model.forward({"x": X})
        grads = model.backward(tape, {"y": np.ones_like(outputs["y"])})
        arrays = {**outputs, **{f"{name} grad": grad for name, grad in grads.items()}}
        found.append({n: np.asarray(a).tobytes() for n, a in [*parameters, *arrays.items()]})
    assert found[0] == found[1]
    assert len(found[0]) > 4


def test_nets_built_in_python(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = {"x": X.reshape(3, 1, WIDTH)}
    first = rnncc.compile(cells.elman(WIDTH, 4, seed=1))
    for other in (cells.elman(WIDTH, 4, seed=2), cells.elman(WIDTH, 4, seed=1, activation="relu")):
        rnncc.compile(other)
    assert len(entries(folder)) == 3
    monkeypatch.setattr(reading, "import_source", never)
    again = rnncc.compile(cells.elman(WIDTH, 4, seed=1))
    assert again.run(x)["y"].tobytes() == first.run(x)["y"].tobytes()


@pytest.mark.parametrize("off", ["0", "Off"])
def test_off(folder: Path, monkeypatch: pytest.MonkeyPatch, off: str) -> None:
    monkeypatch.setenv("RNNCC_CACHE", off)
    rnncc.compile(net(), init())
    assert not folder.exists()


def test_a_folder_in_the_place_of_the_switch(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RNNCC_CACHE", str(folder))
    with pytest.raises(CompileError, match=r"is neither 0 nor 1 \(the folder is RNNCC_CACHE_DIR\)"):
        rnncc.compile(net(), init())


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


def test_least_recently_used_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []
    for age in range(3):
        rnncc.compile(net(), init(1.0 + age))
        made += (entry for entry in entries(folder) if entry not in made)
        os.utime(made[age], (age, age))
    oldest = made[0]
    stopped = oldest.parent / f".rnncc-{16 * '0'}"  # what a writer that was killed leaves
    stopped.write_bytes(bytes(10))
    os.utime(stopped, (0, 0))
    rnncc.compile(net(), init(1.0))  # used: now the youngest
    size = max(entry.stat().st_size for entry in entries(folder))
    monkeypatch.setenv("RNNCC_CACHE_BYTES", str(3 * size))
    rnncc.compile(net(), init(4.0))
    assert len(entries(folder)) == 3
    assert oldest.exists()
    assert not stopped.exists()
    monkeypatch.setattr(reading, "import_source", never)
    for scale in (1.0, 3.0, 4.0):
        rnncc.compile(net(), init(scale))


def test_what_is_too_large_is_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RNNCC_CACHE_BYTES", "1K")
    rnncc.compile(net(), init())
    assert not folder.exists()
    monkeypatch.setenv("RNNCC_CACHE_BYTES", "many")
    monkeypatch.setattr(reading, "import_source", never)  # it is told before the work
    with pytest.raises(CompileError, match="RNNCC_CACHE_BYTES: 'many' is not a number of bytes"):
        rnncc.compile(net(), init())


def test_no_folder_is_no_error(tmp_path: Path, folder: Path, monkeypatch: Any) -> None:
    expected = result(rnncc.compile(net(), init()))
    (tmp_path / "file").write_text("")
    for place in ("/proc/nothing/here", str(tmp_path / "file"), str(tmp_path / "file" / "inside")):
        monkeypatch.setenv("RNNCC_CACHE_DIR", place)
        assert result(rnncc.compile(net(), init())) == expected


def test_full_disk_is_no_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: object) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    rnncc.compile(net(), init())
    assert list((folder / cache.FOLDER).iterdir()) == []


def test_folders_that_others_write_to_are_not_used(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    rnncc.compile(net(), init())
    assert list(folder.iterdir()) == []


def test_writers_at_once(folder: Path) -> None:
    results: list[bytes] = []

    def work(scale: float) -> None:
        results.append(result(rnncc.compile(net(), init(scale))))

    threads = [threading.Thread(target=work, args=(1.0 + i % 2,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 6
    assert len(set(results)) == 2
    assert len(list((folder / cache.FOLDER).iterdir())) == len(entries(folder)) == 2


def test_errors_are_not_kept(folder: Path) -> None:
    for _ in range(2):
        with pytest.raises(CompileError, match="Tanch"):
            rnncc.compile(net("Tanch"), init())
    assert not folder.exists()


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
    return junk + [other.to_bytes() for other in changed]


def test_weights_are_kept_without_a_copy() -> None:
    """Of large models each copy is most of what compiling takes."""
    weights = np.zeros(64, np.uint8)
    image = Image({}, {}, b"code", weights)
    assert np.shares_memory(np.frombuffer(image.parts()[-1], np.uint8), weights)
    assert image.to_bytes().endswith(b"code" + bytes(64))


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


def test_what_is_found_needs_no_compiler(folder: Path, tmp_path: Path) -> None:
    """A process that finds its model on disk imports neither xDSL nor the pipeline."""
    (tmp_path / "net.pb").write_bytes(net().SerializeToString())
    (tmp_path / "init.pb").write_bytes(init().SerializeToString())
    code = (
        "import rnncc, sys; rnncc.compile('net.pb', 'init.pb');"
        "print({'xdsl', 'rnncc.pipeline'} & sys.modules.keys())"
    )
    printed = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    ]
    assert printed[0] != "set()\n" and printed[1] == "set()\n"
