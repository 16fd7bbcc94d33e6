"""Where a function reads and writes its buffers: positions in program order, and elements.

In: a `kern.func`. Out: a `Timeline`. Names for a buffer (rows, block arguments, loop results) are
followed to the buffers that they may stand for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, SSAValue

from rnncc.ir.attributes import get_dim, get_dims
from rnncc.ir.dims import ZERO, Dim, product
from rnncc.kern.access import Access, buffer_dtype, dense, get_access
from rnncc.kern.dialect import Buffer, For, Func, Gate, Limit, Row, ShiftedRow
from rnncc.kern.kernels import Contract, Gemm, Kernel, Reduce
from rnncc.kern.moves import IndexedMove, ListRows, Pack, Reverse, Scatter
from rnncc.kern.packing import GROUP, packed_depth
from rnncc.planning.footprint import Footprint
from rnncc.records import record

Targets = dict[Buffer, Dim | None]
"""The buffers that a value may stand for, each with the offset into it where that is known."""


@record
class Use:
    """One read or write of a buffer; `footprint` is None where the elements are not known.

    `value` is the operand that stands for the buffer.
    """

    buffer: Buffer
    value: SSAValue
    op: Operation
    position: int
    loops: tuple[For, ...]
    writes: bool
    footprint: Footprint | None


@dataclass
class Timeline:
    """Uses in order, by buffer; the positions at which each loop starts and ends."""

    uses: dict[Buffer, list[Use]] = field(default_factory=lambda: defaultdict(list))
    spans: dict[For, tuple[int, int]] = field(default_factory=dict[For, tuple[int, int]])
    end: int = 0


def timeline(func: Func) -> Timeline:
    """Number the ops of a function and collect what they read and write."""
    line = Timeline()
    _visit(func.body.block, (), targets(func), line)
    return line


def _visit(
    block: Block, loops: tuple[For, ...], targets: dict[SSAValue, Targets], line: Timeline
) -> None:
    for op in block.ops:
        position = line.end
        line.end += 1
        # A loop has two positions, so that a buffer that lives through it ends behind its last
        # kernel.
        if isinstance(op, For):
            _visit(op.body.block, (*loops, op), targets, line)
            line.spans[op] = (position, line.end)
            line.end += 1
            continue
        for value, writes, access, dims in accesses(op):
            known = targets[value]
            for buffer, shift in known.items():
                # a name of several buffers, such as a loop-carried one, touches one of them: which
                # elements of which is not known, so that nothing may rely on them
                sure = shift if len(known) == 1 else None
                footprint = None if sure is None else Footprint.of(access.shifted(sure), dims)
                use = Use(buffer, value, op, position, loops, writes, footprint)
                line.uses[buffer].append(use)


Touch = tuple[SSAValue, bool, Access, tuple[Dim, ...]]
"""A value, whether it is written, the access, and the domain it runs over."""


def accesses(op: Operation) -> Iterator[Touch]:
    """What a kernel touches; nothing for other ops."""
    match op:
        case Kernel():
            yield from _kernel_accesses(op)
        case Pack():
            dims = (Dim.of(op.units.data), Dim.of(op.depth.data))
            for value, access in zip(op.ins, op.in_accesses, strict=True):
                yield value, False, access, dims
            packed = packed_depth(op.depth.data, GROUP[buffer_dtype(op.out)])
            yield _flat(op.out, True, Dim.of(packed * op.units.data * len(op.ins)))
        case Contract():
            yield from _contract_accesses(op)
        case Reverse():
            dims = get_dims(op.dims)
            yield op.x, False, Access(ZERO, dense(dims)), dims
            yield _flat(op.lengths, False, dims[1])
            yield op.out, True, Access(ZERO, dense(dims)), dims
        case IndexedMove():
            yield from _indexed_accesses(op)
        case ListRows():
            yield op.flags, False, get_access(op.access), op.dims
            yield _flat(op.out, True, product(op.dims) + 1)
        case Gate() | Limit():
            yield _flat(op.flag, False, Dim.of(1))
        case _:
            return


def data_accesses(op: Operation) -> Iterator[Touch]:
    """What a kernel touches, but for the room that it packs or rounds rows into."""
    room = op.room if isinstance(op, Gemm) else getattr(op, "scratch", None)
    return (touch for touch in accesses(op) if touch[0] is not room)


def _kernel_accesses(op: Kernel) -> Iterator[Touch]:
    if isinstance(op, Gemm):
        offset, *strides = get_dims(op.a_access)
        yield op.a, False, Access(offset, tuple(strides)), (*op.dims[:-1], *op.k_dims)
        packed = packed_depth(op.depth.data, GROUP[buffer_dtype(op.weights)])
        yield _flat(op.weights, False, Dim.of(packed * op.slots.data * op.units))
        if op.scales is not None:
            yield _flat(op.scales, False, Dim.of(op.slots.data * op.units))
        if op.room is not None:
            assert isinstance(op.room.owner, Buffer)
            yield _flat(op.room, True, op.room.owner.elements)
    if (listing := op.active_rows) is not None:
        yield _flat(listing.rows, False, product(op.dims[: listing.axes]) + 1)
    for value, access in zip(op.ins, op.in_accesses, strict=True):
        yield value, False, access, op.dims
    kept = op.dims[: len(op.dims) - (op.reduced.data if isinstance(op, Reduce) else 0)]
    for value, access in zip(op.outs, op.out_accesses, strict=True):
        kept_access = Access(access.offset, access.strides[: len(kept)])
        if isinstance(op, Reduce) and op.init is not None:
            yield op.init, False, kept_access, kept
        yield value, True, kept_access, kept


def _indexed_accesses(op: IndexedMove) -> Iterator[Touch]:
    rows = product(get_dims(op.dims))
    numbered = product(op.numbered)
    adds = isinstance(op, Scatter)
    yield _flat(op.x, False, rows if adds else numbered)
    yield _flat(op.index, False, get_dims(op.dims)[1])
    if adds and op.init is not None:
        yield _flat(op.init, False, numbered)
    yield _flat(op.out, True, numbered if adds else rows)


def _contract_accesses(op: Contract) -> Iterator[Touch]:
    depth, rows, columns = op.sizes
    yield op.a, False, get_access(op.a_access), (depth, rows)
    yield op.b, False, get_access(op.b_access), (depth, columns)
    if op.first is not None:
        yield _flat(op.first, False, op.shifted_by * (columns if op.of_b else rows))
    if op.init is not None:
        yield _flat(op.init, False, rows * columns)
    yield _flat(op.scratch, True, op.room)
    yield _flat(op.out, True, rows * columns)


def _flat(value: SSAValue, writes: bool, elements: Dim) -> Touch:
    return value, writes, Access(ZERO, (Dim.of(1),)), (elements,)


def targets(func: Func) -> dict[SSAValue, Targets]:
    """Follow every name, round loops until nothing new is found."""
    pointees: dict[SSAValue, Targets] = defaultdict(dict)
    ops = [op for op in func.walk() if isinstance(op, Buffer | Row | ShiftedRow | For)]
    named = {op.label.data: op for op in ops if isinstance(op, Buffer)}
    size = -1  # loop-carried names stand for each other: to a fixed point
    while size != (size := sum(len(targets) for targets in pointees.values())):
        for op in ops:
            match op:
                case Buffer():
                    pointees[op.y] = {op: ZERO}
                    if op.default is not None:
                        # An absent input is read where its default is.
                        pointees[op.y][named[op.default.data]] = None
                case Row():
                    pointees[op.y] = {
                        b: _row_shift(op, b, s) for b, s in pointees[op.buffer].items()
                    }
                case ShiftedRow():
                    pointees[op.y] = dict.fromkeys((*pointees[op.buffer], *pointees[op.init]))
                case For():
                    _carry(op, pointees)
    return pointees


def _row_shift(row: Row, buffer: Buffer, shift: Dim | None) -> Dim | None:
    if shift is None or buffer.rows_kept is not None:
        return None  # row t of a ring lies at t mod rows, which is no polynomial
    return shift + get_dim(row.index) * get_dim(row.stride)


def _carry(loop: For, pointees: dict[SSAValue, Targets]) -> None:
    """A carried name may stand for what enters the loop and for what any iteration yields."""
    places = zip(loop.inits, loop.yields, loop.body.block.args, loop.finals, strict=True)
    for init, handed, *names in places:
        for buffer in (*pointees[init], *pointees[handed]):
            for name in names:
                pointees[name][buffer] = None
