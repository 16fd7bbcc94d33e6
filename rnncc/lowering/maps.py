"""How a point of a kernel's domain selects an element of a value, through views and buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from xdsl.ir import Block, Operation, SSAValue

from rnncc.ir.attributes import get_dim, get_ints
from rnncc.ir.dims import ZERO, Dim
from rnncc.ir.ops.base import View
from rnncc.ir.ops.control import Yield
from rnncc.ir.ops.shape import Broadcast, Reshape, Slice, Transpose
from rnncc.ir.ops.windows import Windows
from rnncc.ir.types import dims_of, tensor
from rnncc.kern.access import Access, buffer_dtype, dense
from rnncc.kern.kernels import Map
from rnncc.records import record


@record
class AxisIndex:
    """The index along one axis: an offset, plus the domain's index along `axis` if given."""

    offset: Dim = ZERO
    axis: int | None = None

    def shifted(self, by: Dim) -> AxisIndex:
        return AxisIndex(self.offset + by, self.axis)


IndexMap = tuple[AxisIndex, ...]


@record
class Placed:
    """Where a value's elements are: a buffer, and an access over the value's own axes."""

    buffer: SSAValue
    access: Access

    @staticmethod
    def densely(buffer: SSAValue, dims: Sequence[Dim]) -> Placed:
        return Placed(buffer, Access(ZERO, dense(dims)))

    def is_dense(self, dims: Sequence[Dim]) -> bool:
        """Whether the elements lie row-major without gaps (axes of size 1 do not count)."""
        pairs = zip(dims, self.access.strides, dense(dims), strict=True)
        return all(size == 1 or stride == packed for size, stride, packed in pairs)

    def with_units_elsewhere(self, dims: Sequence[Dim], others: Sequence[Dim]) -> Placed:
        """The same elements, whose shape has its axes of size 1 elsewhere."""
        wide = iter(s for s, d in zip(self.access.strides, dims, strict=True) if d != 1)
        strides = tuple(ZERO if d == 1 else next(wide) for d in others)
        return Placed(self.buffer, Access(self.access.offset, strides))

    def over(self, index: IndexMap, rank: int) -> Access:
        """The access over a domain of `rank` axes whose points map to the value's by `index`."""
        offset, strides = self.access.offset, [ZERO] * rank
        for stride, at in zip(self.access.strides, index, strict=True):
            offset = offset + stride * at.offset
            if at.axis is not None:
                strides[at.axis] = strides[at.axis] + stride
        return Access(offset, tuple(strides))


def identity(dims: Sequence[Dim], first: Dim = ZERO) -> IndexMap:
    """A value of the domain's own shape; `first` is added along its first axis."""
    index = tuple(AxisIndex() if d == 1 else AxisIndex(ZERO, i) for i, d in enumerate(dims))
    return (index[0].shifted(first), *index[1:]) if index else index


def aligned(domain: Sequence[Dim], dims: Sequence[Dim], first: Dim = ZERO) -> IndexMap:
    """A value whose shape is the domain's but for axes of size 1."""
    wide = iter(at for at, d in zip(identity(domain, first), domain, strict=True) if d != 1)
    return tuple(AxisIndex() if d == 1 else next(wide) for d in dims)


def is_unit_reshape(op: Operation | Block) -> TypeGuard[Reshape]:
    """Whether an op only adds or drops axes of size 1."""
    return isinstance(op, Reshape) and op.only_units


def is_view(op: Operation | Block) -> TypeGuard[View]:
    """Whether an op only selects elements."""
    return isinstance(op, View)


def strip_units(value: SSAValue) -> SSAValue:
    """The value under reshapes that only add or drop axes of size 1."""
    while is_unit_reshape(op := value.owner):
        value = op.x
    return value


def in_its_order(value: SSAValue) -> SSAValue:
    """The value whose elements, in their order, are those of another: the one under reshapes."""
    while isinstance(op := value.owner, Reshape):
        value = op.x
    return value


def base_of(value: SSAValue) -> SSAValue:
    """The value under all views."""
    while is_view(op := value.owner):
        value = op.x
    return value


def through_view(op: View, index: IndexMap) -> IndexMap | None:
    """Which element of a view's operand an element of its result is; None where strides tell.

    Before:

        v1 = slice(x, axis=0, start=4, size=4)
        v2 = transpose(v1, perm=[1, 0])
        v3 = broadcast(s, dims=[N, 4], axes=[0])
        v4 = mul(v2, v3)
        return v4

    After:

        map i in N, j in 4: y = x[i + N*j + 4*N] * s[i]
    """
    old = dims_of(op.x)
    match op:
        case Transpose():
            at: list[AxisIndex] = [AxisIndex()] * len(old)
            for axis, source in enumerate(get_ints(op.perm)):
                at[source] = index[axis]
            return tuple(at)
        case Broadcast():
            new = dims_of(op.y)
            # An axis of size 1 that is repeated is read at 0 everywhere.
            axes = zip(old, get_ints(op.axes), strict=True)
            return tuple(index[a] if size == new[a] else AxisIndex() for size, a in axes)
        case Slice():
            start, axis = get_dim(op.start), op.axis.data
            moved = index[axis].shifted(start)
            return (*index[:axis], moved, *index[axis + 1 :])
        case Reshape() if is_unit_reshape(op):
            pairs = zip(index, dims_of(op.y), strict=True)
            wide = iter([at for at, d in pairs if d != 1])
            return tuple(AxisIndex() if d == 1 else next(wide) for d in old)
        case _:
            return None


def view_placed(op: View, placed: Placed) -> Placed | None:
    """Where a view's result is, given its operand's place; None where it must be copied."""
    old, new = dims_of(op.x), dims_of(op.y)
    if isinstance(op, Reshape) and not is_unit_reshape(op):
        if placed.is_dense(old):
            return Placed(placed.buffer, Access(placed.access.offset, dense(new)))
        joined = merged(placed.access, old, new)
        return None if joined is None else Placed(placed.buffer, joined)
    if isinstance(op, Windows):
        return Placed(placed.buffer, _windowed(op, placed.access))
    index = through_view(op, tuple(AxisIndex(ZERO, i) for i in range(len(new))))
    assert index is not None
    return Placed(placed.buffer, placed.over(index, len(new)))


def _windowed(op: Windows, access: Access) -> Access:
    """Windows lie over each other: an axis is walked in two steps."""
    axis, step = op.axis.data, access.strides[op.axis.data]
    both = tuple(step * distance for distance in op.steps)
    strides = (*access.strides[:axis], *both, *access.strides[axis + 1 :])
    return Access(access.offset + step * get_dim(op.start), strides)


def merged(access: Access, old: Sequence[Dim], new: Sequence[Dim]) -> Access | None:
    """The access over a shape whose axes are runs of old ones; None where they do not run on."""
    pending = [pair for pair in zip(old, access.strides, strict=True) if pair[0] != 1]
    strides: list[Dim] = []
    for size in new:
        covered, stride = Dim.of(1), ZERO
        while covered != size:
            if not pending:
                return None
            inner, step = pending.pop(0)
            # Two axes are one if the outer one steps over all of the inner one.
            if covered != 1 and stride != step * inner:
                return None
            covered, stride = covered * inner, step
        strides.append(stride)
    return None if pending else Access(access.offset, tuple(strides))


def copying(dims: Sequence[Dim], source: Placed, dest: Placed) -> Map:
    """The kernel that copies a value of these dims from one place to another."""
    body = Block(arg_types=[tensor((), buffer_dtype(source.buffer))])
    body.add_op(Yield(body.args))
    ends = (source.buffer, source.access), (dest.buffer, dest.access)
    return Map(dims, ends[:1], ends[1:], body)
