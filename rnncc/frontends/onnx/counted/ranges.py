"""Ranges up to a computed number: the run decides how many of their numbers count."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from rnncc.frontends.onnx.counted.counts import count_of, most_counted, one_that_fits
from rnncc.frontends.onnx.counted.rows import Partial
from rnncc.frontends.onnx.formulas.offsets import integers_behind, parted
from rnncc.frontends.onnx.node import FLOATS, Node
from rnncc.frontends.onnx.values import EXACT, Value
from rnncc.ir.dims import Dim, product
from rnncc.ir.size_proofs import larger
from rnncc.ir.types import dims_of, dtype_of

LIMITS = ("i32", "i64", *FLOATS)
"""Types of the limit of a range."""

FAR = 1 << 61
"""A limit that no bound of a range allows."""


def counted_range(n: Node) -> Partial | None:
    """start, start + delta, ... below a computed limit, where something bounds how many these are;
    None where nothing does, or where the limit is that of no such range."""
    if n.value(0).made is not None or n.value(2).made is not None:
        return _computed(n)
    limit = n.value(1)
    if limit.made is None or limit.dtype not in LIMITS or product(limit.dims) != 1:
        return None
    if n.scope.model.training:
        return None
    start, delta = (float(n.scalar(at)) for at in (0, 2))
    if not (math.isfinite(start) and math.isfinite(delta) and delta):
        return None
    whole = start.is_integer() and delta.is_integer()
    behind = integers_behind(limit.made) if whole else limit.made
    most = _most(n, behind, start, delta)
    if most is None or not n.scope.model.within(EXACT.get(limit.dtype, EXACT["f64"]), [most]):
        return None
    b = n.b
    base, more = parted(behind)
    if base is not None and base in n.scope.model.counts and (more, start, delta) == (0, 0, 1):
        count = b.reshape(b.cast(base, "i64"), ()) if dims_of(base) else base
    else:
        count = count_of(n, _steps(n, behind, start, delta), Dim.of(0), most)
    number = b.iota((most,), 0, "i64" if limit.dtype == "i64" else "i32")
    number = b.cast(number, limit.dtype)
    number = b.add(b.mul(number, n.full(delta, number)), n.full(start, number))
    return Partial.counted(Value.computed(number), 0, count)


def _computed(n: Node) -> Partial | None:
    """start, start + delta, ... where start or delta is computed: as many as the user bounds; a
    call fails whose delta is 0, or of whose floats one is no number."""
    b, most, dtype = n.b, n.most_given(), n.value(0).dtype
    if most is None or dtype not in LIMITS:
        return None
    if any(product(n.dims(at)) != 1 for at in range(3)):
        return None
    first, behind, delta = (b.reshape(n.x(at), ()) for at in range(3))
    if dtype in FLOATS:
        steps, fits = _real_steps(n, first, behind, delta)
    else:
        first, behind, delta = (b.cast(each, "i64") for each in (first, behind, delta))
        steps, fits = (
            _whole_steps(n, first, behind, delta),
            b.compare("ne", delta, n.full(0, delta)),
        )
    steps = one_that_fits(b, b.maximum(steps, n.full(0, steps)), fits)
    count = count_of(n, steps, Dim.of(0), most)
    number = b.mul(b.cast(b.iota((most,), 0, "i64"), dtype_of(delta)), delta)
    number = b.cast(b.add(number, first), dtype)
    return Partial.counted(Value.computed(number), 0, count)


def _most(n: Node, behind: SSAValue, start: float, delta: float) -> Dim | None:
    """The most numbers that a range may have, up to one that is computed."""
    if dtype_of(behind) in FLOATS:
        return n.most_given()
    base, more = parted(behind)
    if base is None:
        return None
    most = most_counted(n, base)
    if most is None or delta != 1:
        return None if most is None else n.scope.model.max_iterations
    return larger(most + more - int(start), Dim.of(0))


def _steps(n: Node, behind: SSAValue, start: float, delta: float) -> SSAValue:
    """How many steps a range takes, an integer."""
    b, dtype = n.b, dtype_of(behind)
    behind = b.reshape(behind, ())
    if dtype in FLOATS:
        steps = _quotient(n, n.full(start, behind), behind, n.full(delta, b.cast(behind, "f64")))
        steps = b.cast(steps, "i64")
    else:
        behind = b.cast(behind, "i64")
        steps = _whole_steps(n, n.full(start, behind), behind, n.full(delta, behind))
    return b.maximum(steps, n.full(0, steps))


def _quotient(n: Node, first: SSAValue, behind: SSAValue, delta: SSAValue) -> SSAValue:
    """⌈(behind - first) / delta⌉ in float64, the difference in the type of the two."""
    b = n.b
    return b.round("ceil", b.div(b.cast(b.sub(behind, first), "f64"), b.cast(delta, "f64")))


def _real_steps(
    n: Node, first: SSAValue, behind: SSAValue, delta: SSAValue
) -> tuple[SSAValue, SSAValue]:
    """How many steps lie between two floats, at most FAR, and whether that is a number."""
    b, steps = n.b, _quotient(n, first, behind, delta)
    fits = b.logical("and", b.compare("eq", steps, steps), b.compare("ne", delta, n.full(0, delta)))
    within = b.maximum(b.minimum(steps, n.full(float(FAR), steps)), n.full(0, steps))
    return b.cast(b.select(fits, within, n.full(0, steps)), "i64"), fits


def _whole_steps(n: Node, first: SSAValue, behind: SSAValue, delta: SSAValue) -> SSAValue:
    """How many steps lie between two int64, below 0 where they go the other way."""
    b, zero = n.b, n.full(0, delta)
    # what follows stays within 64 bits; there is no room for as many numbers
    ends = (b.minimum(b.maximum(e, n.full(-FAR, e)), n.full(FAR, e)) for e in (first, behind))
    first, behind = ends
    upwards = b.compare("gt", delta, zero)
    span = b.select(upwards, b.sub(behind, first), b.sub(first, behind))
    size = b.minimum(b.select(upwards, delta, b.sub(zero, delta)), n.full(2 * FAR, delta))
    return b.div(b.add(span, b.sub(size, n.full(1, span))), size)
