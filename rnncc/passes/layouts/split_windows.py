"""Products of whole windows become sums of products, one for each run of taps."""

from __future__ import annotations

import itertools
import math

from xdsl.ir import Block, SSAValue

from rnncc.ir.attributes import get_ints
from rnncc.ir.builder import Builder
from rnncc.ir.ops.control import Net
from rnncc.ir.ops.linear import Matmul
from rnncc.ir.ops.shape import Reshape, Transpose
from rnncc.ir.ops.windows import Windows
from rnncc.ir.rewriting import NetPass, blocks_of, dce, replace, run_all
from rnncc.ir.types import FLOATS, dims_of, dtype_of
from rnncc.records import record

LONG, MOST_RUNS = 32, 16
"""Elements of a run of taps from which on products that read it in place are quicker than a copy
of whole windows; and how many runs a window may have then, each of which is a product to compile
and a pass over the sums."""
VERY_LONG, MORE_RUNS = 256, 64
"""The same where a run is so long that a pass over the sums takes little beside its product, and a
copy would be many times as large as what it is made of: 21 x 11 taps of 32 channels, 4.8 ms and
0.6 MB in the place of 6.5 ms and 31 MB."""


@record
class SplitWindows(NetPass):
    """Windows · w → Σ run · its part of w: each run of taps is read where x is, without a copy.

    So gradients need no copies either. Only where runs are long, and few.

    Before:

        v1 = windows(x, axis=1, start=0, count=3, stride=1, taps=2, dilation=2)
        v2 = reshape(v1, dims=[N, 3, 64])
        v3 = matmul(v2, w, transpose_b=true)
        return v3

    After:

        v1 = windows(x, axis=1, start=0, count=3, stride=1, taps=2, dilation=2)
        v2 = slice(v1, axis=2, start=0, size=1)
        v3 = slice(w, axis=1, start=0, size=32)
        v4 = reshape(v2, dims=[N, 3, 32])
        v5 = matmul(v4, v3, transpose_b=true)
        v6 = slice(v1, axis=2, start=1, size=1)
        v7 = slice(w, axis=1, start=32, size=32)
        v8 = reshape(v6, dims=[N, 3, 32])
        v9 = matmul(v8, v7, transpose_b=true)
        v10 = add(v5, v9)
        return v10
    """

    name = "rnn-split-windows"

    def rewrite(self, net: Net) -> bool:
        return run_all(_split(block) for block in blocks_of(net.body.block))


def _split(block: Block) -> bool:
    changed = False
    for op in list(block.ops):
        if isinstance(op, Matmul) and (y := _by_runs(op)) is not None:
            replace(op, [y])
            changed = True
    if changed:
        dce(block)
    return changed


def _by_runs(op: Matmul) -> SSAValue | None:
    """The sum of a product for each run of taps; None where one product is better."""
    view = op.a.owner
    # A run's part of w is a slice of its axis 1, so that one must be k.
    if not isinstance(view, Reshape) or op.transpose_a or not op.transpose_b:
        return None
    if dtype_of(op.a) not in FLOATS or len(dims_of(op.b)) != 2:
        return None
    rows, x = dims_of(op.a)[:-1], view.x
    first = len(rows)
    if dims_of(x)[:first] != rows or not (taps := _taps_apart(x, first)):
        return None
    sizes = [int(dims_of(x)[axis]) for axis in taps]
    count = math.prod(sizes)
    width = int(dims_of(op.a)[-1]) // count
    if not 1 < count <= _most_runs(width):
        return None
    b = Builder.before(op)
    y: SSAValue | None = None
    for number, place in enumerate(itertools.product(*map(range, sizes))):
        run = x
        for axis, tap in zip(taps, place, strict=True):
            run = b.slice(run, axis, tap, 1)
        own = b.slice(op.b, 1, number * width, width)
        term = b.matmul(b.reshape(run, (*rows, width)), own, transpose_b=True)
        y = term if y is None else b.add(y, term)
    return y


def _most_runs(elements: int) -> int:
    """How many runs of so many elements are read in place; none of short ones."""
    return MORE_RUNS if elements >= VERY_LONG else MOST_RUNS if elements >= LONG else 0


def _taps_apart(x: SSAValue, first: int) -> list[int]:
    """The axes of windows, from the first one on, but for those that run on in memory: the last
    one's taps, where these are next to each other, and their channels."""
    axes = list(range(first, len(dims_of(x)) - 1))
    order, source = list(range(len(dims_of(x)))), x
    if isinstance(op := x.owner, Transpose):
        order, source = list(get_ints(op.perm)), op.x
    if not axes or order[-1] != len(order) - 1:
        return []
    last = order[axes[-1]]
    while isinstance(op := source.owner, Windows):
        if op.axis.data + 1 == last:
            return axes[:-1] if op.dilation.data == 1 else axes
        last -= last > op.axis.data + 1
        source = op.x
    return []
