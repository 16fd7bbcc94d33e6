"""Element types that are stored narrow: inputs, outputs and values keep the model's types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper

import rnncc
from rnncc.errors import CompileError
from rnncc.frontends.onnx.importer import import_model
from rnncc.ir.types import NUMPY
from tests.frontends.onnx.models import (
    KINDS,
    by_onnxruntime,
    info,
    interpreted,
    model,
    node,
)
from tests.golden import Arrays

INTEGERS = {"u8": np.uint8, "i8": np.int8, "u16": np.uint16, "i16": np.int16, "u32": np.uint32}


def drawn(dtype: type[Any], shape: tuple[int, ...], seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_wrap_around_and_keep_their_type(dtype: str) -> None:
    nodes = [
        node("Add", "x y", "sum"),
        node("Mul", "sum x", "product"),
        node("Sub", "x y", "difference"),
        node("Concat", "product difference", "joined", axis=0),
        node("Gather", "joined index", "rows", axis=0),
        node("Max", "rows rows", "z"),
        node("Greater", "x y", "more"),
        node("Cast", "difference", "f", to=TensorProto.FLOAT),
    ]
    inputs = [info("x", ["N", 3], dtype), info("y", [3], dtype), info("index", ["M"], "i64")]
    made = model(nodes, inputs, [info(n, None, dtype) for n in ("z", "more", "f")], opset=14)
    kind, want = INTEGERS[dtype], Arrays()
    arrays: Arrays = {"x": drawn(kind, (5, 3)), "y": drawn(kind, (3,), 1)}
    arrays["index"] = np.array([9, 0, 3, 3])
    x, y = arrays["x"], arrays["y"]
    want = {"z": np.concatenate([(x + y) * x, x - y])[arrays["index"]], "more": x > y}
    want["f"] = (x - y).astype(np.float32)
    for got in (interpreted(made, arrays), rnncc.compile(import_model(made)).run(arrays)):
        for name, array in want.items():
            assert got[name].dtype == array.dtype
            np.testing.assert_array_equal(got[name], array)


@pytest.mark.peers
def test_half_precision_recurrence() -> None:
    """Weights, sequence and states of float16 are computed with as float32."""
    pytest.importorskip("onnxruntime")
    hidden, size, scale = 6, 4, np.float16(0.3)
    constants = {
        "w": drawn(np.float16, (1, 3 * hidden, size)) * scale,
        "r": drawn(np.float16, (1, 3 * hidden, hidden), 1) * scale,
        "b": drawn(np.float16, (1, 6 * hidden), 2) * scale,
    }
    made = model(
        [
            node("Mul", "x x", "s"),
            node("GRU", "s w r b", "y last", hidden_size=hidden),
            node("Softmax", "last", "p", axis=-1),
        ],
        [info("x", ["T", "N", size], "f16")],
        [info(n, None, "f16") for n in ("y", "p")],
        constants,
    )
    for t, n in ((1, 1), (7, 3)):
        x: Arrays = {"x": drawn(np.float16, (t, n, size))}
        want = by_onnxruntime(made, x)
        for got in (interpreted(made, x), rnncc.compile(import_model(made)).run(x)):
            for name, array in want.items():
                assert got[name].dtype == np.float16
                np.testing.assert_allclose(got[name], array, atol=2e-3)


def test_header_and_wrapper_tell_the_types(tmp_path: Any) -> None:
    nodes = [node("Identity", n, f"{n}_out") for n in ("u8", "i16", "f16", "bf16")]
    names = [n.input[0] for n in nodes]
    made = model(nodes, [info(n, [2], n) for n in names], [info(f"{n}_out", [2], n) for n in names])
    built = rnncc.build(import_model(made), out=tmp_path, name="net")
    assert built.header is not None and built.wrapper is not None
    header, wrapper = built.header.read_text(), built.wrapper.read_text()
    for text in (
        "const uint8_t *u8",
        "const int16_t *i16",
        "const uint16_t *f16",
        "uint16_t *bf16",
    ):
        assert text in header
    assert "f16: float16 [2]" in wrapper and "bf16: bfloat16 (as uint16) [2]" in wrapper


def test_no_gradients_of_half_precision() -> None:
    made = model([node("Mul", "x x", "y")], [info("x", [2], "f16")], [info("y", None, "f16")])
    with pytest.raises(CompileError, match="computes float16, of which there are no gradients"):
        rnncc.compile(made, train=True)


CASTS = {
    "f32": [1.5, -0.0, 1e-40, 3.4e38, np.nan, np.inf],
    "f16": [1.5, 6e-8, -65504.0, np.nan, -np.inf],
    "f64": [1 + 2**-11 + 2**-30, 1 + 2**-11, 65519.99999999, 2**-25 * (1 + 2**-40), 1e300, -7.9],
    "i64": [2**53 + 1, -(2**63), 2**63 - 1, -5],
    "i32": [-(2**31), 2**31 - 1, 0],
    "u8": [255, 0, 7],
    "i8": [-128, 127, 0],
    "u32": [2**32 - 1, 0, 3],
    "i1": [True, False],
}


@pytest.mark.peers
@pytest.mark.parametrize("constant", [False, True])
def test_casts_from_and_to_doubles(constant: bool) -> None:
    """The bits of ONNX Runtime, of numbers that the other type holds; to float16 by float32."""
    pytest.importorskip("onnxruntime")
    for other, numbers in CASTS.items():
        x = np.array(numbers, NUMPY[other])
        inputs, held = ([], {"x": x}) if constant else ([info("x", ["N"], other)], {})
        made = model(
            [node("Cast", "x", "y", to=KINDS["f64"])], inputs, [info("y", None, "f64")], held
        )
        assert_same_bits(made, {} if constant else {"x": x})
    for other in CASTS:
        fits = CASTS[other] if other not in FLOATS16 else CASTS["f64"]
        x = np.array(fits, np.float64)
        x = x[:1] if other == "i64" else x[np.isfinite(x)]
        inputs, held = ([], {"x": x}) if constant else ([info("x", ["N"], "f64")], {})
        made = model(
            [node("Cast", "x", "y", to=KINDS[other])], inputs, [info("y", None, other)], held
        )
        assert_same_bits(made, {} if constant else {"x": x})


BITS = (
    *(("f32", "i32"), ("i32", "f32"), ("f32", "u32"), ("u32", "f32"), ("f64", "i64")),
    *(("i64", "f64"), ("f64", "u64"), ("u64", "i64"), ("u64", "f64"), ("i32", "u32")),
    *(("i8", "u8"), ("u8", "i8"), ("u16", "i16"), ("i1", "u8"), ("f32", "f32")),
)


@pytest.mark.parametrize(("old", "new"), BITS)
def test_bits_as_another_type(old: str, new: str) -> None:
    """Computed and known ones; ONNX Runtime has no BitCast, NumPy's views have the bits."""
    width = np.dtype(NUMPY[old]).itemsize
    numbers = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 0x3FC00000, 0x80000001, 0x40490FDB3F800000]
    x = np.array(numbers, np.uint64).view(f"u{width}").view(NUMPY[old])
    x = x % 2 == 1 if old == "i1" else x
    want = x.view(NUMPY[new])
    for inputs, held in (([info("x", ["N"], old)], {}), ([], {"x": x})):
        cast = node("BitCast", "x", "y", to=KINDS[new])
        made = model([cast], inputs, [info("y", None, new)], held, opset=26)
        arrays: Arrays = {"x": x} if inputs else {}
        for got in (interpreted(made, arrays), rnncc.compile(made).run(arrays)):
            assert got["y"].dtype == want.dtype
            assert got["y"].tobytes() == want.tobytes()


def test_bits_of_one_number_have_no_axes() -> None:
    cast = node("BitCast", "x", "y", to=KINDS["i32"])
    made = model([cast], [info("x", [], "f32")], [info("y", [], "i32")], opset=26)
    arrays: Arrays = {"x": np.array(1.5, np.float32)}
    for got in (interpreted(made, arrays), rnncc.compile(made).run(arrays)):
        assert (got["y"].shape, got["y"].item()) == ((), 0x3FC00000)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("f16", "i16", "takes the bits of float16 for int16"),
        ("u8", "i1", "takes the bits of uint8 for bool"),
        ("f32", "f64", "takes the bits of float32 for float64"),
    ],
)
def test_bits_that_are_refused(old: str, new: str, why: str) -> None:
    cast = node("BitCast", "x", "y", to=KINDS[new])
    made = model([cast], [info("x", ["N"], old)], [info("y", None, new)], opset=26)
    with pytest.raises(CompileError, match=why):
        import_model(made)


FLOATS16 = ("f16", "f32", "f64")


def assert_same_bits(made: Any, arrays: Arrays) -> None:
    want = by_onnxruntime(made, arrays)["y"]
    for got in (interpreted(made, arrays), rnncc.compile(import_model(made)).run(arrays)):
        assert got["y"].dtype == want.dtype
        np.testing.assert_array_equal(got["y"], want)


@pytest.mark.peers
def test_uint64() -> None:
    """Moved, added and multiplied modulo 2^64, cast to and from other integers."""
    nodes = [
        node("Mul", "x k", "m"),
        node("Add", "m x", "s"),
        node("Equal", "s x", "same"),
        node("Less", "s k", "less"),
        node("Concat", "s k1", "y", axis=0),
        node("Cast", "s", "low", to=KINDS["i32"]),
        node("Cast", "low", "back", to=KINDS["u64"]),
        node("Cast", "x", "rows", to=KINDS["i64"]),
    ]
    kinds = {"y": "u64", "same": "i1", "less": "i1", "low": "i32", "back": "u64", "rows": "i64"}
    factor = np.array(11400714819323198485, np.uint64)
    made = model(
        nodes,
        [info("x", ["N"], "u64")],
        [info(name, None, kind) for name, kind in kinds.items()],
        {"k": factor, "k1": factor.reshape(1)},
    )
    x = {"x": np.array([0, 3, 2**63 + 1, 2**64 - 1], np.uint64)}
    want = by_onnxruntime(made, x)
    for got in (interpreted(made, x), rnncc.compile(import_model(made)).run(x)):
        for name, array in want.items():
            assert got[name].dtype == array.dtype
            np.testing.assert_array_equal(got[name], array)


def test_uint64_is_not_computed_with_where_its_sign_matters() -> None:
    made = model(
        [node("TopK", "x k", "y i")],
        [info("x", ["N"], "u64")],
        [info("y", None)],
        {"k": np.array([1])},
    )
    with pytest.raises(CompileError, match="computes with uint64"):
        import_model(made)


@pytest.mark.peers
def test_uint64_where_its_sign_matters() -> None:
    """Quotients, extrema, shifts, limits and floats of numbers beyond 2^63."""
    nodes = [
        *(node(kind, "x k", kind.lower()) for kind in ("Div", "Mod", "Min", "Max")),
        node("BitShift", "x p", "shift", direction="RIGHT"),
        node("Clip", "x low high", "clip"),
        node("Cast", "x", "floats", to=KINDS["f32"]),
        node("Cast", "floats", "back", to=KINDS["u64"]),
        node("Sign", "x", "sign"),
    ]
    kinds = {n.output[0]: "f32" if n.output[0] == "floats" else "u64" for n in nodes}
    limits = {"low": np.array(7, np.uint64), "high": np.array(2**63 + 9, np.uint64)}
    inputs = [info(name, ["N"], "u64") for name in ("x", "k", "p")]
    made = model(
        nodes,
        inputs,
        [info(*pair) for pair in ((n, None, k) for n, k in kinds.items())],
        limits,
        opset=13,
    )
    large, most = 2**63 + 2**40 + 1, 2**64 - 2**41
    x = np.array([0, 9, 2**63 - 1, large, most, most, large], np.uint64)
    k = np.array([3, 4, 2**63 + 5, 3, 2**63 + 5, 7, most], np.uint64)
    arrays = {"x": x, "k": k, "p": np.array([1, 0, 62, 63, 1, 5, 0], np.uint64)}
    want = by_onnxruntime(made, arrays)
    for got in (interpreted(made, arrays), rnncc.compile(import_model(made)).run(arrays)):
        for name, array in want.items():
            assert got[name].dtype == array.dtype
            np.testing.assert_array_equal(got[name], array, err_msg=name)


@pytest.mark.peers
def test_integers_whose_results_are_no_integers() -> None:
    """Powers by computed exponents, norms and logarithms of sums, rounded towards zero; sums of
    products by letters."""
    nodes = [
        node("Pow", "x e", "power"),
        node("Pow", "x f", "of_floats"),
        node("ReduceL2", "x", "norm", axes=[1], keepdims=0),
        node("ReduceLogSum", "e", "log", axes=[0], keepdims=0),
        node("Einsum", "x e", "sums", equation="ij,kj->ik"),
    ]
    inputs = [info("x", ["N", 4], "i64"), info("e", ["N", 4], "i64"), info("f", ["N", 4])]
    names = ("power", "of_floats", "norm", "log", "sums")
    made = model(nodes, inputs, [info(name, None, "i64") for name in names], opset=17)
    arrays = {
        "x": np.array([[3, -3, 2, 7], [-1, -1, 1, 5]]),
        "e": np.array([[3, 3, 0, 18], [5, 64, 7, 1]]),
        "f": np.array([[2.5, 3, 0.5, 1], [2, 3, -7, 0.4]], np.float32),
    }
    want = by_onnxruntime(made, arrays)
    for got in (interpreted(made, arrays), rnncc.compile(import_model(made)).run(arrays)):
        for name, array in want.items():
            np.testing.assert_array_equal(got[name], array, err_msg=name)


@pytest.mark.peers
@pytest.mark.parametrize("dtype", ["i32", "i64"])
def test_products_and_means_of_integers(dtype: str) -> None:
    nodes = [
        node("MatMul", "x w", "y"),
        node("MatMul", "x v", "z"),
        node("ReduceMean", "x", "mean", axes=[1], keepdims=0),
    ]
    inputs = [info("x", ["N", "T", 3], dtype), info("w", ["N", 3, 2], dtype), info("v", [3], dtype)]
    made = model(nodes, inputs, [info(n, None, dtype) for n in ("y", "z", "mean")], opset=13)
    shapes = {"x": (2, 5, 3), "w": (2, 3, 2), "v": (3,)}
    kind = NUMPY[dtype]
    arrays: Arrays = {n: drawn(np.int8, shape).astype(kind) for n, shape in shapes.items()}
    arrays["w"][0] *= 1 << 30  # the sums wrap around in 32 bits
    want = by_onnxruntime(made, arrays)
    for got in (interpreted(made, arrays), rnncc.compile(import_model(made)).run(arrays)):
        for name, array in want.items():
            assert got[name].dtype == array.dtype
            np.testing.assert_array_equal(got[name], array)


@pytest.mark.parametrize("number", [2**53 + 1, 2**63 - 1])
def test_large_integers_around_and_everywhere(number: int) -> None:
    """No float64 holds them."""
    value = numpy_helper.from_array(np.array([number]))
    nodes = [node("Pad", "x pads k", "y"), node("Shape", "x", "s")]
    nodes += [node("ConstantOfShape", "s", "z", value=value)]
    outputs = [info("y", None, "i64"), info("z", None, "i64")]
    constants = {"pads": np.array([1, 2]), "k": np.array(number)}
    made, x = model(nodes, [info("x", ["N"], "i64")], outputs, constants), np.array([3])
    for got in (rnncc.compile(made).run({"x": x}), interpreted(made, {"x": x})):
        np.testing.assert_array_equal(got["y"], [number, 3, number, number])
        np.testing.assert_array_equal(got["z"], [number])


def test_integers_that_do_not_fit_a_product() -> None:
    inputs = [info("x", [2, 3], "i32"), info("w", [2, 3], "i32")]
    made = model([node("MatMul", "x w", "y")], inputs, [info("y", None, "i32")])
    with pytest.raises(CompileError, match=r"\(MatMul\): multiplies 2 x 3 by 2 x 3"):
        import_model(made)


@pytest.mark.parametrize("dtype", ["i8", "u8"])
@pytest.mark.parametrize("kind", ["ReduceMax", "ReduceMin"])
def test_extrema_of_no_elements_are_limits_of_the_type(kind: str, dtype: str) -> None:
    nodes = [node(kind, "x", "y", axes=[1], keepdims=0)]
    made = model(nodes, [info("x", [1, "T"], dtype)], [info("y", None, dtype)], opset=13)
    y = rnncc.compile(made).run({"x": np.zeros((1, 0), NUMPY[dtype])})["y"]
    limits = np.iinfo(NUMPY[dtype])
    assert y.tolist() == [limits.min if kind == "ReduceMax" else limits.max]


def test_a_layer_of_doubles() -> None:
    """Computed in them: constants, states and functions are no float32."""
    hidden, size = 6, 4
    constants = {
        "w": drawn(np.float64, (2, 4 * hidden, size)),
        "r": drawn(np.float64, (2, 4 * hidden, hidden), 1) * 0.3,
        "b": drawn(np.float64, (2, 8 * hidden), 2),
    }
    nodes = [
        node("LSTM", "x w r b", "y last", hidden_size=hidden, direction="bidirectional", clip=3.0),
        node("Gelu", "last", "g"),
        node("Softmax", "g", "p", axis=-1),
        node("Atan", "p", "a"),
        node("ReduceLogSumExp", "a", "z", keepdims=0),
    ]
    made = model(
        nodes,
        [info("x", ["T", "N", size], "f64")],
        [info(n, None, "f64") for n in ("y", "p", "z")],
        constants,
        opset=20,
    )
    x: Arrays = {"x": drawn(np.float64, (5, 3, size), 3)}
    want, got = interpreted(made, x), rnncc.compile(import_model(made)).run(x)
    for name, array in want.items():
        assert got[name].dtype == array.dtype == np.float64
        np.testing.assert_allclose(got[name], array, 1e-13, 1e-13)
    single = {n: a.astype(np.float32) for n, a in constants.items()}
    narrow = model(
        nodes,
        [info("x", ["T", "N", size])],
        [info(n, None) for n in ("y", "p", "z")],
        single,
        opset=20,
    )
    near = interpreted(narrow, {"x": x["x"].astype(np.float32)})
    for name, array in near.items():
        np.testing.assert_allclose(got[name], array, 1e-4, 1e-5)
