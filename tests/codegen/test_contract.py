"""`kern.contract`: any tile and tail, any order, shifted rows; rows cut anywhere give one sum."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.codegen.cpu.tiling import DEPTH, Tiling
from rnncc.ir.dims import Dim
from rnncc.kern import interpreter as kern_interpreter
from rnncc.kern.kernels import Contract, ShiftedRows
from rnncc.kern.program import KernelProgram
from rnncc.planning.layout import plan
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.golden import Arrays
from tests.kern_samples import Kern, N, T, port, strided

CPUS = [None, "x86-64-v2", "x86-64-v3"]
WIDTHS = [(1, 1), (1, 70), (3, 1), (70, 3), (5, 17), (6, 16), (13, 33), (7, 40), (150, 18)]


@dataclass(frozen=True)
class Case:
    """y = init + aᵀ·b over T·N rows; `apart`: elements between rows; `shift`: rows of `first`."""

    rows: int
    columns: int
    reverse: bool = False
    init: bool = False
    in_place: bool = False
    shift: bool = False
    late: bool = False
    of_b: bool = False
    apart: int = 0

    @property
    def shifted(self) -> int:
        return self.columns if self.of_b else self.rows

    def kernels(self, cpu: str | None = None) -> KernelProgram:
        k, m, n, depth = Kern(), self.rows, self.columns, T * N
        room = Tiling.of(resolve_target(None, cpu), m, n).scratch
        a = k.buffer("a", "input", depth * (m + self.apart))
        b = k.buffer("b", "input", depth * (n + self.apart))
        init = k.buffer("init", "input", m * n) if self.init else None
        first = k.buffer("first", "input", N * self.shifted) if self.shift else None
        scratch = k.buffer("scratch", "scratch", room)
        y = k.buffer("y", "output", m * n, fallback_size=0 if not self.in_place else m * n)
        if self.in_place and init is not None:
            k.copy([m * n], init, y)
            init = y
        op = Contract(
            (depth, Dim.of(m), Dim.of(n)),
            (a, strided(m + self.apart, 1)),
            (b, strided(n + self.apart, 1)),
            y,
            (scratch, room),
            init,
            self.reverse,
            None if first is None else ShiftedRows(first, N, self.late, self.of_b),
        )
        k.add(op)
        ports = [port("a", T, N, m + self.apart), port("b", T, N, n + self.apart)]
        ports += [port("init", m, n)] if self.init else []
        ports += [port("first", N, self.shifted)] if self.shift else []
        program = k.program(ports, [port("y", m, n)])
        plan(program)
        return program

    def inputs(self, steps: int, batch: int) -> Arrays:
        rng = np.random.default_rng(steps)
        sizes = {"T": steps, "N": batch}
        ports = self.kernels().inputs
        shapes = {p.name: [d.evaluate(sizes) for d in p.dims] for p in ports}
        return {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}

    def expected(self, inputs: Arrays) -> np.ndarray:
        a, b = inputs["a"][..., : self.rows], inputs["b"][..., : self.columns]
        if self.shift:
            x, first = b if self.of_b else a, inputs["first"][None]
            x = np.concatenate([x[1:], first] if self.late else [first, x[:-1]])[: len(x)]
            a, b = (a, x) if self.of_b else (x, b)
        y = np.einsum("tnk,tnm->km", a.astype(np.float64), b.astype(np.float64))
        return y + inputs.get("init", 0.0)


BOTH = (False, True)
CASES = [Case(m, n, bool(m % 2), init=bool(n % 2)) for m, n in WIDTHS]
CASES += [
    *(Case(9, 20, reverse, shift=True, late=late) for reverse in BOTH for late in BOTH),
    Case(20, 3, shift=True),
    Case(20, 3, True, init=True, shift=True, late=True),
    Case(4, 2, shift=True, apart=3),
    Case(9, 20, shift=True, of_b=True),
    Case(5, 40, True, shift=True, late=True, of_b=True),
    Case(20, 3, shift=True, of_b=True, apart=1),
    Case(13, 35, True, apart=5),
    Case(1, 9, apart=5),
    Case(14, 33, init=True, in_place=True),
    Case(20, 3, init=True, in_place=True),
    Case(0, 4),
]
SIZES = [(0, 3), (1, 2), (5, 3), (2, DEPTH), (3, DEPTH // 3 + 1), (4, 0)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_kernel(case: Case) -> None:
    program = case.kernels()
    bare = Bare(program, resolve_target())
    for steps, batch in SIZES:
        inputs, sizes = case.inputs(steps, batch), {"T": steps, "N": batch}
        want = case.expected(inputs)
        known = kern_interpreter.run(program, inputs, sizes)
        np.testing.assert_allclose(known["y"], want, 1e-4, 1e-4)
        for end in (False, True):
            with guards(end) as memory:
                got = bare.run(inputs, sizes, memory)
                bare.run(inputs, sizes, memory, absent=["y"])
            np.testing.assert_allclose(got["y"], want, 1e-4, 1e-4)


def run(case: Case, cpu: str | None, inputs: Arrays, steps: int, batch: int) -> np.ndarray:
    bare = Bare(case.kernels(cpu), resolve_target(None, cpu))
    with guards(end=True) as memory:
        return bare.run(inputs, {"T": steps, "N": batch}, memory)["y"]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sizes", [(13, 35), (40, 3), (1, 70)])
def test_bits_do_not_depend_on_how_rows_are_cut(sizes: tuple[int, int], reverse: bool) -> None:
    whole = Case(*sizes, reverse, init=True)
    steps, inputs = 2 * DEPTH + 31, whole.inputs(2 * DEPTH + 31, 1)
    want = run(whole, None, inputs, steps, 1)
    total = inputs["init"]
    cuts = [0, 1, 50, DEPTH + 7, 2 * DEPTH + 9, steps]
    parts = [slice(a, b) for a, b in pairwise(cuts)]
    for part in reversed(parts) if reverse else parts:
        some = {"a": inputs["a"][part], "b": inputs["b"][part], "init": total}
        total = run(whole, None, some, part.stop - part.start, 1)
    np.testing.assert_array_equal(total, want)


@pytest.mark.parametrize("cpu", CPUS[1:])
@pytest.mark.parametrize("sizes", [(13, 35), (40, 3)])
def test_other_machines(cpu: str, sizes: tuple[int, int]) -> None:
    case = Case(*sizes, init=True, shift=True)
    inputs = case.inputs(9, 40)
    np.testing.assert_allclose(run(case, cpu, inputs, 9, 40), case.expected(inputs), 1e-4, 1e-4)


def test_each_sum_is_one_chain() -> None:
    """A sum's bits are those of the sum alone, whatever tile it is in."""
    case, alone = Case(20, 50), Case(1, 1)
    inputs = case.inputs(DEPTH + 5, 2)
    whole = run(case, None, inputs, DEPTH + 5, 2)
    for m, n in [(0, 0), (19, 49), (7, 33)]:
        one = {"a": inputs["a"][..., m : m + 1], "b": inputs["b"][..., n : n + 1]}
        assert run(alone, None, one, DEPTH + 5, 2) == whole[m, n]
