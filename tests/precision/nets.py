"""Nets with weights of low precision: lowered, compiled, and computed in NumPy."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.ir.builder import Builder
from rnncc.ir.program import Program
from rnncc.kern import interpreter as kern_interpreter
from rnncc.options import Options
from rnncc.stages.reading import import_source
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.compiling import lower
from tests.golden import Arrays

CPUS = ["x86-64-v2", "x86-64-v3", "x86-64-v4", "native"]
BOUNDS = {"bf16": 0.02, "int8": 0.05}
"""Of what low precision may change, as a part of the largest value or of 1: docs/precision.md."""
ONE_OFF = 0.01
"""What a value may be off that is rounded to its other neighbour in one of the steps before."""


class Low:
    """A program compiled with a precision for a machine."""

    def __init__(self, program: Program, precision: str, cpu: str | None = None) -> None:
        options = Options(name="net", cpu=cpu, precision=precision)
        self.program = program
        self.kernels = lower(program.copy(), options)
        self.target = resolve_target(None, cpu)
        self.bare = Bare(self.kernels, self.target)

    def run(self, inputs: Arrays, sizes: dict[str, int]) -> Arrays:
        """The outputs; unmapped memory before all blocks, then behind them, changes nothing."""
        results: list[Arrays] = []
        for end in (False, True):
            with guards(end) as memory:
                results.append(self.bare.run(inputs, sizes, memory))
        for name, array in results[0].items():
            np.testing.assert_array_equal(results[1][name], array, err_msg=name)
        return results[0]

    def meaning(self, inputs: Arrays, sizes: dict[str, int]) -> Arrays:
        """The same in NumPy."""
        return kern_interpreter.run(self.kernels, inputs, sizes)

    @property
    def dtypes(self) -> set[str]:
        """Of the weights that the library holds."""
        return {b.dtype for b in self.kernels.buffers if b.role.data == "param"}


@cache
def golden(case: Path, precision: str, cpu: str | None = None) -> Low:
    """A golden net."""
    options = Options(name="net", cpu=cpu)
    return Low(import_source(case / "net.pb", case / "init.pb", options), precision, cpu)


def product(weights: np.ndarray, turned: bool = False) -> Program:
    """y = x · weights for x [T, K], or [K, T] where it is turned."""
    b, [depth, units] = Builder.net("product"), weights.shape
    x = b.input("x", [depth, "T"] if turned else ["T", depth])
    y = b.matmul(x, b.param("w", [depth, units]), transpose_a=turned)
    return b.finish({"y": y}, {"w": weights})


def can_run(cpu: str) -> bool:
    """Whether code for a cpu runs on this machine."""
    own, other = resolve_target(), resolve_target(None, cpu)
    return other.lanes <= own.lanes and own.fma >= other.fma


def assert_near(got: Arrays, want: Arrays, bound: float) -> None:
    for name, array in want.items():
        scale = max(1.0, float(np.abs(array).max(initial=0.0)))
        np.testing.assert_allclose(got[name], array, 0, bound * scale, err_msg=name)


def drawn(*shape: int) -> np.ndarray:
    """Values of very different size by row and by column."""
    rng = np.random.default_rng(sum(shape))
    scale = 10.0 ** rng.integers(-3, 4, (shape[0], 1))
    return (rng.standard_normal(shape) * scale).astype(np.float32)
