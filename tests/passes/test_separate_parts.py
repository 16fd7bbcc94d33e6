"""Gates, and what follows from them, are computed part by part, to the bit what they were."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xdsl.ir import SSAValue

from rnncc import pipeline
from rnncc.driver.trace import run
from rnncc.ir.builder import Builder, Values
from rnncc.ir.program import Program
from rnncc.kern.dialect import For
from rnncc.kern.kernels import Gemm, Map
from rnncc.options import Options
from rnncc.passes.cleanup.simplify import Simplify
from rnncc.passes.loops.separate_parts import SeparateParts
from rnncc.passes.loops.sink import Sink
from rnncc.stages.compilation import Compilation
from tests.compiling import PASSES
from tests.golden import CASES
from tests.passes.gradients import gradients_of
from tests.passes.helpers import applied, count, loops_of
from tests.strategies import assert_same_meaning

UNITS = 4


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_golden_gradients(case: Path) -> None:
    sink = applied(Simplify(), Sink(keeps_rows=True), Simplify())
    want, golden = gradients_of(case, sink)
    got, _ = gradients_of(case, lambda both: applied(SeparateParts())(sink(both) or both))
    for name in golden:
        np.testing.assert_array_equal(got[f"grad:{name}"], want[f"grad:{name}"])


def gated(sizes: list[int], whole: str) -> Program:
    """A step whose product is read in runs of columns; `whole`: who reads all of it besides."""

    def body(b: Builder, ks: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        product = b.matmul(carry[0], ks[0])
        scaled, start, parts = b.mul(product, rows[0]), 0, list[SSAValue]()
        for size in sizes:
            parts.append(b.slice(scaled, 1, start, size))
            start += size
        if whole == "another product":
            parts.append(b.matmul(product, b.transpose(ks[0], [1, 0])))
        h = b.tanh(b.add(b.mul(parts[0], parts[1]), parts[-1]))
        return [h], [product] if whole == "a sequence" else []

    b = Builder.net("net")
    x, h = b.input("x", ["T", "N", 2 * UNITS]), b.input("h", ["N", UNITS])
    finals, ys = b.scan([b.param("w", [UNITS, 2 * UNITS])], [h], [x], body)
    return b.finish({f"y{i}": value for i, value in enumerate([*finals, *ys])})


@pytest.mark.parametrize(
    ("sizes", "whole", "parted"),
    [
        ([UNITS, UNITS], "a sequence", True),
        ([UNITS, UNITS], "nobody", False),
        ([UNITS, UNITS], "another product", False),
    ],
)
def test_products_that_leave_in_parts(sizes: list[int], whole: str, parted: bool) -> None:
    program = gated(sizes, whole)
    assert_same_meaning(program, applied(SeparateParts()))
    [scan] = loops_of(program)
    assert (count(scan.body.block)["concat"] > 0) == parted


@pytest.mark.parametrize(("target", "kernels"), [("nvptx", [Gemm]), (None, [Gemm, Map])])
def test_a_product_that_leaves_is_one_kernel_with_its_step(
    target: str | None, kernels: list[type]
) -> None:
    program = gated([UNITS, UNITS], "a sequence")
    c = Compilation(Options(target=target), programs={"run": program}, symbols=program.symbols)
    run(c, [*PASSES, *pipeline.LOWERING[:1]])
    [loop] = [op for op in c.kernels["run"].func.walk() if isinstance(op, For)]
    assert [type(op) for op in loop.kernels] == kernels
