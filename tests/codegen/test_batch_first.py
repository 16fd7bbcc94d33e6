"""Sequences that an output wants with the batch first are written there row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.ir import SSAValue

from rnncc.codegen.cpu import function
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.ir.builder import Builder
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of
from rnncc.kern.dialect import Buffer
from rnncc.kern.interpreter import run as run_kernels
from rnncc.kern.kernels import Map
from rnncc.kern.program import KernelProgram
from rnncc.planning.interchange import Interchange, interchanges
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.codegen.random_programs import as_it_is
from tests.golden import random_inputs

Values = list[SSAValue]
SIZES = [{"T": 0, "N": 2}, {"T": 1, "N": 1}, {"T": 7, "N": 3}]


def sums(width: int, reverse: bool = False, product: bool = False) -> Program:
    """Running sums, or a plain cell, that show their state and what it makes."""
    b = Builder.net("sums")
    x, h = b.input("x", ("N", "T", width)), b.input("h", ("N", width))
    weights = [b.input("w", (width, width))] if product else []

    def body(inner: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        state = inner.matmul(carry[0], consts[0]) if consts else carry[0]
        new = inner.add(state, rows[0])
        return [new], [new, inner.tanh(new)]

    (last,), ys = b.scan(weights, [h], [b.transpose(x, [1, 0, 2])], body, reverse=reverse)
    outputs = {f"y{i}": b.transpose(y, [1, 0, 2]) for i, y in enumerate(ys)}
    return b.finish({**outputs, "last": last})


def copied(kernels: KernelProgram) -> set[str]:
    """The outputs that are written outside of loops."""
    maps = (op for op in kernels.func.body.block.ops if isinstance(op, Map))
    owners = (value.owner for op in maps for value in op.outs)
    return {o.label.data for o in owners if isinstance(o, Buffer) and o.role.data == "output"}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("product", [False, True])
@pytest.mark.parametrize("width", [16, 19])
def test_results(width: int, product: bool, reverse: bool) -> None:
    check(as_it_is(program := sums(width, reverse, product)), program)


@pytest.mark.parametrize("reverse", [False, True])
def test_units_before_steps(reverse: bool) -> None:
    program = sums(64, reverse)
    kernels = as_it_is(program)
    assert [plan.frame[-1] for plan in interchanges(kernels.func).values()] == [64]
    check(kernels, program)


@pytest.mark.parametrize(
    ("width", "batch_first", "runs"), [(64, False, 1), (64, True, 0), (1024, True, 1)]
)
def test_runs_of_functions_want_long_rows(
    width: int, batch_first: bool, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, write = list[Interchange](), function.emit_interchanged

    def noted(emit: Any, plan: Interchange, *others: Any) -> None:
        taken.append(plan)
        write(emit, plan, *others)

    monkeypatch.setattr(function, "emit_interchanged", noted)
    b = Builder.net("states")
    x = b.input("x", ("N", "T", width) if batch_first else ("T", "N", width))
    h = b.input("h", ("N", 16, width))

    def body(inner: Builder, _: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        dims = dims_of(carry[0])
        new = inner.tanh(inner.add(carry[0], inner.broadcast(inner.exp(rows[0]), dims, [0, 2])))
        return [new], [inner.reduce("max", new, [1])]

    rows = [b.transpose(x, [1, 0, 2]) if batch_first else x]
    (last,), (y,) = b.scan([], [h], rows, body)
    kernels = as_it_is(b.finish({"y": b.transpose(y, [1, 0, 2]) if batch_first else y, "h": last}))
    Bare(kernels, resolve_target())
    assert len(taken) == runs


def check(kernels: KernelProgram, program: Program) -> None:
    """Each output is the interpreter's, whether others are absent or not."""
    assert copied(kernels) == {"last"}
    code = Bare(kernels, resolve_target())
    for sizes in SIZES:
        inputs = random_inputs(program, sizes)
        want, kern = run(program, inputs, sizes=sizes), run_kernels(kernels, inputs, sizes)
        for end in (False, True):
            with guards(end) as memory:
                got = code.run(inputs, sizes, memory)
                some = code.run(inputs, sizes, memory, absent={"y0"})
                others = code.run(inputs, sizes, memory, absent={"y1", "last"})
            for name, array in want.items():
                np.testing.assert_allclose(got[name], array, 1e-5, 1e-5, err_msg=name)
                np.testing.assert_allclose(kern[name], array, 1e-5, 1e-5, err_msg=name)
            for name, array in {**some, **others}.items():
                np.testing.assert_array_equal(array, got[name], err_msg=name)
