"""The largest or smallest elements of an axis in order, and their places."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder, Values
from rnncc.ir.dims import Dim, product
from rnncc.ir.types import FLOATS, dims_of, dtype_of
from rnncc.nn.axes import move_axis
from rnncc.nn.indexing import gather_elements
from rnncc.sizes import TIME

FEW, MANY = 3, 128
"""From so many of so many elements on, they are looked for in blocks."""
OPEN_BLOCK = 32
"""Elements of a block, where the number of blocks is open: 16 are quicker for tens of elements in
order (up to 1.5 times in many rows), 64 for thousands (the first 300 of 8400: 71, 46 and 37 us)."""
WIDE = ("f64", "i64")
PAIRS = 400
"""Of 64 bits so many are compared in the time of looking for one element of a known axis."""
OPEN_PAIRS, OPEN_PAIRS_WIDE = 32, 160
"""The same of an open axis, and there of 64 bits."""
LOWER = (1 << 32) - 1
"""The lower half of an int64."""
NONE, ANY = -(2.0**63), 2.0**63 - 2.0**53
"""The smallest int64, the word of no element, and what is above that of each of 32 bits."""

Words = Sequence[SSAValue]


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

    Of equal ones the earlier comes first; NaN counts as larger than any number. They are looked for
    one after another, along a long or open axis in blocks: 50 of 1000 in a 150th of the time of
    comparing each with each, all of 1000 in a tenth. Few are compared each with each, and so is an
    open number in every row of time: a stream computes no loop inside its rows.
    """
    last = len(dims_of(x)) - 1
    x, count = move_axis(b, x, axis, last), Dim.of(count)
    in_rows = any(TIME in dim.symbols for dim in dims_of(x)[:-1]) and not _is_known(x, count)
    if in_rows or count == 0 or _is_compared(x, count):
        places = _places_of_ranks(b, ranks(b, x, largest), count)
    elif _is_known(x, count):
        places = _first_places(b, _words(b, x, largest), count)
    else:
        places = _open_places(b, x, largest, count)
    values = _elements_in_rows(b, x, places) if in_rows else gather_elements(b, x, places, last)
    return move_axis(b, values, last, axis), move_axis(b, places, last, axis)


def top_of_parts(b: Builder, x: SSAValue, part: SSAValue, parts: Dim, count: int) -> SSAValue:
    """The places of the largest `count` elements of each part of a vector, in the order of `top_k`.

    Args:
        x: float32 [elements].
        part: int64 [elements], which part each lies in.

    Returns:
        int64 [parts, count]; -1 behind the last of a part that has fewer.
    """
    (word,) = _words(b, x, largest=True)
    before = [b.fill(ANY, (parts,), "i64")]
    _, (words,) = b.scan([word, part], before, [b.iota((count,), 0, "i32")], _next_of_parts)
    words = move_axis(b, words, 0, 1)
    is_none = b.compare("eq", words, b.full_like(words, NONE))
    return b.select(is_none, b.full_like(words, -1), _place_of(b, words))


def _next_of_parts(b: Builder, consts: Values, carry: Values, _: Values) -> tuple[Values, Values]:
    """Of each part the largest word below the one before."""
    (word, part), (before,) = consts, carry
    left = b.compare("lt", word, b.gather(before, part, 0))
    none = b.full_like(before, NONE)
    largest = b.scatter("max", none, b.select(left, word, b.fill(NONE, (), "i64")), part, 0)
    return [largest], [largest]


def _is_known(x: SSAValue, count: Dim) -> bool:
    return count.is_static and dims_of(x)[-1].is_static


def _is_compared(x: SSAValue, count: Dim) -> bool:
    """Whether it takes less time to compare each with each than to go through a known number of
    elements once for each that is asked for: among few of 64 bits."""
    is_wide = _is_known(x, count) and dtype_of(x) in WIDE
    return is_wide and int(dims_of(x)[-1]) ** 2 < PAIRS * int(count)


def _open_places(b: Builder, x: SSAValue, largest: bool, count: Dim) -> SSAValue:
    """The places of an open number, or along an open axis: a call compares each with each, or looks
    for one after another, as is quicker for its sizes."""
    words = _words(b, x, largest)  # here, as a loop inside another one would compute them each time

    def compared(b: Builder, consts: Values, _: Values, __: Values) -> tuple[Values, Values]:
        return [_places_of_ranks(b, ranks(b, consts[0], largest), count)], []

    def found(b: Builder, consts: Values, _: Values, __: Values) -> tuple[Values, Values]:
        return [_first_places(b, consts[:-1], count)], []

    size, pairs = dims_of(x)[-1], OPEN_PAIRS_WIDE if dtype_of(x) in WIDE else OPEN_PAIRS
    is_few = b.compare("lt", b.size(size * size), b.size(count * pairs))
    places = b.fill(0, (*dims_of(x)[:-1], count), "i64")
    ways = (b.logical_not(is_few), found, words), (is_few, compared, [x])
    for gate, body, read in ways:
        [places], _ = b.scan([*read, gate], [places], [], body, length=Dim.of(1), gate=len(read))
    return places


def _elements_in_rows(b: Builder, x: SSAValue, places: SSAValue) -> SSAValue:
    """The last axis' elements at some places: a stream cannot gather from all rows of time."""
    *lead, size = dims_of(x)
    last = len(lead)
    wide, axes = (*lead, dims_of(places)[-1], size), [*range(last), last + 1]
    place = b.broadcast(places, wide, range(last + 1))
    is_there = b.compare("eq", place, b.iota(wide, last + 1, "i64"))

    def chosen(value: SSAValue) -> SSAValue:
        left = b.select(is_there, b.broadcast(value, wide, axes), b.fill(0, (), dtype_of(value)))
        return b.reduce("sum", left, [last + 1])

    if dtype_of(x) not in FLOATS:
        return chosen(x)
    # signs apart: a sum with zeros loses that of -0.0, a maximum the slope of -inf and NaN
    bits = b.bitcast(b.stop_gradient(x))
    is_negative = b.compare("lt", bits, b.full_like(bits, 0))
    value, sign = chosen(b.select(is_negative, b.neg(x), x)), chosen(b.cast(is_negative, "i32"))
    return b.select(b.compare("ne", sign, b.full_like(sign, 0)), b.neg(value), value)


def _places_of_ranks(b: Builder, rank: SSAValue, count: Dim) -> SSAValue:
    """The places of the last axis' elements of the first ranks.

    Each is looked for among all of its own row: a scatter by rank takes half of the time on a
    CPU, but on a GPU one thread does it alone, and streams cannot compute it row by row.
    """
    *lead, size = dims_of(rank)
    last = len(lead)
    wide, axes = (*lead, count, size), [*range(last), last + 1]
    has_rank = b.compare("eq", b.broadcast(rank, wide, axes), b.iota(wide, last, "i32"))
    number = b.iota(wide, last + 1, "i64")
    return b.reduce("sum", b.select(has_rank, number, b.full_like(number, 0)), [last + 1])


def _words(b: Builder, x: SSAValue, largest: bool) -> Words:
    """The last axis' elements as one or two int64 that have the same order, all different.

    Elements of 32 bits are the upper half of one word, as integers of their order. The lower half,
    or the second word, counts places from the end: of equal elements the earlier one is larger.
    """
    order = x
    if dtype_of(x) in FLOATS:
        width, nan = (32, 0x7FC0 << 16) if dtype_of(x) == "f32" else (64, 0x7FF8 << 48)
        bits = b.bitcast(b.add(x, b.full_like(x, 0.0)))  # of -0.0 those of 0.0
        negative = b.bits("right", bits, b.full_like(bits, width - 1))
        largest_one = b.bits("xor", b.full_like(bits, -(2.0 ** (width - 1))), b.full_like(bits, -1))
        order = b.bits("xor", bits, b.bits("and", negative, largest_one))
        order = b.select(b.compare("ne", x, x), b.full_like(bits, nan), order)
    if not largest:
        order = b.bits("xor", order, b.full_like(order, -1))
    number = b.iota(dims_of(x), len(dims_of(x)) - 1, "i64")
    from_end = b.sub(b.full_like(number, LOWER), number)
    if dtype_of(order) == "i64":
        return [order, from_end]
    upper = b.cast(order, "i64")
    return [b.add(b.mul(upper, b.full_like(upper, 1 << 32)), from_end)]


def _first_places(b: Builder, words: Words, count: Dim) -> SSAValue:
    """The places of the largest along the last axis, each the largest below the one before."""
    *lead, size = dims_of(words[0])
    last = len(lead)
    is_known = count.is_static and (size.is_static or int(count) < FEW)
    if not is_known or (int(count) >= FEW and int(size) >= MANY):
        blocks, maxima = _blocks(b, words)
        together = b.scan(blocks, maxima, [b.iota((count,), 0, "i32")], _next_by_block)[1][0]
    else:
        # a loop, before which the words are computed once: a row of reductions would do so in each
        first = _largest(b, words)
        number = b.iota((count - 1,), 0, "i32")
        others = b.scan(words, first, [number], _next)[1] if count != 1 else []
        together = b.concat([b.reshape(first[-1], (1, *lead)), *others], 0)
    return _place_of(b, move_axis(b, together, 0, last))


def _place_of(b: Builder, word: SSAValue) -> SSAValue:
    lower = b.full_like(word, LOWER)
    return b.sub(lower, b.bits("and", word, lower))


def _largest(b: Builder, words: Words, among: SSAValue | None = None) -> list[SSAValue]:
    """The words of the largest along the last axis, among those that a mask has."""
    *lead, _ = dims_of(words[0])
    largest = list[SSAValue]()
    for word in words:
        left = word if among is None else b.select(among, word, b.fill(NONE, (), "i64"))
        largest.append(b.reduce("max", left, [len(lead)]))
        is_largest = b.compare("eq", word, b.reshape(largest[-1], (*lead, 1)))
        among = is_largest if among is None else b.logical("and", among, is_largest)
    return largest


def _is_below(b: Builder, words: Words, before: Words) -> SSAValue:
    """Which along the last axis are smaller than one."""
    *lead, _ = dims_of(words[0])
    below: SSAValue | None = None
    for word, limit in zip(reversed(words), reversed(before), strict=True):
        limit = b.reshape(limit, (*lead, 1))
        less, equal = b.compare("lt", word, limit), b.compare("eq", word, limit)
        below = less if below is None else b.logical("or", less, b.logical("and", equal, below))
    assert below is not None
    return below


def _next(b: Builder, consts: Values, carry: Values, _: Values) -> tuple[Values, Values]:
    largest = _largest(b, consts, _is_below(b, consts, carry))
    return largest, largest[-1:]


def _blocks(b: Builder, words: Words) -> tuple[Words, Words]:
    """The last axis in blocks, and the largest of each: all blocks are rows of one matrix.

    A step of so many blocks of so many elements goes through the fewest of both where these are as
    many; a power of two, as a block's number is the upper bits of a place.
    """
    *lead, size = dims_of(words[0])
    block = 1 << round(math.log2(max(int(size), 1)) / 2) if size.is_static else OPEN_BLOCK
    count = size.over(block)
    padded = [b.pad(word, len(lead), 0, count * block, NONE) for word in words]
    maxima = _largest(b, [b.reshape(word, (*lead, count, block)) for word in padded])
    return [b.reshape(word, (product(lead) * count, block)) for word in padded], maxima


def _next_by_block(b: Builder, consts: Values, carry: Values, _: Values) -> tuple[Values, Values]:
    """The largest of all blocks' largest, in whose place comes what follows in its block."""
    *lead, count = dims_of(carry[0])
    largest = _largest(b, carry)
    shift = int(dims_of(consts[0])[1]).bit_length() - 1
    place = _place_of(b, largest[-1])
    block = b.bits("right", place, b.full_like(place, shift))
    row = b.reshape(b.iota((product(lead),), 0, "i64"), lead)
    row = b.add(b.mul(row, b.size(count)), block)
    rows = [b.gather(word, row, 0) for word in consts]
    left = _largest(b, rows, _is_below(b, rows, largest))
    number, one = b.iota(dims_of(carry[0]), len(lead), "i64"), (*lead, 1)
    is_block = b.compare("eq", number, b.reshape(block, one))
    carry = [
        b.select(is_block, b.reshape(new, one), old) for new, old in zip(left, carry, strict=True)
    ]
    return carry, largest[-1:]
