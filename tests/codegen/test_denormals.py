"""`--flush-denormals`: which bits change, and that each caller's mode is what it was."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rnncc_runtime import Pool

import rnncc
from rnncc import CompileError
from rnncc.commands.libraries import inspect
from rnncc.driver.compiling import compile_object
from rnncc.driver.remote.runners import USERS
from rnncc.options import Options
from tests.teams import insistent

HERE = Path(__file__).parent
TINY = np.finfo(np.float32).tiny
STEPS = 200
EVERYWHERE = bool(os.environ.get("RNNCC_TARGETS"))


def decaying(scale: float = 0.5) -> Any:
    """h_t = scale · h_{t-1} + x_t."""
    layer = rnncc.cells.elman(1, 1, activation="identity")
    layer.arrays["W"][...], layer.arrays["RW"][...], layer.arrays["b"][...] = 1, scale, 0
    return layer


def impulse() -> dict[str, Any]:
    x = np.zeros((STEPS, 1, 1), np.float32)
    x[0] = 1
    return {"x": x}


def flushed_decay() -> Any:
    y = np.ldexp(np.float32(1), -np.arange(STEPS)).astype(np.float32)
    return np.where(y < TINY, np.float32(0), y)[:, None, None]


def test_inspection_tells_of_it(tmp_path: Path) -> None:
    options: dict[str, Any] = {"products": ("so",), "flush_denormals": True, "max_steps": STEPS}
    library = rnncc.build(decaying(), out=tmp_path, **options).library
    assert library is not None
    told = inspect(library)["library"]
    assert (told["denormals"], told["max_steps"]) == ("flushed", STEPS)


def test_a_decay_ends_at_the_last_normal_number() -> None:
    kept = rnncc.compile(decaying()).run(impulse())["y"]
    assert ((kept > 0) & (kept < TINY)).sum() == 23  # else there is nothing to flush
    model = rnncc.compile(decaying(), flush_denormals=True, threads=True)
    assert model.metadata["denormals"] == "flushed"
    assert np.array_equal(model.run(impulse())["y"], flushed_decay())
    stream = model.stream(batch=1)
    pieces = [stream.step({"x": row})["y"] for row in impulse()["x"]]
    assert np.array_equal(np.stack(pieces), flushed_decay())
    with Pool(2) as pool:
        assert np.array_equal(insistent(model).run(impulse(), pool=pool)["y"], flushed_decay())
    assert np.float32(TINY) / np.float32(2) > 0  # Python's own mode


def test_denormal_inputs_are_zeros() -> None:
    x = np.full((1, 1, 1), -1e-40, np.float32)
    y = rnncc.compile(decaying(), flush_denormals=True).run({"x": x})["y"]
    assert y == 0


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_normal_numbers_keep_their_bits(precision: str) -> None:
    layer = rnncc.cells.gru(3, 18)
    x = {"x": np.random.default_rng(0).normal(size=(9, 3, 3)).astype(np.float32)}
    kept = rnncc.compile(layer, precision=precision).run(x)
    flushed = rnncc.compile(layer, precision=precision, flush_denormals=True).run(x)
    for name, array in kept.items():
        assert np.array_equal(array, flushed[name])


def test_gradients_are_flushed_too() -> None:
    ones = {"y": np.ones((STEPS, 1, 1), np.float32)}
    ones["y"][:-1] = 0
    grads = {}
    for flush in (False, True):
        model = rnncc.compile(decaying(), train=True, flush_denormals=flush)
        outputs, tape = model.forward(impulse())
        grads[flush] = model.backward(tape, ones)["x"]
    assert np.array_equal(outputs["y"], flushed_decay())
    assert np.array_equal(grads[True], flushed_decay()[::-1])
    assert (grads[False] != grads[True]).any()


def by_c(folder: Path, compiler: str, emulator: list[str], **options: Any) -> None:
    rnncc.build(
        decaying(), out=folder, name="net", products=["a", "h"], flush_denormals=True,
        threads=True, **options,
    )  # fmt: skip
    assert "During a call denormals are flushed" in (folder / "net.h").read_text()
    program, include = folder / "program", HERE.parents[1] / "runtime/include"
    flags = f"-std=gnu11 -O1 -Wall -Wextra -Werror -pthread -I{folder} -I{include}".split()
    files = [HERE / "denormals.c", folder / "libnet.a", "-lm", "-o", program]
    subprocess.run([compiler, *flags, *(["-static"] if emulator else []), *files], check=True)
    done = subprocess.run([*emulator, program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_modes_are_restored(tmp_path: Path) -> None:
    by_c(tmp_path, "cc", [])


@pytest.mark.skipif(not EVERYWHERE, reason="for `make targets`")
@pytest.mark.parametrize("name", ["aarch64", "armv7"])
def test_modes_of_other_machines(tmp_path: Path, name: str) -> None:
    emulator, compiler = USERS[name]
    if missing := [program for program in (emulator, compiler) if shutil.which(program) is None]:
        pytest.skip(f"no {', '.join(missing)}")
    by_c(tmp_path, compiler, [emulator], target=name)


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("riscv64", "riscv64 has no mode that flushes denormals"),
        ("riscv32-unknown-none-elf", "riscv32 has no mode that flushes denormals"),
        ("wasm32", "wasm32 has no mode that flushes denormals"),
        ("c99", "C99 has no mode that flushes denormals"),
        ("nvptx", "code for GPUs keeps denormals, which cost nothing there"),
    ],
)
def test_targets_without_a_mode_refuse_before_the_net_is_read(
    tmp_path: Path, target: str, reason: str
) -> None:
    net = tmp_path / "damaged.pb"
    net.write_bytes(b"\xff" * 64)
    with pytest.raises(CompileError, match=reason):
        rnncc.build(net, out=tmp_path, name="net", target=target, flush_denormals=True)


@pytest.mark.parametrize(
    ("target", "flushes"), [("armv7", True), ("cortex-m55", True), ("cortex-m4", False)]
)
def test_what_vectors_flush_single_elements_flush_too(target: str, flushes: bool) -> None:
    """Else the bits of a row would depend on where in a vector its elements lie."""
    metadata = compile_object(decaying(), None, Options(name="decay", target=target)).metadata
    assert (metadata.get("denormals") == "flushed") == flushes
