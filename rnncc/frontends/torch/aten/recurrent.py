"""Recurrent layers and cells of PyTorch, as loops of products and elementwise ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from rnncc.frontends.torch.aten.random import dropped
from rnncc.frontends.torch.site import Site, Table, Value
from rnncc.ir.build import Build, Values
from rnncc.ir.types import dims_of


@dataclass(frozen=True)
class Weights:
    """Of one direction of one layer; a row a unit. None: there is none."""

    w: Value
    u: Value
    b: Value | None = None
    c: Value | None = None
    projection: Value | None = None

    @property
    def inner(self) -> list[Value]:
        """What each step reads."""
        return [v for v in (self.u, self.b, self.c, self.projection) if v is not None]

    def renamed(self, values: Values) -> Weights:
        """The same with other values for `inner`."""
        left = iter(values)
        return Weights(
            self.w,
            next(left),
            None if self.b is None else next(left),
            None if self.c is None else next(left),
            None if self.projection is None else next(left),
        )


Step = Callable[[Build, Value, Values, Weights], list[Value]]
"""(builder, x · wᵀ of a step, states, weights) -> next states, h first."""


def lstm(b: Build, u: Value, states: Values, p: Weights) -> list[Value]:
    """c = f · c' + i · g, h = o · tanh c, gates i, f, g, o; h may be projected"""
    h, c = states
    z = b.add(_biased(b, u, p.b), _biased(b, b.matmul(h, p.u, transpose_b=True), p.c))
    i, f, g, o = _cut(b, z, 4)
    c = b.add(b.mul(b.sigmoid(f), c), b.mul(b.sigmoid(i), b.tanh(g)))
    h = b.mul(b.sigmoid(o), b.tanh(c))
    return [h if p.projection is None else b.matmul(h, p.projection, transpose_b=True), c]


def gru(b: Build, u: Value, states: Values, p: Weights) -> list[Value]:
    """h = (1 - z) · n + z · h', gates r, z, n; r is applied to h's product"""
    (h,) = states
    inner = _cut(b, _biased(b, b.matmul(h, p.u, transpose_b=True), p.c), 3)
    outer = _cut(b, _biased(b, u, p.b), 3)
    r, z = (b.sigmoid(b.add(x, y)) for x, y in zip(outer[:2], inner[:2], strict=True))
    n = b.tanh(b.add(outer[2], b.mul(r, inner[2])))
    return [b.add(b.mul(b.sub(b.full_like(z, 1.0), z), n), b.mul(z, h))]


def elman(function: Callable[[Build, Value], Value]) -> Step:
    """h = f(w x + b + u h' + c)"""

    def step(b: Build, u: Value, states: Values, p: Weights) -> list[Value]:
        product = b.matmul(states[0], p.u, transpose_b=True)
        return [function(b, b.add(_biased(b, u, p.b), _biased(b, product, p.c)))]

    return step


STEPS: dict[str, Step] = {
    "lstm": lstm,
    "gru": gru,
    "rnn_tanh": elman(Build.tanh),
    "rnn_relu": elman(Build.relu),
}


def recurrent(
    at: Site,
    x: Value,
    lengths: Value | None,
    hx: Sequence[Value],
    weights: Sequence[Value],
    kind: str,
    biases: bool,
    layers: int,
    dropout: float,
    both: bool,
    batch_first: bool,
) -> tuple[Value, ...]:
    """All layers and directions; y, the last h and the last c; y is 0 beyond a length"""
    b, ways = at.b, 2 if both else 1
    each = len(weights) // (layers * ways)
    x = b.transpose(x, [1, 0, 2]) if batch_first else x
    lasts: list[list[Value]] = []
    for layer in range(layers):
        x = dropped(at, x, dropout) if layer and dropout else x
        parts: list[Value] = []
        for way in range(ways):
            number = layer * ways + way
            own = _weights(weights[number * each :][:each], biases)
            states = [_row(b, h, number) for h in hx]
            y, finals = _direction(b, kind, x, lengths, states, own, way == 1)
            parts.append(y)
            lasts.append(finals)
        x = b.concat(parts, 2)
    stacked = [
        b.concat([_lifted(b, last) for last in group], 0) for group in zip(*lasts, strict=True)
    ]
    y = b.transpose(x, [1, 0, 2]) if batch_first else x
    return y, *stacked


def cell(kind: str) -> Callable[..., Value | tuple[Value, ...]]:
    """One step, for nn.LSTMCell and its like"""

    def translate(
        at: Site,
        x: Value,
        hx: Value | Sequence[Value],
        w: Value,
        u: Value,
        b: Value | None = None,
        c: Value | None = None,
    ) -> Value | tuple[Value, ...]:
        states = [hx] if isinstance(hx, SSAValue) else list(hx)
        product = at.b.matmul(x, w, transpose_b=True)
        made = STEPS[kind](at.b, product, states, Weights(w, u, b, c))
        return made[0] if len(made) == 1 else tuple(made)

    return translate


def _direction(
    b: Build,
    kind: str,
    x: Value,
    lengths: Value | None,
    states: list[Value],
    p: Weights,
    reverse: bool,
) -> tuple[Value, list[Value]]:
    """One direction of one layer: y [T, N, H], and the states after the last step."""
    projected = b.matmul(x, p.w, transpose_b=True)
    steps, batch, _ = dims_of(x)

    def body(inner: Build, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        new = STEPS[kind](inner, rows[0], carry, p.renamed(consts))
        if lengths is None:
            return new, new[:1]
        there = inner.reshape(inner.compare("lt", rows[1], consts[-1]), (batch, 1))
        held = [inner.select(there, s, old) for s, old in zip(new, carry, strict=True)]
        return held, [inner.select(there, new[0], inner.full_like(new[0], 0.0))]

    if lengths is None:
        finals, ys = b.scan(p.inner, states, [projected], body, reverse)
    else:  # a step that a sequence does not have leaves its state as it is
        time, known = b.iota([steps], 0), b.cast(lengths, "i32")
        finals, ys = b.scan([*p.inner, known], states, [projected, time], body, reverse)
    return ys[0], finals


def _weights(values: Sequence[Value], biases: bool) -> Weights:
    """PyTorch's order: w, u, their biases, the projection."""
    w, u, *rest = values
    bias, c = (rest[0], rest[1]) if biases else (None, None)
    projection = rest[-1] if len(rest) % 2 else None
    return Weights(w, u, bias, c, projection)


def _biased(b: Build, x: Value, bias: Value | None) -> Value:
    return x if bias is None else b.add(x, bias)


def _cut(b: Build, z: Value, count: int) -> list[Value]:
    axis = len(dims_of(z)) - 1
    units = int(dims_of(z)[axis]) // count
    return [b.slice(z, axis, k * units, units) for k in range(count)]


def _row(b: Build, x: Value, number: int) -> Value:
    return b.reshape(b.slice(x, 0, number, 1), dims_of(x)[1:])


def _lifted(b: Build, x: Value) -> Value:
    return b.reshape(x, (1, *dims_of(x)))


OPERATORS: Table = {
    "rnncc::recurrent": recurrent,
    **{f"{kind}_cell": cell(kind) for kind in STEPS},
}
