"""What rounded sums read is stored as bf16: where it is made, or as a copy.

Gradients of a loop are read by the loop's product and, when it has ended, by sums over all rows and
by a product of all rows: over and over, by tiles, in half as many bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, SSAValue

from rnncc.ir.attributes import get_dim
from rnncc.ir.dims import Dim
from rnncc.ir.ops.casts import Cast
from rnncc.ir.ops.control import Yield
from rnncc.ir.types import tensor
from rnncc.kern.access import Access, buffer_dtype, get_access
from rnncc.kern.dialect import Buffer, Row
from rnncc.kern.kernels import Contract, Gemm, Map
from rnncc.kern.program import KernelProgram
from rnncc.planning.uses import timeline

WIDE = 256
"""Units of a product that reads its rows by tiles so often that a copy takes less time."""
EIGHT = 8
"""Elements whose multiples rows of bf16 begin at: 16 bytes."""


def store_rounded(program: KernelProgram) -> None:
    """Give rounded sums operands of bf16.

    Before:

        scratch y.mul: 8*N
        scratch packed: 384
        map i in N, j in 8: y.mul = dy * w[j]
        contract m in 3, n in 8: y = sum k in N x[k, m] * y.mul[k, n]

    After:

        scratch rounded: 8*N
        scratch y.mul: 8*N
        scratch y.mul.bf16: 8*N
        scratch packed: 384
        map i in N, j in 8: y.mul = dy * w[j]; y.mul.bf16 = cast(dy * w[j])
        map i in N, j in 3: rounded[8*i + j] = cast(x)
        contract m in 3, n in 8: y = sum k in N rounded[k, m] * y.mul.bf16[k, n]
    """
    for buffer in list(program.buffers):
        if buffer.role.data != "scratch" or buffer.dtype != "f32":
            continue
        names = _names(buffer)
        readers = [(op, i) for name in names for op, i in _rounding(name)]
        # A loop's product reads a row once; what reads rows again and again, by tiles, is a sum.
        if not any(isinstance(op, Contract) for op, _ in readers):
            continue
        writes = [use for use in timeline(program.func).uses[buffer] if use.writes]
        writers = {use.op for use in writes}
        # What is written under another name, such as a loop-carried one, a copy would miss.
        rounded = all(use.value in names for use in writes)
        if rounded and all(isinstance(op, Map) for op in writers):
            _store_besides(buffer, names, writers, readers)
    copies = _Copies(program)
    for op in list(program.func.walk()):
        if isinstance(op, Contract) and op.rounded is not None:
            copies.give(op)


def copy_inputs(program: KernelProgram) -> None:
    """Let products of many units read copies in bf16 of what the caller gives.

    Before:

        gemm i in N, j in 512: y = x·packed

    After:

        map i in 8*N: x.bf16 = cast(x)
        gemm i in N, j in 512: y = x.bf16·packed
    """
    entry = program.func.body.block
    for buffer in list(program.buffers):
        # An absent input may be a single row of zeros, which a copy of all rows would read past.
        if buffer.role.data != "input" or buffer.dtype != "f32" or buffer.default is not None:
            continue
        uses = [(use.operation, use.index) for use in buffer.y.uses]
        readers = [op for op, i in uses if isinstance(op, Gemm) and _rounds(op, i)]
        if not any(op.units >= WIDE and _is_whole(op) for op in readers):
            continue
        copy = Buffer(f"{buffer.label.data}.bf16", "scratch", "bf16", buffer.elements)
        entry.insert_op_after(copy, buffer)
        every = Access(Dim.of(0), (Dim.of(1),))
        first = next(op for op in entry.ops if not isinstance(op, Buffer))
        _insert_copy(first, [buffer.elements], (buffer.y, every), (copy.y, every))
        for op in readers:
            op.operands[0] = copy.y


def _is_whole(op: Gemm) -> bool:
    """Whether rows lie side by side, at multiples of eight elements."""
    access = get_access(op.a_access)
    parts = access.offset, *access.strides[:-1]
    whole = all(factor % EIGHT == 0 for part in parts for _, factor in part.terms)
    return whole and access.strides[-1] == Dim.of(1) and op.k_sizes is None


def _names(buffer: Buffer) -> list[SSAValue]:
    """The buffer, and its rows."""
    rows = [use.operation for use in buffer.y.uses if isinstance(use.operation, Row)]
    return [buffer.y, *(row.y for row in rows)]


def _rounding(value: SSAValue) -> list[tuple[Operation, int]]:
    """The kernels that round a value's elements, and which of their operands it is."""
    return [(use.operation, use.index) for use in value.uses if _rounds(use.operation, use.index)]


def _rounds(op: Operation, operand: int) -> bool:
    if isinstance(op, Contract) and op.rounded is not None and operand < 2:
        access = get_access((op.a_access, op.b_access)[operand])
        parts = access.offset, access.strides[0]
        whole = all(factor % EIGHT == 0 for part in parts for _, factor in part.terms)
        # Rows in front of others, or behind them, are copied to one place.
        return whole and (op.first is None or operand != int(bool(op.of_b)))
    low = isinstance(op, Gemm) and buffer_dtype(op.weights) == "bf16" and op.room is not None
    return low and operand == 0


def _store_besides(
    buffer: Buffer,
    names: list[SSAValue],
    writers: set[Operation],
    readers: list[tuple[Operation, int]],
) -> None:
    copy = Buffer(f"{buffer.label.data}.bf16", "scratch", "bf16", buffer.elements)
    block = buffer.parent
    assert block is not None
    block.insert_op_after(copy, buffer)
    copies: dict[SSAValue, SSAValue] = {buffer.y: copy.y}
    for name in names[1:]:
        row = name.owner
        assert isinstance(row, Row) and row.parent is not None
        here = Row(copy.y, get_dim(row.index), get_dim(row.stride), row.rows.data)
        row.parent.insert_op_after(here, row)
        copies[name] = here.y
    for op, operand in readers:
        op.operands[operand] = copies[op.operands[operand]]
    for op in writers:
        assert isinstance(op, Map)
        _store_both(op, copies)


def _store_both(op: Map, copies: dict[SSAValue, SSAValue]) -> None:
    """Let a map store what it stores in a buffer in the copy, too."""
    ins = list(zip(op.ins, op.in_accesses, strict=True))
    outs = list(zip(op.outs, op.out_accesses, strict=True))
    some, body, parent = op.active_rows, op.body.block, op.parent
    assert parent is not None
    values, more = list(op.yields), list[tuple[SSAValue, Access]]()
    end = body.last_op
    assert end is not None
    for value, (target, access) in zip(op.yields, outs, strict=True):
        if target in copies:
            cast = Cast(value, dtype=StringAttr("bf16"))
            body.insert_op_before(cast, end)
            values.append(cast.y)
            more.append((copies[target], access))
    body.insert_op_before(Yield(values), end)
    end.detach()
    end.erase()
    op.body.detach_block(body)
    parent.insert_op_before(Map(op.dims, ins, [*outs, *more], body, some), op)
    op.detach()
    op.erase()


class _Copies:
    """Copies in bf16, each before the first sum that reads it."""

    def __init__(self, program: KernelProgram) -> None:
        self._entry, self._bounds = program.func.body.block, program.bounds
        self._known: dict[object, tuple[SSAValue, Access]] = {}

    def give(self, op: Contract) -> None:
        """Let a sum read copies of what is not of bf16."""
        a, b = self._operand(op, False), self._operand(op, True)
        where = op.out, (op.scratch, op.room_.data), op.init
        block = op.parent
        assert block is not None
        depth, rows, columns = op.sizes
        sizes = depth, rows, columns
        new = Contract(sizes, a, b, *where, bool(op.reverse), rounded=True)
        block.insert_op_before(new, op)
        op.detach()
        op.erase()

    def _operand(self, op: Contract, of_b: bool) -> tuple[SSAValue, Access]:
        value, access = (op.b, op.b_access) if of_b else (op.a, op.a_access)
        place = value, get_access(access)
        if buffer_dtype(value) == "bf16":
            return place
        width, first = op.sizes[2 if of_b else 1], None
        if op.first is not None and bool(op.of_b) == of_b:
            first = op.first
        # What the caller gives nobody writes: two sums read one copy.
        owner, key = value.owner, (op.parent, *place, width, first)
        fixed = isinstance(owner, Buffer) and owner.role.data == "input" and first is None
        if not fixed or key not in self._known:
            self._known[key] = self._copied(op, place, width, first)
        return self._known[key]

    def _copied(
        self, op: Contract, place: tuple[SSAValue, Access], width: Dim, first: SSAValue | None
    ) -> tuple[SSAValue, Access]:
        """A copy whose rows are padded; with rows in front of others, or behind them."""
        value, access = place
        depth, padded = op.sizes[0], Dim.of(-(-int(width) // EIGHT) * EIGHT)
        size = (depth * padded).substitute(self._bounds)
        copy = Buffer("rounded", "scratch", "bf16", size)
        self._entry.insert_op_before(copy, _first(self._entry))
        rows, whole = Access(Dim.of(0), (padded, Dim.of(1))), depth
        if first is not None:
            shift = op.shifted_by
            whole = (depth - shift).excess()
            # The smaller of both: a call may have fewer rows than the shift.
            head = shift - (shift - depth).excess()
            ahead = whole if op.late else Dim.of(0)
            source = first, Access(Dim.of(0), (width, Dim.of(1)))
            _insert_copy(op, (head, width), source, (copy.y, rows.shifted(padded * ahead)))
            if op.late:
                access = access.shifted(access.strides[0] * shift)
            else:
                rows = rows.shifted(padded * shift)
        _insert_copy(op, (whole, width), (value, access), (copy.y, rows))
        return copy.y, Access(Dim.of(0), (padded, Dim.of(1)))


def _first(block: Block) -> Operation:
    op = block.first_op
    assert op is not None
    return op


def _insert_copy(
    before: Operation,
    domain: Sequence[Dim],
    source: tuple[SSAValue, Access],
    target: tuple[SSAValue, Access],
) -> None:
    body = Block(arg_types=[tensor((), "f32")])
    cast = Cast(body.args[0], dtype=StringAttr("bf16"))
    body.add_ops([cast, Yield([cast.y])])
    assert before.parent is not None
    before.parent.insert_op_before(Map(domain, [source], [target], body), before)
