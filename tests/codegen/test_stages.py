"""Epilogues in stages, each for all rows of a tile: the bits of the body as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.ir import SSAValue

from rnncc.cells import gru, lstm
from rnncc.codegen.cpu.gemm.epilogue import Epilogue
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.ir.builder import Builder
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of
from rnncc.options import Options
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.compiling import lower
from tests.golden import Arrays

Body = Callable[[Builder, SSAValue], SSAValue]


def _outputs(program: Program, options: Options, cpu: str | None, units: int) -> list[Arrays]:
    """Of calls of several batches, with nothing behind the arrays' ends."""
    code = Bare(lower(program, options), resolve_target(None, cpu))
    x = np.random.default_rng(3).standard_normal((3, 9, units), np.float32)
    with guards(end=True) as memory:
        return [
            code.run({"x": np.ascontiguousarray(x[:, :rows])}, {"T": 3, "N": rows}, memory)
            for rows in (1, 2, 5, 9)
        ]


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("units", [7, 40])
@pytest.mark.parametrize("cpu", [None, "x86-64-v3"])
@pytest.mark.parametrize("cell", [lstm, gru])
def test_bits(
    cell: Any, cpu: str | None, units: int, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = Options(precision=precision, cpu=cpu or "native")
    staged = _outputs(cell(units, units), options, cpu, units)
    monkeypatch.setattr(Epilogue, "stages", property(lambda self: [self.whole]))
    whole = _outputs(cell(units, units), options, cpu, units)
    for got, want in zip(staged, whole, strict=True):
        assert {name: y.tobytes() for name, y in got.items()} == {
            name: y.tobytes() for name, y in want.items()
        }


def _of_products(make: Body) -> Program:
    b = Builder.net("net")
    x = b.input("x", ("N", 24))
    return b.finish({"y": make(b, b.matmul(x, b.input("w", (24, 24))))})


def _plain(b: Builder, x: SSAValue) -> SSAValue:
    return b.tanh(x)


def _one_after_the_other(b: Builder, x: SSAValue) -> SSAValue:
    return b.sin(b.tanh(x))


def _with_its_sum(b: Builder, x: SSAValue) -> SSAValue:
    return b.mul(b.sin(b.tanh(x)), x)


def _by_a_mask(b: Builder, x: SSAValue) -> SSAValue:
    waves = b.tanh(x)
    zero = b.fill(0.0, dims_of(x))
    return b.select(b.compare("gt", waves, zero), b.sin(waves), zero)


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (_plain, 1),
        (_one_after_the_other, 2),
        (_with_its_sum, 1),  # two values for the place of one sum
        (_by_a_mask, 1),
    ],
)
def test_where_there_are_several(body: Body, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    counts, original = list[int](), Epilogue.row

    def row(self: Epilogue, *arguments: Any) -> Any:
        counts.append(len(self.stages))
        return original(self, *arguments)

    monkeypatch.setattr(Epilogue, "row", row)
    Bare(lower(_of_products(body), Options()), resolve_target())
    assert set(counts) == {count}
