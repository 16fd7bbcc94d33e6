"""Rows of a loop that lie apart, of values whose axes of size 1 are others."""

from __future__ import annotations

import numpy as np

from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.ir.builder import Builder, Values
from rnncc.ir.interpreter import run
from rnncc.options import Options
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.compiling import lower


def test_columns_are_rows_batch_first() -> None:
    """A matrix of state times a column, whose axis of size 1 the rows of the result do not have."""
    b = Builder.net("matrices")
    state, x = b.input("state", ("N", 16, 16)), b.input("x", ("T", "N", 16, 1))

    def body(inner: Builder, _: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        new = inner.add(carry[0], rows[0])
        return [new], [inner.reshape(inner.matmul(new, rows[0]), ("N", 16))]

    [final], [ys] = b.scan([], [state], [x], body)
    program = b.finish({"y": b.transpose(ys, (1, 0, 2)), "final": final})
    rng = np.random.default_rng(0)
    shapes = {"state": (2, 16, 16), "x": (3, 2, 16, 1)}
    inputs = {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    kernels = lower(program.copy(), Options())
    with guards(True) as memory:
        found = Bare(kernels, resolve_target()).run(inputs, {"T": 3, "N": 2}, memory)
    for output, want in run(program, inputs).items():
        np.testing.assert_allclose(found[output], want, 1e-5, 1e-6)
