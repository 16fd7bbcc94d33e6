"""Random numbers: which ones are drawn follows from a seed, an input of the net.

The distributions are PyTorch's, the numbers are others. No gradient of the parameters of a
distribution is other than zeros, as in PyTorch; `torch.distributions` reparameterises by itself.
"""

from __future__ import annotations

from typing import Any

from rnncc.frontends.torch.aten.comparisons import place_among
from rnncc.frontends.torch.node_context import NodeContext, Operand, Table, Value, rank_of
from rnncc.ir.dims import Dim
from rnncc.ir.types import FLOATS, dims_of
from rnncc.nn.random import exponential as exponential_numbers
from rnncc.nn.random import standard_normal
from rnncc.nn.reduction import cumulate

LARGEST_RANGE = 2**24
"""Of integers: there are as many numbers in [0, 1)."""


def dropout(at: NodeContext, x: Value, p: float, train: bool) -> Value:
    """x with some elements 0, the others larger by as much; x itself out of training"""
    return dropped(at, x, p) if train else x


def native_dropout(at: NodeContext, x: Value, p: float, train: bool | None) -> tuple[Value, Value]:
    """The same, and where it was kept"""
    if train is False or p == 0:
        return x, at.b.fill(1, dims_of(x), "i1")
    kept = _kept(at, x, p)
    return _masked(at, x, kept, p), kept


def dropped(at: NodeContext, x: Value, p: float) -> Value:
    """x with each element 0 with probability p, and divided by 1 - p otherwise."""
    return x if p == 0 else _masked(at, x, _kept(at, x, p), p)


def _kept(at: NodeContext, x: Value, p: float) -> Value:
    drawn = at.random.uniform(at.b, dims_of(x))
    return at.b.compare("ge", drawn, at.b.fill(p, ()))


def _masked(at: NodeContext, x: Value, kept: Value, p: float) -> Value:
    grown = at.b.mul(x, at.b.full_like(x, 1 / (1 - p))) if p < 1 else x
    return at.b.select(kept, grown, at.b.full_like(x, 0.0))


def uniform(at: NodeContext, x: Value, low: float = 0.0, high: float = 1.0, **_: Any) -> Value:
    """Numbers in [low, high)"""
    return at.b.add(at.scaled(_drawn(at), high - low), at.value(low))


def rand(at: NodeContext, *_: Any, **__: Any) -> Value:
    """Numbers in [0, 1)"""
    return _drawn(at)


def bernoulli(at: NodeContext, x: Value, p: Operand | None = None, **_: Any) -> Value:
    """1 with a probability, else 0; x holds the probabilities where p is not given, and they have
    a gradient, of zeros"""
    b = at.b
    chances = x if p is None else b.fill(p, ()) if isinstance(p, (int, float)) else p
    drawn = at.random.uniform(b, at.dims)
    below = b.compare("lt", drawn, b.cast(b.stop_gradient(at.value(chances)), "f32"))
    if isinstance(p, (int, float)) or at.dtype not in FLOATS:
        return b.cast(below, at.dtype)
    quarter = at.scaled(chances, 0.25)
    return b.round("even", b.select(below, b.full_like(quarter, 1.0), quarter))


def randn(at: NodeContext, *_: Any, **__: Any) -> Value:
    """Numbers of the standard normal distribution"""
    return standard_normal(at.b, _drawn(at), _drawn(at))


def normal(at: NodeContext, mean: Operand, deviation: Operand = 1.0, *_: Any, **__: Any) -> Value:
    """Numbers of the normal distribution"""
    return at.b.add(at.b.mul(randn(at), _fixed(at, deviation)), _fixed(at, mean))


def normal_like(
    at: NodeContext, x: Value, mean: float = 0.0, deviation: float = 1.0, **_: Any
) -> Value:
    """The same, in the shape of x"""
    return normal(at, mean, deviation)


def log_normal(
    at: NodeContext, x: Value, mean: float = 1.0, deviation: float = 2.0, **_: Any
) -> Value:
    """exp of numbers of the normal distribution"""
    return at.b.exp(normal(at, mean, deviation))


def exponential(at: NodeContext, x: Value, rate: float = 1.0, **_: Any) -> Value:
    """Numbers above 0 of density rate · exp(-rate · x)"""
    return at.scaled(exponential_numbers(at.b, _drawn(at)), 1 / rate)


def randint(at: NodeContext, *bounds: object, **_: object) -> Value:
    """Integers from 0 or the first bound on, below the other"""
    low, high = [0, *(n for n in bounds if isinstance(n, int))][-2:]
    if not 0 < high - low <= LARGEST_RANGE:
        at.refuse(f"integers from {low} to {high} are not supported", "a range of at most 2^24")
    b = at.b
    scaled = b.mul(at.random.uniform(b, at.dims), b.fill(high - low, ()))
    return b.add(b.cast(b.cast(scaled, "i32"), at.dtype), at.value(low))


def multinomial(
    at: NodeContext, x: Value, samples: int, replacement: bool = False, **_: Any
) -> Value:
    """Which of the weights along the last axis is drawn: the first whose running sum is larger"""
    if samples != 1 and not replacement:
        at.refuse("several draws without replacement are not supported", "replacement=True")
    b, last = at.b, rank_of(x) - 1
    sums = cumulate(b, b.cast(b.stop_gradient(x), "f32"), last)
    *rows, size = dims_of(x)
    total = b.slice(sums, last, size - 1, 1)
    drawn = at.random.uniform(b, [*rows, Dim.of(samples)])
    return place_among(at, b.mul(drawn, total), sums, right=True)


def _drawn(at: NodeContext) -> Value:
    return at.value(at.random.uniform(at.b, at.dims))


def _fixed(at: NodeContext, parameter: Operand) -> Value:
    return at.b.stop_gradient(at.value(parameter))


OPERATORS: Table = {
    "dropout": dropout,
    "native_dropout": native_dropout,
    **dict.fromkeys(("rand", "rand_like"), rand),
    "uniform": uniform,
    **dict.fromkeys(("bernoulli.default", "bernoulli.p", "bernoulli.Tensor"), bernoulli),
    **dict.fromkeys(("randn", "randn_like"), randn),
    "normal": normal,
    "normal_functional": normal_like,
    "log_normal": log_normal,
    "exponential": exponential,
    **dict.fromkeys(("randint", "randint_like"), randint),
    "multinomial": multinomial,
}
