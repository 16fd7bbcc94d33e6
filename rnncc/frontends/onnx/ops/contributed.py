"""Operators of com.microsoft, which the optimisers of ONNX Runtime write.

The standard has no schema of them, so that each states its inputs and attributes here. These and
their formulas are those of ONNX Runtime's documentation (docs/ContribOperators.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from rnncc.frontends.onnx.node import FLOATS, INTEGERS, Node, OnnxOperator, Result, contributed
from rnncc.frontends.onnx.ops.contributed_attention import (
    ATTENTION,
    UNSUPPORTED,
    fused_attention,
    multi_head_attention,
)
from rnncc.frontends.onnx.ops.contributed_grouped import GROUPED, GROUPED_INPUTS, grouped_attention
from rnncc.frontends.onnx.ops.contributed_moves import padded, rotary_embedding, with_axis
from rnncc.frontends.onnx.ops.conv import convolved
from rnncc.frontends.onnx.ops.gate_functions import FUNCTIONS
from rnncc.frontends.onnx.ops.indexing import trilu
from rnncc.frontends.onnx.ops.linear import general_product, square_matrices
from rnncc.frontends.onnx.ops.normal import layer_norm_outputs, rms_normalised, statistics
from rnncc.frontends.onnx.ops.resize import grid_sampled
from rnncc.ir.dims import Dim
from rnncc.ir.types import dims_of, shape_text
from rnncc.nn import activations as act
from rnncc.nn.arithmetic import clamp, times
from rnncc.nn.factors import inverse
from rnncc.nn.linear import matmul
from rnncc.nn.normalisation import layer_norm, rms_norm

FUSED: dict[str, tuple[Callable[..., SSAValue], int]] = {
    **{
        name: FUNCTIONS[name.lower()]
        for name in (
            *("Relu", "Sigmoid", "Tanh", "Softplus", "Softsign"),
            *("LeakyRelu", "Elu", "ThresholdedRelu", "HardSigmoid"),
        )
    },
    "Clip": (clamp, 2),
    "Selu": (act.elu, 2),
    "HardSwish": (act.hard_swish, 0),
}
"""Activations that are fused, and how many parameters each has."""


def activated(n: Node, x: SSAValue, parameters: Sequence[float]) -> SSAValue:
    """The function of x that the attribute `activation` names, if it names one."""
    name = n.text("activation", "")
    if not name:
        return x
    if name not in FUSED:
        known = ", ".join(FUSED)
        raise n.unsupported(f"fuses the activation {name[:40]!r}", f"supported: {known}")
    function, count = FUSED[name]
    if len(parameters) < count:
        raise n.error(f"has {len(parameters)} parameters for {name}, expected {count}")
    return function(n.b, x, *parameters[:count])


def _fused_conv(n: Node) -> SSAValue:
    """activation(Conv(X, W, B) + Z).

    Refused: what Conv refuses.
    """
    return activated(n, n.plus(convolved(n), 3), n.reals("activation_params"))


def _fused_gemm(n: Node) -> SSAValue:
    """activation(alpha · A B + beta · C).

    Refused: elements other than floats.
    """
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    return activated(n, general_product(n), [n.real(name, 0.0) for name in names if n.given(name)])


def _fused_matmul(n: Node) -> SSAValue:
    """alpha · A B, of which either may have its last two axes, or its leading ones, transposed.

    Refused: elements other than floats.
    """
    a, b = (_turned(n, index, which) for index, which in enumerate("AB"))
    return times(n.b, matmul(n.b, a, b), n.real("alpha", 1.0))


def _turned(n: Node, index: int, which: str) -> SSAValue:
    """A factor: of [m, leading..., k] with `transBatch` [leading..., m, k], of vectors itself."""
    x = n.x(index, FLOATS)
    return n.b.transpose(x, factor_order(n, which, len(dims_of(x))))


def factor_order(n: Node, which: str, rank: int) -> list[int]:
    """In which order the axes of a factor are read."""
    order = list(range(rank))
    if rank > 1 and n.flag(f"transBatch{which}", 0):
        order = [*order[1:-1], order[0], order[-1]]
    if rank > 1 and n.flag(f"trans{which}", 0):
        order[-2:] = order[:-3:-1]
    return order


def _layer_norm(n: Node) -> list[Result]:
    """LayerNormalization, in models of opsets that do not have it yet.

    Refused: elements other than floats; a `stash_type` other than float32.
    """
    return list(layer_norm_outputs(n))


def _rms_norm(n: Node) -> SSAValue:
    """RMSNormalization.

    Refused: elements other than floats; a `stash_type` other than float32; the deviations as an
    output.
    """
    return rms_normalised(n)


def _bias_gelu(n: Node) -> SSAValue:
    """Gelu(X + B).

    Refused: elements other than floats.
    """
    return act.gelu(n.b, n.plus(n.x(0, FLOATS), 1))


def _gelu(n: Node) -> SSAValue:
    """X/2 · (1 + erf(X/√2)).

    Refused: elements other than floats.
    """
    return act.gelu(n.b, n.x(0, FLOATS))


def _fast_gelu(n: Node) -> SSAValue:
    """Gelu(X + B) with tanh in the place of erf.

    Refused: elements other than floats.
    """
    return act.gelu(n.b, n.plus(n.x(0, FLOATS), 1), by_tanh=True)


def _quick_gelu(n: Node) -> SSAValue:
    """X · sigmoid(alpha · X).

    Refused: elements other than floats.
    """
    return act.silu(n.b, n.x(0, FLOATS), n.real("alpha", 1.702))


def _skipped(n: Node, bias: int) -> SSAValue:
    """X plus what skipped some layers, plus a bias: of the shape of X."""
    return n.plus(n.plus(n.x(0, FLOATS), 1), bias)


def _skip_layer_norm(n: Node) -> list[Result]:
    """LayerNormalization(X + skip + bias) over the last axis, and the sum.

    Refused: elements other than floats.
    """
    x = _skipped(n, 4)
    axis = n.axis(-1, len(dims_of(x)))
    scale, shift = n.x(2, FLOATS), n.maybe(3, FLOATS)
    y, average, std = layer_norm(n.b, x, scale, shift, axis, n.real("epsilon", 1e-12))
    return [n.like(y, x), *statistics(n, average, std), x]


def _skip_rms_norm(n: Node) -> list[Result]:
    """RMSNormalization(X + skip + bias) over the last axis, and the sum.

    Refused: elements other than floats; the deviations as outputs.
    """
    x = _skipped(n, 3)
    axis = n.axis(-1, len(dims_of(x)))
    y = rms_norm(n.b, x, n.x(2, FLOATS), axis, n.real("epsilon", 1e-12))
    return [n.like(y, x), None, None, x]


def _embed_layer_norm(n: Node) -> list[Result]:
    """LayerNormalization(words[ids] + positions + segments[segment]) over the last axis; how many
    elements of the mask are not 0; the sum.

    Refused: elements other than floats.
    """
    b, ids = n.b, n.x(0, INTEGERS)
    words, segments = b.gather(n.x(2, FLOATS), ids, 0), n.maybe(4, FLOATS)
    batch, steps = _matrix(n, 0)
    at = n.maybe(8, INTEGERS)
    at = b.iota((steps,), 0) if at is None else at
    total = b.add(words, b.gather(n.x(3, FLOATS), at, 0))
    if segments is not None:
        total = b.add(total, b.gather(segments, n.x(1, INTEGERS), 0))
    total = n.like(total, words)
    scale, shift, epsilon = n.x(5, FLOATS), n.x(6, FLOATS), n.real("epsilon", 1e-12)
    normalised, *_ = layer_norm(b, total, scale, shift, 2, epsilon)
    counted = b.fill(0, (batch,), "i32")
    if n.has(7):
        counted = b.reduce("sum", b.cast(n.x(7, INTEGERS), "i32"), [1])
    return [n.like(normalised, total), counted, total]


def _matrix(n: Node, index: int) -> tuple[Dim, ...]:
    """The sizes of an input of two axes."""
    dims = n.dims(index)
    if len(dims) != 2:
        raise n.error(f"has an input of shape {shape_text(dims)}, expected 2 axes")
    return dims


def _inverse(n: Node) -> SSAValue:
    """The inverses of the matrices along the last two axes.

    Refused: elements other than floats; matrices that are not known to be square.
    """
    return inverse(n.b, square_matrices(n))


OPERATORS: dict[str, OnnxOperator] = {
    f"com.microsoft.{name}": operator
    for name, operator in {
        "FusedConv": contributed(
            _fused_conv,
            "X W B? Z?",
            "activation:s activation_params:floats auto_pad:s dilations:ints group:i"
            " kernel_shape:ints pads:ints strides:ints",
        ),
        "FusedGemm": contributed(
            _fused_gemm,
            "A B C?",
            "activation:s activation_alpha:f activation_beta:f activation_gamma:f alpha:f beta:f"
            " transA:i transB:i",
        ),
        "FusedMatMul": contributed(
            _fused_matmul, "A B", "alpha:f transA:i transB:i transBatchA:i transBatchB:i"
        ),
        "TransposeMatMul": contributed(_fused_matmul, "A B", "alpha:f transA:i transB:i"),
        "Gelu": contributed(_gelu, "X"),
        "BiasGelu": contributed(_bias_gelu, "A B"),
        "FastGelu": contributed(_fast_gelu, "X bias?"),
        "QuickGelu": contributed(_quick_gelu, "X", "alpha:f"),
        "SkipLayerNormalization": contributed(
            _skip_layer_norm, "input skip gamma beta? bias?", "epsilon:f", outputs=4
        ),
        "SkipSimplifiedLayerNormalization": contributed(
            _skip_rms_norm, "input skip gamma bias?", "epsilon:f", outputs=4
        ),
        "LayerNormalization": contributed(
            _layer_norm, "X Scale B?", "axis:i epsilon:f stash_type:i", outputs=3
        ),
        "SimplifiedLayerNormalization": contributed(
            _rms_norm, "X scale", "axis:i epsilon:f stash_type:i", outputs=2
        ),
        "EmbedLayerNormalization": contributed(
            _embed_layer_norm,
            "input_ids segment_ids? word_embedding position_embedding segment_embedding? gamma beta"
            " mask? position_ids?",
            "epsilon:f mask_index_type:i",
            outputs=3,
        ),
        "Attention": contributed(
            fused_attention,
            "input weights bias? mask_index? past? attention_bias? past_sequence_length?",
            f"{ATTENTION} qkv_hidden_sizes:ints {UNSUPPORTED}",
            outputs=2,
        ),
        "MultiHeadAttention": contributed(
            multi_head_attention,
            "query key? value? bias? key_padding_mask? attention_bias? past_key? past_value?"
            " past_sequence_length? cache_indirection?",
            ATTENTION,
            outputs=4,
        ),
        "GroupQueryAttention": contributed(grouped_attention, GROUPED_INPUTS, GROUPED, outputs=4),
        "RotaryEmbedding": contributed(
            rotary_embedding,
            "input position_ids cos_cache sin_cache",
            "interleaved:i is_packed_batching:i num_heads:i rotary_embedding_dim:i scale:f",
        ),
        "Pad": contributed(padded, "data pads value?", "mode:s"),
        "Trilu": contributed(trilu, "X k?", "upper:i"),
        "ExpandDims": contributed(with_axis, "X axis"),
        "GridSample": contributed(grid_sampled, "X Grid", "align_corners:i mode:s padding_mode:s"),
        "Inverse": contributed(_inverse, "X"),
    }.items()
}
