"""Attention as ONNX Runtime's optimisers fuse it: masks, past keys and values, the present ones."""

from __future__ import annotations

from xdsl.ir import SSAValue

from rnncc.frontends.onnx.node import FLOATS, INTEGERS, Node, Result
from rnncc.ir.dims import ZERO, Dim
from rnncc.ir.size_proofs import at_most
from rnncc.ir.types import dims_of, shape_text
from rnncc.nn.attention import attend, by_head, heads_together
from rnncc.nn.axes import row
from rnncc.nn.linear import matmul
from rnncc.records import record

LOWEST = -3.4028234663852886e38
"""What ONNX Runtime adds to scores of later steps: the least float32."""
ATTENTION = "num_heads:i! unidirectional:i mask_filter_value:f scale:f"
"""Attributes of both operators."""
UNSUPPORTED = "do_rotary:i rotary_embedding_dim:i past_present_share_buffer:i"
"""Those of Attention of which only the default is read."""


@record
class Heads:
    """Queries [B, heads, S, d], keys [B, heads, L, d] and values [B, heads, L, e].

    Attributes:
        past: how many of the keys are of earlier steps.
    """

    query: SSAValue
    key: SSAValue
    value: SSAValue
    past: Dim = ZERO

    def after(self, n: Node, past_key: SSAValue, past_value: SSAValue) -> Heads:
        """With keys and values [B, heads, P, ...] of earlier steps in front."""
        key = _behind(n, past_key, self.key, "keys")
        value = _behind(n, past_value, self.value, "values")
        return Heads(self.query, key, value, dims_of(past_key)[2])


def _behind(n: Node, past: SSAValue, present: SSAValue, what: str) -> SSAValue:
    one, other = dims_of(past), dims_of(present)
    if len(one) != 4 or (*one[:2], one[3]) != (*other[:2], other[3]):
        shapes = f"{shape_text(one)} for {what} of shape {shape_text(other)}"
        raise n.differ(one, (*other[:2], one[2], other[3]), f"has past {what} of shape {shapes}")
    return n.b.concat([past, present], 2)


def fused_attention(n: Node) -> list[Result]:
    """Attention of several heads within X, whose queries, keys and values are one product, behind
    past keys and values; also these with the present ones.

    Refused: elements other than floats; masks of one axis with starts of the keys, or of four axes;
    buffers that past and present share; rotary embeddings.
    """
    _refuse(n, {6: "lengths of past keys"})
    return attended_parts(n, n.plus(matmul(n.b, n.x(0, FLOATS), n.x(1, FLOATS)), 2))


def attended_parts(
    n: Node, together: SSAValue, mask: int = 3, past_at: int = 4, bias: int | None = 5
) -> list[Result]:
    """Attention of queries, keys and values that are one product with the weights of input 1.

    Args:
        mask, past_at, bias: the numbers of these inputs.
    """
    b, count = n.b, n.integer("num_heads")
    if n.flag("do_rotary", 0) or n.flag("past_present_share_buffer", 0):
        raise n.unsupported("has rotary embeddings, or buffers that past and present share")
    width = int(n.static(1)[1])
    sizes = n.integers("qkv_hidden_sizes", []) or [width // 3] * 3
    if (
        len(dims_of(together)) != 3
        or len(sizes) != 3
        or sum(sizes) != width
        or sizes[0] != sizes[1]
    ):
        raise n.error(f"has data {shape_text(n.dims())} and {width} units for {count} heads")
    starts = (0, sizes[0], 2 * sizes[0])
    parts = (b.slice(together, 2, at, size) for at, size in zip(starts, sizes, strict=True))
    query, key, value = (by_head(b, part, dividing(n, part, count)) for part in parts)
    heads = Heads(query, key, value)
    if n.has(past_at):
        past = n.x(past_at, FLOATS)
        if len(dims_of(past)) != 5 or dims_of(past)[0] != 2:
            raise n.error(f"has past keys and values of shape {shape_text(dims_of(past))}")
        heads = heads.after(n, row(b, past, 0), row(b, past, 1))
    y = _attended(n, heads, mask, bias)
    return [y, _stacked(n, heads)] if _asks(n, 1) else [y]


def _stacked(n: Node, heads: Heads) -> SSAValue:
    """Keys and values as one tensor [2, B, heads, L, d]."""
    if dims_of(heads.key) != dims_of(heads.value):
        raise n.unsupported("gives keys and values of different sizes as one tensor")
    parts = (heads.key, heads.value)
    return n.b.concat([n.b.reshape(part, (1, *dims_of(part))) for part in parts], 0)


def _asks(n: Node, index: int) -> bool:
    """Whether somebody may read an output."""
    return index < len(n.op.output) and bool(n.op.output[index])


def multi_head_attention(n: Node) -> list[Result]:
    """Attention of several heads of queries, keys and values with a bias of all three, behind past
    keys and values; also these with the present ones.

    Refused: elements other than floats; packed keys and values; a bias of keys and values that are
    cut by heads; masks of one axis with starts of the keys, or of four axes; scores as an output.
    """
    _refuse(n, {8: "lengths of past keys", 9: "indirections"})
    count = n.integer("num_heads")
    if not (n.has(1) and n.has(2)) or len(n.dims(0)) != 3 or n.has(6) != n.has(7):
        raise n.unsupported("has packed queries, keys or values, or past keys without values")
    parts = [n.x(index, FLOATS) for index in range(3)]
    if n.has(3):
        parts = _biased(n, parts)
    query, key, value = (_by_head(n, part, count) for part in parts)
    heads = Heads(query, key, value)
    if n.has(6):
        heads = heads.after(n, n.x(6, FLOATS), n.x(7, FLOATS))
    return [_attended(n, heads, mask=4, bias=5), heads.key, heads.value]


def _by_head(n: Node, x: SSAValue, count: int) -> SSAValue:
    """Data by heads, which other nodes may have cut so already."""
    dims = dims_of(x)
    if len(dims) == 4 and dims[1] == count:
        return x
    if len(dims) != 3:
        raise n.error(f"has data of shape {shape_text(dims)} for {count} heads")
    return by_head(n.b, x, dividing(n, x, count))


def dividing(n: Node, x: SSAValue, count: int) -> int:
    """The number of heads, which divides the size of an input's last axis."""
    size = dims_of(x)[-1]
    if not size.is_static:
        raise n.unsupported(f"has an open size of units, {size}", "--shape gives a size")
    if count < 1 or int(size) % count:
        raise n.error(f"has {size} units for {count} heads")
    return count


def _biased(n: Node, parts: list[SSAValue]) -> list[SSAValue]:
    """Queries, keys and values plus their parts of one bias."""
    b, bias, start, sums = n.b, n.x(3, FLOATS), Dim.of(0), list[SSAValue]()
    for part in parts:
        size = dims_of(part)[-1]
        if len(dims_of(part)) != 3 or not size.is_static:
            raise n.unsupported("has a bias of data that other nodes cut by heads")
        sums.append(n.like(b.add(part, b.slice(bias, 0, start, size)), part))
        start += size
    return sums


def _refuse(n: Node, inputs: dict[int, str]) -> None:
    for index, what in inputs.items():
        if n.has(index):
            raise n.unsupported(f"has {what}")


def _attended(n: Node, heads: Heads, mask: int, bias: int | None) -> SSAValue:
    """Attention with a mask of keys, with scores that are added, and looking back alone."""
    b, like, added = n.b, heads.query, None if bias is None else n.maybe(bias, FLOATS)
    (batch, _, steps, _), keys = dims_of(heads.query), dims_of(heads.key)[2]
    if n.has(mask):
        held = _held(n, mask, batch, steps, keys)
        outside = n.full(n.real("mask_filter_value", -10000.0), like)
        masked = b.select(held, n.full(0.0, like), outside)
        added = masked if added is None else b.add(added, masked)
    if n.flag("unidirectional", 0):
        if not at_most(keys, heads.past + steps):  # ONNX Runtime shows the last step all others
            shown = f"{keys} keys from {steps} steps behind {heads.past}"
            raise n.unsupported(f"looks back alone at {shown}", "--shape gives an input's sizes")
        at = b.add(b.iota((steps, keys), 0), b.size(heads.past, "i32"))
        later = b.compare("gt", b.iota((steps, keys), 1), at)
        ahead = b.select(later, n.full(LOWEST, like), n.full(0.0, like))
        added = ahead if added is None else b.add(added, ahead)
    scale = n.real("scale", 0.0) or None
    y, _ = attend(b, heads.query, heads.key, heads.value, scale, added)
    return heads_together(b, y)


def _held(n: Node, mask: int, batch: Dim, steps: Dim, keys: Dim) -> SSAValue:
    """Which keys count, of shape [B, 1, S or 1, L]: by a mask of them, of them for each step, or
    by how many they are."""
    b, x, dims = n.b, n.x(mask, INTEGERS), n.dims(mask)
    if dims in ((batch, keys), (batch, steps, keys)):
        counts = b.compare("gt", x, b.full_like(x, 0))
        return b.reshape(counts, (batch, 1, *(dims[1:-1] or (1,)), keys))
    if dims == (batch,):
        wide = b.broadcast(x, (batch, keys), [0])
        counts = b.compare("lt", b.cast(b.iota((batch, keys), 1), "i64"), b.cast(wide, "i64"))
        return b.reshape(counts, (batch, 1, 1, keys))
    what = f"has a mask of shape {shape_text(dims)}"
    hint = f"supported: {shape_text((batch, keys))}, {shape_text((batch, steps, keys))} and {batch}"
    if len(dims) == 2:
        raise n.error(f"{what}; {hint}", differ=zip(dims, (batch, keys), strict=True))
    raise n.unsupported(what, hint)
