"""What ONNX Runtime has of its own beside the standard's Pad, Trilu, Unsqueeze, RotaryEmbedding."""

from __future__ import annotations

from xdsl.ir import SSAValue

from rnncc.frontends.onnx.node import FLOATS, INTEGERS, Node
from rnncc.frontends.onnx.ops.contributed_attention import dividing
from rnncc.frontends.onnx.ops.slicing import pad_by_inputs
from rnncc.frontends.onnx.values import Value
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.types import dims_of, shape_text
from rnncc.nn.attention import by_head, heads_together


def padded(n: Node) -> SSAValue | Value:
    """X with more elements around it: a constant, or by the modes edge and reflect.

    Refused: pads that are computed at run time, but those that Pad of the standard takes; negative
    pads with a mode other than constant.
    """
    return pad_by_inputs(n)


def with_axis(n: Node) -> SSAValue:
    """X with an axis of size 1 put in.

    Refused: an axis that is computed at run time.
    """
    dims, axis = list(n.dims()), n.axis(int(n.scalar(1)), len(n.dims()) + 1)
    return n.b.reshape(n.x(), [*dims[:axis], 1, *dims[axis:]])


def rotary_embedding(n: Node) -> SSAValue:
    """Pairs of elements of each head turned by the angles of their positions, of which tables hold
    the cosines and sines.

    Refused: elements other than floats; packed batches; a scale; open sizes of units.
    """
    if n.flag("is_packed_batching", 0) or n.real("scale", 1.0) != 1:
        raise n.unsupported("has packed batches or a scale")
    b, x, cosines = n.b, n.x(0, FLOATS), n.x(2, FLOATS)
    dims, table = n.dims(), n.static(2)
    if len(dims) not in (3, 4) or len(table) != 2 or not table[1] or n.dims(3) != n.dims(2):
        shapes = ", ".join(shape_text(n.dims(i)) for i in (0, 2, 3))
        raise n.error(f"has data and tables of shape {shapes}")
    if not dims[-1].is_static:
        raise n.unsupported(f"has an open size of units, {dims[-1]}", "--shape gives a size")
    turned, size = 2 * table[1], n.integer("rotary_embedding_dim", 0)
    if size not in (0, turned):
        raise n.error(f"turns {size} elements by tables of {turned}")
    if len(dims) == 3:
        count = n.integer("num_heads", 0) if size else int(dims[2]) // turned
        x = by_head(b, x, dividing(n, x, count))
    if int(dims_of(x)[3]) < turned:
        raise n.error(f"has heads of {dims_of(x)[3]} units, of which {turned} are turned")
    angles = [_of_positions(n, positions, dims_of(x)) for positions in (cosines, n.x(3, FLOATS))]
    y = rotated(b, x, angles, turned, bool(n.flag("interleaved", 0)))
    return y if len(dims) == 4 else heads_together(b, y)


def _of_positions(n: Node, table: SSAValue, dims: tuple[Dim, ...]) -> SSAValue:
    """A row of the table for each position, [B or 1, 1, S, pairs]."""
    b, at, (batch, _, steps, _) = n.b, n.x(1, INTEGERS), dims
    at = b.cast(at, "i64")
    if dims_of(at) == (Dim.of(1),) and steps != 1:  # of the first step
        at = b.add(b.cast(b.iota((1, steps), 1), "i64"), b.reshape(at, (1, 1)))
    at = b.reshape(at, (1, 1)) if len(dims_of(at)) == 1 else at
    if dims_of(at) not in ((batch, steps), (Dim.of(1), steps)):
        expected = shape_text((batch, steps))
        what = f"has positions of shape {shape_text(n.dims(1))}, expected {expected} or 1"
        raise n.differ(dims_of(at), (batch, steps), what)
    rows = b.gather(table, at, 0)
    first, steps, pairs = dims_of(rows)
    return b.reshape(rows, (first, 1, steps, pairs))


def rotated(
    b: Builder, x: SSAValue, angles: list[SSAValue], turned: int, interleaved: bool
) -> SSAValue:
    """The first `turned` units of each head as pairs, of neighbours or of halves, turned."""
    (*outer, size), pairs = dims_of(x), turned // 2
    whole, rest = b.slice(x, 3, 0, turned), int(size) - turned
    if interleaved:
        apart = b.reshape(whole, (*outer, pairs, 2))
        one, other = (b.reshape(b.slice(apart, 4, i, 1), (*outer, pairs)) for i in (0, 1))
    else:
        one, other = b.slice(whole, 3, 0, pairs), b.slice(whole, 3, pairs, pairs)
    cosine, sine = angles
    first = b.sub(b.mul(one, cosine), b.mul(other, sine))
    second = b.add(b.mul(one, sine), b.mul(other, cosine))
    if interleaved:
        halves = [b.reshape(half, (*outer, pairs, 1)) for half in (first, second)]
        y = b.reshape(b.concat(halves, 4), (*outer, turned))
    else:
        y = b.concat([first, second], 3)
    return b.concat([y, b.slice(x, 3, turned, rest)], 3) if rest else y
