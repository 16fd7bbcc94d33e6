"""What several tests of the command share."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from rnncc.netdef import Argument, NetDef, OperatorDef, save
from tests.cli.surrounded import NORMAL, Run, environment

Pipe = Callable[[bytes], None]
"""Gives bytes to standard input."""


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Pipe:
    def given(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return given


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small net whose names are not ASCII."""
    folder = tmp_path_factory.mktemp("größe")
    names = [*(f"schön{i}" for i in range(30)), "größe"]
    ops = [OperatorDef(type="FC", input=["x", "wörter", "b"], output=names[:1])]
    pairs = pairwise(names)
    ops += [OperatorDef(type="Relu", input=[a], output=[b]) for a, b in pairs]
    inputs = ["x", "wörter", "b"]
    net = NetDef(name="nämlich", op=ops, external_input=inputs, external_output=["größe"])
    init = NetDef()
    for name, shape in (("wörter", [3, 4]), ("b", [3])):
        values = Argument(name="values", floats=[0.5] * int(np.prod(shape)))
        arg = [Argument(name="shape", ints=shape), values]
        init.op.append(OperatorDef(type="GivenTensorFill", output=[name], arg=arg))
    save(net, folder / "nöt.pbtxt", text=True)
    save(init, folder / "init.pb")
    np.savez(folder / "x.npz", x=np.ones((60, 4), np.float32))
    return folder


@pytest.fixture(scope="module")
def server() -> Iterator[subprocess.Popen[str]]:
    variables = {**environment(), "OPENBLAS_NUM_THREADS": "1"}  # others would not be after a fork
    variables.pop("RNNCC_DEBUG", None)
    process = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("surroundings.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=variables,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


@pytest.fixture
def run(files: Path, server: subprocess.Popen[str], tmp_path: Path) -> Run:
    """Runs words in a child: its status, and what it printed."""
    names = {"NET": "nöt.pbtxt", "INIT": "init.pb", "ARRAYS": "x.npz"}
    places = {word: str(files / name) for word, name in names.items()}

    def run(
        text: str, streams: tuple[str, str, str] = NORMAL, **more: object
    ) -> tuple[int, str, str]:
        words = [
            places.get(word, word.replace("OUT", str(tmp_path / "new"))) for word in text.split()
        ]
        where = [
            s if s.startswith("/") or s in ("closed", "broken") else str(tmp_path / s)
            for s in streams
        ]
        request = {"words": words, "streams": where, "encoding": "utf-8", **more}
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        status = json.loads(server.stdout.readline())["status"]
        printed = [tmp_path / name for name in ("out", "err")]
        texts = [path.read_bytes().decode() if path.exists() else "" for path in printed]
        for path in printed:
            path.unlink(missing_ok=True)
        return status, texts[0], texts[1]

    return run
