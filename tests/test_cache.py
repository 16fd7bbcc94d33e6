"""The cache of models compiled in memory: what is found, what is not, and what may go wrong."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rnncc_runtime import Model

import rnncc
from rnncc import cache, cells, pipeline
from rnncc.errors import CompileError
from rnncc.netdef import Argument, NetDef, OperatorDef

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
    return sorted(folder.glob("*.model"))


def never(*arguments: object) -> Any:
    """In place of what an entry that is found saves."""
    raise AssertionError("compiled, although it was compiled before")


def test_found_without_compiling(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = rnncc.compile(net(), init())
    assert len(entries(folder)) == 1
    monkeypatch.setattr(pipeline, "import_source", never)
    again = rnncc.compile(net(), init())
    assert result(again) == result(first)
    assert list(again.inputs.values()) == list(first.inputs.values())
    assert list(again.outputs.values()) == list(first.outputs.values())
    with pytest.raises(AssertionError, match="compiled before"):
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
    monkeypatch.setattr(pipeline, "import_source", never)
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
    monkeypatch.setattr(pipeline, "import_source", never)
    again = rnncc.compile(cells.elman(WIDTH, 4, seed=1))
    assert again.run(x)["y"].tobytes() == first.run(x)["y"].tobytes()


def test_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RNNCC_CACHE", "0")
    rnncc.compile(net(), init())
    assert not folder.exists()


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
    stopped = folder / f".{oldest.name}.1.1"  # what a writer that was killed leaves
    stopped.write_bytes(bytes(10))
    os.utime(stopped, (0, 0))
    rnncc.compile(net(), init(1.0))  # used: now the youngest
    size = max(entry.stat().st_size for entry in entries(folder))
    monkeypatch.setenv("RNNCC_CACHE_BYTES", str(3 * size))
    rnncc.compile(net(), init(4.0))
    assert len(entries(folder)) == 3
    assert oldest.exists()
    assert not stopped.exists()
    monkeypatch.setattr(pipeline, "import_source", never)
    for scale in (1.0, 3.0, 4.0):
        rnncc.compile(net(), init(scale))


def test_what_is_too_large_is_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RNNCC_CACHE_BYTES", "1K")
    rnncc.compile(net(), init())
    assert not folder.exists()
    monkeypatch.setenv("RNNCC_CACHE_BYTES", "many")
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
    assert list(folder.iterdir()) == []


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
    assert len(list(folder.iterdir())) == len(entries(folder)) == 2


def test_errors_are_not_kept(folder: Path) -> None:
    for _ in range(2):
        with pytest.raises(CompileError, match="Tanch"):
            rnncc.compile(net("Tanch"), init())
    assert not folder.exists()
