"""Recurrent models of JAX and Equinox by jax2onnx: `python jax_models.py FOLDER [NAME...]`.

It needs the packages jax, equinox and jax2onnx, and imports nothing of rnncc, so any Python that
has those runs it. Each model becomes `jax_NAME.onnx` with random weights.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnx
from jax import lax
from jax2onnx import to_onnx

WIDTH, UNITS, WORDS, PLACES = 6, 10, 20, 4
_rng = np.random.default_rng(0)


def _weights(*shape: int) -> Any:
    return jnp.asarray(_rng.standard_normal(shape).astype(np.float32) * 0.3)


@dataclass(frozen=True)
class Made:
    """A model to be written.

    Attributes:
        inputs: shapes, with names for open sizes.
    """

    call: Callable[..., Any]
    inputs: list[tuple[int | str, ...]]


W, R, BIAS = _weights(WIDTH, 4 * UNITS), _weights(UNITS, 4 * UNITS), _weights(4 * UNITS)
DECAY, IN, OUT = _weights(WIDTH, PLACES), _weights(WIDTH, PLACES), _weights(WIDTH, PLACES)
RATE, WORD, NEXT = _weights(WIDTH, WIDTH), _weights(WORDS, WIDTH), _weights(UNITS, WORDS)
_key = jax.random.PRNGKey(0)
GRU, LSTM = eqx.nn.GRUCell(WIDTH, UNITS, key=_key), eqx.nn.LSTMCell(WIDTH, UNITS, key=_key)
NORM, HEAD = eqx.nn.LayerNorm(UNITS), eqx.nn.Linear(UNITS, 2, key=_key)


def _zeros(x: Any) -> Any:
    return jnp.zeros((x.shape[0], UNITS))


def _in_time(x: Any) -> Any:
    return jnp.swapaxes(x, 0, 1)


def _plain(h: Any, x: Any) -> Any:
    return jnp.tanh(x @ W[:, :UNITS] + h @ R[:, :UNITS])


def lstm(x: Any) -> Any:
    def step(state: Any, x: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(x @ W + h @ R + BIAS, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    (h, c), ys = lax.scan(step, (_zeros(x), _zeros(x)), _in_time(x))
    return _in_time(ys), h, c


def gru(x: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        a, b = x @ W[:, : 3 * UNITS], h @ R[:, : 3 * UNITS]
        r, z = (jax.nn.sigmoid(p + q) for p, q in zip(_gates(a), _gates(b), strict=True))
        n = jnp.tanh(a[:, 2 * UNITS :] + r * b[:, 2 * UNITS :])
        h = (1 - z) * n + z * h
        return h, h

    return lax.scan(step, _zeros(x), _in_time(x))


def _gates(x: Any) -> tuple[Any, Any]:
    return x[:, :UNITS], x[:, UNITS : 2 * UNITS]


def backwards(x: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = _plain(h, x)
        return h, h * 2

    ys = lax.scan(step, _zeros(x), jnp.flip(_in_time(x), 0))[1]
    return jnp.flip(ys, 0)


def open_time(x: Any) -> Any:
    return lax.scan(lambda h, x: (_plain(h, x),) * 2, _zeros(x), _in_time(x))[1]


def masked(x: Any, lengths: Any) -> Any:
    def step(h: Any, row: Any) -> Any:
        t, x = row
        h = jnp.where((t < lengths)[:, None], _plain(h, x), h)
        return h, h

    return lax.scan(step, _zeros(x), (jnp.arange(9, dtype=jnp.float32), _in_time(x)))


def nested(x: Any) -> Any:
    """Sentences of words."""

    def outer(h: Any, xs: Any) -> Any:
        h = lax.scan(lambda h, x: (_plain(h, x), None), h, _in_time(xs))[0]
        return h, h

    return lax.scan(outer, _zeros(x), _in_time(x))[1]


def newton(x: Any) -> Any:
    """A square root by iterations that are counted at run time."""

    def body(state: Any) -> Any:
        y, i = state
        return y - (y * y - (jnp.abs(x) + 1)) / (2 * y), i + 1

    return lax.while_loop(lambda state: state[1] < 20, body, (jnp.abs(x) + 1, 0))[0]


def greedy(h: Any) -> Any:
    """Words that are each the last one's likeliest next."""

    def step(state: Any, _: Any) -> Any:
        h, word = state
        h = _plain(h, WORD[word])
        word = jnp.argmax(h @ NEXT, -1).astype(jnp.int32)
        return (h, word), word

    start = h, jnp.zeros(h.shape[0], jnp.int32)
    return _in_time(lax.scan(step, start, None, length=7)[1])


def selective(x: Any) -> Any:
    """A state-space model whose rates depend on the input."""

    def step(state: Any, row: Any) -> Any:
        x, rate = row
        decay = jnp.exp(rate[..., None] * -jnp.exp(DECAY))
        state = decay * state + rate[..., None] * (x @ IN)[:, None, :] * x[..., None]
        return state, jnp.einsum("bdn,bn->bd", state, x @ OUT)

    rates = jax.nn.softplus(x @ RATE)
    start = jnp.zeros((x.shape[0], WIDTH, PLACES))
    return lax.scan(step, start, (_in_time(x), _in_time(rates)))[1]


def best(x: Any) -> Any:
    places = lax.top_k(x[:, :, 0], 3)[1]
    return jnp.take_along_axis(x, places[:, :, None], 1), jnp.sort(x, axis=1)


def one_sequence(x: Any) -> Any:
    h = lax.scan(lambda h, x: (GRU(x, h), None), jnp.zeros(UNITS), x)[0]
    return HEAD(NORM(h))


def many_sequences(x: Any) -> Any:
    def one(x: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            state = LSTM(x, state)
            return state, NORM(state[0])

        (h, _), ys = lax.scan(step, (jnp.zeros(UNITS), jnp.zeros(UNITS)), x)
        return ys, HEAD(h)

    return jax.vmap(one)(x)


def minimal(x: Any) -> Any:
    """A minGRU: gates of the input alone."""

    def step(h: Any, row: Any) -> Any:
        z, n = row
        h = (1 - z) * h + z * n
        return h, h

    xs = _in_time(x)
    gates = jax.nn.sigmoid(xs @ W[:, :UNITS]), xs @ W[:, UNITS : 2 * UNITS]
    return lax.scan(step, _zeros(x), gates)[1]


_X: tuple[int | str, ...] = ("N", 9, WIDTH)
MODELS = {
    "lstm": Made(lstm, [_X]),
    "gru": Made(gru, [(3, 9, WIDTH)]),
    "backwards": Made(backwards, [_X]),
    "open_time": Made(open_time, [("N", "T", WIDTH)]),
    "masked": Made(masked, [_X, ("N",)]),
    "nested": Made(nested, [("N", 5, 4, WIDTH)]),
    "newton": Made(newton, [("N", 4)]),
    "greedy": Made(greedy, [("N", UNITS)]),
    "selective": Made(selective, [_X]),
    "best": Made(best, [("N", 12, WIDTH)]),
    "one_sequence": Made(one_sequence, [(13, WIDTH)]),
    "many_sequences": Made(many_sequences, [("N", 13, WIDTH)]),
    "minimal": Made(minimal, [("N", "T", WIDTH)]),
}


def main() -> None:
    folder, *names = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name in names or MODELS:
        path = Path(folder, f"jax_{name}.onnx")
        onnx.save(to_onnx(MODELS[name].call, inputs=MODELS[name].inputs, model_name=name), path)
        print(name, flush=True)


if __name__ == "__main__":
    main()
