"""Libraries with code for several CPUs: each gives the bits of a library for that CPU alone."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rnncc_runtime
from llvmlite import binding

import rnncc
from rnncc import CompileError
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.commands import libraries
from rnncc.driver.compiling import compile_object
from rnncc.options import Options
from rnncc.packaging.elf import Elf
from tests.compiling import text_of
from tests.golden import Arrays

CPUS = {"x86-64-v2": "sse4.2", "x86-64-v3": "avx2", "x86-64-v4": "avx512vl"}
LIST = ",".join(CPUS)
HERE = resolve_target()
pytestmark = pytest.mark.skipif(HERE.architecture != "x86_64", reason="needs an x86-64 CPU")
NET = rnncc.cells.elman(5, 19)
X = np.random.default_rng(0).normal(size=(6, 3, 5)).astype(np.float32)
EVERYWHERE = bool(os.environ.get("RNNCC_TARGETS"))
EMULATED = {"Nehalem": "x86-64-v2", "Haswell": "x86-64-v3"}
PROGRAM = """
#include <stdio.h>
#include <string.h>
#include "net.h"

static float x[6 * 3 * 5], y[2][6 * 3 * 19];
static _Alignas(64) char workspace[1 << 18], state[1 << 14];

int main(void) {
    if (!net_supported() || net_missing_feature()) return 1;
    if (fread(x, sizeof x, 1, stdin) != 1) return 2;
    if (net_workspace_bytes(6, 3) > sizeof workspace || net_state_bytes(3) > sizeof state) return 3;
    net_inputs inputs = {0};
    net_outputs outputs = {0};
    inputs.x = x;
    outputs.y = y[0];
    if (net_run(&inputs, &outputs, workspace, 6, 3)) return 4;
    outputs.y = y[1];
    if (net_state_init(&inputs, state, workspace, 3)) return 5;
    for (int t = 0; t < 6; t += 2, inputs.x += 2 * 3 * 5, outputs.y += 2 * 3 * 19)
        if (net_step(&inputs, &outputs, state, workspace, 2, 3)) return 6;
    if (memcmp(y[0], y[1], sizeof y[0])) return 7;
    fprintf(stderr, "%s", net_chosen_cpu());
    return fwrite(y[0], sizeof y[0], 1, stdout) != 1;
}
"""


@cache
def here() -> list[str]:
    """The CPUs whose code this machine runs."""
    host = binding.get_host_cpu_features()
    return [cpu for cpu, feature in CPUS.items() if host.get(feature)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fat library, in all forms that a C program may link."""
    out = tmp_path_factory.mktemp("fat")
    rnncc.build(NET, out=out, name="net", cpu=LIST, products=["so", "h", "a"])
    return out


def same_bits(got: Arrays, want: Arrays) -> None:
    assert got.keys() == want.keys()
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array, err_msg=name, strict=True)


def test_the_best_version_runs_here(folder: Path) -> None:
    chosen = here()[-1]
    library = ctypes.CDLL(str(folder / "libnet.so"))
    library.net_chosen_cpu.restype = ctypes.c_char_p
    assert library.net_chosen_cpu().decode() == chosen
    model, alone = rnncc_runtime.load(folder / "libnet.so"), rnncc.compile(NET, cpu=chosen)
    same_bits(model.run({"x": X}), alone.run({"x": X}))
    stream = model.stream(batch=3)
    pieces = [stream.step({"x": X[t : t + 2]})["y"] for t in range(0, 6, 2)]
    np.testing.assert_array_equal(np.concatenate(pieces), alone.run({"x": X})["y"])
    for sizes in ((6, 3), (1, 1), (1000, 16)):
        want = alone._functions["workspace_bytes"](*sizes)
        assert library.net_workspace_bytes(*map(ctypes.c_int64, sizes)) == want


@pytest.mark.parametrize("emulated", EMULATED)
def test_older_cpus(folder: Path, emulated: str) -> None:
    """By an emulator, which is an older CPU."""
    compiler, emulator = shutil.which("cc"), shutil.which("qemu-x86_64")
    if compiler is None or emulator is None:
        pytest.skip("no C compiler or no qemu-x86_64 here (Debian: qemu-user)")
    source, program = folder / "program.c", folder / f"program-{emulated}"
    source.write_text(PROGRAM)
    command = [compiler, "-std=c11", "-O1", "-static", str(source), "-o", str(program)]
    subprocess.run([*command, "-L", str(folder), "-lnet", "-lm"], check=True, timeout=120)
    done = subprocess.run(
        [emulator, "-cpu", emulated, str(program)],
        input=X.tobytes(), capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    cpu = EMULATED[emulated]
    assert done.stderr.decode().endswith(cpu)
    got = np.frombuffer(done.stdout, np.float32).reshape(6, 3, 19)
    np.testing.assert_array_equal(got, rnncc.compile(NET, cpu=cpu).run({"x": X})["y"])


def test_of_two_that_do_the_last_is_taken(tmp_path: Path) -> None:
    cpus = "x86-64-v3,x86-64-v2"
    made = rnncc.build(NET, out=tmp_path, name="net", cpu=cpus, products=["so"], precision="int8")
    assert made.library is not None
    got = rnncc_runtime.load(made.library).run({"x": X})
    alone = rnncc.compile(NET, cpu=cpus.split(",")[-1], precision="int8")
    same_bits(got, alone.run({"x": X}))


@pytest.mark.skipif(not EVERYWHERE, reason="with RNNCC_TARGETS=1 (make targets)")
def test_training(tmp_path: Path) -> None:
    outer: dict[str, Any] = {"y": np.ones((6, 3, 19), np.float32)}
    made = rnncc.build(NET, out=tmp_path, name="net", cpu=LIST, train=True, products=["so"])
    assert made.library is not None
    model = rnncc_runtime.load(made.library, train=True)
    alone = rnncc.compile(NET, cpu=here()[-1], train=True)
    got, want = (m.backward(m.forward({"x": X})[1], outer) for m in (model, alone))
    same_bits(got, want)


def test_what_is_equal_is_held_once(folder: Path) -> None:
    """Of one copy of the metadata Python's reader depends, which searches the file."""
    content = (folder / "libnet.so").read_bytes()
    assert content.count(b'{"format": ') == 1
    options = [Options.of(None, {"name": "net", "cpu": cpu}) for cpu in CPUS]
    alone = [compile_object(NET, None, each).metadata["weights"] for each in options]
    assert max(alone) < rnncc_runtime.describe(folder / "libnet.so")["weights"] < sum(alone)


def test_it_keeps_to_itself(folder: Path) -> None:
    """Its exports are a plain library's and `chosen_cpu`; nothing runs as it is loaded."""
    library = Elf((folder / "libnet.so").read_bytes())
    exported = {s.name for s in library.dynamic_symbols if s.is_defined and s.is_global}
    functions = {"run", "step", "state_init", "workspace_bytes", "state_bytes", "chosen_cpu"}
    functions |= {"metadata", "supported", "missing_feature"}
    assert exported == {f"net_{name}" for name in functions}
    assert not {s.name for s in library.sections} & {".init_array", ".ctors"}


def test_only_a_version_has_what_its_cpu_has() -> None:
    """The exported functions, and what chooses, have instructions of the baseline alone."""
    options = Options.of(None, {"name": "net", "cpu": LIST})
    assembly = text_of(NET, None, options, "asm")
    bodies = dict(re.findall(r"^(\w+):(.*?)^\.Lfunc_end", assembly, re.MULTILINE | re.DOTALL))
    wide = {name for name, body in bodies.items() if re.search(r"%[yz]mm|\bv\w+ps\b", body)}
    assert wide and all(name.startswith(("net_1_", "net_2_")) for name in wide)
    assert any(re.search(r"%zmm", bodies[name]) for name in wide)


def test_it_says_what_it_holds(folder: Path) -> None:
    header = " ".join((folder / "net.h").read_text().replace(" * ", " ").split())
    assert f"It holds code for {', '.join(CPUS)}; of those that the CPU has all for" in header
    assert "const char *net_chosen_cpu(void);" in header
    told = libraries.inspect(folder / "libnet.so")["library"]
    assert [version["cpu"] for version in told["versions"]] == list(CPUS)
    assert told["cpu"] == LIST


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cpu": "x86-64-v2,x86-64-v2"}, "no list of different CPUs"),
        ({"cpu": "x86-64-v2,"}, "no list of different CPUs"),
        ({"cpu": "x86-64-v2,frob"}, "frob"),
        ({"cpu": "generic,cortex-a76", "target": "aarch64"}, "several CPUs of x86-64, not of"),
        ({"cpu": LIST, "tune": True}, "--tune: measures code for this machine"),
    ],
)
def test_refusals(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(CompileError, match=message):
        rnncc.build(NET, out=tmp_path, name="net", **options)


def test_code_in_memory_is_for_one_cpu() -> None:
    with pytest.raises(CompileError, match="several CPUs, for which there are libraries in files"):
        rnncc.compile(NET, cpu=LIST)
