"""The largest or smallest elements of an axis in order, and their places."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder, Values
from rnncc.ir.dims import Dim, product
from rnncc.ir.types import FLOATS, dims_of, dtype_of
from rnncc.nn.axes import move_axis
from rnncc.nn.indexing import gather_elements

MAX_RANKED = 4096
"""Elements of an axis that are compared each with each."""
FEW, MANY = 3, 128
"""From so many of so many elements on, they are looked for in blocks."""
LOWER = (1 << 32) - 1
"""The lower half of an int64."""


def ranks(b: Builder, x: SSAValue, largest: bool) -> SSAValue:
    """How many of the last axis' elements come before each, as i32: beyond it, or equal earlier.

    NaN counts as larger than any number, as NumPy and PyTorch sort it.
    """
    dims = dims_of(x)
    rank, size = len(dims), dims[-1]
    wide = (*dims, size)
    mine = b.broadcast(x, wide, range(rank))
    other = b.broadcast(x, wide, [*range(rank - 1), rank])
    beyond = b.compare("gt" if largest else "lt", other, mine)
    equal = b.compare("eq", other, mine)
    if dtype_of(x) in FLOATS:
        nans = b.compare("ne", other, other), b.compare("ne", mine, mine)
        farther, nearer = nans if largest else reversed(nans)
        beyond = b.logical("or", beyond, b.logical("and", farther, b.logical_not(nearer)))
        equal = b.logical("or", equal, b.logical("and", *nans))
    earlier = b.compare("lt", b.iota(wide, rank, "i32"), b.iota(wide, rank - 1, "i32"))
    equal = b.logical("and", equal, earlier)
    return b.reduce("sum", b.cast(b.logical("or", beyond, equal), "i32"), [rank])


def top_k(
    b: Builder, x: SSAValue, count: Dim | int, axis: int, largest: bool
) -> tuple[SSAValue, SSAValue]:
    """The largest `count` elements along an axis in order, or the smallest, and their places.

    Of equal ones the earlier comes first; NaN counts as larger than any number. A known number of
    elements of 32 bits are looked for one after another, of a long axis in blocks: 50 of 1000 in a
    150th of the time of comparing each with each, all of 200 in a third of it. Others are compared.
    """
    last = len(dims_of(x)) - 1
    x = move_axis(b, x, axis, last)
    if _is_found(x, count):
        places = _first_places(b, _keys(b, x, largest), int(Dim.of(count)))
        values = gather_elements(b, x, places, last)
        return move_axis(b, values, last, axis), move_axis(b, places, last, axis)
    values, places = _of_each_rank(b, x, ranks(b, x, largest), Dim.of(count))
    return move_axis(b, values, last, axis), move_axis(b, places, last, axis)


def _of_each_rank(b: Builder, x: SSAValue, rank: SSAValue, count: Dim) -> tuple[SSAValue, SSAValue]:
    """The last axis' elements of the first ranks, and their places.

    Each is looked for among all of its own row: a scatter by rank takes half of the time on a
    CPU, but on a GPU one thread does it alone, and streams cannot compute it row by row.
    """
    *lead, size = dims_of(x)
    last = len(lead)
    wide, axes = (*lead, count, size), [*range(last), last + 1]
    has_rank = b.compare("eq", b.broadcast(rank, wide, axes), b.iota(wide, last, "i32"))
    number = b.iota(wide, last + 1, "i64")
    places = b.reduce("sum", b.select(has_rank, number, b.full_like(number, 0)), [last + 1])
    if not lead:
        return b.gather(x, places, 0), places
    chosen = b.select(has_rank, b.broadcast(x, wide, axes), b.fill(0, (), dtype_of(x)))
    return b.reduce("sum", chosen, [last + 1]), places


def can_rank(x: SSAValue, count: Dim | int, axis: int) -> bool:
    """Whether `top_k` of an axis is not too much work."""
    size = dims_of(x)[axis]
    return not size.is_static or int(size) <= MAX_RANKED or _is_found(x, count)


def _is_found(x: SSAValue, count: Dim | int) -> bool:
    """Whether `top_k` goes through the elements once for each that is asked for."""
    count = Dim.of(count)
    return dtype_of(x) in ("f32", "i32") and count.is_static and count != 0


def _keys(b: Builder, x: SSAValue, largest: bool) -> SSAValue:
    """The last axis' elements of 32 bits as int64 of the same order, all different.

    The upper half is the element, as an integer of its order, the lower one counts places from
    the end: of equal elements the earlier one is larger.
    """
    order = x
    if dtype_of(x) == "f32":
        bits = b.bitcast(b.add(x, b.full_like(x, 0.0)))  # of -0.0 those of 0.0
        sign = b.bits("right", bits, b.full_like(bits, 31))
        order = b.bits("xor", bits, b.bits("and", sign, b.full_like(bits, 0x7FFFFFFF)))
        above_infinity = b.full_like(bits, 0x7F800001)
        order = b.select(b.compare("ne", x, x), above_infinity, order)
    if not largest:
        order = b.bits("xor", order, b.full_like(order, -1))
    upper = b.cast(order, "i64")
    upper = b.mul(upper, b.full_like(upper, 1 << 32))
    from_end = b.sub(b.full_like(upper, LOWER), b.iota(dims_of(x), len(dims_of(x)) - 1, "i64"))
    return b.add(upper, from_end)


def _first_places(b: Builder, keys: SSAValue, count: int) -> SSAValue:
    """The places of the largest along the last axis, each the largest below the one before."""
    *lead, size = dims_of(keys)
    last = len(lead)
    number = b.iota((max(count - 1, 0),), 0, "i32")
    if count >= FEW and size.is_static and int(size) >= MANY:
        blocks, maxima = _blocks(b, keys)
        first = b.reduce("max", maxima, [last])
        consts, carried, step = [blocks], [maxima, first], _next_by_block
    else:
        # a loop, before which the keys are computed once: a row of reductions would do so in each
        first = b.reduce("max", keys, [last])
        consts, carried, step = [keys], [first], _next
    places = [b.reshape(first, (1, *lead))]
    if count > 1:
        places += b.scan(consts, carried, [number], step)[1]
    together = move_axis(b, b.concat(places, 0), 0, last)
    return _place_of(b, together)


def _place_of(b: Builder, keys: SSAValue) -> SSAValue:
    lower = b.full_like(keys, LOWER)
    return b.sub(lower, b.bits("and", keys, lower))


def _below(b: Builder, keys: SSAValue, before: SSAValue) -> SSAValue:
    """The largest key below one along the last axis."""
    *lead, _ = dims_of(keys)
    left = b.compare("lt", keys, b.reshape(before, (*lead, 1)))
    none = b.fill(-(2.0**63), (), "i64")
    return b.reduce("max", b.select(left, keys, none), [len(lead)])


def _next(b: Builder, consts: Values, carry: Values, _: Values) -> tuple[Values, Values]:
    place = _below(b, consts[0], carry[0])
    return [place], [place]


def _blocks(b: Builder, keys: SSAValue) -> tuple[SSAValue, SSAValue]:
    """The last axis in blocks, and the largest of each: all blocks are rows of one matrix.

    A step of so many blocks of so many elements goes through the fewest of both where these are as
    many; a power of two, as a block's number is the upper bits of a place.
    """
    *lead, size = dims_of(keys)
    block = 1 << round(math.log2(int(size)) / 2)
    count = size.over(block)
    keys = b.pad(keys, len(lead), 0, count * block, -(2.0**63))
    together = b.reshape(keys, (*lead, count, block))
    maxima = b.reduce("max", together, [len(lead) + 1])
    return b.reshape(keys, (product(lead) * count, block)), maxima


def _next_by_block(b: Builder, consts: Values, carry: Values, _: Values) -> tuple[Values, Values]:
    """`_next`, which looks for what follows in the block of the one before alone."""
    (blocks,), (maxima, before) = consts, carry
    *lead, count = dims_of(maxima)
    shift = int(dims_of(blocks)[1]).bit_length() - 1
    place = _place_of(b, before)
    block = b.bits("right", place, b.full_like(place, shift))
    row = b.reshape(b.iota((product(lead),), 0, "i64"), lead)
    row = b.add(b.mul(row, b.full_like(row, int(count))), block)
    left = _below(b, b.gather(blocks, row, 0), before)
    number, one = b.iota(dims_of(maxima), len(lead), "i64"), (*lead, 1)
    is_block = b.compare("eq", number, b.reshape(block, one))
    maxima = b.select(is_block, b.reshape(left, one), maxima)
    largest = b.reduce("max", maxima, [len(lead)])
    return [maxima, largest], [largest]
