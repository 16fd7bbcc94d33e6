"""`kern.list_rows`: one warp lists rows, as many as it has lanes at a time."""

from __future__ import annotations

from rnncc.codegen.llvm.nest import make_nest
from rnncc.codegen.llvm.values import I32, I64, VALUE, Pointer, Value, declared
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.codegen.nvptx.limits import WARP
from rnncc.ir.dims import Dim, product
from rnncc.kern.access import get_access
from rnncc.kern.moves import ListRows


def emit_list_rows(emit: GpuEmit, op: ListRows, flags: Pointer, out: Pointer) -> None:
    """The rows with a true flag from the front, the others from the back."""
    access = get_access(op.access)
    nest = make_nest(op.dims, [access], [])
    counts = [emit.dim(d) for d in nest.dims or (Dim.of(1),)]
    steps = nest.accesses[0].strides or (Dim.of(1),)
    begin, b = emit.at(flags, emit.dim(access.offset)), emit.b
    total = emit.dim(product(op.dims))
    warp = b.icmp_unsigned("<", emit.me, I64(WARP))

    def some(i: Value, carried: list[Value]) -> list[Value]:
        [count] = carried
        row = b.add(b.mul(i, I64(WARP)), emit.me)
        inside = b.icmp_signed("<", row, total)
        # Lanes without a row stay: the ballot takes all of a warp.
        safe = b.select(inside, row, I64(0))
        flag = b.and_(emit.load(emit.along(begin, steps, emit.unravel(safe, counts))), inside)
        mask = emit.gpu.ballot(flag)
        # The flags of lanes below this one.
        lower = b.sub(b.shl(I32(1), b.trunc(emit.me, I32)), I32(1))
        before = b.add(count, _bits(emit, b.and_(mask, lower)))
        place = b.select(flag, before, b.sub(b.sub(total, I64(1)), b.sub(row, before)))
        with emit.when(inside):
            _store(emit, row, emit.at(out, b.add(place, I64(1))))
        return [b.add(count, _bits(emit, mask))]

    with emit.when(warp):
        [count] = emit.loop(emit.parts(total, I64(WARP)), some, [I64(0)])
        with emit.when(emit.first):
            _store(emit, count, out)


def _bits(emit: GpuEmit, mask: Value) -> Value:
    """How many bits are set."""
    count = declared(emit.module, "llvm.ctpop.i32", I32, [I32])
    return emit.b.zext(emit.b.call(count, [mask]), I64)


def _store(emit: GpuEmit, value: Value, pointer: Pointer) -> None:
    """A number in the list's type."""
    type_ = VALUE[pointer.dtype]
    emit.store(value if type_ == I64 else emit.b.trunc(value, type_), pointer)
