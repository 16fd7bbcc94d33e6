"""A product's epilogue may read where its point is: rows, and units over several panels."""

from __future__ import annotations

import numpy as np
import pytest

from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.ir.builder import Builder
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.kern.kernels import Gemm, Index
from rnncc.options import Options
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.compiling import lower
from tests.golden import random_inputs

UNITS = 70


def placed(axis: int) -> Program:
    """y = x·w + the index along an axis."""
    b = Builder.net("placed")
    x, w = b.input("x", ["T", "N", 5]), b.param("w", [5, UNITS])
    index = b.cast(b.iota(["T", "N", UNITS], axis), "f32")
    array = np.random.default_rng(axis).standard_normal((5, UNITS)).astype(np.float32)
    return b.finish({"y": b.add(b.matmul(x, w), index)}, {"w": array})


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_index_in_an_epilogue(axis: int) -> None:
    program = placed(axis)
    kernels = lower(program.copy(), Options())
    (product,) = (op for op in kernels.func.walk() if isinstance(op, Gemm))
    assert any(isinstance(op, Index) for op in product.body.block.ops)
    bare = Bare(kernels, resolve_target())
    for batch in (1, 9):
        sizes = {"T": 3, "N": batch}
        inputs = random_inputs(program, sizes)
        with guards(end=True) as memory:
            got = bare.run(inputs, sizes, memory)
        np.testing.assert_allclose(got["y"], run(program, inputs, sizes=sizes)["y"], 1e-5, 1e-5)
