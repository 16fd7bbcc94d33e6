"""Which ops of a kernel's body are done ahead of a loop over some of its points."""

from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from rnncc.codegen.llvm.region import RegionCode
from rnncc.ir.builder import Builder
from rnncc.ir.ops.elementwise import Mul, Sub
from tests.kern_samples import Kern, row_major, strided

ROWS, COLUMNS = 4, 16


def body(b: Builder, m: SSAValue, v: SSAValue, w: SSAValue, g: SSAValue) -> list[SSAValue]:
    return [b.add(b.mul(m, b.mul(b.sub(v, w), g)), b.neg(w))]


def test_what_some_arguments_determine_is_settled() -> None:
    k = Kern()
    sizes = ROWS * COLUMNS, COLUMNS, COLUMNS, 1
    m, v, w, g = (k.buffer(n, "input", size) for n, size in zip("mvwg", sizes, strict=True))
    whole, row = row_major([ROWS, COLUMNS]), strided(0, 1)
    y = k.buffer("y", "output", ROWS * COLUMNS)
    ins = [(m, whole), (v, row), (w, row), (g, strided(0, 0))]
    k.map([ROWS, COLUMNS], ins, [(y, whole)], body)
    [op] = [op for op in k.program().func.walk() if op.name == "kern.map"]
    block = op.regions[0].block
    matrix, first, second, scale = block.args
    emit: Any = None  # nothing is written
    code = RegionCode(emit, block, [matrix, first, second])
    settled = code.settled({first, second, scale})
    assert [type(op) for op in settled] == [Sub, Mul]  # a sign is part of what follows
    assert {first, second} <= code.needed([])
    needed = code.needed(settled)
    assert first not in needed and {second, settled[1].results[0]} <= needed
