"""A model as a wheel: what it holds, and that it installs and runs without the compiler."""

from __future__ import annotations

import csv
import hashlib
import os
import subprocess
import sys
import sysconfig
import venv
from base64 import urlsafe_b64decode
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

import rnncc
from rnncc.packaging.wheel import platform_of

ROOT = Path(__file__).parents[2]
NET = ROOT / "examples/lstm.pbtxt", ROOT / "examples/lstm_init.pbtxt"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    built = rnncc.build(*NET, out=out, products=["wheel"], wheel_version="1.2")
    assert built.wheel is not None and list(out.iterdir()) == built.paths
    return built.wheel


def test_what_it_holds(wheel: Path) -> None:
    machine = os.uname().machine
    assert wheel.name.startswith("lstm-1.2-py3-none-manylinux_2_")
    assert wheel.name.endswith(f"{machine}.whl")
    with ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    info = "lstm-1.2.dist-info"
    texts = {f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD")}
    assert files.keys() == {"lstm/__init__.py", "lstm/py.typed", "lstm/liblstm.so", *texts}
    told = files[f"{info}/METADATA"].decode()
    assert told.count("Requires-Dist") == 1
    assert f"\nRequires-Dist: rnncc-runtime>={rnncc.__version__}\n" in told
    rows = list(csv.reader(files[f"{info}/RECORD"].decode().splitlines()))
    assert {row[0] for row in rows} == files.keys()
    for name, digest, size in rows[:-1]:
        kind, _, text = digest.partition("=")
        expected = hashlib.new(kind, files[name]).digest()
        assert urlsafe_b64decode(text + "=") == expected and int(size) == len(files[name])


def test_the_same_model_gives_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    again = rnncc.build(*NET, out=tmp_path, products=["wheel", "so"], wheel_version="1.2")
    assert again.wheel is not None and again.library is not None
    assert again.wheel.read_bytes() == wheel.read_bytes()


def test_it_installs_and_runs(wheel: Path, tmp_path: Path) -> None:
    """In an environment that has NumPy and the runtime alone."""
    venv.create(tmp_path / "venv", symlinks=True)
    python = tmp_path / "venv/bin/python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--no-index", wheel], check=True)
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, numpy as np, lstm\n"
        "assert not any(name == 'rnncc' or name.startswith('rnncc.') for name in sys.modules)\n"
        "outputs = lstm.run(dict(np.load(sys.argv[1])))\n"
        "np.savez(sys.argv[2], **outputs)\n"
    )
    paths = os.pathsep.join((str(ROOT / "runtime"), sysconfig.get_paths()["purelib"]))
    command = [python, program, ROOT / "examples/lstm.npz", tmp_path / "y.npz"]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": paths})
    expected = rnncc.compile(*NET).run(dict(np.load(ROOT / "examples/lstm.npz")))
    with np.load(tmp_path / "y.npz") as found:
        assert all(np.array_equal(found[name], array) for name, array in expected.items())


@pytest.mark.parametrize(
    ("library", "triple", "tag"),
    [
        (b"", "x86_64-unknown-linux-gnu", "manylinux_2_17_x86_64"),
        (b"GLIBC_2.2.5\0GLIBC_2.29\0", "aarch64-unknown-linux-gnu", "manylinux_2_29_aarch64"),
        (b"", "x86_64-unknown-linux-musl", "linux_x86_64"),
    ],
)
def test_platform(library: bytes, triple: str, tag: str) -> None:
    assert platform_of(library, triple) == tag


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(rnncc.CompileError, match="'one' is no version"):
        rnncc.build(*NET, out=tmp_path, products=["wheel"], wheel_version="one")
    with pytest.raises(rnncc.CompileError, match="--wheel-version: goes with --products wheel"):
        rnncc.build(*NET, out=tmp_path, products="so,h", wheel_version="1.2")
    with pytest.raises(rnncc.CompileError, match="--products: names none"):
        rnncc.build(*NET, out=tmp_path, products=[])
    with pytest.raises(rnncc.CompileError, match="would hide Python's own module json"):
        rnncc.build(*NET, out=tmp_path, name="json", products=["wheel"])
    with pytest.raises(rnncc.CompileError, match="does not make the product wheel"):
        rnncc.build(*NET, out=tmp_path, target="reference", products=["wheel"])
    assert not list(tmp_path.iterdir())
