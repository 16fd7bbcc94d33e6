"""Compiled libraries wherever a net is taken, as far as they carry what is needed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
import rnncc_runtime

import rnncc
from rnncc.cli import main
from rnncc.codegen.cpu import resolve

ROOT = Path(__file__).parents[2]
NET = [str(ROOT / "examples/lstm.pbtxt"), str(ROOT / "examples/lstm_init.pbtxt")]
ARRAYS = str(ROOT / "examples/lstm.npz")
QUICK = ["--rounds", "1", "--seconds", "0.001"]

Capture = pytest.CaptureFixture[str]
Place = tuple[Any, ...]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A library whose file has another name than its model."""
    out = tmp_path_factory.mktemp("library")
    assert main(["compile", *NET, "--cpu", "x86-64-v2", "-o", str(out)]) == 0
    return str(shutil.move(out / "liblstm.so", out / "renamed.so"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One of training."""
    out = tmp_path_factory.mktemp("trained")
    layer = rnncc.cells.lstm(2, 3)
    return str(rnncc.build(layer, out=out, name="layer", train=True).library)


def test_inspect(library: str, capsys: Capture) -> None:
    assert main(["inspect", library]) == 0
    told = capsys.readouterr().out
    assert "for        x86-64-v2, x86_64" in told and "probabilities" in told
    assert main(["inspect", library, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["name"], report["symbols"]) == ("lstm", ["T", "N"])
    assert report["inputs"][0] == {"name": "x", "dtype": "f32", "shape": ["T", "N", 64]}
    assert main(["inspect", *NET, "--json"]) == 0
    net = json.loads(capsys.readouterr().out)
    assert report["outputs"] == net["outputs"]


@pytest.mark.parametrize("cpu", ["native", "native,x86-64-v2"])
def test_inspect_says_what_code_is_tuned_for(
    cpu: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(resolve, "tuned_for", lambda *_: "sapphirerapids")
    library = str(rnncc.build(rnncc.cells.elman(2, 3), out=tmp_path, name="layer", cpu=cpu).library)
    here = llvm.get_host_cpu_name()
    assert main(["inspect", library]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len([x for x in lines if "tuned" in x]) == 1
    assert any(
        x.startswith("for") and f"{here} as LLVM names it, tuned for sapphi" in x for x in lines
    )


def test_nothing_of_a_library_is_run_to_describe_it(library: str, tmp_path: Path) -> None:
    """A file for another machine can be described."""
    content = bytearray(Path(library).read_bytes())
    content[18:20] = (183).to_bytes(2, "little")  # AArch64
    other = tmp_path / "other.so"
    other.write_bytes(content)
    assert rnncc_runtime.describe(other)["name"] == "lstm"
    with pytest.raises(rnncc_runtime.LoadError, match="compiled for aarch64"):
        rnncc_runtime.load(other, "lstm")


def test_plan(library: str, capsys: Capture) -> None:
    assert main(["plan", library, "--plan-for", "100,2", "--json"]) == 0
    blocks = json.loads(capsys.readouterr().out)["blocks"]
    model = rnncc_runtime.load(library, "lstm")
    assert blocks["workspace"]["size"] == model.metadata["workspace"]
    assert blocks["state"]["bytes"] == 1088 * 2 + 64
    assert main(["plan", library]) == 0
    assert "at T=50, N=8" in capsys.readouterr().out


def test_run(library: str, tmp_path: Path) -> None:
    outs = tmp_path / "a.npz", tmp_path / "b.npz"
    assert main(["run", library, "-i", ARRAYS, "-o", str(outs[0])]) == 0
    assert main(["run", *NET, "--cpu", "x86-64-v2", "-i", ARRAYS, "-o", str(outs[1])]) == 0
    ours, theirs = map(np.load, outs)
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs.files)


def test_bench(library: str, trained: str, capsys: Capture) -> None:
    assert main(["bench", library, "--for", "3,1", *QUICK]) == 0
    assert "T=3 N=1" in capsys.readouterr().out
    assert main(["bench", trained, "--for", "T=3", *QUICK]) == 0
    assert "forward and backward" in capsys.readouterr().out
    assert main(["bench", library, "--seconds", "nan"]) == 2
    assert "nan is no finite number" in capsys.readouterr().err


def test_training_library_is_told(trained: str, capsys: Capture) -> None:
    assert main(["inspect", trained]) == 0
    assert "tape" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["compile", "LIB"], "is no net but a compiled library or program (ELF)"),
        (["check", "LIB"], "is no net but a compiled library or program (ELF)"),
        (["run", "LIB", "--precision", "int8"], "is a library: --precision goes with a net"),
        (["run", "LIB", "--shape", "x=T"], "is a library: --shape goes with a net"),
        (["inspect", "LIB", NET[1]], "is a library: --init goes with a net"),
        (["plan", "LIB", "--html", "a.html"], "is a library: --html goes with a net"),
        (["plan", "LIB", "--plan-for", "K=1"], "the net has no K (its sizes are T, N)"),
        (["bench", "LIB", "--train"], "is a library: --train goes with a net"),
        (["bench", "LIB", "--bind", "x=1"], "is a library: --bind goes with a net"),
        (["bench", "LIB", "--threads", "2"], "is a library: --threads goes with a net"),
        (["bench", "LIB", "--explain"], "--explain: counts the work of a net"),
        (["bench", "LIB", "--roofline"], "--roofline: counts the work of a net"),
        (["inspect", "/bin/sh"], "no model that rnncc compiled is in it"),
    ],
)
def test_what_needs_a_net_is_refused(
    words: list[str], told: str, library: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rnncc.bench.running.os.sched_getaffinity", lambda pid: {0, 1})
    assert main([library if word == "LIB" else word for word in words]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and told in printed.err and printed.err.count("\n") == 1


VALUES: list[Any] = [None, True, -1, 10**50, 0.5, "", "x\x1b[2J", "9" * 5000, [], {}, [None]]


def places(value: Any, path: Place = ()) -> Iterator[Place]:
    """Where something stands in a JSON document, all but its root."""
    if not isinstance(value, dict | list):
        return
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        yield from places(inner, (*path, key))


def with_metadata(content: bytes, metadata: Any) -> bytes:
    """A library that tells something else of itself, which is no longer."""
    start = content.index(b'{"format": ')
    end = content.index(b"\0", start)
    text = json.dumps(metadata).encode()
    return content[:start] + text.ljust(end - start, b"\0") + content[end:]


@pytest.mark.parametrize("command", ["inspect", "plan"])
def test_damaged_metadata(command: str, library: str, tmp_path: Path, capsys: Capture) -> None:
    """Nothing of what describes a library is trusted."""
    content, path = Path(library).read_bytes(), tmp_path / "damaged.so"
    metadata = rnncc_runtime.describe(library)
    metadata["features"] = metadata["parameters"] = []  # room for what is longer
    for number, place in enumerate(places(metadata)):
        damaged = json.loads(json.dumps(metadata))
        parent = reduce(getitem, place[:-1], damaged)
        if number % (len(VALUES) + 1) == len(VALUES):
            del parent[place[-1]]
        else:
            parent[place[-1]] = VALUES[number % (len(VALUES) + 1)]
        path.write_bytes(with_metadata(content, damaged))
        status, told = main([command, str(path)]), capsys.readouterr()
        assert status in (0, 2), told.err
        assert told.err.count("\n") == status // 2 and "\x1b" not in told.out
