"""Each operator against its formula in NumPy: one line an operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rnncc.errors import CompileError
from rnncc.frontends.caffe2 import OPERATORS, import_net
from rnncc.ir.interpreter import run
from tests.frontends.caffe2.applied import RANDOM, Array, apply, real
from tests.frontends.caffe2.nets import net, op
from tests.frontends.caffe2.real import OPERATORS as REAL


def positive(*shape: int) -> Array:
    return RANDOM.random(shape, np.float32) + np.float32(0.5)


def whole(*values: int) -> Array:
    return np.array(values, np.int32)


def truth(*shape: int) -> Array:
    return RANDOM.random(shape) < 0.5


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


A, B, X = real(2, 3, 4), real(2, 3, 4), real(2, 3, 6)
ROW, COLUMN = real(4), real(3)
IMAGE = real(2, 4, 6, 7)
PIECES = ([-1.0, 0.0, 2.0], [-1.0, 1.0, -1.0]), ([-0.5, 0.5, 1.0], [-0.5, 0.5, 2.0])
"""Two functions: where they bend, and their values there."""
TABLES = [np.array(row, np.float32) for row in ([-1, 0, 2], [2, -1], [1, 1])]
"""Bounds, slopes and intercepts of the first."""
CASES: list[tuple[str, list[Array], dict[str, Any], Callable[..., Any]]] = [
    ("Sigmoid", [A], {}, sigmoid),
    ("Tanh", [A], {}, np.tanh),
    ("Relu", [A], {}, lambda x: np.maximum(x, 0)),
    ("Exp", [A], {}, np.exp),
    ("Log", [positive(3, 2)], {}, np.log),
    ("Negative", [A], {}, np.negative),
    ("Sqrt", [positive(5)], {}, np.sqrt),
    ("Abs", [A], {}, np.abs),
    (
        "Erf",
        [np.array([0.0, 0.5], np.float32)],
        {},
        lambda x: np.array([0.0, 0.5204999], np.float32),
    ),
    ("IsNaN", [np.array([[0, np.nan], [np.inf, -np.nan]], np.float32)], {}, np.isnan),
    ("Sqr", [A], {}, np.square),
    (
        "PiecewiseLinearTransform",
        [2 * real(9, 2)],
        {"bounds": [-1.0, 0.0, 2.0, -0.5, 0.5, 1.0], "slopes": [2.0, -1.0, 1.0, 3.0]}
        | {"intercepts": [1.0, 1.0, 0.0, -1.0]},
        lambda x: np.stack([np.interp(x[:, i], *PIECES[i]) for i in (0, 1)], 1),
    ),
    (
        "PiecewiseLinearTransform",
        [np.array([0, 1, 2], np.float32)],
        {"bounds": [1.0, 1.0, 1.0], "slopes": [1.0, 3.0], "intercepts": [1.0, 1.0], "binary": 1},
        lambda x: np.where(x > 1, 4, 2),
    ),
    *(
        ("PiecewiseLinearTransform", [2 * real(*shape), *TABLES], {"binary": 1}, function)
        for shape, function in (
            ((9,), lambda x, *_: np.interp(x, *PIECES[0])),
            ((9, 1), lambda x, *_: np.interp(x, *PIECES[0])),
            ((9, 2), lambda x, *_: np.interp(x[:, 1:], *PIECES[0]) * [-1, 1] + [1, 0]),
        )
    ),
    ("Reciprocal", [positive(3)], {}, lambda x: 1 / x),
    ("Swish", [A], {}, lambda x: x * sigmoid(x)),
    ("Clip", [A], {"min": -0.5, "max": 0.25}, lambda x: np.clip(x, -0.5, 0.25)),
    ("Clip", [A], {"max": 0.25}, lambda x: np.minimum(x, 0.25)),
    ("Scale", [A], {"scale": 2.5}, lambda x: x * 2.5),
    ("Pow", [A], {"exponent": 3.0}, lambda x: x**3),
    ("Pow", [positive(3)], {"exponent": -0.5}, lambda x: x**-0.5),
    ("Pow", [positive(3)], {"exponent": 2.5}, lambda x: x**2.5),
    ("Pow", [A], {"exponent": 0.0}, np.ones_like),
    ("Not", [truth(2, 3)], {}, np.logical_not),
    ("Elu", [A], {"alpha": 0.5}, lambda x: np.where(x > 0, x, 0.5 * np.expm1(x))),
    ("Selu", [A], {}, lambda x: 1.0507 * np.where(x > 0, x, 1.67326 * np.expm1(x))),
    ("LeakyRelu", [A], {}, lambda x: np.where(x > 0, x, 0.01 * x)),
    ("HardSigmoid", [A], {"alpha": 0.3}, lambda x: np.clip(0.3 * x + 0.5, 0, 1)),
    ("Softplus", [A], {}, lambda x: np.log1p(np.exp(x))),
    ("Softsign", [A], {}, lambda x: x / (1 + abs(x))),
    ("Cube", [A], {}, lambda x: x**3),
    ("Rsqrt", [positive(3)], {}, lambda x: x**-0.5),
    ("Floor", [A], {}, np.floor),
    ("Ceil", [A], {}, np.ceil),
    ("Sin", [A], {}, np.sin),
    ("Cos", [A], {}, np.cos),
    ("Tan", [A], {}, np.tan),
    ("Asin", [A / 9], {}, np.arcsin),
    ("Acos", [A / 9], {}, np.arccos),
    ("Atan", [A], {}, np.arctan),
    ("Sinh", [A], {}, np.sinh),
    ("Cosh", [A], {}, np.cosh),
    ("ArgMax", [A], {}, lambda x: x.argmax(-1)[..., None]),
    ("ArgMax", [A], {"axis": 1, "keepdims": 0}, lambda x: x.argmax(1)),
    ("ArgMin", [A], {"axis": 0}, lambda x: x.argmin(0)[None]),
    ("MaxPool", [IMAGE], {"global_pooling": 1}, lambda x: x.max((2, 3), keepdims=True)),
    ("AveragePool", [IMAGE], {"global_pooling": 1}, lambda x: x.mean((2, 3), keepdims=True)),
    ("Cast", [A], {"to": "float"}, lambda x: x),
    ("Cast", [truth(4)], {"to": 1}, lambda x: x.astype(np.float32)),
    ("Cast", [whole(1, 2)], {"to": "FLOAT"}, lambda x: x.astype(np.float32)),
    ("Copy", [A], {}, lambda x: x),
    ("CopyFromCPUInput", [A], {}, lambda x: x),
    ("StopGradient", [A], {}, lambda x: x),
    ("Alias", [A], {}, lambda x: x),
    ("CopyOnDeviceLike", [A, A], {}, lambda x, y: x),
    ("SumElements", [A], {}, np.sum),
    ("SumElements", [A], {"average": 1}, np.mean),
    ("SumSqrElements", [A], {}, lambda a: np.sum(a * a)),
    ("SumSqrElements", [A], {"average": 1}, lambda a: np.mean(a * a)),
    ("Sum", [A, B, X[..., :4]], {}, lambda *xs: sum(xs)),
    ("Sum", [A], {}, lambda x: x),
    ("SumRelu", [A, B], {}, lambda a, b: np.maximum(a + b, 0)),
    ("Max", [A, B], {}, np.maximum),
    ("Min", [A, B], {}, np.minimum),
    ("Add", [A, ROW], {}, np.add),
    ("Add", [ROW, A], {}, np.add),
    ("Sub", [real(3, 1), real(2, 1, 4)], {}, np.subtract),
    ("Mul", [A, ROW], {"broadcast": 1}, np.multiply),
    ("Mul", [A, COLUMN], {"broadcast": 1, "axis": 1}, lambda a, b: a * b[:, None]),
    ("Mul", [A, real(2, 3)], {"broadcast": 1, "axis": 0}, lambda a, b: a * b[..., None]),
    ("Mul", [A, real(1, 3, 1)], {"broadcast": 1}, np.multiply),
    ("Add", [A, real(1)], {"broadcast": 1}, np.add),
    ("Add", [A, real(1)], {"broadcast": 1, "axis": 0}, np.add),
    ("Add", [A, A], {"broadcast": 1}, np.add),
    ("Div", [A, positive(4)], {}, np.divide),
    ("GT", [whole(3, 1, 2), whole(2)], {"broadcast": 1}, np.greater),
    ("LE", [A, B], {}, np.less_equal),
    ("LT", [A, ROW], {}, np.less),
    ("GE", [whole(3, 1), whole(3, 2)], {}, np.greater_equal),
    ("EQ", [whole(3, 1), whole(3, 2)], {}, np.equal),
    ("NE", [whole(3, 1), whole(3, 2)], {}, np.not_equal),
    ("And", [truth(5), truth(5)], {}, np.logical_and),
    ("Or", [truth(5), truth(5)], {}, np.logical_or),
    ("Xor", [truth(5), truth(5)], {}, np.logical_xor),
    ("FC", [X, real(5, 6), real(5)], {"axis": 2}, lambda x, w, b: x @ w.T + b),
    ("FC", [X, real(5, 6), real(5)], {"axis": -1}, lambda x, w, b: x @ w.T + b),
    ("FC", [X, real(5, 18), real(5)], {}, lambda x, w, b: x.reshape(2, 18) @ w.T + b),
    ("FC", [ROW, real(5, 4), real(5)], {"axis": 0}, lambda x, w, b: x @ w.T + b),
    ("FCTransposed", [X, real(6, 5), real(5)], {"axis": 2}, lambda x, w, b: x @ w + b),
    ("MatMul", [real(2, 3), real(3, 4)], {}, np.matmul),
    ("MatMul", [real(3, 2), real(4, 3)], {"trans_a": 1, "trans_b": 1}, lambda a, b: a.T @ b.T),
    ("BatchMatMul", [A, real(2, 4, 5)], {}, np.matmul),
    ("BatchMatMul", [A, real(2, 3, 5)], {"trans_a": 1}, lambda a, b: a.swapaxes(1, 2) @ b),
    ("BatchMatMul", [A, real(2, 5, 4)], {"trans_b": 1}, lambda a, b: a @ b.swapaxes(1, 2)),
    ("BatchMatMul", [A, real(4, 5)], {"broadcast": 1}, np.matmul),
    ("BatchMatMul", [real(1, 3, 4), real(2, 4, 5)], {"broadcast": 1}, np.matmul),
    ("ElementwiseLinear", [A, ROW, real(4)], {"axis": 2}, lambda x, w, b: x * w + b),
    (
        "ElementwiseLinear",
        [A, real(12), real(12)],
        {},
        lambda x, w, b: x * w.reshape(3, 4) + b.reshape(3, 4),
    ),
    ("Softmax", [A], {"axis": 2}, softmax),
    ("Softmax", [A], {}, lambda x: softmax(x.reshape(2, 12)).reshape(2, 3, 4)),
    ("Split", [X], {"axis": 2}, lambda x: np.split(x, 3, 2)),
    ("Split", [X], {"axis": -1, "split": [1, 5]}, lambda x: np.split(x, [1], 2)),
    ("Split", [X], {"order": "NCHW"}, lambda x: np.split(x, 3, 1)),
    ("Concat", [A, X], {"axis": 2}, lambda *xs: [np.concatenate(xs, 2), whole(4, 6)]),
    ("Concat", [A, B], {"axis": 0, "add_axis": 1}, lambda *xs: [np.stack(xs), whole(1, 1)]),
    ("Concat", [A, B], {"axis": 3, "add_axis": 1}, lambda *xs: np.stack(xs, 3)),
    (
        "Reshape",
        [A],
        {"shape": [0, -1]},
        lambda x: [x.reshape(2, 12), np.array([2, 3, 4], np.int64)],
    ),
    ("Reshape", [A], {"shape": [-1, 0, 2]}, lambda x: x.reshape(4, 3, 2)),
    ("Squeeze", [real(1, 3, 1)], {"dims": [0, 2]}, lambda x: x[0, :, 0]),
    ("ExpandDims", [COLUMN], {"dims": [0, 2]}, lambda x: x[None, :, None]),
    ("Transpose", [A], {}, lambda x: x.transpose()),
    ("Transpose", [A], {"axes": [1, 2, 0]}, lambda x: x.transpose(1, 2, 0)),
    ("Slice", [A], {"starts": [0, 1, 0], "ends": [-1, 3, -2]}, lambda x: x[:, 1:3, :3]),
    ("Slice", [A], {"starts": [-2], "ends": [-1]}, lambda x: x[1:]),
    ("Shape", [A], {}, lambda x: np.array([2, 3, 4], np.int64)),
    ("Shape", [A], {"axes": [2]}, lambda x: np.array([4], np.int64)),
    ("ConstantFill", [], {"shape": [2, 3], "value": 1.5}, lambda: np.full((2, 3), 1.5)),
    ("ConstantFill", [A], {"value": 2.0}, lambda x: np.full_like(x, 2)),
    ("ConstantFill", [COLUMN], {"extra_shape": [2]}, lambda x: np.zeros((3, 2))),
    (
        "GivenTensorFill",
        [],
        {"shape": [2], "values": [1.0, 2.0]},
        lambda: np.array([1, 2], np.float32),
    ),
    ("GivenTensorIntFill", [], {"shape": [1], "values": [9]}, lambda: whole(9)),
    ("Dropout", [A], {"is_test": 1, "ratio": 0.5}, lambda x: x),
]


@pytest.mark.parametrize(
    ("kind", "inputs", "args", "formula"),
    CASES,
    ids=[f"{kind}-{'-'.join(args)}" for kind, _, args, _ in CASES],
)
def test_operator(
    kind: str, inputs: list[Array], args: dict[str, Any], formula: Callable[..., Any]
) -> None:
    want = formula(*inputs)
    want = want if isinstance(want, list) else [want]
    for got, array in zip(apply(kind, inputs, len(want), args), want, strict=True):
        assert got.shape == np.shape(array)
        np.testing.assert_allclose(got, array, 1e-5, 1e-6)


def test_layer_norm() -> None:
    x, scale, bias = real(2, 3, 4), real(4), real(4)
    mean, std = x.mean(-1, keepdims=True), np.sqrt(x.var(-1, keepdims=True) + np.float32(1e-4))
    args = {"axis": -1, "epsilon": 1e-4, "elementwise_affine": 1}
    got = apply("LayerNorm", [x, scale, bias], 3, args)
    for array, want in zip(got, ((x - mean) / std * scale + bias, mean, std), strict=True):
        np.testing.assert_allclose(array, want, 1e-5, 1e-5)
    rows = x.reshape(2, 12)
    deviation = np.sqrt(rows.var(1) + 1e-5)[:, None]
    plain = ((rows - rows.mean(1)[:, None]) / deviation).reshape(x.shape)
    np.testing.assert_allclose(apply("LayerNorm", [x], 1, {})[0], plain, 1e-5, 1e-5)


def test_sequence_mask() -> None:
    x, lengths = real(3, 4, 1), whole(0, 2, 9)
    inside = np.arange(4)[None, :, None] < lengths[:, None, None]
    for args, fill in (({}, -np.inf), ({"fill_val": -5.0}, -5), ({"grad": 1}, 0)):
        got = apply("SequenceMask", [x, lengths], 1, {"mode": "sequence", **args})[0]
        np.testing.assert_array_equal(got, np.where(inside, x, np.float32(fill)))


def test_reverse_and_pad() -> None:
    x, lengths = real(4, 3, 2), whole(4, 0, 3)
    reversed_, padded = x.copy(), x.copy()
    for n, length in enumerate(lengths):
        reversed_[:length, n] = x[:length, n][::-1]
        padded[length:, n] = 0
    np.testing.assert_array_equal(apply("ReversePackedSegs", [x, lengths], 1, {})[0], reversed_)
    got = apply("VariableLengthSequencePadding", [x, lengths], 1, {})[0]
    np.testing.assert_array_equal(got, padded)


@pytest.mark.parametrize("drop", [0, 1])
@pytest.mark.parametrize("lengths", [None, whole(0, 1, 5)])
def test_lstm_unit(lengths: Array | None, drop: int) -> None:
    h, c, gates, step = real(1, 3, 2), real(1, 3, 2), real(1, 3, 8), whole(1)
    i, f, o, g = np.split(gates, 4, 2)
    cell = sigmoid(f + 0.5) * c + sigmoid(i) * np.tanh(g)
    want = [sigmoid(o) * np.tanh(cell), cell]
    inputs = [h, c, gates, step]
    args: dict[str, Any] = {"forget_bias": 0.5, "drop_states": drop, "sequence_lengths": 0}
    if lengths is not None:
        inside = (lengths > 1)[None, :, None]
        want = [
            np.where(inside, n, 0 * p if drop else p) for n, p in zip(want, (h, c), strict=True)
        ]
        inputs, args = [h, c, gates, lengths, step], args | {"sequence_lengths": 1}
    for got, array in zip(apply("LSTMUnit", inputs, 2, args), want, strict=True):
        np.testing.assert_allclose(got, array, 1e-5, 1e-6)


@pytest.mark.parametrize("drop", [0, 1])
def test_gru_unit(drop: int) -> None:
    h, gates, lengths, step = real(1, 3, 2), real(1, 3, 6), whole(0, 1, 5), whole(1)
    _, u, o = np.split(gates, 3, 2)
    new = h * sigmoid(u) + np.tanh(o) * (1 - sigmoid(u))
    want = np.where((lengths > 1)[None, :, None], new, 0 * h if drop else h)
    got = apply("GRUUnit", [h, gates, lengths, step], 1, {"drop_states": drop})[0]
    np.testing.assert_allclose(got, want, 1e-5, 1e-6)
    plain = apply("GRUUnit", [h, gates, step], 1, {"sequence_lengths": 0})[0]
    np.testing.assert_allclose(plain, new, 1e-5, 1e-6)


def lstm(x: Array, h: Array, c: Array, w: Array, u: Array, *biases: Array) -> list[Array]:
    rows = list[Array]()
    for row in x:
        i, f, g, o = np.split(row @ w.T + h @ u.T + sum(biases), 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        rows.append(h)
    return [np.array(rows), h, c]


@pytest.mark.parametrize("biases", [0, 1])
@pytest.mark.parametrize("both", [0, 1])
@pytest.mark.parametrize("batch_first", [0, 1])
def test_inference_lstm(batch_first: int, both: int, biases: int) -> None:
    x, h, c = real(4, 2, 3), real(2 + 2 * both, 2, 5), real(2 + 2 * both, 2, 5)
    weights, rows, lasts = list[Array](), x, list[list[Array]]()
    for layer in range(2):
        outputs = list[Array]()
        for direction in range(1 + both):
            own = [real(20, rows.shape[2]), real(20, 5), *([real(20), real(20)] if biases else [])]
            start = layer * (1 + both) + direction
            flip = slice(None, None, -1 if direction else 1)
            y, *last = lstm(rows[flip], h[start], c[start], *own)
            weights += own
            outputs.append(y[flip])
            lasts.append(last)
        rows = np.concatenate(outputs, 2)
    args = {
        "num_layers": 2,
        "bidirectional": both,
        "has_biases": biases,
        "batch_first": batch_first,
    }
    data = x.swapaxes(0, 1) if batch_first else x
    got = apply("InferenceLSTM", [data, h, c, *weights], 3, args)
    want = [rows.swapaxes(0, 1) if batch_first else rows]
    want += [np.array(states) for states in zip(*lasts, strict=True)]
    for array, expected in zip(got, want, strict=True):
        np.testing.assert_allclose(array, expected, 1e-5, 1e-6)


def test_states_of_inference_lstm_have_three_axes() -> None:
    names = "x h c w u"
    made = net([op("InferenceLSTM", names, "y hn cn", has_biases=0)], names, "y")
    with pytest.raises(CompileError, match=r"a state of shape \[\], expected 3 axes"):
        import_net(made, shapes={"h": ()})


def test_sizes_flow_through_shape_slice_and_fill() -> None:
    ops = [
        op("Shape", "x", "shape"),
        op("Slice", "shape", "first", starts=[0], ends=[2]),
        op("ConstantFill", "first", "y", input_as_shape=1, value=3.0),
        op("Concat", "x x", "z sizes", axis=2),
        op("Reshape", "z shape_of_y", "flat"),
    ]
    ops.insert(4, op("GivenTensorInt64Fill", "", "shape_of_y", shape=[2], values=[-1, 8]))
    program = import_net(net(ops, "x", "y flat shape sizes"), shapes={"x": "T,N,4"})
    got = run(program, {"x": real(3, 2, 4)})
    np.testing.assert_array_equal(got["y"], np.full((3, 2), 3))
    assert got["flat"].shape == (6, 8)
    np.testing.assert_array_equal(got["shape"], [3, 2, 4])
    np.testing.assert_array_equal(got["sizes"], [4, 4])


def test_split_takes_sizes_from_concat() -> None:
    ops = [op("Concat", "a b", "y sizes", axis=1), op("Split", "y sizes", "c d", axis=1)]
    program = import_net(net(ops, "a b", "c d"), shapes={"a": "N,2", "b": "N,3"})
    a, b = real(4, 2), real(4, 3)
    got = run(program, {"a": a, "b": b})
    np.testing.assert_array_equal(got["c"], a)
    np.testing.assert_array_equal(got["d"], b)


def test_every_operator_is_tested() -> None:
    tested = {kind for kind, *_ in CASES}
    tested |= {"LayerNorm", "SequenceMask", "ReversePackedSegs", "VariableLengthSequencePadding"}
    tested |= {name.partition("-")[2] for name in REAL}
    tested |= {"LSTMUnit", "GRUUnit", "InferenceLSTM", "GivenTensorInt64Fill", "RecurrentNetwork"}
    tested |= {"Conv", "ConvTranspose", "TopK"}  # test_spatial.py
    tested |= {"LengthsTopK", "LengthsGather"}  # test_lengths.py
    tested |= {"HSoftmax"}  # test_hierarchies.py
    same = {"AliasWithName", "CopyCPUToGPU", "CopyGPUToCPU", "EnsureCPUOutput", "ZeroGradient"}
    same |= {f"{kind}Pool{rank}D" for kind in ("Average", "Max") for rank in (2, 3)} - tested
    given = {"GivenTensorBoolFill", "GivenTensorDoubleFill"}
    gradients = {kind for kind in OPERATORS if kind.endswith("Gradient")} - same - tested
    control = {"Do", "If", "While", "CreateScope", "HasScope"}  # test_control.py
    assert set(OPERATORS) == tested | same | given | control | gradients  # test_gradients.py


def test_every_operator_says_what_it_computes() -> None:
    for kind, operator in OPERATORS.items():
        assert operator.__doc__, kind
