"""Attention whose heads share keys and values in groups, behind those of earlier steps."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from rnncc.frontends.onnx.node import FLOATS, INTEGERS, Node, Result
from rnncc.frontends.onnx.ops.contributed_attention import LOWEST
from rnncc.frontends.onnx.ops.contributed_moves import rotated
from rnncc.ir.dims import Dim
from rnncc.ir.size_proofs import larger
from rnncc.ir.types import dims_of, dtype_of, shape_text
from rnncc.nn.arithmetic import times
from rnncc.nn.attention import by_head, heads_together
from rnncc.nn.axes import transposed
from rnncc.nn.linear import matmul
from rnncc.nn.normalisation import softmax

GROUPED_INPUTS = (
    "query key? value? past_key? past_value? seqlens_k total_sequence_length cos_cache? sin_cache?"
    " position_ids? attention_bias? head_sink? k_scale? v_scale? q_norm_weight? k_norm_weight?"
    " query_seqlens?"
)
GROUPED = (
    "num_heads:i! kv_num_heads:i! scale:f do_rotary:i rotary_interleaved:i local_window_size:i"
    " softcap:f causal:i smooth_softmax:i qk_output:i k_quant_type:s v_quant_type:s"
    " kv_cache_bit_width:i sliding_window_cache:i q_norm_epsilon:f k_norm_epsilon:f"
    " qk_norm_epsilon:f"
)
"""Attributes; those of norms say nothing without the norms' weights."""
_PLAIN = {
    "causal": 1,
    "smooth_softmax": 0,
    "qk_output": 0,
    "kv_cache_bit_width": 0,
    "sliding_window_cache": 0,
}
"""Those of which one value alone is read."""


def grouped_attention(n: Node) -> list[Result]:
    """Attention looking back, whose heads share keys and values in groups, behind those of earlier
    steps, which are as many as a length of each batch says; also the present keys and values.

    Refused: elements other than floats; a total length that is computed at run time; lengths of
    the new steps; biases, sinks and norms; quantised and sliding caches; scores as an output.
    """
    for name, value in _PLAIN.items():
        if n.integer(name, value) != value:
            raise n.unsupported(f"has {name} {n.integer(name)}")
    if {n.text(f"{kind}_quant_type", "NONE") for kind in "kv"} != {"NONE"}:
        raise n.unsupported("has quantised keys or values")
    for index in range(10, len(n.inputs)):
        if n.has(index):
            raise n.unsupported(f"has the input {index}, of which only the first 10 are supported")
    query, key, value = _parts(n)
    steps = dims_of(query)[2]
    before = _steps_before(n, steps)
    if n.flag("do_rotary", 0):
        query, key = (_at_positions(n, x, before) for x in (query, key))
    keys, values = (_present(n, x, i, before) for x, i in ((key, 3), (value, 4)))
    return [heads_together(n.b, _attended(n, query, keys, values, before)), keys, values]


def _parts(n: Node) -> list[SSAValue]:
    """Queries [B, H, S, d], keys and values [B, K, S, d]: of three inputs, or packed in one."""
    b, heads, shared = n.b, n.integer("num_heads"), n.integer("kv_num_heads")
    if n.has(1) != n.has(2) or len(n.dims()) != 3:
        raise n.error(f"has data of shape {shape_text(n.dims())}, or keys without values")
    if heads < 1 or shared < 1 or heads % shared:
        raise n.error(f"has {heads} heads for {shared} of keys")
    count = heads if n.has(1) else heads + 2 * shared
    width = n.dims()[2]
    if not width.is_static or int(width) % count:
        raise n.error(f"has {width} units for {count} heads")
    if not n.has(1):
        x = by_head(b, n.x(0, FLOATS), count)
        starts = ((0, heads), (heads, shared), (heads + shared, shared))
        return [b.slice(x, 1, start, size) for start, size in starts]
    for index in (1, 2):
        expected = (*n.dims()[:2], Dim.of(int(width) // heads * shared))
        if n.dims(index) != expected:
            shapes = f"{shape_text(n.dims(index))}, expected {shape_text(expected)}"
            raise n.differ(n.dims(index), expected, f"has keys or values of shape {shapes}")
    return [by_head(b, n.x(i, FLOATS), count) for i, count in enumerate((heads, shared, shared))]


def _steps_before(n: Node, steps: Dim) -> SSAValue:
    """How many earlier steps each row of the batch has, [B, 1] as int64."""
    b, batch = n.b, n.dims()[0]
    if not n.has(3):
        return b.fill(0, (batch, 1), "i64")
    lengths = b.reshape(b.cast(n.x(5, INTEGERS), "i64"), (batch, 1))
    before = b.sub(lengths, b.size(steps - 1))
    return b.maximum(before, b.full_like(before, 0))  # none in a first call, whose ends are padded


def _positions(n: Node, steps: Dim, before: SSAValue) -> SSAValue:
    """The places of new steps, [B, S] as int64."""
    b = n.b
    return b.add(b.cast(b.iota((dims_of(before)[0], steps), 1), "i64"), before)


def _at_positions(n: Node, x: SSAValue, before: SSAValue) -> SSAValue:
    """Data of each head, pairs of it turned by the angles of their positions."""
    b, (batch, _, steps, size), table = n.b, dims_of(x), n.static(7)
    if len(table) != 2 or n.dims(8) != n.dims(7) or not 0 < 2 * table[1] <= int(size):
        shapes = " and ".join(shape_text(n.dims(i)) for i in (7, 8))
        raise n.error(f"has tables of shapes {shapes} for heads of {size} units")
    at = b.cast(n.x(9, INTEGERS), "i64") if n.has(9) else _positions(n, steps, before)
    if dims_of(at) != (batch, steps):
        raise n.error(f"has positions of shape {shape_text(dims_of(at))}")
    rows = [b.gather(n.x(index, FLOATS), at, 0) for index in (7, 8)]
    angles = [b.reshape(row, (batch, 1, steps, table[1])) for row in rows]
    return rotated(b, x, angles, 2 * table[1], n.flag("rotary_interleaved", 0))


def _present(n: Node, new: SSAValue, index: int, before: SSAValue) -> SSAValue:
    """Keys or values of earlier steps with the new ones behind them, of the total length; zeros
    behind the end of each row of the batch."""
    b, (batch, heads, steps, size), total = n.b, dims_of(new), n.size(6)
    past, held = n.maybe(index, FLOATS), Dim.of(0)
    if past is not None:
        held, expected = dims_of(past)[2], (batch, heads, dims_of(past)[2], size)
        if dims_of(past) != expected:
            raise n.differ(dims_of(past), expected, f"has past data {shape_text(dims_of(past))}")
    elif total == steps:
        return new
    count = larger(held, total, n.scope.model.known.facts)
    zeros = b.fill(0.0, (batch, heads, 1, size), dtype_of(new))
    rows = [new, zeros] if past is None else [past, new, zeros]
    whole = b.transpose(b.concat(rows, 2), (0, 2, 1, 3))
    whole = b.reshape(whole, (batch * (held + steps + 1), heads, size))
    at = b.cast(b.iota((batch, count), 1), "i64")
    behind = b.sub(at, before)
    end = b.size(held + steps)
    place = b.minimum(b.add(behind, b.size(held)), end)
    place = b.select(b.compare("lt", at, before), at, place)
    first = b.mul(b.cast(b.iota((batch, 1), 0), "i64"), b.size(held + steps + 1))
    present = b.gather(whole, b.add(place, first), 0)
    return b.transpose(present, (0, 2, 1, 3))


def _attended(
    n: Node, query: SSAValue, keys: SSAValue, values: SSAValue, before: SSAValue
) -> SSAValue:
    """Each query over the keys up to its own step."""
    b, (batch, heads, steps, size), count = n.b, dims_of(query), dims_of(keys)[2]
    shared = int(dims_of(keys)[1])
    group = int(heads) // shared
    scale = n.real("scale", 0.0) or 1 / math.sqrt(int(size))
    rows = b.reshape(query, (batch, shared, steps * group, size))
    scores = times(b, matmul(b, rows, transposed(b, keys)), scale)
    cap = n.real("softcap", 0.0)
    if cap:
        scores = times(b, b.tanh(times(b, scores, 1 / cap)), cap)
    own = b.reshape(_positions(n, steps, before), (batch, 1, 1, steps, 1))
    at = b.cast(b.iota((1, 1, 1, 1, count), 4), "i64")
    held = b.compare("le", at, own)
    window = n.integer("local_window_size", -1)
    if window >= 0:
        held = b.logical("and", held, b.compare("gt", at, b.sub(own, b.fill(window, (), "i64"))))
    scores = b.reshape(scores, (batch, shared, group, steps, count))
    weights = softmax(b, b.select(held, scores, n.full(LOWEST, scores)), 4)
    weights = b.reshape(weights, (batch, shared, steps * group, count))
    return b.reshape(matmul(b, weights, values), dims_of(query))
