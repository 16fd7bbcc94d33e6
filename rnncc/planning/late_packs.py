"""Which weights a product may pack itself, a panel at a time, just before it reads the panel.

In: a kernel program of at most one step a call. Out: for such products the `kern.pack` that they
take the place of. A panel that is used once need not be kept: all can be packed in the same place,
which stays in a cache near the core, where the whole of a product's weights would not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xdsl.ir import Operation

from rnncc.ir.attributes import get_dim
from rnncc.ir.dims import Dim
from rnncc.ir.types import FLOATS
from rnncc.kern.access import buffer_dtype
from rnncc.kern.dialect import Buffer, For
from rnncc.kern.kernels import Gemm
from rnncc.kern.moves import Pack
from rnncc.kern.program import KernelProgram
from rnncc.sizes import TIME

ONE = Dim.of(1)


def late_packs(program: KernelProgram, most_steps: int | None) -> dict[Gemm, Pack]:
    """The products that run at most once a call, with what packs weights for them alone.

    Args:
        most_steps: of a call, if that is known.
    """
    if most_steps != 1:
        return {}
    single = frozenset({Dim.of(TIME), ONE})
    written = {op.label.data for op in program.buffers if op.role.data == "output"}
    pairs = ((gemm, _packing(gemm)) for gemm, sizes in _products(program, single) if
             _has_one_row_axis(gemm, sizes))
    return {gemm: pack for gemm, pack in pairs if pack is not None and _stays(pack, written)}


def _products(
    program: KernelProgram, single: frozenset[Dim]
) -> Iterator[tuple[Gemm, frozenset[Dim]]]:
    """Those that run at most once, with the sizes that are 1 at most where they run."""
    def within(ops: Iterable[Operation], single: frozenset[Dim]):
        for op in ops:
            if isinstance(op, Gemm):
                yield op, single
            elif isinstance(op, For) and get_dim(op.count) in single:
                inner = single if op.extent is None else single | {Dim.of(op.extent.data)}
                yield from within(op.body.block.ops, inner)
    return within(program.func.body.block.ops, single)


def _has_one_row_axis(op: Gemm, single: frozenset[Dim]) -> bool:
    """Whether all rows are met in one pass over the panels."""
    return op.rows is None and sum(dim not in single for dim in op.dims[:-1]) <= 1


def _packing(op: Gemm) -> Pack | None:
    """What packs a product's weights, as they are, for it alone."""
    uses = list(op.weights.uses)
    packs = [use.operation for use in uses if isinstance(use.operation, Pack)]
    if len(packs) != 1 or len(uses) != 2 or buffer_dtype(op.weights) not in FLOATS:
        return None
    alike = all(buffer_dtype(x) == buffer_dtype(op.weights) for x in packs[0].ins)
    return packs[0] if alike else None


def _stays(op: Pack, written: set[str]) -> bool:
    """Whether what is packed is the same until the call ends: inputs, but for a stream's states,
    which may lie where the next ones are put."""
    owners = [x.owner for x in op.ins]
    return all(
        isinstance(owner, Buffer) and owner.role.data == "input"
        and owner.label.data.replace("state:", "next:", 1) not in written
        for owner in owners
    )
