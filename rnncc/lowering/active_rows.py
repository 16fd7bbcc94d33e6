"""Lists of the rows that a mask keeps: for a step, for the steps computed ahead, or for all."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from xdsl.ir import Block, SSAValue

from rnncc.ir.dims import Dim, product
from rnncc.ir.types import dims_of
from rnncc.kern import moves
from rnncc.lowering.maps import identity
from rnncc.records import record

if TYPE_CHECKING:
    from rnncc.lowering.walk import Lowering


@record
class Ahead:
    """Steps of a loop that are computed before it takes them.

    Attributes:
        first, steps: the first of them, and how many.
        target, rows: how many rows they make together, about, and a step's.
    """

    first: Dim
    steps: Dim
    target: int
    rows: Dim

    def room(self, per_step: Dim) -> Dim:
        """The most elements that they have, given those of a step."""
        if self.target == 1:
            return per_step  # one step at a time
        width = per_step.divide(self.rows)  # there are fewer than rows + target rows
        return per_step * (self.target + 1) if width is None else (self.rows + self.target) * width


def list_of(lowering: Lowering, mask: SSAValue, ahead: Ahead | None) -> SSAValue | None:
    """The list of a mask's rows, made where it is first asked for.

    None where the mask is still to be computed, or is not read element by element.

    Before:

        v1 = matmul(x, w)
        for t in 0..T, h from h:
            v2 = matmul(h[t-1], u)
            v3 = add(v2, v1[t])
            v4 = broadcast(mask[t], dims=[8, 4], axes=[0])
            v5 = select(v4, v3, h[t-1])
            h[t] = v5
        return h[T-1]

    After:

        state state: 64, ring of 2
        scratch y.matmul: 800
        scratch rows: 201
        scratch packed: 20
        scratch rows.1: 9
        scratch packed.1: 24
        pack packed = w
        pack packed.1 = u
        for t in 0..T in chunks of t1, p from h:
            list rows = rows where mask[8*i + j + 8*t]
            gemm i in t1, j in 8, k in 4 of rows: y.matmul = x[24*i + 3*j + d + 24*t]·packed
            for t2 in t..t + t1, q from p:
                list rows.1 = rows where mask[i + 8*t2]
                gemm i in 8, j in 4 of rows.1: state[t2] = q·packed.1 + y.matmul[4*i + j - 32*t + 32*t2]
                map i in 8, j in 4 not of rows.1: state[t2] = q
                q = state[t2]
            p = q
        map i in 8, j in 4: y = p
    """  # noqa: E501 - a kernel a line
    key = (mask, ahead)
    if key not in lowering.lists and _is_known(lowering, mask, ahead):
        block = mask.owner if isinstance(mask.owner, Block) else mask.owner.parent
        assert block is not None
        # Where the mask is made, for all who ask; of steps ahead, where these are computed.
        with lowering.at(block) if ahead is None else nullcontext():
            lowering.lists[key] = _listed(lowering, mask, ahead)
    return lowering.lists.get(key)


def _is_known(lowering: Lowering, mask: SSAValue, ahead: Ahead | None) -> bool:
    """Whether a mask can be read: where it is made ahead, only of those steps."""
    if mask in lowering.outer:
        return True
    place = lowering.find(mask)
    everywhere = place is not None and place.access.offset.symbols <= {*lowering.result.symbols}
    return place is not None and (everywhere or ahead is not None)


def _listed(lowering: Lowering, mask: SSAValue, ahead: Ahead | None) -> SSAValue:
    """A new list."""
    dims, place = dims_of(mask), lowering.place(mask)
    rows, domain, index = product(dims), list(dims), identity(dims)
    if ahead is not None:
        rows, domain = ahead.room(product(dims[1:])), [ahead.steps, *dims[1:]]
        index = identity(dims, ahead.first)
    # Half the memory of a list.
    dtype = "i32" if _are_few(dims if ahead is None else dims[1:], ahead) else "i64"
    buffer = lowering.declare("rows", "scratch", dtype, [rows + 1]).buffer
    flags = place.buffer, place.over(index, len(dims))
    lowering.builder.insert(moves.ListRows(domain, flags, buffer))
    return buffer


def _are_few(dims: Sequence[Dim], ahead: Ahead | None) -> bool:
    """Whether 32 bits number all rows: those along one axis of a size that is a symbol, or some
    steps' if they are no more than that, or than are wanted ahead."""
    whole = product(dims)
    plain = whole.is_static or whole in (Dim.of(symbol) for symbol in whole.symbols)
    return plain and (ahead is None or ahead.rows == whole)
