"""Outputs that are reshaped: their kernels write them at once, in the order of their elements."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.ir import SSAValue

from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.interpreter import run
from rnncc.kern.dialect import Buffer
from rnncc.kern.kernels import Map
from rnncc.options import Options
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.compiling import lower

N = Dim.of("N")
MAKE: dict[str, Callable[[Builder, SSAValue], list[SSAValue]]] = {
    "computed": lambda b, x: [b.reshape(b.exp(x), (N * 12,))],
    "repeated": lambda b, x: [b.reshape(b.broadcast(x, (2, N, 3, 4), (1, 2, 3)), (N * 2, 12))],
    "transposed": lambda b, x: [b.reshape(b.transpose(x, (0, 2, 1)), (N, 12))],
    "in two shapes": lambda b, x: [y := b.exp(x), b.reshape(y, (N, 12))],
}


@pytest.mark.parametrize("name", MAKE)
def test_nothing_is_copied(name: str) -> None:
    b = Builder.net("outputs")
    results = MAKE[name](b, b.input("x", (N, 3, 4)))
    program = b.finish({f"y{i}": y for i, y in enumerate(results)})
    kernels = lower(program.copy(), Options())
    ops = list(kernels.module.walk())
    assert sum(isinstance(op, Map) for op in ops) == 1
    assert not any(isinstance(op, Buffer) and op.role.data == "scratch" for op in ops)
    inputs = {"x": np.linspace(-1, 1, 60, dtype=np.float32).reshape(5, 3, 4)}
    with guards(True) as memory:
        found = Bare(kernels, resolve_target()).run(inputs, {"N": 5}, memory)
    for output, want in run(program, inputs, sizes={"N": 5}).items():
        np.testing.assert_allclose(found[output], want, 1e-6)
