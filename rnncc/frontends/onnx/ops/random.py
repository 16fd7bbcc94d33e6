"""Random numbers: which ones are drawn follows from a seed, an input of the library.

The distributions are the standard's, the numbers are others than ONNX Runtime's, whatever seed a
node has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.ir import SSAValue

from rnncc.frontends.onnx.captures import seed_of
from rnncc.frontends.onnx.inputs import dtype_name
from rnncc.frontends.onnx.node import FLOATS, INTEGERS, STORED, Node, OnnxOperator
from rnncc.ir.dims import Dim, product
from rnncc.ir.types import dims_of, dtype_of
from rnncc.nn.random import categories, standard_normal

Drawing = Callable[[Node, Sequence[Dim], str], SSAValue]


def _uniform(n: Node, dims: Sequence[Dim], dtype: str) -> SSAValue:
    low, high = n.real("low", 0.0), n.real("high", 1.0)
    drawn = _drawn(n, dims, dtype)
    return n.b.add(n.b.mul(drawn, n.full(high - low, drawn)), n.full(low, drawn))


def _normal(n: Node, dims: Sequence[Dim], dtype: str) -> SSAValue:
    mean, scale = n.real("mean", 0.0), n.real("scale", 1.0)
    drawn = standard_normal(n.b, _drawn(n, dims, dtype), _drawn(n, dims, dtype))
    return n.b.add(n.b.mul(drawn, n.full(scale, drawn)), n.full(mean, drawn))


def _drawn(n: Node, dims: Sequence[Dim], dtype: str) -> SSAValue:
    """Numbers in [0, 1): each use draws others."""
    seed = seed_of(n.scope)
    if seed is None:
        raise n.unsupported("draws random numbers here", "draw them before the loop or branch")
    index = n.b.reshape(n.b.iota([product(dims)], 0), dims)
    return n.b.cast(n.b.uniform(seed, index, next(n.scope.model.draws)), dtype)


def _of_shape(draw: Drawing, formula: str) -> Callable[[Node], SSAValue]:
    def build(n: Node) -> SSAValue:
        dims = [Dim.of(size) for size in n.integers("shape")]
        if any(int(size) < 0 for size in dims):
            raise n.error(f"asks for the shape {', '.join(map(str, dims))}")
        return draw(n, dims, _dtype(n, dtype_name(n.integer("dtype", 1))))

    build.__doc__ = f"{formula}, of a shape. {_SEED}"
    return build


def _like(draw: Drawing, formula: str) -> Callable[[Node], SSAValue]:
    def build(n: Node) -> SSAValue:
        has_dtype = n.given("dtype")
        return draw(
            n,
            n.dims(),
            _dtype(n, dtype_name(n.integer("dtype")) if has_dtype else n.value(0).dtype),
        )

    build.__doc__ = f"{formula}, of the shape of X. {_SEED}"
    return build


def _dtype(n: Node, dtype: str) -> str:
    if dtype not in FLOATS:
        raise n.unsupported(f"draws {dtype}, supported: {', '.join(FLOATS)}")
    return dtype


def _bernoulli(n: Node) -> SSAValue:
    """1 with the probability that an element of X is, else 0. They follow from `seed`, too.

    Refused: elements other than floats.
    """
    chances = n.x(0, FLOATS)
    dtype = dtype_name(n.integer("dtype")) if n.given("dtype") else n.value(0).dtype
    if dtype not in STORED:
        raise n.unsupported(f"draws {dtype}, which is not supported")
    # the standard's definition by others has ones where its text has zeros
    below = n.b.compare("lt", _drawn(n, dims_of(chances), dtype_of(chances)), chances)
    return n.b.cast(below, dtype)


def _multinomial(n: Node) -> SSAValue:
    """Places along the last axis of X, each as likely as e to the power of its element is a part of
    the row's sum. They follow from `seed`, too.

    Refused: elements other than floats; other than two axes.
    """
    logs, dtype = n.x(0, FLOATS), dtype_name(n.integer("dtype", 6))
    if len(n.dims()) != 2 or dtype not in INTEGERS:
        raise n.unsupported(f"draws {dtype} from {len(n.dims())} axes, supported: 2, integers")
    dims = [dims_of(logs)[0], Dim.of(n.integer("sample_size", 1))]
    return n.b.cast(categories(n.b, logs, _drawn(n, dims, dtype_of(logs))), dtype)


def _dropout(n: Node) -> list[Any]:
    """X, and a mask that is all true: nothing is dropped at inference. In training mode each
    element is 0 with the probability `ratio`, else divided by 1 - ratio; which ones follows from
    `seed`, too.

    Refused: a mode or a ratio that is computed; training mode by a constant within a loop's or a
    branch's own graph.
    """
    value, trains = n.value(0), n.has(2) and bool(n.scalar(2))
    ratio = float(n.scalar(1)) if trains and n.has(1) else 0.5
    if not trains or ratio == 0:
        return [value, *([n.b.fill(1, value.dims, "i1")] if len(n.op.output) > 1 else [])]
    x = n.x(0, FLOATS)
    if not 0 < ratio < 1:
        raise n.error(f"has the ratio {ratio}, expected one from 0 to below 1")
    drawn = _drawn(n, dims_of(x), dtype_of(x))
    kept = n.b.compare("ge", drawn, n.full(ratio, drawn))
    y = n.b.select(kept, n.b.mul(x, n.full(1 / (1 - ratio), x)), n.full(0, x))
    return [y, kept][: max(len(n.op.output), 1)]


_SEED = (
    "They follow from an input `seed` that the library has, and are others than ONNX Runtime's.\n\n"
    "Refused: elements other than float32 and float64."
)
_EQUAL = "Equally distributed random numbers from low up to high"
_NORMAL = "Random numbers of a normal distribution"

OPERATORS: dict[str, OnnxOperator] = {
    "RandomUniform": OnnxOperator(_of_shape(_uniform, _EQUAL)),
    "RandomUniformLike": OnnxOperator(_like(_uniform, _EQUAL)),
    "RandomNormal": OnnxOperator(_of_shape(_normal, _NORMAL)),
    "RandomNormalLike": OnnxOperator(_like(_normal, _NORMAL)),
    "Bernoulli": OnnxOperator(_bernoulli),
    "Multinomial": OnnxOperator(_multinomial),
    "Dropout": OnnxOperator(_dropout),
}
