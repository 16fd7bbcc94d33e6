"""Operators that ONNX Runtime's optimisers write: what ONNX Runtime computes."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from onnx import helper, numpy_helper

from rnncc.errors import CompileError
from tests.frontends.onnx.models import (
    Arrays,
    by_onnxruntime,
    info,
    interpreted,
    model,
    node,
    of_one,
)

DOMAIN = "com.microsoft"
N, S, D = 2, 5, 8


def random(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def constants_of(kind: str, inputs: Arrays, constants: dict[str, Any]) -> tuple[Any, Arrays]:
    """A model of one node, some of whose inputs are known."""
    made, _ = of_one(kind, {**inputs, **constants})
    kept = [each for each in made.graph.input if each.name in inputs]
    del made.graph.input[:]
    made.graph.input.extend(kept)
    made.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in constants.items())
    return made, inputs


X, ROW = random(N, S, D), random(D)
IMAGE, TAPS = random(N, 4, 9), random(6, 4, 3)
MASK = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], np.int32)
IDS = np.array([[1, 2, 3, 4, 5], [5, 4, 3, 2, 1]], np.int32)
ATTENTION = {"x": X, "w": random(D, 3 * D), "b": random(3 * D)}
PARTS = {"q": X, "k": random(N, 4, D), "v": random(N, 4, 6)}
LONGER = {"k": random(N, 6, D), "v": random(N, 6, 6)}
LONGER_MASK = np.pad(MASK, ((0, 0), (3, 0)), constant_values=1)
PAST = {"past_key": random(N, 2, 3, 4), "past_value": random(N, 2, 3, 4)}
ANGLES = {"cos": random(9, 2), "sin": random(9, 2)}
CASES: dict[str, tuple[Any, Arrays]] = {
    **{
        f"FusedConv {name}": of_one(
            "FusedConv",
            {"x": IMAGE, "w": TAPS, "b": random(6)},
            activation=name,
            pads=[1, 1],
            **cast(Any, {"activation_params": parameters} if parameters else {}),
        )
        for name, parameters in {
            "Relu": [],
            "Sigmoid": [],
            "Tanh": [],
            "LeakyRelu": [0.2],
            "HardSigmoid": [0.3, 0.4],
            "Clip": [-0.5, 0.7],
        }.items()
    },
    "FusedConv and a sum": of_one(
        "FusedConv",
        {"x": random(N, 4, 9, 7), "w": random(6, 4, 3, 3), "b": None, "z": random(N, 6, 7, 5)},
        activation="Relu",
    ),
    "FusedGemm": of_one(
        "FusedGemm",
        {"a": random(D, S), "b": random(D, 3), "c": random(3)},
        transA=1,
        alpha=0.5,
        activation="LeakyRelu",
        activation_alpha=0.1,
    ),
    "FusedMatMul": of_one("FusedMatMul", {"a": X, "b": random(N, S, D)}, transB=1, alpha=0.25),
    "FusedMatMul batches": of_one(
        "FusedMatMul", {"a": random(S, N, D), "b": random(N, S, D)}, transBatchA=1, transB=1
    ),
    "Gelu": of_one("Gelu", {"x": X}),
    "BiasGelu": of_one("BiasGelu", {"x": X, "b": ROW}),
    "FastGelu": of_one("FastGelu", {"x": X, "b": ROW}),
    "FastGelu alone": of_one("FastGelu", {"x": X}),
    "QuickGelu": of_one("QuickGelu", {"x": X}, alpha=1.5),
    "SkipLayerNormalization": of_one(
        "SkipLayerNormalization",
        {"x": X, "s": random(N, S, D), "g": ROW, "b": random(D), "more": random(D)},
        "y _ _ sum",
        epsilon=1e-3,
    ),
    "SkipSimplifiedLayerNormalization": of_one(
        "SkipSimplifiedLayerNormalization", {"x": X, "s": random(N, S, D), "g": ROW}, "y _ _ sum"
    ),
    "LayerNormalization of opset 11": of_one(
        "LayerNormalization", {"x": X, "g": ROW, "b": random(D)}, domain="", axis=-1
    ),
    "SimplifiedLayerNormalization": of_one(
        "SimplifiedLayerNormalization", {"x": X, "g": ROW}, domain="", epsilon=1e-4
    ),
    "EmbedLayerNormalization": of_one(
        "EmbedLayerNormalization",
        {
            **{"ids": IDS, "segments": MASK, "words": random(9, D), "places": random(7, D)},
            **{"kinds": random(2, D), "g": ROW, "b": random(D), "mask": MASK},
        },
        "y count",
    ),
    "Attention": of_one("Attention", ATTENTION, num_heads=2),
    "Attention with a mask": of_one("Attention", {**ATTENTION, "m": MASK}, num_heads=2),
    "Attention with lengths": of_one(
        "Attention", {**ATTENTION, "m": MASK.sum(1).astype(np.int32)}, num_heads=4
    ),
    "Attention backwards": of_one(
        "Attention",
        {**ATTENTION, "m": None, "p": None, "more": random(1, 2, S, S)},
        num_heads=2,
        unidirectional=1,
        scale=0.5,
    ),
    "MultiHeadAttention": of_one("MultiHeadAttention", PARTS, num_heads=2),
    "MultiHeadAttention with a bias and a mask": of_one(
        "MultiHeadAttention",
        {**PARTS, "b": random(2 * D + 6), "m": 3 * MASK[:, 1:] - 1},  # those above zero count
        num_heads=2,
        mask_filter_value=-50.0,
    ),
    "Attention behind past keys": of_one(
        "Attention",
        {**ATTENTION, "m": LONGER_MASK, "past": random(2, N, 2, 3, 4)},
        "y present",
        num_heads=2,
        unidirectional=1,
    ),
    "Attention with sizes and a mask for each step": of_one(
        "Attention",
        {"x": X, "w": random(D, 32), "b": random(32), "m": np.tri(S, dtype=np.int32)[[0] * N]},
        num_heads=2,
        qkv_hidden_sizes=[8, 8, 16],
    ),
    "MultiHeadAttention behind past keys": of_one(
        "MultiHeadAttention",
        {**PARTS, "k": X, "v": X, "b": random(3 * D), "m": LONGER_MASK, "a": None, **PAST},
        "y keys values",
        num_heads=2,
        unidirectional=1,
    ),
    "MultiHeadAttention of keys by heads": of_one(
        "MultiHeadAttention",
        {"q": X, "k": random(N, 2, 3, 4), "v": random(N, 2, 3, 4)},
        num_heads=2,
    ),
    "MultiHeadAttention looking back at others": of_one(
        "MultiHeadAttention", PARTS, num_heads=2, unidirectional=1
    ),
    "Inverse": of_one("Inverse", {"x": random(3, 6, 6)}),
    "RotaryEmbedding": of_one("RotaryEmbedding", {"x": X, "at": IDS.astype("i8"), **ANGLES}),
    "RotaryEmbedding of neighbours": of_one(
        "RotaryEmbedding", {"x": random(N, 3, S, 4), "at": np.array([3]), **ANGLES}, interleaved=1
    ),
    "RotaryEmbedding of parts": of_one(
        "RotaryEmbedding",
        {"x": random(N, S, 12), "at": np.array([0]), **ANGLES},
        num_heads=2,
        rotary_embedding_dim=4,
    ),
    "Pad": constants_of("Pad", {"x": X}, {"p": np.array([0, 1, 2, 0, -1, 1]), "v": np.float32(2)}),
    "Trilu": of_one("Trilu", {"x": X}, upper=0),
    "ExpandDims": constants_of("ExpandDims", {"x": X}, {"a": np.int32(-2)}),
    "GridSample": of_one("GridSample", {"x": random(N, 3, 4, 5), "g": random(N, 2, 3, 2)}),
    **{
        f"LinearAttention {rule}": of_one(
            "LinearAttention",
            {"q": X, "k": X[::-1].copy(), "v": random(N, S, 6), **state},
            "y state",
            q_num_heads=2,
            kv_num_heads=2,
            update_rule=rule,
            state_window=0,
        )
        for rule, state in {
            "linear": {},
            "gated": {"past": random(N, 2, 4, 3), "decay": -abs(random(N, S, 2))},
            "delta": {"past": None, "decay": None, "rate": random(N, S, 2)},
        }.items()
    },
    "CausalConvWithState": of_one(
        "CausalConvWithState",
        {"x": IMAGE, "w": random(4, 1, 3), "b": random(4), "past": random(N, 4, 2)},
        "y state",
        activation="silu",
        ndim=1,
    ),
}


@pytest.mark.peers
@pytest.mark.parametrize("name", CASES)
def test_operator(name: str) -> None:
    pytest.importorskip("onnxruntime")
    made, arrays = CASES[name]
    if name.endswith("opset 11"):
        made.opset_import[0].version = 11
    got = interpreted(made, arrays)
    for output, theirs in by_onnxruntime(made, arrays).items():
        np.testing.assert_allclose(got[output], theirs, rtol=1e-4, atol=2e-5, err_msg=output)


@pytest.mark.parametrize(
    ("case", "why"),
    [
        (of_one("BiasGelu", {"x": X}), "1 inputs, expected 2"),
        (
            of_one("QLinearConcat", {"s": ROW, "z": ROW}, axis=0),
            "2 inputs, expected at least 3",
        ),
        (of_one("QuickGelu", {"x": X}, beta=1.0), "unknown attribute 'beta'"),
        (of_one("FusedConv", {"x": IMAGE, "w": TAPS}, activation="Sine"), "activation 'Sine'"),
        (of_one("Attention", ATTENTION, num_heads=3), "8 units for 3 heads"),
        (
            of_one("Attention", {**ATTENTION, "m": IDS[:, :2]}, num_heads=2),
            "mask of shape 2 x 2",
        ),
        (
            of_one("LayerNormalization", {"x": X, "g": ROW}, stash_type=11),
            "another type than float32",
        ),
        (
            of_one("Attention", {**ATTENTION, "m": None, "p": random(N, 2, 3, 4)}, num_heads=2),
            "past keys and values of shape 2 x 2 x 3 x 4",
        ),
        (
            of_one("MultiHeadAttention", {"q": random(N, S, 2, 3, 4)}, num_heads=2),
            "packed queries",
        ),
        (
            of_one("MultiHeadAttention", {"q": X, **LONGER}, num_heads=2, unidirectional=1),
            "looks back alone at 6 keys from 5 steps",
        ),
        (
            of_one("CausalConvWithState", {"x": IMAGE, "w": random(4, 1, 3)}, "y s", dilation=2),
            "has dilation = 2, supported: 1",
        ),
        (of_one("Inverse", {"x": random(3, 2)}), "is given 3 x 2, expected square matrices"),
    ],
)
def test_refusal(case: tuple[Any, Arrays], why: str) -> None:
    made, arrays = case
    with pytest.raises(CompileError, match=why):
        interpreted(made, arrays)


@pytest.mark.peers
def test_results_are_narrow_where_their_inputs_are() -> None:
    """Without a schema an operator's floats are of the type of its inputs, its statistics not."""
    nodes = [
        node("Gelu", "x", "g", domain=DOMAIN),
        node("Add", "g x", "a"),
        node("SkipLayerNormalization", "a x w", "y mean", domain=DOMAIN),
    ]
    outputs = [info("y", None, "f16"), info("mean", None)]
    made = model(nodes, [info("x", [N, S, D], "f16")], outputs, {"w": ROW.astype(np.float16)})
    made.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    arrays = {"x": X.astype(np.float16)}
    want, got = by_onnxruntime(made, arrays), interpreted(made, arrays)
    assert [got[name].dtype for name in want] == [np.float16, np.float32]
    np.testing.assert_allclose(got["y"], want["y"], rtol=0.01, atol=0.01)


@pytest.mark.peers
@pytest.mark.parametrize("channels_last", [0, 1])
def test_images_whose_channels_are_last(channels_last: int) -> None:
    """A quantised convolution and pools, as ONNX Runtime's optimiser turns them round."""
    shape = [1, 8, 8, 2] if channels_last else [1, 2, 8, 8]
    scales = {"s": np.float32(0.05), "z": np.uint8(3), "t": np.float32(0.2)}
    weights = np.random.default_rng(0).integers(-99, 99, (4, 2, 3, 3)).astype(np.int8)
    constants = {**scales, "w": weights, "wz": np.int8(0), "b": np.arange(4, dtype=np.int32)}
    pool = {"kernel_shape": [2, 2], "domain": DOMAIN}
    nodes = [
        node("NhwcMaxPool", "x", "m", **pool),
        node("QLinearConv", "m s z w s wz t z b", "c", domain=DOMAIN, channels_last=1),
        node("QLinearAveragePool", "c t z s z", "y", channels_last=1, strides=[2, 2], **pool),
    ]
    if not channels_last:
        del nodes[0], nodes[0].attribute[:], nodes[1].attribute[0]
        nodes[0].input[0] = "x"
    made = model(nodes, [info("x", shape, "u8")], [info("y", None, "u8")], constants)
    made.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    x = np.random.default_rng(1).integers(0, 255, shape).astype(np.uint8)
    want, got = by_onnxruntime(made, {"x": x})["y"], interpreted(made, {"x": x})["y"]
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("read", [False, True])
def test_outputs_that_are_not_supported(read: bool) -> None:
    """They are errors only where something reads them: fusions name all outputs of an operator."""
    made, arrays = of_one(
        "SkipSimplifiedLayerNormalization",
        {"x": X, "s": random(N, S, D), "g": ROW},
        "y mean deviation sum",
    )
    if read:
        with pytest.raises(CompileError, match='has the output "mean", which is not supported'):
            interpreted(made, arrays)
        return
    del made.graph.output[1:3]
    want, total = interpreted(made, arrays), X + arrays["s"]
    np.testing.assert_allclose(want["sum"], total, rtol=1e-6)
    root = np.sqrt((total**2).mean(-1, keepdims=True) + 1e-12)
    np.testing.assert_allclose(want["y"], total / root * ROW, rtol=1e-4, atol=1e-5)


def test_what_is_added_no_times() -> None:
    """Gemm with beta 0 leaves C out, whatever it holds."""
    inputs = {"a": random(3, 4), "b": random(4, 2), "c": np.full((3, 2), np.nan, np.float32)}
    made, arrays = of_one("Gemm", inputs, domain="", beta=0.0)
    want = by_onnxruntime(made, arrays)["y"]
    np.testing.assert_allclose(interpreted(made, arrays)["y"], want, 1e-4, 1e-5)
