"""`kern.list_rows`: the numbers of the rows whose flags are true, and of the others behind them."""

from __future__ import annotations

from llvmlite import ir

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.llvm.nest import make_nest
from rnncc.codegen.llvm.values import I64, VALUE, Pointer, Value, vector_type
from rnncc.ir.dims import Dim, product
from rnncc.kern.access import get_access
from rnncc.kern.moves import ListRows


def emit_list_rows(emit: CpuEmit, op: ListRows, flags: Pointer, out: Pointer) -> None:
    """List rows: vectors of them whose flags are all true at once, which is usual."""
    # Where a number goes depends on all flags before it.
    with emit.alone():
        emit.store(_Code(emit, op, flags, out).run(), out)


class _Code:
    """Loops that carry how many flags were true so far."""

    def __init__(self, emit: CpuEmit, op: ListRows, flags: Pointer, out: Pointer) -> None:
        self.emit, self.lanes = emit, emit.target.lanes
        access = get_access(op.access)
        nest = make_nest(op.dims, [access], [])
        self.dims, self.steps = nest.dims or (Dim.of(1),), nest.accesses[0].strides or (Dim.of(1),)
        self.flags, self.out = emit.at(flags, emit.dim(access.offset)), emit.at(out, I64(1))
        self.last = emit.b.sub(emit.dim(product(op.dims)), I64(1))

    def run(self) -> Value:
        """The number of true flags, as it is stored."""
        return self._number(self._axis(0, I64(0), self.flags, I64(0)))

    def _axis(self, axis: int, row: Value, flags: Pointer, listed: Value) -> Value:
        """The rows of an axis and those inside; `row`: the number of the row outside."""
        emit, b = self.emit, self.emit.b
        size, step = emit.dim(self.dims[axis]), emit.dim(self.steps[axis])
        first = b.mul(row, size)
        if axis == len(self.dims) - 1:
            return self._rows(first, size, flags, listed)

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            inner = emit.at(flags, b.mul(i, step))
            return [self._axis(axis + 1, b.add(first, i), inner, carried[0])]

        return emit.loop(size, iteration, [listed])[0]

    def _rows(self, first: Value, count: Value, flags: Pointer, listed: Value) -> Value:
        """Neighbouring rows."""
        b, step = self.emit.b, self.steps[-1]
        if step != 1 or self.lanes == 1:
            return self._one_by_one(first, count, flags, listed)
        vectors = self.emit.quotient(count, I64(self.lanes))

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            at = b.mul(i, I64(self.lanes))
            return [self._vector(b.add(first, at), self.emit.at(flags, at), carried[0])]

        [listed] = self.emit.loop(vectors, iteration, [listed])
        done = b.mul(vectors, I64(self.lanes))
        rest, behind = b.sub(count, done), self.emit.at(flags, done)
        return self._one_by_one(b.add(first, done), rest, behind, listed)

    def _vector(self, first: Value, flags: Pointer, listed: Value) -> Value:
        emit, b, lanes = self.emit, self.emit.b, self.lanes
        bits = b.bitcast(emit.load(flags, lanes), ir.IntType(lanes))
        every = b.icmp_unsigned("==", bits, ir.Constant(bits.type, -1))
        with b.if_else(every) as (all_true, mixed):
            with all_true:
                numbers = self._number(emit.lane_numbers(first, lanes), lanes)
                emit.store(numbers, emit.at(self.out, listed), lanes)
                quick, after_quick = b.add(listed, I64(lanes)), b.block
            with mixed:
                slow = self._one_by_one(first, I64(lanes), flags, listed)
                after_slow = b.block
        phi = b.phi(I64)
        phi.add_incoming(quick, after_quick)
        phi.add_incoming(slow, after_slow)
        return phi

    def _one_by_one(self, first: Value, count: Value, flags: Pointer, listed: Value) -> Value:
        """Each row's number is written to both places that it may have; what is there is replaced
        by the number of a later row, or is this one's."""
        emit, b, step = self.emit, self.emit.b, self.emit.dim(self.steps[-1])

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            row, [listed] = b.add(first, i), carried
            others = b.sub(row, listed)
            for place in (b.sub(self.last, others), listed):
                emit.store(self._number(row), emit.at(self.out, place))
            flag = emit.load(emit.at(flags, b.mul(i, step)))
            return [b.add(listed, b.zext(flag, I64))]

        return emit.loop(count, iteration, [listed])[0]

    def _number(self, value: Value, lanes: int = 1) -> Value:
        """Numbers in the list's type."""
        type_ = vector_type(VALUE[self.out.dtype], lanes)
        return value if type_ == value.type else self.emit.b.trunc(value, type_)
