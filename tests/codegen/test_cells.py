"""Recurrent cells of many shapes, on several machines, in several threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import product

import llvmlite.binding as llvm
import numpy as np
import pytest

from rnncc.codegen.cpu.machine.cpus import CPUS
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.codegen.llvm.objects import initialize
from rnncc.driver import compiling
from rnncc.errors import CompileError
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.options import Options
from rnncc.packaging.elf import Elf
from tests.codegen.cells import STATES, cell
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.compiling import lower
from tests.golden import Arrays, random_inputs

KINDS = list(STATES)
WIDTHS = [1, 3, 17, 31, 64, 100]
SOME = [(1, 1), (3, 17), (17, 3), (31, 64), (64, 100), (100, 31)]
"""Units, width of the inputs: each once."""
BATCHES = [
    (0, 1),
    (1, 1),
    (50, 1),
    (2, 2),
    (3, 3),
    (1, 4),
    (7, 5),
    (4, 7),
    (5, 12),
    (50, 33),
    (0, 5),
]
"""T, N: every number of rows that tiles leave over, and several chunks of time."""
FOREIGN = [(None, "x86-64-v4"), ("aarch64-linux-gnu", None), ("aarch64-linux-gnu", "neoverse-v2")]


def compiled(program: Program, cpu: str | None = None) -> Bare:
    options = Options(cpu=cpu)
    return Bare(lower(program, options), resolve_target(None, cpu))


def check(kind: str, units: int, width: int, cpu: str | None = None) -> None:
    program = cell(kind, units, width)
    bare = compiled(cell(kind, units, width), cpu)
    for number, (steps, batch) in enumerate(BATCHES):
        sizes = {"T": steps, "N": batch}
        inputs = random_inputs(program, sizes, number)
        want = run(program, inputs, np.float64, sizes)
        with guards(end=number % 2 == 0) as memory:
            got = bare.run(inputs, sizes, memory)
        for name, array in want.items():
            np.testing.assert_allclose(got[name], array, 2e-5, 2e-5, err_msg=f"{name} at {sizes}")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("units", "width"), SOME)
def test_shapes(kind: str, units: int, width: int) -> None:
    check(kind, units, width)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("units", "width"), list(product(WIDTHS, WIDTHS)))
def test_more_shapes(kind: str, units: int, width: int) -> None:
    check(kind, units, width)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_cpus(kind: str, cpu: str) -> None:
    needed = {"x86-64-v2": "sse4.2", "x86-64-v3": "avx2", "x86-64-v4": "avx512vl"}
    if not llvm.get_host_cpu_features().get(needed[cpu]):
        pytest.skip(f"this machine is no {cpu}")
    check(kind, 31, 17, cpu)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("triple", "cpu"), FOREIGN)
def test_objects_need_nothing(kind: str, triple: str | None, cpu: str | None) -> None:
    options = Options(name=kind, target=triple, cpu=cpu)
    compiled = compiling.compile_object(cell(kind, 17, 3), None, options)
    weights = compiling.build_library(cell(kind, 17, 3), None, options).weights_block()
    assert weights.tobytes() in compiled.code
    elf, target = Elf(compiled.code), resolve_target(triple, cpu)
    asks_libc = target.architecture == "aarch64" and compiled.metadata["features"]  # for the CPU
    needed = {"_GLOBAL_OFFSET_TABLE_", *(["getauxval"] if asks_libc else [])}
    assert {s.name for s in elf.symbols if not s.is_defined} <= needed
    assert {"run", "metadata", "workspace_bytes"} <= {
        s.name.removeprefix(f"{kind}_") for s in elf.symbols if s.is_global
    }


@pytest.mark.parametrize("architecture", CPUS)
def test_llvm_knows_every_cpu(architecture: str, capfd: pytest.CaptureFixture[str]) -> None:
    initialize()
    triple = llvm.Target.from_triple(f"{architecture}-linux-gnu")
    for cpu in CPUS[architecture]:
        triple.create_target_machine(cpu=cpu)
    assert capfd.readouterr().err == ""
    triple.create_target_machine(cpu="unheard-of")
    assert "not a recognized processor" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("triple", "cpu", "message"),
    [
        (None, "znver33", "did you mean znver3"),
        ("aarch64-linux-gnu", "skylake", "for aarch64"),
        ("x86_64-linux-gnu", "i386", "not one that LLVM knows"),
        ("powerpc64le-linux-gnu", None, "is not supported"),
        ("x86_64-unknown-freebsd", None, "is not supported"),
        ("cortex-m4", "cortex-m0", "for thumbv7em"),
        ("wasm32", "native", "cpu 'native' is of this machine"),
        ("no triple", None, "is not supported"),
    ],
)
def test_machines_that_are_refused(triple: str | None, cpu: str | None, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        resolve_target(triple, cpu)


@pytest.mark.parametrize("kind", KINDS)
def test_threads_share_a_model(kind: str) -> None:
    program = cell(kind, 64, 17)
    bare = compiled(program)
    sizes = {"T": 40, "N": 6}
    several = [random_inputs(program, sizes, seed) for seed in range(8)]

    def call(inputs: Arrays) -> list[Arrays]:
        with guards(end=True) as memory:
            return [bare.run(inputs, sizes, memory) for _ in range(10)]

    alone = [call(inputs)[0] for inputs in several]
    with ThreadPoolExecutor(8) as pool:
        for want, results in zip(alone, pool.map(call, several), strict=True):
            for got in results:
                for name, array in want.items():
                    np.testing.assert_array_equal(got[name], array, err_msg=name)
