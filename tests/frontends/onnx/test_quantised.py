"""Quantised tensors beside ONNX Runtime and NumPy; `random_quantised.py` draws many more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import rnncc
from rnncc.errors import CompileError
from rnncc.frontends.onnx.importer import import_model
from tests.frontends.onnx import random_quantised
from tests.frontends.onnx.models import (
    assert_close,
    by_onnxruntime,
    graph,
    info,
    interpreted,
    model,
    node,
)

T, N, SIZE, H = 5, 3, 4, 6


@pytest.mark.peers
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("per_unit", [False, True])
def test_dynamic_quantize_lstm(per_unit: bool, dtype: Any, direction: str) -> None:
    pytest.importorskip("onnxruntime")
    rng, ways = np.random.default_rng(0), 1 + (direction == "bidirectional")
    constants: dict[str, Any] = {"b": rng.standard_normal((ways, 8 * H)).astype(np.float32) / 4}
    for name, rows in (("w", SIZE), ("r", H)):
        size, limits = (ways, 4 * H) if per_unit else (ways,), np.iinfo(dtype)
        zero = 128 * (dtype == np.uint8) + (0 if per_unit else rng.integers(-9, 9, size))
        constants |= {
            name: rng.integers(limits.min, limits.max, (ways, rows, 4 * H)).astype(dtype),
            f"{name}s": rng.uniform(0.002, 0.01, size).astype(np.float32),
            f"{name}z": (zero * np.ones(size)).astype(dtype),
        }
    names = "x w r b _ _ _ _ ws wz rs rz"
    kind = {"hidden_size": H, "direction": direction, "domain": "com.microsoft"}
    made = model(
        [node("DynamicQuantizeLSTM", names, "y yh yc", **kind)],
        [info("x", ["T", "N", SIZE])],
        [info("y", None), info("yh", None), info("yc", None)],
        constants,
    )
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    for t, n in ((1, 1), (T, N)):
        x = {"x": rng.standard_normal((t, n, SIZE)).astype(np.float32)}
        want = by_onnxruntime(made, x)
        assert_close(interpreted(made, x), want)
        assert_close(rnncc.compile(import_model(made)).run(x), want)


@pytest.mark.peers
def test_the_range_of_x_ends_with_the_longest_sequence() -> None:
    rng, (steps, length) = np.random.default_rng(3), (9, 4)
    x = rng.standard_normal((steps, 1, SIZE)).astype(np.float32)
    x[length:] *= 10
    names = "x w r _ lengths _ _ _ s z s z"
    made = model(
        [node("DynamicQuantizeLSTM", names, "y", hidden_size=H, domain="com.microsoft")],
        [info("x", ["T", "N", SIZE]), info("lengths", ["N"], "i32")],
        [info("y", None)],
        {
            **{"s": np.full(1, 0.01, np.float32), "z": np.zeros(1, np.int8)},
            "w": rng.integers(-99, 99, (1, SIZE, 4 * H), np.int8),
            "r": rng.integers(-99, 99, (1, H, 4 * H), np.int8),
        },
        domains={"com.microsoft": 1},
    )
    arrays = {"x": x, "lengths": np.array([length], np.int32)}
    assert_close(interpreted(made, arrays), by_onnxruntime(made, arrays))


@pytest.mark.parametrize("axis", [0, 1])
def test_dequantised_constants(axis: int) -> None:
    rng = np.random.default_rng(1)
    whole = rng.integers(0, 255, (4, 3)).astype(np.uint8)
    size = whole.shape[axis]
    scale = rng.uniform(0.1, 1, size).astype(np.float32)
    zero = rng.integers(0, 255, size).astype(np.uint8)
    made = model(
        [node("DequantizeLinear", "w s z", "f", axis=axis), node("MatMul", "x f", "y")],
        [info("x", ["N", 4])],
        [info("y", None)],
        {"w": whole, "s": scale, "z": zero},
    )
    x = rng.standard_normal((2, 4)).astype(np.float32)
    wide = [np.expand_dims(a.astype(np.float32), 1 - axis) for a in (zero, scale)]
    want = x @ ((whole - wide[0]) * wide[1])
    np.testing.assert_allclose(interpreted(made, {"x": x})["y"], want, 1e-5, 1e-4)


@pytest.mark.peers
@pytest.mark.parametrize("kind", ["FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "INT4", "UINT2"])
def test_constants_of_few_bits(kind: str) -> None:
    """Floats of 8 bits were read as integers."""
    numbers: Any = [0.1, -0.6, 1.7, 3.0] if "FLOAT" in kind else [0, 1, 2, 3]
    nodes = [node("DequantizeLinear", "w s", "f"), node("Mul", "x f", "y")]
    made = model(nodes, [info("x", ["N", 4])], [info("y", None)], {"s": np.float32(0.5)}, 25)
    made.graph.initializer.append(
        helper.make_tensor("w", TensorProto.DataType.Value(kind), [4], numbers)
    )
    arrays = {"x": np.arange(8, dtype=np.float32).reshape(2, 4)}
    assert_close(interpreted(made, arrays), by_onnxruntime(made, arrays))


@pytest.mark.parametrize(
    ("kind", "number"),
    [("INT4", 1.5), ("UINT2", -0.7), ("FLOAT8E4M3FN", 500.0), ("FLOAT8E8M0", 0.3)],
)
def test_casts_on_which_readers_differ(kind: str, number: float) -> None:
    """ONNX Runtime rounds to integers below 8 bits, and floats of 8 bits may overflow to NaN."""
    to = TensorProto.DataType.Value(kind)
    nodes = [node("Cast", "c", "d", to=to), node("Cast", "d", "f", to=1), node("Add", "x f", "y")]
    made = model(
        nodes, [info("x", [1])], [info("y", None)], {"c": np.array([number], np.float32)}, 25
    )
    with pytest.raises(CompileError, match="casts to"):
        interpreted(made, {"x": np.zeros(1, np.float32)})


@pytest.mark.peers
@pytest.mark.parametrize("seed", range(24))
def test_random_graphs(seed: int) -> None:
    pytest.importorskip("onnxruntime")
    random_quantised.check(seed, compiled=seed >= 12)


def test_products_are_packed_where_weights_are_known() -> None:
    """Weights are held as bytes, in the form that `--precision int8` has."""
    made = random_quantised.dynamic_chain(random_quantised.Draw(0))[0]
    held = sum(np.prod(t.dims) for t in made.graph.initializer if t.name[0] == "w")
    weights = rnncc.compile(import_model(made)).metadata["weights"]
    assert held <= weights < 3 * held + 4096


def test_rounding_has_no_gradient() -> None:
    made = model(
        [node("DynamicQuantizeLinear", "x", "q s z"), node("DequantizeLinear", "q s z", "y")],
        [info("x", ["N", 3])],
        [info("y", None)],
    )
    with pytest.raises(CompileError, match="rounds to integers, of which there are no gradients"):
        rnncc.compile(made, train=True)


@pytest.mark.peers
@pytest.mark.parametrize("known", [False, True], ids=["computed", "known"])
@pytest.mark.parametrize("scales", [1, 3])
@pytest.mark.parametrize("flags", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_layers_of_integers(flags: tuple[int, int], scales: int, known: bool) -> None:
    """QGemm: as floats, and quantised behind a bias, of weights that are computed too."""
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 255, (3, 20)[:: 1 if flags[1] else -1]).astype(np.uint8)
    attributes = {"transA": flags[0], "transB": flags[1], "alpha": 0.5}
    names = "x s z w t o"
    made = model(
        [
            node("QGemm", names, "y", domain="com.microsoft", **attributes),
            node("QGemm", f"{names} c u v", "q", domain="com.microsoft", **attributes),
        ],
        [info("x", [20, "N"] if flags[0] else ["N", 20], "u8")],
        [info("y", None), info("q", None, "u8")],
        {
            **{"s": np.float32(0.01), "z": np.uint8(120), "u": np.float32(0.03)},
            "t": np.full(scales, 0.02, np.float32)[() if scales > 1 else 0],
            "o": np.full(scales, 99, np.uint8)[() if scales > 1 else 0],
            **{"c": np.array([5, 0, -900], np.int32), "v": np.uint8(90)},
            **({"w": weights} if known else {}),
        },
        domains={"com.microsoft": 1},
    )
    arrays = {"x": rng.integers(0, 255, (20, 20)).astype(np.uint8)}
    if not known:
        made.graph.input.append(info("w", list(weights.shape), "u8"))
        arrays["w"] = weights
    want = by_onnxruntime(made, arrays)
    for got in (interpreted(made, arrays), rnncc.compile(made).run(arrays)):
        assert_close(got, want)


@pytest.mark.peers
def test_chosen_and_normalised_numbers() -> None:
    """QLinearWhere, and QLinearSoftmax over axes that Softmax joins before opset 13."""
    nodes = [
        node("QLinearWhere", "k x s z y t o u v", "chosen", domain="com.microsoft"),
        node("QLinearSoftmax", "x s z r w", "soft", domain="com.microsoft", axis=1, opset=11),
    ]
    made = model(
        nodes,
        [info("k", ["N", 1, 1], "i1"), info("x", ["N", 3, 4], "u8"), info("y", [4], "u8")],
        [info("chosen", None, "u8"), info("soft", None, "u8")],
        {
            **{"s": np.float32(0.0211), "z": np.uint8(3), "t": np.float32(0.0511)},
            **{"o": np.uint8(140), "u": np.float32(0.0213), "v": np.uint8(13)},
            **{"r": np.float32(1 / 256), "w": np.uint8(0)},
        },
        domains={"com.microsoft": 1},
    )
    rng = np.random.default_rng(0)
    arrays = {"k": np.array([[[True]], [[False]]])} | {
        name: rng.integers(0, 255, shape).astype(np.uint8)
        for name, shape in (("x", (2, 3, 4)), ("y", (4,)))
    }
    assert_close(interpreted(made, arrays), by_onnxruntime(made, arrays))


@pytest.mark.peers
def test_columns_of_blocks_in_a_loop_s_body() -> None:
    """As ONNX Runtime's tools leave a cell: the blocks are those of the outer graph, and the domain
    is not imported."""
    attributes = {"domain": "com.microsoft", "K": 40, "N": 40, "bits": 4, "block_size": 16}
    nodes = [node("MatMulNBits", "h w s", "p", **attributes), node("Add", "p x", "h2")]
    nodes.append(node("Identity", "h2", "row"))
    step = graph(nodes, [info("h", None), info("x", None)], [info("h2", None), info("row", None)])
    rng = np.random.default_rng(0)
    made = model(
        [node("Scan", "h0 xs", "h ys", body=step, num_scan_inputs=1)],
        [info("h0", [2, 40]), info("xs", ["T", 2, 40])],
        [info("ys", None)],
        {
            "w": rng.integers(0, 255, (40, 3, 8)).astype(np.uint8),
            "s": rng.uniform(0.01, 0.1, (40, 3)).astype(np.float32),
        },
    )
    shapes = {"h0": (2, 40), "xs": (3, 2, 40)}
    arrays = {n: rng.standard_normal(shape).astype(np.float32) for n, shape in shapes.items()}
    assert_close(interpreted(made, arrays), by_onnxruntime(made, arrays))


@pytest.mark.peers
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("kind", ["middle", "bytes", "order"])
def test_columns_of_blocks(kind: str, bits: int) -> None:
    """MatMulNBits of 40 columns in blocks of 16, also in an order as GPTQ leaves them."""
    rng = np.random.default_rng(bits)
    constants = {
        "w": rng.integers(0, 255, (5, 3, 2 * bits)).astype(np.uint8),
        "s": rng.uniform(0.1, 1, (5, 3)).astype(np.float32),
        "z": rng.integers(0, 255, (5, -(-3 * bits // 8))).astype(np.uint8),
        "o": rng.integers(0, 3, 40).astype(np.int32),
    }
    names = {"middle": "x w s", "bytes": "x w s z", "order": "x w s _ o"}[kind]
    more = {"domain": "com.microsoft", "K": 40, "N": 5, "bits": bits, "block_size": 16}
    made = model(
        [node("MatMulNBits", names, "y", **more)],
        [info("x", ["N", "T", 40])],
        [info("y", None)],
        {name: array for name, array in constants.items() if name in names},
        domains={"com.microsoft": 1},
    )
    arrays = {"x": rng.standard_normal((2, 3, 40)).astype(np.float32)}
    if kind == "order" and bits == 2:
        with pytest.raises(CompileError, match="an order of numbers of 2 bits"):
            interpreted(made, arrays)
        return
    if kind == "order" and bits == 8:  # which ONNX Runtime does not run
        weights = (constants["w"].reshape(5, -1)[:, :40] - 128.0) * constants["s"][
            :, constants["o"]
        ]
        want = {"y": np.float32(arrays["x"] @ weights.T)}
    else:
        want = by_onnxruntime(made, arrays)
    assert_close(interpreted(made, arrays), want)


def codes(kind: int, depth: int, size: int, **constants: Any) -> Any:
    """MatMulBnb4 of three rows, an odd number of codes if the depth is."""
    rng, count = np.random.default_rng(kind), 3 * depth
    constants = {
        "w": rng.integers(0, 256, -(-count // 2)).astype(np.uint8),
        "s": rng.uniform(0.1, 1, -(-count // size)).astype(np.float32),
        **constants,
    }
    more = {"domain": "com.microsoft", "K": depth, "N": 3, "block_size": size, "quant_type": kind}
    return model(
        [node("MatMulBnb4", "x w s", "y", **more)],
        [info("x", ["N", "T", depth])],
        [info("y", None)],
        constants,
        domains={"com.microsoft": 1},
    )


@pytest.mark.peers
@pytest.mark.parametrize("kind", [0, 1], ids=["FP4", "NF4"])
@pytest.mark.parametrize(("depth", "size"), [(16, 16), (40, 32), (15, 16)])
def test_codes(kind: int, depth: int, size: int) -> None:
    made = codes(kind, depth, size)
    x = np.random.default_rng(0).standard_normal((2, 3, depth)).astype(np.float32)
    assert_close(interpreted(made, {"x": x}), by_onnxruntime(made, {"x": x}))


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (codes(2, 16, 16), "codes of kind 2"),
        (codes(0, 16, 16, w=np.zeros(23, np.uint8)), "has 23 bytes for 3 rows of 16 codes"),
        (codes(0, 16, 16, s=np.ones(4, np.float32)), "has 4 scales for 48 codes"),
    ],
)
def test_refused_codes(made: Any, why: str) -> None:
    with pytest.raises(CompileError, match=why):
        import_model(made)


@pytest.mark.peers
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", [False, True], ids=["middle", "zeros"])
def test_rows_of_blocks(zeros: bool, bits: int) -> None:
    """GatherBlockQuantized: rows of 40 numbers, of which the last block has 8."""
    rng = np.random.default_rng(0)
    rows, blocks = (20, 2) if bits == 4 else (40, 3)
    constants = {
        "w": rng.integers(0, 255, (6, rows)).astype(np.uint8),
        "s": rng.uniform(0.1, 1, (6, 3)).astype(np.float32),
        **({"o": rng.integers(0, 255, (6, blocks)).astype(np.uint8)} if zeros else {}),
    }
    names = "w x s o" if zeros else "w x s"
    made = model(
        [
            node(
                "GatherBlockQuantized", names, "y", domain="com.microsoft", block_size=16, bits=bits
            )
        ],
        [info("x", ["N", 2], "i64")],
        [info("y", None)],
        constants,
        domains={"com.microsoft": 1},
    )
    arrays = {"x": np.array([[0, 5], [-1, 2], [3, 3]])}
    assert_close(interpreted(made, arrays), by_onnxruntime(made, arrays))


@pytest.mark.peers
@pytest.mark.parametrize("turned", [False, True])
def test_weights_that_are_an_output_too(turned: bool) -> None:
    """A product reads them packed, not the output's copy of them."""
    rng = np.random.default_rng(3)
    numbers = {
        "w": rng.integers(-128, 128, (8, 8)).astype(np.int8),
        **{"sx": np.float32(0.0145), "zx": np.int8(6), "sw": np.float32(0.0034)},
        **{"zw": np.int8(0), "sy": np.float32(0.0083), "zy": np.int8(-33)},
    }
    nodes = [
        node("Transpose" if turned else "Identity", "w", "v"),
        node("QuantizeLinear", "x sx zx", "xq"),
        node("QLinearMatMul", "xq sx zx v sw zw sy zy", "y"),
    ]
    outputs = [info("y", None, "i8"), info("v", None, "i8")]
    made = model(nodes, [info("x", ["N", 8])], outputs, numbers)
    inputs = {"x": 1.5 * rng.standard_normal((5, 8)).astype(np.float32)}
    compiled: Any = rnncc.compile(made)
    assert_close(compiled.run(inputs), by_onnxruntime(made, inputs))
