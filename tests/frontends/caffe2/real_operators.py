"""Single operators as the real Caffe2 runs them: writes tests/data/caffe2_operators.npz.

    python3.9 -m venv caffe2 && caffe2/bin/pip install torch==1.10.2 numpy==1.22.4 \
        protobuf==3.20.3 future six
    caffe2/bin/python tests/frontends/caffe2/real_operators.py

For each case its net, its inputs, its outputs and, where Caffe2 has gradients of all, the net with
gradient operators and what that computes from a weight for each output.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).parents[2] / "data" / "caffe2_operators.npz"
RANDOM = np.random.RandomState(11)


def real(*shape: int) -> Any:
    return RANDOM.randn(*shape).astype(np.float32) if shape else np.float32(RANDOM.randn())


def halves(*shape: int) -> Any:
    """Multiples of a half, of which many are equal and some are 0."""
    return (RANDOM.randint(-2, 3, shape) / 2).astype(np.float32)


def rows(*shape: int) -> Any:
    """Probabilities, 0 among them."""
    x = np.exp(RANDOM.randn(*shape)) * (RANDOM.rand(*shape) < 0.8)
    return (x / np.maximum(x.sum(-1, keepdims=True), 1e-9)).astype(np.float32)


def whole(*values: int) -> Any:
    return np.array(values, np.int32)


def truth(*shape: int) -> Any:
    return RANDOM.rand(*shape) < 0.5


IMAGE, LAST = real(2, 4, 5, 6), real(2, 5, 6, 4)
X = real(3, 4, 5)
ROWS = (real(3, 4), real(3, 4))
LENGTHS = whole(2, 0, 2, 1)
WORDS = (np.array([4, 1, 1, 0, 5]), LENGTHS)
"""Rows of a table, in parts."""

CASES: list[tuple[str, list[Any], int, dict[str, Any]]] = [
    ("Gather", [real(6, 3), np.array([[1, 5], [0, 1]])], 1, {}),
    ("Gather", [X, whole(3, 0, 3)], 1, {"axis": 1}),
    ("BatchGather", [X, whole(3, 0, 3)], 1, {}),
    ("Tile", [X], 1, {"tiles": 3, "axis": 1}),
    ("Tile", [X], 1, {"tiles": 2, "axis": -1}),
    ("Flatten", [X], 1, {}),
    ("Flatten", [X], 1, {"axis": 2}),
    ("FlattenToVec", [X], 1, {}),
    ("ResizeLike", [X, real(5, 12)], 1, {}),
    ("Where", [truth(3, 4), *ROWS], 1, {}),
    ("Where", [truth(3), *ROWS], 1, {"broadcast_on_rows": 1}),
    ("Conditional", [truth(3), *ROWS], 1, {}),
    ("NCHW2NHWC", [IMAGE], 1, {}),
    ("NHWC2NCHW", [LAST], 1, {}),
    ("ReduceSum", [X], 1, {"axes": [2, 0]}),
    ("ReduceSum", [X], 1, {}),
    ("ReduceMean", [X], 1, {"axes": [1], "keepdims": 0}),
    ("ReduceMax", [halves(3, 4, 5)], 1, {"axes": [-1]}),
    ("ReduceMin", [halves(3, 4, 5)], 1, {"axes": [0, 1], "keepdims": 0}),
    ("ReduceL1", [X], 1, {"axes": [1]}),
    ("ReduceL2", [X], 1, {"axes": [1, 2]}),
    ("ReduceFrontSum", [X], 1, {}),
    ("ReduceFrontMean", [X], 1, {"num_reduce_dim": 2}),
    ("ReduceFrontMax", [halves(3, 4, 5)], 1, {}),
    ("ReduceBackSum", [X], 1, {"num_reduce_dim": 2}),
    ("ReduceBackMean", [X], 1, {}),
    ("ReduceBackMax", [halves(3, 4, 5)], 1, {}),
    ("RowwiseMax", [halves(3, 4, 5)], 1, {}),
    ("ColwiseMax", [halves(3, 4, 5)], 1, {}),
    ("DotProduct", [*ROWS], 1, {}),
    ("SquaredL2Distance", [*ROWS], 1, {}),
    ("L1Distance", [*ROWS], 1, {}),
    ("CosineSimilarity", [*ROWS], 1, {}),
    ("Normalize", [halves(6, 2)], 1, {}),
    ("Normalize", [X], 1, {"axis": 1}),
    ("NormalizeL1", [X], 1, {"axis": 0}),
    ("AveragedLoss", [ROWS[0]], 1, {}),
    ("LabelCrossEntropy", [rows(4, 3), whole(2, 0, 1, 1)], 1, {}),
    ("CrossEntropy", [rows(4, 3), rows(4, 3)], 1, {}),
    ("SigmoidCrossEntropyWithLogits", [real(4, 3) * 9, rows(4, 3)], 1, {}),
    ("SigmoidCrossEntropyWithLogits", [real(4), rows(4)], 1, {}),
    ("SoftmaxWithLoss", [real(4, 3), whole(2, 0, 1, 1)], 2, {}),
    ("SoftmaxWithLoss", [real(2, 2, 3), whole(5, 0)], 2, {"scale": 0.5}),
    ("SoftmaxWithLoss", [real(4, 3), rows(4, 3)], 2, {"label_prob": 1}),
    ("SoftmaxWithLoss", [real(4, 3), whole(2, 0, 1, 1), real(4) ** 2], 2, {}),
    ("SpatialBN", [IMAGE, *(real(4) for _ in range(3)), real(4) ** 2], 1, {"is_test": 1}),
    (
        *("SpatialBN", [LAST, *(real(4) for _ in range(3)), real(4) ** 2], 1),
        {"is_test": 1, "order": "NHWC", "epsilon": 1e-3},
    ),
    ("InstanceNorm", [IMAGE, real(4), real(4)], 1, {}),
    ("InstanceNorm", [LAST, real(4), real(4)], 1, {"order": "NHWC", "epsilon": 0.1}),
    ("GroupNorm", [IMAGE, real(4), real(4)], 1, {"group": 2, "is_test": 1}),
    ("Sign", [halves(9)], 1, {}),
    ("Gelu", [X], 1, {}),
    ("Gelu", [X], 1, {"fast_gelu": 1}),
    ("Logit", [RANDOM.rand(9).astype(np.float32)], 1, {"eps": 0.1}),
    ("Mod", [whole(7, -7, 3, 0)], 1, {"divisor": 3}),
    ("Mod", [np.array([7, -7, 3])], 1, {"divisor": 3, "sign_follow_divisor": 1}),
    ("Mean", [*ROWS, real(3, 4)], 1, {}),
    ("PRelu", [halves(2, 3, 4), real(3)], 1, {}),
    ("PRelu", [halves(2, 3, 4), real(4)], 1, {"order": "NHWC"}),
    ("PRelu", [halves(2, 3, 4), real(1)], 1, {}),
    ("RowMul", [X, real(3)], 1, {}),
    ("MakeTwoClass", [rows(4)], 1, {}),
    # forms of operators that test_operators.py has, and gradients
    ("Concat", [X, X], 2, {"add_axis": 1}),
    ("Concat", [X, X], 2, {"add_axis": 1, "axis": -1}),
    ("Split", [real(3, 2, 4)], 2, {"add_axis": 1}),
    ("Split", [real(3, 2, 4)], 2, {"add_axis": 1, "axis": 1}),
    ("ReduceTailSum", [X], 1, {}),
    ("Slice", [X], 1, {"starts": [0, -3], "ends": [-1, -1]}),
    ("Squeeze", [real(1, 3, 1)], 1, {"dims": [2, 0]}),
    ("ExpandDims", [real(3)], 1, {"dims": [2, 0]}),
    ("TopK", [X], 3, {"k": 2, "axis": 1}),
    ("SequenceMask", [real(3, 4), whole(2, 0, 4)], 1, {"mode": "sequence", "fill_val": -2.0}),
    ("Conv", [LAST, real(3, 2, 3, 4), real(3)], 1, {"kernels": [2, 3], "order": "NHWC"}),
    ("Conv", [IMAGE, real(3, 4, 3, 3)], 1, {"kernel": 3, "pad": 1, "stride": 2}),
    ("ConvTranspose", [LAST, real(4, 2, 2, 3)], 1, {"kernel": 2, "stride": 2, "order": "NHWC"}),
    ("MaxPool", [LAST], 1, {"kernel": 2, "stride": 2, "order": "NHWC"}),
    ("AveragePool", [LAST], 1, {"kernel": 3, "pad": 1, "order": "NHWC"}),
    ("AveragePool", [LAST], 1, {"global_pooling": 1, "order": "NHWC"}),
    ("MatMul", [real(3, 4), real(5, 4)], 1, {"trans_b": 1}),
    ("Max", [halves(3, 4), halves(3, 4), halves(3, 4)], 1, {}),
    ("Min", [halves(3, 4), halves(3, 4)], 1, {}),
    ("Div", [X, real(5) ** 2 + 1], 1, {}),
    *((kind, [X], 1, {}) for kind in "Erf Swish Elu Selu LeakyRelu Softplus Softsign".split()),
    *((kind, [X], 1, {}) for kind in "Sin Cos Tan Atan Sinh Cosh Cube Reciprocal".split()),
    ("Abs", [halves(3, 4)], 1, {}),
    ("HardSigmoid", [X], 1, {"alpha": 0.3}),
    ("Clip", [X], 1, {"min": -0.5, "max": 1.0}),
    ("Asin", [X / 9], 1, {}),
    ("Acos", [X / 9], 1, {}),
    ("Rsqrt", [X * X], 1, {}),
    ("WeightedSum", [X, real(1), real(3, 4, 5), real(1)], 1, {}),
    ("WeightedSum", [X, real(1), real(3, 4, 5), real(1)], 1, {"grad_on_w": 1}),
    ("OneHot", [np.array([2, 0, 1, 1]), np.array([4])], 1, {}),
    ("SparseToDense", [whole(2, 0, 2), real(3, 4), real(5, 2)], 1, {}),
    ("GatherPadding", [real(7, 2), whole(4, 3)], 2, {"padding_width": 2, "end_padding_width": 1}),
    ("GatherPadding", [real(5, 2), whole(5)], 1, {}),
    ("LengthsRangeFill", [whole(3, 2)], 1, {}),
    ("AddPadding", [real(6, 2)], 1, {"padding_width": 2, "end_padding_width": 1}),
    ("AddPadding", [real(6, 2), whole(4, 2), real(2), real(2)], 2, {}),
    ("AddPadding", [np.arange(3)], 1, {}),
    ("RemovePadding", [real(6, 2)], 1, {"padding_width": 2, "end_padding_width": 1}),
    ("RemovePadding", [real(6, 2), whole(4, 2)], 2, {"end_padding_width": 0}),
    *(
        (f"SortedSegmentRange{kind}", [real(5, 2), whole(0, 0, 1, 1, 1)], 1, {})
        for kind in ("Sum", "Mean", "Max", "LogSumExp", "LogMeanExp")
    ),
    ("ConstantFill", [], 1, {"shape": [2], "value": 3}),
    *((f"Lengths{kind}", [real(5, 2), LENGTHS], 1, {}) for kind in ("Sum", "Mean", "Max")),
    ("LengthsMax", [-np.abs(real(5)), LENGTHS], 1, {}),
    ("LengthsWeightedSum", [real(5, 2), real(5), LENGTHS], 1, {}),
    ("LengthsWeightedSum", [real(5, 2, 2), real(5), LENGTHS], 1, {"grad_on_weights": 1}),
    ("SparseLengthsSum", [real(6, 2), *WORDS], 1, {}),
    ("SparseLengthsMean", [real(6, 2), WORDS[0].astype(np.int32), WORDS[1]], 1, {}),
    ("SparseLengthsWeightedSum", [real(6, 2), real(5), *WORDS], 1, {}),
    ("SparseLengthsWeightedSum", [real(6, 2), real(5), *WORDS], 1, {"grad_on_weights": 1}),
    ("SparseLengthsPositionalWeightedSum", [real(6, 2), real(3), *WORDS], 1, {}),
    ("LengthsTile", [real(4, 2), LENGTHS], 1, {}),
    ("LengthsToSegmentIds", [LENGTHS], 1, {}),
    ("PackSegments", [LENGTHS, real(5, 2)], 1, {}),
    ("PackSegments", [LENGTHS, real(5)], 2, {"return_presence_mask": 1, "max_length": 2}),
    ("PackSegments", [LENGTHS, real(5, 2)], 1, {"pad_minf": 1, "max_length": 4}),
    ("PackSegments", [LENGTHS, np.arange(5)], 1, {}),
    ("UnpackSegments", [LENGTHS, real(4, 3, 2)], 1, {}),
    ("UnpackSegments", [LENGTHS, real(4, 2)], 1, {"max_length": 2}),
    ("UnsortedSegmentSum", [real(5, 2), whole(2, 0, 2, 3, 0)], 1, {"num_segments": 5}),
    ("UnsortedSegmentMean", [real(5), whole(2, 0, 2, 3, 0)], 1, {}),
    ("SortedSegmentSum", [real(5, 2), whole(0, 0, 1, 1, 1)], 1, {}),
    ("SortedSegmentMean", [real(5, 2), whole(0, 0, 1, 1, 1)], 1, {}),
    *(
        ("SequenceMask", [X], 1, {"mode": mode, "fill_val": -1.0, **args})
        for mode in ("upper", "lower", "upperdiag", "lowerdiag")
        for args in ({}, {"batch": 0, "axis": 2})
    ),
    *(
        ("SequenceMask", [X, whole(1, 3, 0, 5)[-n:]], 1, {"fill_val": -1.0, **args})
        for n, args in (
            (3, {"mode": "sequence", "repeat_from_axis": 2}),
            (4, {"mode": "sequence", "batch": 0, "axis": 2}),
            (3, {"mode": "window", "radius": 2}),
            (4, {"mode": "window", "radius": 1, "batch": -3, "axis": -1}),
        )
    ),
    ("ThresholdedRelu", [X], 1, {"alpha": 0.5}),
    ("ReluN", [X], 1, {"n": 0.7}),
    ("Mish", [X], 1, {}),
    ("Glu", [real(3, 4)], 1, {}),
    ("Glu", [X], 1, {"dim": 1}),
    ("ViterbiPath", [real(7, 4), real(4, 4)], 1, {}),
    ("ViterbiPath", [halves(9, 3), halves(3, 3)], 1, {}),
    ("ViterbiPath", [real(1, 3), real(3, 3)], 1, {}),
    ("SwapBestPath", [halves(6, 3), whole(0, 2, 1, 1, 0, 2)], 1, {}),
    # at kinks
    ("Clip", [halves(4, 9)], 1, {"min": -0.5, "max": 0.5}),
    ("LeakyRelu", [halves(4, 9)], 1, {}),
    ("HardSigmoid", [halves(4, 9)], 1, {"alpha": 0.5, "beta": 0.5}),
    ("ReluN", [halves(4, 9)], 1, {"n": 0.5}),
    ("ReduceL2", [halves(4, 2)], 1, {"axes": [1]}),
    ("Relu", [halves(4, 9)], 1, {}),
    ("Elu", [halves(4, 9)], 1, {}),
    ("Logit", [(halves(4, 9) + 1) / 2], 1, {"eps": 0.25}),
    ("MaxPool", [halves(2, 3, 5, 6)], 1, {"kernel": 2, "pad": 1, "stride": 2}),
    ("MaxPool", [halves(2, 3, 5, 6)], 1, {"kernel": 3}),
    ("MaxPool", [halves(2, 3, 5, 6)], 1, {"global_pooling": 1}),
    ("MaxPool1D", [halves(2, 3, 6)], 1, {"kernels": [3], "pads": [1, 1], "strides": [2]}),
    ("AveragePool1D", [X], 1, {"kernels": [2], "strides": [2]}),
    ("MaxPool2D", [IMAGE], 1, {"kernel": 2}),
    ("Conv1D", [X, real(2, 4, 3), real(2)], 1, {"kernels": [3], "pads": [2, 0]}),
    ("Conv2D", [IMAGE, real(2, 4, 3, 3), real(2)], 1, {"kernel": 3}),
    ("Conv3D", [real(1, 2, 4, 3, 4), real(2, 2, 2, 2, 2), real(2)], 1, {"kernels": [2, 2, 2]}),
    *(
        (kind, [IMAGE, real(4), real(4)], 3, {"epsilon": 0.1, **args})
        for kind, args in (("InstanceNorm", {}), ("GroupNorm", {"group": 2}))
    ),
    *(
        ("SpatialBN", [x, *(real(4) for _ in range(3)), real(4) ** 2], 5, {"is_test": 0, **args})
        for x, args in ((IMAGE, {"momentum": 0.7}), (LAST, {"order": "NHWC", "epsilon": 0.1}))
    ),
    ("GroupNorm", [LAST, real(4), real(4)], 3, {"group": 2, "order": "NHWC"}),
    ("RMSNorm", [X, real(4, 5), real(4, 5)], 2, {"eps": 0.1}),
    ("RMSNorm", [X, real(5), real(5)], 2, {"axis": -1}),
    ("Moments", [X], 2, {"axes": [0, 2]}),
    ("Moments", [X], 2, {"axes": [2], "keepdims": 0}),
    *(("LpNorm", [real(7)], 1, {"p": p, "average": mean}) for p in (1, 2) for mean in (0, 1)),
    ("SumReduceLike", [X, real(5)], 1, {}),
    ("SumReduceLike", [X, real(3, 4)], 1, {"axis": 0}),
    ("SumReduceLike", [X, real(1)], 1, {}),
    ("Expand", [real(4, 1), np.array([3, 1, 5])], 1, {}),
    ("Expand", [X, np.array([-1, 1])], 1, {}),
    ("MergeDim", [X], 1, {}),
    ("PrependDim", [real(6, 2)], 1, {"dim_size": 3}),
    ("Size", [X], 1, {}),
    ("EnsureDense", [X], 1, {}),
    ("ReplaceNaN", [np.where(halves(4, 9) > 0, np.float32(np.nan), real(4, 9))], 1, {"value": 2.0}),
    ("NegateGradient", [X], 1, {}),
    ("StopGradient", [X], 1, {}),
    ("Log1p", [X * X], 1, {}),
    ("Cbrt", [X], 1, {}),
    ("MarginRankingCriterion", [halves(9), halves(9), whole(*[1, -1, 1] * 3)], 1, {"margin": 0.5}),
    ("CosineEmbeddingCriterion", [halves(9), whole(*[1, -1, -1] * 3)], 1, {"margin": 0.5}),
    ("WeightedSigmoidCrossEntropyWithLogits", [*ROWS, rows(3, 4)], 1, {}),
    ("Perplexity", [rows(6, 2)[:, 0] + np.float32(0.1)], 1, {}),
    ("Accuracy", [halves(9, 3), whole(*[0, 1, 2] * 3)], 1, {}),
    ("LRN", [real(2, 7, 2, 3)], 1, {"size": 3, "alpha": 0.5, "beta": 0.75}),
    ("LRN", [LAST], 2, {"size": 5, "alpha": 0.1, "beta": 0.5, "bias": 2.0, "order": "NHWC"}),
    ("AffineChannel", [IMAGE, real(4), real(4)], 1, {}),
    ("AffineChannel", [LAST, real(4), real(4)], 1, {"order": "NHWC", "is_learnable": 1}),
    ("ChannelShuffle", [real(2, 6, 2, 3)], 1, {"group": 3, "kernel": 1}),
    ("ChannelShuffle", [LAST], 1, {"group": 2, "kernel": 1, "order": "NHWC"}),
    *(
        (kind, [IMAGE], 1, {"height_scale": high, "width_scale": wide})
        for kind in ("ResizeNearest", "UpsampleBilinear")
        for high, wide in ((2.0, 3.0), (1.5, 0.5), (0.3, 1.0))
    ),
    ("ResizeNearest", [LAST], 1, {"height_scale": 2.0, "order": "NHWC"}),
    ("ResizeNearest", [real(1, 2, 10, 3)], 1, {"height_scale": 0.7}),
    *(
        ("PadImage", [x], 1, {"pad_t": 1, "pad_l": 2, "pad_b": 3, "pad_r": 0, **args})
        for x, args in (
            *((IMAGE, {"value": 0.5}), (IMAGE, {"mode": "edge"}), (IMAGE, {"mode": "reflect"})),
            (LAST, {"mode": "reflect", "order": "NHWC"}),
        )
    ),
    ("SpaceToBatch", [real(3, 2, 4, 2)], 1, {"pad": 1}),
    ("SpaceToBatch", [real(1, 2, 6, 3)], 1, {"block_size": 3}),
    ("BatchToSpace", [real(8, 2, 3, 2)], 1, {"pad": 1}),
    ("LpPool", [IMAGE], 1, {"kernel": 2, "stride": 2, "p": 2.0}),
    ("LpPool", [IMAGE], 1, {"kernel": 3, "pad": 1, "p": 3.0}),
    ("LpPool", [LAST], 1, {"kernel": 2, "p": 2.0, "order": "NHWC"}),
    *(
        (kind, [IMAGE], 1, {"kernel": kernel, "stride": 2, "legacy_pad": rule, **pads})
        for kind in ("MaxPool", "AveragePool")
        for kernel, rule, pads in (
            *((2, 1, {}), (3, 2, {}), (2, 2, {})),
            *((2, 3, {}), (3, 3, {"pad": 1}), (2, 3, {"pad": 1})),
        )
    ),
    ("MaxPool", [LAST], 1, {"kernel": 3, "stride": 2, "legacy_pad": 3, "order": "NHWC"}),
    *(
        ("Conv", [IMAGE, real(2, 4, 3, 3), real(2)], 1, {"kernel": 3, "stride": 2, **args})
        for args in ({"legacy_pad": 1}, {"legacy_pad": 2})
    ),
    ("StumpFunc", [halves(9)], 1, {"threshold": 0.5, "low_value": -1.0, "high_value": 2.0}),
    ("Bucketize", [halves(9)], 1, {"boundaries": [-0.5, 0.25, 1.0]}),
    ("SquareRootDivide", [real(4, 3), np.array([4, 0, 2, 9], np.float32)], 1, {}),
    ("SinusoidPositionEncoding", [np.repeat([[1], [3], [7]], 2, 1)], 1, {"embedding_size": 5}),
    ("NumpyTile", [real(2, 3), np.array([2, 3])], 1, {}),
    ("LengthsToRanges", [LENGTHS], 1, {}),
    ("LengthsToOffsets", [LENGTHS], 1, {}),
    ("LengthsToOffsets", [LENGTHS], 1, {"include_last_offset": 1}),
    ("SpatialSoftmaxWithLoss", [real(1, 3, 2, 2), whole(0, 2, 1, 1).reshape(1, 2, 2)], 2, {}),
    *(
        ("SpatialSoftmaxWithLoss", [real(2, 3, 2, 2), whole(*labels).reshape(2, 2, 2), *w], 2, {})
        for labels, w in (
            ((0, 1, 2, 2, 1, 0, 0, 1), [real(2, 2, 2) ** 2]),
            ((0, -1, 2, 2, 1, -1, 0, 1), [real(2, 2, 2) ** 2]),
            ((0, -1, 2, 2, 1, -1, 0, 1), []),
        )
    ),
    ("SumElementsInt", [whole(4, -2, 7)], 1, {}),
    ("DepthConcat", [IMAGE, real(2, 3, 5, 6)], 2, {}),
    ("DepthSplit", [IMAGE], 2, {"split": [1, 3]}),
    *(
        (f"{kind}WeightedSum", [real(5, 2), real(5), whole(0, 0, 1, 2, 2)], 1, {})
        for kind in ("SortedSegment", "UnsortedSegment")
    ),
    *(
        (f"Sparse{kind}", [real(6, 2), *weights, WORDS[0], whole(0, 0, 1, 2, 2)], 1, {})
        for kind, weights in (
            *(("SortedSegmentSum", ()), ("SortedSegmentMean", ())),
            *(("UnsortedSegmentSum", ()), ("UnsortedSegmentMean", ())),
            *(("SortedSegmentWeightedSum", (real(5),)), ("UnsortedSegmentWeightedSum", (real(5),))),
        )
    ),
    ("BitwiseAnd", [whole(6, -3, 12), whole(3, 5, -8)], 1, {}),
    ("BitwiseOr", [truth(2, 3), truth(3)], 1, {"broadcast": 1}),
    ("BitwiseXor", [np.array([6, -3, 12]), np.array([5])], 1, {"broadcast": 1}),
    ("IsEmpty", [X], 1, {}),
    ("HasElements", [X], 1, {}),
    ("BatchPermutation", [real(4, 2, 3), whole(2, 0, 1, 3)], 1, {}),
    ("ConvRelu", [IMAGE, real(3, 4, 3, 3), real(3)], 1, {"kernel": 3, "pad": 1}),
    ("LengthsPad", [real(3, 2), whole(0, 1, 2)], 1, {"padding_value": -1.5, "target_length": 3}),
    ("LengthsPad", [whole(4, 5, 6), whole(1, 0, 2)], 1, {"target_length": 2}),
    ("LengthsToWeights", [whole(3, 0, 4, 1)], 1, {"power": 0.8}),
    ("LengthsToWeights", [whole(3, 2)], 1, {}),
    ("DotProductWithPadding", [real(3, 4), real(3, 2)], 1, {"pad_value": 1.5}),
    ("DotProductWithPadding", [real(3, 2), real(3, 4)], 1, {"replicate": 1}),
    ("DotProductWithPadding", list(ROWS), 1, {}),
    ("DotProductWithPadding", [real(3), real(3)], 1, {}),
    ("ReduceFrontWeightedSum", [real(3, 4, 2), real(3)], 1, {}),
    ("DiagonalFill", [], 1, {"shape": [3, 3], "value": 2.5}),
    ("DiagonalFill", [], 1, {"shape": [2, 4], "value": 3}),
    ("DiagonalFill", [], 1, {"shape": [2, 2, 2]}),
    ("RangeFill", [], 1, {"shape": [2, 3]}),
    ("PackRNNSequence", [real(5, 2), LENGTHS], 1, {}),
    ("PackRNNSequence", [np.arange(10).reshape(5, 1, 2), LENGTHS], 1, {}),
    ("UnpackRNNSequence", [real(2, 4, 3), LENGTHS], 1, {}),
    ("BernoulliJSD", [RANDOM.rand(3, 4).astype(np.float32), rows(3, 4)], 1, {}),
    ("FloatToHalf", [real(3, 4) * 1000], 1, {}),
    ("HalfToFloat", [real(3, 4).astype(np.float16)], 1, {}),
    ("Float16ConstantFill", [], 1, {"shape": [2, 3], "value": 0.1}),
]

WITHOUT_WEIGHT = {("SoftmaxWithLoss", 0), *(("SpatialBN", i) for i in range(1, 5))}
"""Outputs through which Caffe2 takes no gradient."""
IN_PLACE = {"SpatialBN": {1: 3, 2: 4}}
"""Outputs that must have the names of inputs, where there are so many."""

OTHERS = {
    *(("SpatialBN", 1), ("SortedSegmentRangeMax", 1), ("SparseToDense", 1)),
    *(("SparseSortedSegmentWeightedSum", 1), ("SparseUnsortedSegmentWeightedSum", 1)),
    ("ReduceFrontWeightedSum", 1),
}
"""Gradients that rnncc does not read, of so many outputs: of training, though `is_test` is 1, of
each equal element of a segment, by a Gather of which nothing tells that it is one, of rows that an
operator of another type reads, and by a shape in place of what has it."""


def run(kind: str, inputs: list[Any], outputs: int, args: dict[str, Any]) -> dict[str, Any]:
    """The nets, as bytes, and all arrays of one case."""
    from caffe2.python import core, workspace

    workspace.ResetWorkspace()
    xs, ys = [f"x{i}" for i in range(len(inputs))], [f"y{i}" for i in range(outputs)]
    for y, x in IN_PLACE.get(kind, {}).items():
        ys[y : y + 1] = [xs[x]] if y < outputs else []
    plain = core.Net("plain")
    plain.Proto().op.extend([core.CreateOperator(kind, xs, ys, **args)])
    plain.Proto().external_input.extend(xs)
    plain.Proto().external_output.extend(ys)
    for number, array in enumerate(inputs):
        workspace.FeedBlob(xs[number], np.asarray(array))
    workspace.RunNetOnce(plain)
    results = {y: workspace.FetchBlob(y) for y in ys}
    found: dict[str, Any] = {"net": np.frombuffer(plain.Proto().SerializeToString(), np.uint8)}
    found.update({f"in:{xs[i]}": np.asarray(array) for i, array in enumerate(inputs)})
    found.update({f"out:{y}": array for y, array in results.items()})
    floats = [y for i, y in enumerate(ys) if (kind, i) not in WITHOUT_WEIGHT]
    floats = [y for y in floats if results[y].dtype == np.float32]
    if not floats or (kind, outputs) in OTHERS:
        return found
    trained = core.Net(plain.Proto())
    trained.Proto().external_input.extend(f"{y}_w" for y in floats)
    try:
        gradients = trained.AddGradientOperators({y: f"{y}_w" for y in floats})
    except Exception:  # there are none
        return found
    names = dict[str, str]()
    for x in xs:
        gradient = gradients.get(x)
        if isinstance(gradient, core.GradientSlice):  # of the rows that were read of a table
            names[x] = str(gradient.values)
        elif gradient is not None:
            names[x] = str(gradient)
    weights = {f"{y}_w": np.asarray(real(*results[y].shape), np.float32) for y in floats}
    for name, array in weights.items():
        workspace.FeedBlob(name, array)
    for number, array in enumerate(inputs):  # one may have been written in place
        workspace.FeedBlob(xs[number], np.asarray(array))
    workspace.RunNetOnce(trained)
    trained.Proto().external_output.extend(set(names.values()) - set(ys))
    found["train"] = np.frombuffer(trained.Proto().SerializeToString(), np.uint8)
    found.update({f"in:{name}": array for name, array in weights.items()})
    found.update({f"grad:{name}": workspace.FetchBlob(name) for name in names.values()})
    return found


def main() -> None:
    """Write the file."""
    arrays = dict[str, Any]()
    for number, (kind, inputs, outputs, args) in enumerate(CASES):
        for name, array in run(kind, inputs, outputs, args).items():
            arrays[f"{number:02}-{kind}/{name}"] = array
    np.savez_compressed(FILE, **arrays)


if __name__ == "__main__":
    main()
