"""Which products may pack their weights themselves, a panel at a time, just before they read it.

In: a library whose calls take one step at most. Out: for such products the `kern.pack` that they
take the place of. A panel that is read once need not be kept: panels are packed in one place, which
stays in a cache near the core, where the whole weights of a product would not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from xdsl.ir import Operation

from rnncc.ir.attributes import get_dim
from rnncc.ir.dims import ONE, Dim
from rnncc.ir.types import FLOATS
from rnncc.kern.access import buffer_dtype
from rnncc.kern.dialect import Buffer, For
from rnncc.kern.kernels import Gemm
from rnncc.kern.library import Library
from rnncc.kern.moves import Pack
from rnncc.sizes import TIME

Sizes = frozenset[Dim]


def late_packs(library: Library) -> dict[Gemm, Pack]:
    """The products that run at most once a call, with what packs weights for them alone."""
    if library.max_steps != 1:
        return {}
    slots = [] if library.streaming is None else library.streaming.slots
    changing = {slot.port.name for slot in slots if slot.in_place}
    late = dict[Gemm, Pack]()
    for program in library.programs.values():
        for gemm, single in _products(program.func.body.block.ops, frozenset({Dim.of(TIME), ONE})):
            pack = _packing(gemm)
            if pack and _has_one_row_axis(gemm, single) and _stays(pack, changing):
                late[gemm] = pack
    return late


def _products(ops: Iterable[Operation], single: Sizes) -> Iterator[tuple[Gemm, Sizes]]:
    """Those that run at most once, with the sizes that are 1 at most where they stand."""
    for op in ops:
        if isinstance(op, Gemm):
            yield op, single
        elif isinstance(op, For) and get_dim(op.count) in single:
            inner = single if op.extent is None else single | {Dim.of(op.extent.data)}
            yield from _products(op.body.block.ops, inner)


def _has_one_row_axis(op: Gemm, single: Sizes) -> bool:
    """Whether one pass over the panels serves all rows."""
    return op.rows is None and sum(dim not in single for dim in op.dims[:-1]) <= 1


def _packing(op: Gemm) -> Pack | None:
    """What packs a product's weights for it alone, without converting them."""
    uses = [use.operation for use in op.weights.uses]
    packs = [use for use in uses if isinstance(use, Pack)]
    if len(packs) != 1 or len(uses) != 2:
        return None
    dtypes = {buffer_dtype(x) for x in (op.weights, *packs[0].ins)}
    return packs[0] if len(dtypes) == 1 and dtypes <= {*FLOATS} else None


def _stays(op: Pack, changing: Collection[str]) -> bool:
    """Whether what is packed is the same until the call ends: inputs, but for those of a stream's
    states that a step replaces where they lie."""
    owners = [x.owner for x in op.ins]
    inputs = [x for x in owners if isinstance(x, Buffer) and x.role.data == "input"]
    return len(inputs) == len(owners) and not any(x.label.data in changing for x in inputs)
