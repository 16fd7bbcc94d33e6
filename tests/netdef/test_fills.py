"""The arrays of init nets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rnncc.errors import CompileError
from rnncc.netdef import NetDef, OperatorDef, TensorProto, parameters
from tests.frontends.caffe2.nets import net, op


def init(*ops: OperatorDef) -> NetDef:
    return net(ops, "", " ".join(o.output[0] for o in ops))


@pytest.mark.parametrize(
    ("kind", "args", "want"),
    [
        ("GivenTensorFill", {"shape": [2], "values": [1.5, 2.0]}, np.array([1.5, 2], np.float32)),
        ("GivenTensorIntFill", {"shape": [1, 2], "values": [3, -4]}, np.array([[3, -4]], np.int32)),
        (
            "GivenTensorInt64Fill",
            {"shape": [1], "values": [1 << 40]},
            np.array([1 << 40], np.int64),
        ),
        ("GivenTensorBoolFill", {"shape": [2], "values": [1, 0]}, np.array([True, False])),
        ("GivenTensorDoubleFill", {"shape": [1], "values": [0.5]}, np.array([0.5], np.float64)),
        ("ConstantFill", {"shape": [2, 1], "value": 2.5}, np.array([[2.5], [2.5]], np.float32)),
        ("ConstantFill", {"shape": [2]}, np.array([0, 0], np.float32)),
        (
            "ConstantFill",
            {"shape": [1], "dtype": TensorProto.INT32, "value": 7},
            np.array([7], np.int32),
        ),
        ("ConstantFill", {"shape": [], "dtype": TensorProto.BOOL, "value": 1}, np.array(True)),
        ("ConstantFill", {"shape": [1], "extra_shape": [2]}, np.zeros((1, 2), np.float32)),
    ],
)
def test_fills_hold_what_they_say(kind: str, args: dict[str, Any], want: np.ndarray) -> None:
    got = parameters(init(op(kind, "", "w", **args)))["w"]
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def test_the_last_fill_of_a_blob_counts() -> None:
    first, second = (op("ConstantFill", "", "w", shape=[1], value=v) for v in (1.0, 2.0))
    assert parameters(init(first, second))["w"] == 2


def test_random_fills_depend_on_seed_and_name_alone() -> None:
    def fill(name: str) -> OperatorDef:
        return op("XavierFill", "", name, shape=[64, 48])

    a, b = parameters(init(fill("a"), fill("b")), 1), parameters(init(fill("b")), 1)
    np.testing.assert_array_equal(a["b"], b["b"])
    assert not np.array_equal(a["a"], a["b"])
    assert not np.array_equal(a["b"], parameters(init(fill("b")), 2)["b"])


def test_random_fills_have_the_spread_they_say() -> None:
    def one(kind: str, **args: Any) -> np.ndarray:
        return parameters(init(op(kind, "", "w", shape=[300, 200], **args)))["w"]

    xavier, bound = one("XavierFill"), np.sqrt(3 / 200)
    assert bound * 0.99 < np.abs(xavier).max() <= bound * (1 + 1e-6)
    uniform = one("UniformFill", min=2.0, max=3.0)
    assert 2 <= uniform.min() < 2.01 < 2.99 < uniform.max() <= 3
    gaussian = one("GaussianFill", mean=1.0, std=2.0)
    assert abs(gaussian.mean() - 1) < 0.05
    assert abs(gaussian.std() - 2) < 0.05
    assert abs(one("MSRAFill").std() - np.sqrt(2 / 300)) < 0.002
    integers = one("UniformIntFill", min=-2, max=3)
    assert integers.dtype == np.int32
    assert set(integers.flat) == set(range(-2, 4))


@pytest.mark.parametrize(
    ("fill", "message"),
    [
        (op("FC", "x w b", "y"), "is no fill operator .an init net may hold: GivenTensorFill"),
        (op("ConstantFill", "s", "w", input_as_shape=1), "takes its shape from another blob"),
        (op("ConstantFill", "", "w", shape=[1 << 20, 1 << 20]), "more than 1 GiB"),
        (op("XavierFill", "", "w", shape=[1 << 40]), "more than 1 GiB"),
        (op("GivenTensorFill", "", "w", shape=[3], values=[1.0]), "1 values for shape .3. of 3"),
        (
            op("GivenTensorFill", "", "w", shape=[1], values=[1]),
            "'values' holds a list of integers",
        ),
        (op("ConstantFill", "", "w", shape=[-1]), "negative size"),
        (op("ConstantFill", "", "w", shape=[1], dtype=1, value=1), "'value' holds an integer"),
        (op("ConstantFill", "", "w", shape=[1], dtype=4, value=1), "element type 4"),
        (op("UniformFill", "", "w", shape=[1], min=1.0, max=1.0), "min 1 is not below max 1"),
        (op("UniformFill", "", "w", shape=[1], min=float("nan")), "'min' is NaN"),
        (op("GaussianFill", "", "w", shape=[1], std=-1.0), "no Gaussian"),
        (op("MSRAFill", "", "w", shape=[4]), "rank below 2"),
        (op("UniformIntFill", "", "w", shape=[4], min=3, max=2), "min 3 and max 2 are no range"),
        (op("UniformIntFill", "", "w", shape=[4], max=1 << 31), "are no range of int32"),
        (op("DiagonalFill", "", "w", shape=[4]), r"shape \[4\] has no diagonal"),
        (op("DiagonalFill", "", "w", shape=[2, 2, 3]), "has no diagonal"),
        (op("FloatToHalf", "x", "w"), "converts what no operator before it fills with floats"),
        (op("ConstantFill", "", "", shape=[1]), "has 0 outputs"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else value.type,
)
def test_wrong_fills_are_errors(fill: OperatorDef, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        parameters(net([fill], "", ""))


def test_halves_are_floats_that_halves_hold() -> None:
    made = net(
        [
            op("GivenTensorFill", "", "x", shape=[3], values=[0.1, 1e6, -1e-9]),
            op("FloatToHalf", "x", "half"),
            op("HalfToFloat", "half", "back"),
            op("Float16ConstantFill", "", "c", shape=[2], value=0.1),
            op("Float16UniformFill", "", "u", shape=[50], min=-1.0, max=1.0),
        ],
        "",
        "",
    )
    got = parameters(made)
    want = np.array([0.1, np.inf, -0.0]).astype(np.float16)
    for name, array in {"half": want, "back": want, "c": want[[0, 0]]}.items():
        np.testing.assert_array_equal(got[name], array.astype(np.float32))
    assert all(array.dtype == np.float32 for array in got.values())
    np.testing.assert_array_equal(got["u"], got["u"].astype(np.float16))
    assert -1 <= got["u"].min() < got["u"].max() <= 1
    with pytest.raises(CompileError, match="converts what no operator before it fills"):
        parameters(net([op("ConstantFill", "", "n", value=1), op("FloatToHalf", "n", "w")], "", ""))
