"""Random numbers: which ones are drawn follows from a seed, an input of the library.

The distributions are the standard's, the numbers are others than ONNX Runtime's, whatever seed a
node has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from rnncc.frontends.onnx.inputs import dtype_name
from rnncc.frontends.onnx.node import FLOATS, STORED, Node, OnnxOperator
from rnncc.ir.dims import Dim, product
from rnncc.ir.types import dims_of, dtype_of
from rnncc.nn.random import standard_normal

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
    model = n.scope.model
    seed = model.seed(n.b)
    if seed is None:
        raise n.unsupported("draws random numbers in a loop or a branch", "draw them before it")
    index = n.b.reshape(n.b.iota([product(dims)], 0), dims)
    return n.b.cast(n.b.uniform(seed, index, next(model.draws)), dtype)


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
        given = n.given("dtype")
        return draw(
            n, n.dims(), _dtype(n, dtype_name(n.integer("dtype")) if given else n.value(0).dtype)
        )

    build.__doc__ = f"{formula}, of the shape of X. {_SEED}"
    return build


def _dtype(n: Node, dtype: str) -> str:
    if dtype not in FLOATS:
        raise n.unsupported(f"draws {dtype}, supported: {', '.join(FLOATS)}")
    return dtype


def _bernoulli(n: Node) -> SSAValue:
    """1 with the probability that an element of X is, else 0. They follow from `seed`, too.

    Refused: in loops and branches; elements other than floats.
    """
    chances = n.x(0, FLOATS)
    dtype = dtype_name(n.integer("dtype")) if n.given("dtype") else n.value(0).dtype
    if dtype not in STORED:
        raise n.unsupported(f"draws {dtype}, which is not supported")
    # the standard's definition by others has ones where its text has zeros
    below = n.b.compare("lt", _drawn(n, dims_of(chances), dtype_of(chances)), chances)
    return n.b.cast(below, dtype)


_SEED = (
    "They follow from an input `seed` that the library has, and are others than ONNX Runtime's.\n\n"
    "Refused: in loops and branches; elements other than float32 and float64."
)
_EQUAL = "Equally distributed random numbers from low up to high"
_NORMAL = "Random numbers of a normal distribution"

OPERATORS: dict[str, OnnxOperator] = {
    "RandomUniform": OnnxOperator(_of_shape(_uniform, _EQUAL)),
    "RandomUniformLike": OnnxOperator(_like(_uniform, _EQUAL)),
    "RandomNormal": OnnxOperator(_of_shape(_normal, _NORMAL)),
    "RandomNormalLike": OnnxOperator(_like(_normal, _NORMAL)),
    "Bernoulli": OnnxOperator(_bernoulli),
}
