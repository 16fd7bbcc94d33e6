"""Arguments that stand beside each other, or beyond their range, as the real Caffe2 reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rnncc import CompileError
from rnncc.frontends.caffe2 import import_net
from rnncc.ir.interpreter import run
from tests.frontends.caffe2.applied import Array, real
from tests.frontends.caffe2.nets import net, op
from tests.frontends.caffe2.real import filled

IMAGE, WEIGHTS = real(2, 3, 6, 8), real(4, 3, 2, 3)
KERNELS = {"kernels": [2, 3]}
CONV = ("Conv", [IMAGE, WEIGHTS])
TRANSPOSED = ("ConvTranspose", [IMAGE, real(3, 4, 2, 3)])
BLOCKS = real(8, 2, 3, 4)


def apply(kind: str, arrays: list[Array], results: str = "y", **args: Any) -> Array:
    """The last result of an operator; its inputs of integers are known at compile time."""
    given = {f"x{i}": array for i, array in enumerate(arrays)}
    inputs = {name: array for name, array in given.items() if array.dtype == np.float32}
    held = filled({name: array for name, array in given.items() if name not in inputs})
    *_, last = results.split()
    made = net([op(kind, " ".join(given), results, **args)], " ".join(given), last)
    return run(import_net(made, held, {n: a.shape for n, a in inputs.items()}), inputs)[last]


@pytest.mark.parametrize(
    ("kind", "arrays", "args", "same"),
    [
        # one number for all axes or sides goes before those of each
        (*CONV, {**KERNELS, "pad": 1, "pad_t": 0}, {**KERNELS, "pad": 1}),
        (*CONV, {**KERNELS, "stride": 2, "stride_h": 1}, {**KERNELS, "stride": 2}),
        (*CONV, {**KERNELS, "dilation": 2, "dilation_w": 1}, {**KERNELS, "dilation": 2}),
        (*TRANSPOSED, {**KERNELS, "pad": 1, "pad_l": 2}, {**KERNELS, "pad": 1}),
        ("MaxPool", [IMAGE], {"kernel": 2, "kernel_w": 3}, {"kernel": 2}),
        ("PadImage", [IMAGE], {"pad": 2, "pad_b": 1}, {"pad": 2}),
        # those of each count where they are there for all
        (*CONV, {**KERNELS, "pad_t": 1}, KERNELS),
        (*CONV, {**KERNELS, "stride_h": 2}, KERNELS),
        (*TRANSPOSED, {**KERNELS, "stride": 2, "adj_h": 1}, {**KERNELS, "stride": 2}),
        ("AveragePool", [IMAGE], {**KERNELS, "pad_l": 1, "pad_r": 1}, KERNELS),
        ("PadImage", [IMAGE], {"pad_t": 1, "pad_l": 2, "pad_b": 3}, {}),
        (
            *("PadImage", [IMAGE], {"pads": [1, 2, 0, 3]}),
            {"pad_t": 1, "pad_l": 2, "pad_b": 0, "pad_r": 3},
        ),
        # of blocks only the rows above have a number of their own
        ("SpaceToBatch", [IMAGE], {"pad": 1, "pad_l": 3, "pad_b": 5, "pad_r": 7}, {"pad": 1}),
        ("BatchToSpace", [BLOCKS], {"pad": 1, "pad_b": 2}, {"pad": 1}),
        ("BatchGather", [IMAGE, np.array([2, 0], np.int32)], {"axis": 3}, {}),
    ],
)
def test_the_same_result(
    kind: str, arrays: list[Any], args: dict[str, Any], same: dict[str, Any]
) -> None:
    np.testing.assert_array_equal(apply(kind, arrays, **args), apply(kind, arrays, **same))


def test_rows_above_the_blocks() -> None:
    y = apply("SpaceToBatch", [IMAGE], pad_t=2)
    np.testing.assert_array_equal(y[:, :, 1:], apply("SpaceToBatch", [IMAGE]))
    assert not y[:, :, 0].any()
    x = apply("BatchToSpace", [BLOCKS], pad_t=2)
    np.testing.assert_array_equal(x, apply("BatchToSpace", [BLOCKS])[:, :, 2:])


def test_positions_are_those_of_the_first_column() -> None:
    y = apply("SinusoidPositionEncoding", [np.array([[1, 2], [3, 4]])], embedding_size=4)
    np.testing.assert_array_equal(y[:, 0], y[:, 1])
    np.testing.assert_allclose(y[:, 0, 0], np.sin([1, 3]), 1e-6)


def test_probabilities_beyond_their_range() -> None:
    """They count as the nearest that has a logarithm: 1e-20, and 0 and 1 in entropies."""
    x = np.array([[-0.3, 0.5], [0.25, -7.0]], np.float32)
    y = apply("LabelCrossEntropy", [x, np.array([0, 1], np.int32)])
    np.testing.assert_allclose(y, [46.0517, 46.0517], 1e-6)
    label = np.array([[0.5, 0.5], [1, 0]], np.float32)
    y = apply("CrossEntropy", [x, label])
    np.testing.assert_allclose(y, [(46.0517 + np.log(2)) / 2, np.log(4)], 1e-6)
    beyond, half = np.array([-0.3, 1.5], np.float32), np.full(2, 0.5, np.float32)
    mean = -0.1 * np.log(0.1) - 0.9 * np.log(0.9)  # the entropy of 0.1; of 1 it is 0
    want = np.array([mean, 0]) - np.log(2) / 2
    np.testing.assert_allclose(apply("BernoulliJSD", [beyond, half]), want, 1e-5)


def test_a_loss_counts_probabilities_of_at_least_1e_20() -> None:
    logits = np.array([[0, 100, -300]], np.float32)
    labels = np.array([[0.25, 0.25, 0.5]], np.float32)
    loss = apply("SoftmaxWithLoss", [logits, labels], "p y", label_prob=1)
    np.testing.assert_allclose(loss, 0.75 * -np.log(1e-20), 1e-6)
    # those of single labels are logarithms from the start
    loss = apply("SoftmaxWithLoss", [logits, np.array([2], np.int32)], "p y")
    np.testing.assert_allclose(loss, 400, 1e-6)
    planes = logits.reshape(1, 3, 1, 1)
    loss = apply("SpatialSoftmaxWithLoss", [planes, np.array([[[2]]], np.int32)], "p y")
    np.testing.assert_allclose(loss, -np.log(1e-20), 1e-6)


def test_the_diagonal_of_a_high_matrix_goes_on() -> None:
    y = apply("DiagonalFill", [], shape=[5, 2], value=2.5)
    np.testing.assert_array_equal(y, [[2.5, 0], [0, 2.5], [0, 0], [2.5, 0], [0, 2.5]])


@pytest.mark.parametrize(
    ("kind", "arrays", "args", "told"),
    [
        ("MaxPool", [IMAGE], {"kernel": 2, "pad": 2}, "pads as long as its windows"),
        ("LpPool", [IMAGE], {"kernel": 2, "pads": [0, 0, 2, 0]}, "pads as long as its windows"),
        ("MaxPool", [IMAGE], {"global_pooling": 1, "stride": 2}, "beside 'global_pooling'"),
        ("AveragePool", [IMAGE], {"global_pooling": 1, "pad": 1}, "beside 'global_pooling'"),
        (*CONV, {"kernels": [2, 3, 2], "stride_h": 1, "stride_w": 1}, "2 numbers, expected 3"),
        ("OneHot", [np.array([1, 0]), np.array([2, 3])], {}, "2 numbers of zeros"),
        (
            *("PackSegments", [np.array([2, 1], np.int32), real(3, 2)], {"max_length": -3}),
            "argument 'max_length' is -3",
        ),
        (
            *("UnsortedSegmentSum", [real(2, 3), np.array([0, 1], np.int32)]),
            *({"num_segments": 0}, "argument 'num_segments' is 0"),
        ),
        ("BatchGather", [real(4), np.array([1], np.int32)], {}, "data of 1 axes, expected 2"),
        ("RemovePadding", [real(6, 2), np.array([4], np.int32)], {}, r"parts of \[4\] rows, of 6"),
        ("GatherPadding", [real(5, 2), np.array([4], np.int32)], {}, r"parts of \[4\] rows, of 5"),
    ],
)
def test_refused(kind: str, arrays: list[Any], args: dict[str, Any], told: str) -> None:
    with pytest.raises(CompileError, match=told):
        apply(kind, arrays, **args)
