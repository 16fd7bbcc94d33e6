"""Random quantised graphs beside ONNX Runtime: `python -m tests.frontends.onnx.random_quantised`.

Products, convolutions and elementwise operators on quantised tensors, forms and types drawn at
random: zero points, scales by channel, transposed and broadcast operands, groups, pads.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from onnx import TensorProto, helper

import rnncc
from rnncc.frontends.onnx.importer import import_model
from tests.frontends.onnx.models import by_onnxruntime, info, interpreted, model, node
from tests.golden import Arrays

Made = tuple[Any, Arrays]
TYPES = {"u8": np.uint8, "i8": np.int8}


class Draw:
    """Random tensors and choices."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def one(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def numbers(self, dtype: str, shape: tuple[int, ...]) -> Any:
        limits = np.iinfo(TYPES[dtype])
        edge = self.one(True, False)  # saturated values at times
        values = self.rng.integers(limits.min, limits.max, shape, endpoint=True)
        values = np.where(self.rng.random(shape) < 0.2, limits.max, values) if edge else values
        return values.astype(TYPES[dtype])

    def zero(self, dtype: str, shape: tuple[int, ...] = ()) -> Any:
        usual = 128 if dtype == "u8" else 0
        return self.one(np.full(shape, usual, TYPES[dtype]), self.numbers(dtype, shape))

    def scale(self, shape: tuple[int, ...] = ()) -> Any:
        return self.rng.uniform(0.005, 0.05, shape).astype(np.float32)

    def floats(self, *shape: int) -> Any:
        return (self.rng.standard_normal(shape) * self.one(0.1, 1, 10)).astype(np.float32)

    def size(self, most: int = 9) -> int:
        return int(self.rng.integers(1, most + 1))


def matmul_integer(d: Draw) -> Made:
    """Computed rows by constant or computed weights, with zero points or without."""
    lead = d.one((), (d.size(3),))
    rows, depth, units = d.size(), d.size(40), d.size(40)
    a, w = d.one(("u8", "i8"), ("u8", "u8"), ("i8", "i8"))
    if (a, w) == ("i8", "u8"):
        w = "i8"
    weights, w_zero = d.numbers(w, (depth, units)), d.zero(w, d.one((), (units,)))
    zeros = d.one("az wz", "az", "_ wz", "")
    inputs = [info("a", [*("L" for _ in lead), "M", depth], a)]
    arrays: Arrays = {"a": d.numbers(a, (*lead, rows, depth))}
    constants = {"w": weights, "wz": w_zero, "az": d.zero(a)}
    if d.one(True, False):
        inputs.append(info("w", [depth, units], w))
        arrays["w"] = constants.pop("w")
    used = {k: v for k, v in constants.items() if k == "w" or k in zeros.split()}
    made = model(
        [node("MatMulInteger", f"a w {zeros}".strip(), "y")],
        inputs,
        [info("y", None, "i32")],
        used,
    )
    return made, arrays


def dynamic_chain(d: Draw) -> Made:
    """As the quantiser writes a linear layer: range, product, scales, bias; twice."""
    sizes, nodes, constants = [d.size(30) for _ in range(3)], [], dict[str, Any]()
    name = "x"
    for at in range(2):
        w = d.one("u8", "i8")
        channels = d.one((), (sizes[at + 1],))
        constants |= {
            f"w{at}": d.numbers(w, (sizes[at], sizes[at + 1])),
            f"z{at}": d.zero(w, channels),
            f"s{at}": d.scale(channels),
            f"b{at}": d.floats(sizes[at + 1]),
        }
        nodes += [
            node("DynamicQuantizeLinear", name, f"q{at} qs{at} qz{at}"),
            node("MatMulInteger", f"q{at} w{at} qz{at} z{at}", f"m{at}"),
            node("Cast", f"m{at}", f"f{at}", to=TensorProto.FLOAT),
            node("Mul", f"qs{at} s{at}", f"ss{at}"),
            node("Mul", f"f{at} ss{at}", f"g{at}"),
            node("Add", f"g{at} b{at}", f"y{at}"),
        ]
        name = f"y{at}"
    made = model(nodes, [info("x", ["N", "T", sizes[0]])], [info(name, None)], constants)
    return made, {"x": d.floats(d.size(4), d.size(), sizes[0])}


def qlinear_matmul(d: Draw) -> Made:
    """Integers in, integers out."""
    rows, depth, units, kind = d.size(), d.size(40), d.size(30), d.one("u8", "i8")
    channels = d.one((), (units,))
    constants = {
        **{"as": d.scale(), "az": d.zero(kind), "w": d.numbers("i8", (depth, units))},
        **{"ws": d.scale(channels), "wz": np.zeros(channels, np.int8)},
        **{"ys": d.scale() * np.float32(depth), "yz": d.zero(kind)},
    }
    made = model(
        [node("QLinearMatMul", "a as az w ws wz ys yz", "y")],
        [info("a", ["M", depth], kind)],
        [info("y", None, kind)],
        constants,
    )
    return made, {"a": d.numbers(kind, (rows, depth))}


def convolution(d: Draw) -> Made:
    """ConvInteger or QLinearConv over one axis or two, in groups."""
    rank, groups, kind = d.one(1, 2), d.one(1, 1, 2, 4), d.one("u8", "i8")
    channels, units = groups * d.size(3), groups * d.size(3)
    if d.one(True, False):
        channels = units = groups
    taps = [d.size(3) for _ in range(rank)]
    pads = [int(d.rng.integers(0, t)) for t in (*taps, *taps)]
    whole = d.one(True, False)
    w = d.one("u8", "i8") if whole and kind == "u8" else "i8"
    more = {"group": groups, "pads": pads, "dilations": [d.one(1, 2) for _ in taps]}
    constants = {"xz": d.zero(kind), "w": d.numbers(w, (units, channels // groups, *taps))}
    if whole:
        constants["wz"] = d.zero(w)
        nodes = [node("ConvInteger", "x w xz wz", "y", **more)]
    else:
        by_channel = d.one((), (units,))
        constants |= {"xs": d.scale(), "ws": d.scale(by_channel)}
        constants |= {"wz": np.zeros(by_channel, np.int8), "yz": d.zero(kind)}
        constants |= {"ys": d.scale() * 9, "b": d.rng.integers(-9999, 9999, units).astype(np.int32)}
        nodes = [node("QLinearConv", "x xs xz w ws wz ys yz b", "y", **more)]
    sizes = [d.size() + 6 for _ in taps]
    dims = ["N", channels, *(f"S{at}" for at in range(rank))]
    made = model(
        nodes, [info("x", dims, kind)], [info("y", None, "i32" if whole else kind)], constants
    )
    return made, {"x": d.numbers(kind, (d.size(3), channels, *sizes))}


def pairs(d: Draw) -> Made:
    """Quantised and dequantised around a product and a sum, per tensor and per channel."""
    size, units, kind = d.size(30) + d.one(0, 64), d.size(20), d.one("u8", "i8")
    channels, whole = d.one((), (units,)), d.one(True, False)
    shape = (size, units) if whole else (units, size)
    constants = {
        **{"xs": d.scale(), "xz": d.zero(kind), "w": d.numbers("i8", shape)},
        **{"ws": d.scale(channels), "wz": np.zeros(channels, np.int8)},
        **{"ys": d.scale() * 9, "yz": d.zero(kind), "bias": d.floats(units)},
    }
    nodes = [
        node("QuantizeLinear", "x xs xz", "q"),
        node("DequantizeLinear", "q xs xz", "f"),
        node("DequantizeLinear", "w ws wz", "g", axis=int(whole)),
        node("MatMul", "f g", "p") if whole else node("Gemm", "f g", "p", transB=1),
        node("Add", "p bias", "s"),
        node("QuantizeLinear", "s ys yz", "t"),
        node("DequantizeLinear", "t ys yz", "y"),
    ]
    lead = (d.size(3), d.size()) if whole else (d.size(),)
    dims = ["N", "T", size] if whole else ["N", size]
    made = model(nodes, [info("x", dims)], [info("y", None)], constants)
    return made, {"x": d.floats(*lead, size)}


def contributed(d: Draw) -> Made:
    """Elementwise operators of com.microsoft."""
    kind, shape = d.one("u8", "i8"), (d.size(), d.size())
    own = {"as": d.scale(), "az": d.zero(kind), "bs": d.scale(), "bz": d.zero(kind)}
    own |= {"ys": d.scale(), "yz": d.zero(kind)}
    inputs, names = [info("a", ["N", shape[1]], kind)], "a as az ys yz"
    arrays: Arrays = {"a": d.numbers(kind, shape)}
    name = d.one("QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu")
    if name in ("QLinearAdd", "QLinearMul"):
        inputs.append(info("b", ["N", shape[1]], kind))
        arrays["b"], names = d.numbers(kind, shape), "a as az b bs bz ys yz"
    used = {n: own[n] for n in names.split() if n in own}
    nodes = [node(name, names, "y", domain="com.microsoft")]
    made = model(nodes, inputs, [info("y", None, kind)], used)
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return made, arrays


FAMILIES = (matmul_integer, dynamic_chain, qlinear_matmul, convolution, pairs, contributed)


def levels(made: Any, name: str) -> float:
    """How far a result may be off: nothing of exact sums, one level of what is rounded."""
    kinds = {n.op_type for n in made.graph.node}
    if kinds <= {"MatMulInteger", "ConvInteger"}:
        return 0
    if kinds & {"DynamicQuantizeLinear"}:
        return 0
    scale = next((t for t in made.graph.initializer if t.name == "ys"), None)
    step = 1.0 if "QuantizeLinear" not in kinds or scale is None else float(scale_of(scale))
    return 1.001 * step


def scale_of(tensor: Any) -> Any:
    """A scale's number."""
    from onnx import numpy_helper

    return numpy_helper.to_array(tensor).reshape(-1)[0]


def check(seed: int, compiled: bool) -> None:
    """One graph by the interpreter or as machine code."""
    draw = Draw(seed)
    made, arrays = FAMILIES[seed % len(FAMILIES)](draw)
    want = by_onnxruntime(made, arrays)
    got = rnncc.compile(import_model(made)).run(arrays) if compiled else interpreted(made, arrays)
    for name, array in want.items():
        assert got[name].dtype == array.dtype and got[name].shape == array.shape, seed
        apart = np.abs(got[name].astype(np.float64) - array)
        most = levels(made, name)
        small = 1e-4 * max(float(np.abs(array).max(initial=0)), 1) if array.dtype.kind == "f" else 0
        far = apart > max(most, small)
        # of numbers on the edge between two levels the last bit decides
        few = 0.02 if array.dtype.kind == "f" and not most else 0
        assert far.mean() <= few, f"seed {seed}: {made.graph.node[0].op_type} by {apart.max()}"
        rounded = apart > small
        assert rounded.mean() <= 0.1, f"seed {seed}: {rounded.mean():.0%} of the levels are others"


def main() -> None:
    """Many seeds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--interpret", action="store_true", help="by the interpreter alone")
    options = parser.parse_args()
    for seed in range(options.first, options.first + options.count):
        check(seed, not options.interpret)
    print(f"{options.count} models are equal")


if __name__ == "__main__":
    main()
