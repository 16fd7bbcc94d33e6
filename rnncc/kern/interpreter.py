"""The meaning of a kernel program, in NumPy, over the memory that its library would use.

Planned buffers lie in one workspace at their offsets, so that a wrong plan gives wrong results;
that memory starts as NaN. Every access outside of its buffer is an `AssertionError`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Attribute, Block, Operation, SSAValue

from rnncc.ir.attributes import get_dim, get_dims
from rnncc.ir.dims import Dim
from rnncc.ir.interpreter import LimitError
from rnncc.ir.ops.base import Array, Context, RnnOp
from rnncc.ir.ops.control import Yield
from rnncc.ir.ops.indexing import check_index, fold_by_index
from rnncc.ir.ops.linear import add_products, add_rows, empty_value
from rnncc.ir.precision import from_bf16, integer_product, rounded, scaled_product, to_bf16
from rnncc.ir.types import NUMPY, dtype_of
from rnncc.kern.access import Access, buffer_dtype, dense, get_access
from rnncc.kern.dialect import Buffer, For, Gate, Limit, Row, ShiftedRow
from rnncc.kern.kernels import Contract, Gemm, Index, Kernel, Reduce
from rnncc.kern.memory import POISON, BufferMemory, lay_out
from rnncc.kern.moves import IndexedMove, ListRows, Pack, Reverse, Scatter
from rnncc.kern.packing import GROUP, OFFSET, pack, packed_depth, unpack
from rnncc.kern.program import KernelProgram

Shape = tuple[int, ...]


def run(
    program: KernelProgram,
    inputs: Mapping[str, Array],
    sizes: Mapping[str, int] | None = None,
    absent: Collection[str] = (),
) -> dict[str, Array]:
    """Run a program.

    Args:
        inputs: an array for each input port that has no default.
        sizes: values of symbols that no input's shape shows.
        absent: outputs for which the caller gives no memory.
    Returns:
        output name -> array, without the absent ones.
    Raises:
        AssertionError: an access outside of a buffer.
        ValueError: a length outside 0..T.
        LimitError: a loop takes more iterations than its limit.
    """
    context = Context(_sizes(program, inputs, sizes or {}))
    memories = lay_out(program, inputs, context, absent)
    with np.errstate(all="ignore"):
        _Machine(context, memories).run_block(program.func.body.block)
    shapes = {port.name: context.shape(port.dims) for port in program.outputs}
    written = {b.label.data: m for b, m in memories.items() if b.role.data == "output" and m}
    return {n: written[n].flat.reshape(s) for n, s in shapes.items() if n not in absent}


def _sizes(
    program: KernelProgram, inputs: Mapping[str, Array], fixed: Mapping[str, int]
) -> dict[str, int]:
    """The symbols' values: those given, then those that shapes show."""
    sizes = dict(fixed)
    for port in (port for port in program.inputs if port.name in inputs):
        for dim, size in zip(port.dims, np.shape(inputs[port.name]), strict=True):
            # Only a size that is one symbol tells that symbol's value.
            if dim == Dim.of(next(iter(dim.symbols), 0)):
                sizes.setdefault(str(dim), size)
    return sizes


class _Machine:
    """What each buffer name stands for; symbols and loop indices are the context's sizes."""

    def __init__(self, context: Context, memories: Mapping[Buffer, BufferMemory | None]) -> None:
        self.context = Context(sizes := dict(context.sizes))
        self.sizes = sizes
        self.names: dict[SSAValue, BufferMemory | None] = {b.y: m for b, m in memories.items()}

    def run_block(self, block: Block) -> Gate | None:
        """Run a block's ops in order, up to a gate that is closed, which is returned."""
        for op in block.ops:
            if isinstance(op, Gate):
                if not self._flat(op.flag, 1)[0]:
                    return op
            elif isinstance(op, Row | ShiftedRow):
                self.names[op.y] = self._row(op)
            else:
                self._run(op)
        return None

    def _run(self, op: Operation) -> None:
        match op:
            case For():
                self._run_for(op)
            case Limit():
                if self._flat(op.flag, 1)[0]:
                    raise LimitError
            case Kernel():
                self._run_kernel(op)
            case Pack():
                self._run_pack(op)
            case Reverse():
                self._run_reverse(op)
            case IndexedMove():
                self._run_by_index(op)
            case Contract():
                self._run_contract(op)
            case ListRows():
                self._run_list_rows(op)
            case _:
                assert isinstance(op, Buffer | Yield), f"{op.name} has no meaning here"

    def _row(self, op: Row | ShiftedRow) -> BufferMemory | None:
        memory = self.names[op.buffer]
        index, stride = self._size(op.index), self._size(op.stride)
        if isinstance(op, ShiftedRow):
            if index == self._size(op.edge):
                return self.names[op.init]
            index += op.step.data
        return memory and memory.row(index, stride)

    # Loops

    def _run_for(self, loop: For) -> None:
        carried = [self.names[v] for v in loop.inits]
        for number, first, extent in self._iterations(loop):
            self.sizes[loop.index.data] = first
            if loop.iteration is not None:
                self.sizes[loop.iteration.data] = number
            if loop.extent is not None:
                self.sizes[loop.extent.data] = extent
            self.names.update(zip(loop.body.block.args, carried, strict=True))
            closed = self.run_block(loop.body.block)
            if closed is None:
                carried = [self.names[v] for v in loop.yields]
            elif closed.last:
                break
        self.names.update(zip(loop.finals, carried, strict=True))

    def _iterations(self, loop: For) -> Iterator[tuple[int, int, int]]:
        """The number of each iteration, its first step and how many it covers."""
        start, count, most = self._size(loop.start), self._size(loop.count), 1
        if loop.chunk is not None and loop.rows is not None:
            most = max(1, loop.chunk.data // max(self._size(loop.rows), 1))
        firsts = range(0, count, most)
        for first in reversed(firsts) if loop.reverse else firsts:
            yield first // most, start + first, min(most, count - first)

    # Kernels

    def _run_kernel(self, op: Kernel) -> None:
        """One that writes nothing but absent outputs is skipped."""
        shape = self.context.shape(op.dims)
        kept = shape[: len(shape) - op.reduced.data] if isinstance(op, Reduce) else shape
        targets = {
            i: self._view(buffer, Access(access.offset, access.strides[: len(kept)]), kept)
            for i, (buffer, access) in enumerate(zip(op.outs, op.out_accesses, strict=True))
            if self.names[buffer] is not None
        }
        if not targets:
            return
        start = self._start(op, kept) if isinstance(op, Reduce) else None
        pairs = zip(op.ins, op.in_accesses, strict=True)
        reads = [self._view(buffer, access, shape) for buffer, access in pairs]
        factors = self._factors(op) if isinstance(op, Gemm) else []
        for target in targets.values():
            # A map may write what it reads at the same point; a reduction reads other points, too.
            _check_target(target, [] if isinstance(op, Reduce) else reads)
            _check_apart(target, [*factors, *(reads if isinstance(op, Reduce) else [])])
        # Copies: a body may yield what it reads as it is, and the first target may be that memory.
        values = self._body(op, shape, [*_products(op, factors), *(r.copy() for r in reads)])
        chosen = self._chosen_rows(op, shape)
        for i, target in targets.items():
            value = _reduced(op, values[i], start) if isinstance(op, Reduce) else values[i]
            target[chosen] = value[chosen]

    def _chosen_rows(self, op: Kernel, shape: Shape) -> Any:
        """An index of the rows that are computed."""
        listing = op.active_rows
        if listing is None:
            return ...
        rows = shape[: listing.axes]
        count, *numbers = self._flat(listing.rows, math.prod(rows) + 1)
        listed = numbers[:count] if listing.where else numbers[count:]
        return np.unravel_index(np.array(listed, np.int64), rows)

    def _start(self, op: Reduce, kept: Shape) -> Array | None:
        """What a sum starts at, unless at zero."""
        [access] = op.out_accesses
        own = Access(access.offset, access.strides[: len(kept)])
        return None if op.init is None else self._view(op.init, own, kept).copy()

    def _body(self, op: Kernel, shape: Shape, arguments: Sequence[Array]) -> list[Array]:
        """What the region yields, over the whole domain at once."""
        values: dict[SSAValue, Array] = dict(zip(op.body.block.args, arguments, strict=True))
        for inner in op.body.block.ops:
            match inner:
                case Index():
                    values[inner.y] = _indices(shape, inner)
                case RnnOp():
                    operands = (values[v] for v in inner.operands)
                    values[inner.y] = inner.evaluate(self.context, *operands)
                case _:
                    assert isinstance(inner, Yield), f"{inner.name} in a kernel's region"
        return [np.broadcast_to(values[v], shape) for v in op.yields]

    def _factors(self, op: Gemm) -> list[Array]:
        """A product's left operand and its packed weights."""
        rows = self.context.shape(op.dims[:-1])
        a = self._view(op.a, get_access(op.a_access), (*rows, *map(int, op.k_dims)))
        per_k = op.slots.data * op.units
        depth = packed_depth(op.depth.data, GROUP[buffer_dtype(op.weights)])
        factors = [a, self._flat(op.weights, per_k * depth)]
        if op.room is not None:
            assert isinstance(op.room.owner, Buffer)
            room = self._flat(op.room, int(op.room.owner.elements))
            _check_apart(room, factors)
            # Nothing may be left in scratch for a later kernel.
            room[...] = POISON
        return factors if op.scales is None else [*factors, self._flat(op.scales, per_k)]

    def _run_contract(self, op: Contract) -> None:
        if self.names[op.out] is None:
            return
        depth, rows, columns = self.context.shape(op.sizes)
        a = self._rows_of(op, False, (depth, rows))
        b = self._rows_of(op, True, (depth, columns))
        out, room = self._flat(op.out, rows * columns), self._flat(op.scratch, int(op.room))
        start = np.zeros_like(out)
        if op.init is not None:
            init = self._flat(op.init, rows * columns)
            _check_target(out, [init])
            start = init.copy()
        for target in (out, room):
            _check_apart(target, [*a, *b])
        _check_apart(out, [room])
        room[...] = np.nan
        total = start.reshape(rows, columns)
        a, b = (np.concatenate(parts)[:depth] for parts in (a, b))
        if op.rounded is not None:
            a, b = from_bf16(a), from_bf16(b)
        add_products(total, a, b, bool(op.reverse))
        out[...] = total.reshape(-1)

    def _rows_of(self, op: Contract, of_b: bool, shape: Shape) -> list[Array]:
        """The rows of an operand, in parts."""
        x, access = (op.b, op.b_access) if of_b else (op.a, op.a_access)
        access = get_access(access)
        if op.first is None or bool(op.of_b) != of_b:
            return [self._view(x, access, shape)]
        (shift,), (depth, width) = self.context.shape([op.shifted_by]), shape
        skipped = access.strides[0] * op.shifted_by
        own = access.shifted(skipped) if op.late else access
        kept = self._view(x, own, (max(depth - shift, 0), width))
        first = self._flat(op.first, shift * width).reshape(shift, width)
        return [kept, first] if op.late else [first, kept]

    def _run_pack(self, op: Pack) -> None:
        shape = (op.units.data, op.depth.data)
        pairs = zip(op.ins, op.in_accesses, strict=True)
        sources = [self._view(b, access, shape) for b, access in pairs]
        dtype = buffer_dtype(op.out)
        packed = pack(sources, op.geometry, group=GROUP[dtype])
        packed = to_bf16(packed) if dtype == "bf16" else packed
        out = self._flat(op.out, packed.size)
        _check_apart(out, sources)
        out[...] = packed

    def _run_reverse(self, op: Reverse) -> None:
        dims = get_dims(op.dims)
        steps, columns, _ = shape = self.context.shape(dims)
        access = Access(Dim.of(0), dense(dims))
        x, lengths = self._view(op.x, access, shape), self._flat(op.lengths, columns)
        if ((lengths < 0) | (lengths > steps)).any():
            raise ValueError(f"a length outside 0..{steps}")
        out = self._view(op.out, access, shape)
        _check_apart(out, [x, lengths])
        out[...] = x
        for n, length in enumerate(lengths):
            out[:length, n] = x[:length, n][::-1]

    def _run_by_index(self, op: IndexedMove) -> None:
        rows, numbered = get_dims(op.dims), op.numbered
        _, count, _ = self.context.shape(rows)
        index = self._flat(op.index, count)
        if isinstance(op, Scatter):
            x, out = self._dense(op.x, rows), self._dense(op.out, numbered)
            _check_apart(out, [x, index])
            out[...] = 0 if op.init is None else self._dense(op.init, numbered)
            fold_by_index(op.kind.data, out, x, index, 1)
            return
        x, out = self._dense(op.x, numbered), self._dense(op.out, rows)
        _check_apart(out, [x, index])
        check_index(index, x.shape[1])
        out[...] = np.take(x, index, 1)

    def _run_list_rows(self, op: ListRows) -> None:
        shape = self.context.shape(op.dims)
        flags = self._view(op.flags, get_access(op.access), shape).reshape(-1).astype(bool)
        out = self._flat(op.out, flags.size + 1)
        _check_apart(out, [flags])
        chosen, others = np.flatnonzero(flags), np.flatnonzero(~flags)
        out[...] = [chosen.size, *chosen, *others[::-1]]

    # Memory

    def _dense(self, value: SSAValue, dims: Sequence[Dim]) -> Array:
        return self._view(value, Access(Dim.of(0), dense(dims)), self.context.shape(dims))

    def _size(self, attribute: Attribute) -> int:
        return get_dim(attribute).evaluate(self.sizes)

    def _flat(self, buffer: SSAValue, elements: int) -> Array:
        return self._view(buffer, Access(Dim.of(0), (Dim.of(1),)), (elements,))

    def _view(self, buffer: SSAValue, access: Access, shape: Shape) -> Array:
        memory = self.names[buffer]
        assert memory is not None, "an absent output is read"
        offset, *strides = self.context.shape((access.offset, *access.strides))
        return memory.view(offset, shape, strides)


def _rounded(buffer: SSAValue, array: Array) -> Array:
    """What a rounded sum multiplies: of bf16 as it is."""
    return from_bf16(array) if buffer_dtype(buffer) == "bf16" else rounded(array)


def _products(op: Kernel, factors: Sequence[Array]) -> list[Array]:
    """The sums of each slot."""
    if not isinstance(op, Gemm):
        return []
    a, packed, *scales = factors
    a = a.reshape(*a.shape[: len(op.dims) - 1], op.depth.data)
    dtype, geometry = buffer_dtype(op.weights), op.geometry
    weights = unpack(packed, geometry, op.units, GROUP[dtype])
    offset = OFFSET if dtype == "u8" else 0
    if a.dtype == np.int8:
        return [integer_product(a, w.astype(np.int16).T - offset) for w in weights]
    if scales:
        by_slot = unpack(scales[0], geometry.of_scales, op.units)
        whole = [w.astype(np.int16) - offset for w in weights]
        return [scaled_product(a, w, s[:, 0]) for w, s in zip(whole, by_slot, strict=True)]
    if dtype == "bf16":
        weights = [from_bf16(w) for w in weights]
        a = a if op.room is None else _rounded(op.a, a)
    return [a @ w.T for w in weights]


def _check_target(target: Array, reads: Sequence[Array]) -> None:
    """Each point writes elements of its own, and none that another point reads."""
    apart = all(
        stride or size < 2 for stride, size in zip(target.strides, target.shape, strict=True)
    )
    assert apart or not target.size, "several points write one element"
    here = target.__array_interface__
    _check_apart(target, [r for r in reads if r.__array_interface__ != here])


def _check_apart(target: Array, reads: Sequence[Array]) -> None:
    assert not any(np.shares_memory(target, r) for r in reads), "a point's write is another's read"


def _reduced(op: Reduce, value: Array, init: Array | None) -> Array:
    """Over the domain's last axes; of no elements: what it starts at."""
    axes = tuple(range(value.ndim - op.reduced.data, value.ndim))
    if op.order.data != "any":
        kept, count = value.shape[: axes[0]], math.prod(value.shape[axes[0] :])
        total = np.zeros(kept, value.dtype) if init is None else init
        add_rows(total, np.moveaxis(value.reshape(*kept, count), -1, 0), op.order.data == "down")
        return total
    ufunc = {"sum": np.add, "max": np.maximum, "min": np.minimum}[op.kind.data]
    start = empty_value(op.kind.data, value.dtype)
    return ufunc.reduce(value, axis=axes, dtype=value.dtype, initial=start)


def _indices(shape: Shape, op: Index) -> Array:
    """The index along one axis, at every point of the domain."""
    axis = op.axis.data
    index = np.arange(shape[axis], dtype=NUMPY[dtype_of(op.y)])
    return np.broadcast_to(index.reshape((-1,) + (1,) * (len(shape) - axis - 1)), shape)
