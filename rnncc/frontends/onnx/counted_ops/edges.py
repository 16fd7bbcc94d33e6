"""Operators that repeat rows at the ends of those that count: Resize by a scale, and Pad of the
modes edge and reflect.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from rnncc.frontends.onnx.counted.counts import one_that_fits
from rnncc.frontends.onnx.counted.rows import Partial
from rnncc.frontends.onnx.counted_ops.batches import pads_around
from rnncc.frontends.onnx.node import Node
from rnncc.frontends.onnx.ops.resize import simple_ratio
from rnncc.frontends.onnx.values import Value
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim

BY_PLACE = ("half_pixel", "asymmetric")
"""Coordinates that do not depend on how many rows there are."""


def scaled(n: Node, x: Partial, scale: float, name: str) -> Partial | None:
    """As many rows as a scale gives: behind the last one that counts it stands again."""
    coordinates = "asymmetric" if name == "Upsample" or n.opset < 11 else _coordinates(n)
    beside = n.opset >= 11 and (n.flag("antialias", 0) or n.flag("exclude_outside", 0))
    if coordinates not in BY_PLACE or beside or x.count is None or x.made is None:
        return None
    b, exact = n.b, simple_ratio(scale)
    if exact is None:
        return None
    n.inputs[0] = last_again(n, x, x.count)
    count = b.mul(x.count, n.full(exact.numerator, x.count))
    count = b.div(count, n.full(exact.denominator, count))
    return Partial.counted(n.built_as(name), x.axis, count)


def last_again(n: Node, x: Partial, count: SSAValue) -> Value:
    """The rows, behind which the last one that counts stands again."""
    b, size = n.b, x.dims[x.axis]
    last = b.maximum(b.sub(count, n.full(1, count)), n.full(0, count))
    places = b.minimum(b.iota((size,), 0, "i64"), b.broadcast(last, (size,), []))
    return Value.computed(b.gather(n.scope.ssa(x.whole()), places, x.axis))


def _coordinates(n: Node) -> str:
    return n.text("coordinate_transformation_mode", "half_pixel")


def mirrored(n: Node, x: Partial) -> Partial | None:
    """A known number of rows before those that count, and behind them, which repeat or mirror
    these; if there are too few to mirror, the run fails."""
    mode, around = n.text("mode", "constant"), pads_around(n, x)
    if mode not in ("edge", "reflect") or x.count is None or x.made is None or not around:
        return None
    if not all(amount.is_static and int(amount) >= 0 for amount in around):
        return None
    if any(size != 0 for size in _other_pads(n, x)):
        return None
    b, (before, behind) = n.b, map(int, around)
    count = _enough(n, x.count, 0 if mode == "edge" else max(before, behind))
    places = _places(b, mode, x.dims[x.axis], count, (before, behind))
    total = b.add(count, n.full(before + behind, count))
    return Partial.counted(Value.computed(b.gather(x.made, places, x.axis)), x.axis, total)


def _other_pads(n: Node, x: Partial) -> list[Dim]:
    """How much is put along other axes."""
    return [
        amount
        for axis in range(x.rank)
        if axis != x.axis
        for amount in pads_around(n, Partial.counted(x.whole(), axis, x.count)) or ()
    ]


def _enough(n: Node, count: SSAValue, most: int) -> SSAValue:
    """A count of more rows than are mirrored, or of some to repeat."""
    return one_that_fits(n.b, count, n.b.compare("gt", count, n.full(most, count)))


def _places(b: Builder, mode: str, size: Dim, count: SSAValue, around: tuple[int, int]) -> SSAValue:
    """Which row stands where; behind all that count, one that there is."""
    whole = size + sum(around)

    def everywhere(number: SSAValue | int) -> SSAValue:
        scalar = b.fill(number, (), "i64") if isinstance(number, int) else number
        return b.broadcast(scalar, (whole,), [])

    at = b.sub(b.iota((whole,), 0, "i64"), everywhere(around[0]))
    last = b.sub(everywhere(count), everywhere(1))
    if mode == "reflect":
        at = b.maximum(at, b.sub(everywhere(0), at))
        at = b.minimum(at, b.sub(b.add(last, last), at))
    return b.maximum(b.minimum(at, last), everywhere(0))
