"""The cells in JAX: the input projection at once, then a scan over steps."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from benchmarks import cells
from rnncc.bench.cases import NET, Case

EPSILON = 1e-5


def forward_of(case: Case) -> tuple[Callable[..., Any], dict[str, Any]] | None:
    """A function of x and a dict of parameters and memory that gives y; and these arrays.

    For a step x has one row. None for a net from a file, or with lengths.

    Raises:
        ImportError: JAX is not installed.
    """
    if case.cell == NET or case.lengths:
        return None
    jax: Any = import_module("jax")
    np: Any = import_module("jax.numpy")
    step = STEPS[case.cell]
    batch, units = case.batch, case.units

    def forward(x: Any, p: dict[str, Any]) -> Any:
        def one(carry: Any, u: Any) -> Any:
            h, c = step(jax, np, p, u, *carry)
            return (h, c), h

        start = np.zeros((batch, units))
        return jax.lax.scan(one, (start, start), x @ p["W"])[1]

    arrays = {**cells.parameters(case), **cells.inputs(case)}
    return forward, {name: np.asarray(array) for name, array in arrays.items()}


def _gates(jax: Any, np: Any, z: Any, c: Any) -> tuple[Any, Any]:
    i, f, g, o = np.split(z, 4, -1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * np.tanh(g)
    return jax.nn.sigmoid(o) * np.tanh(c), c


def _lstm(jax: Any, np: Any, p: Any, u: Any, h: Any, c: Any) -> tuple[Any, Any]:
    return _gates(jax, np, u + h @ p["RW"] + p["b"], c)


def _gru(jax: Any, np: Any, p: Any, u: Any, h: Any, c: Any) -> tuple[Any, Any]:
    units = h.shape[-1]
    u, v = u + p["b"], h @ p["RW"]
    r, z = np.split(jax.nn.sigmoid(u[:, : 2 * units] + v[:, : 2 * units]), 2, -1)
    new = np.tanh(u[:, 2 * units :] + r * (v[:, 2 * units :] + p["rb"]))
    return (1 - z) * new + z * h, c


def _milstm(jax: Any, np: Any, p: Any, u: Any, h: Any, c: Any) -> tuple[Any, Any]:
    v = h @ p["RW"]
    z = p["alpha"] * u * v + p["beta_x"] * u + p["beta_h"] * v + p["b"]
    return _gates(jax, np, z, c)


def _layer_norm(jax: Any, np: Any, p: Any, u: Any, h: Any, c: Any) -> tuple[Any, Any]:
    z = u + h @ p["RW"]
    centred = z - z.mean(-1, keepdims=True)
    variance = (centred**2).mean(-1, keepdims=True)
    return _gates(jax, np, centred / np.sqrt(variance + EPSILON) * p["gain"] + p["b"], c)


def _peephole(jax: Any, np: Any, p: Any, u: Any, h: Any, c: Any) -> tuple[Any, Any]:
    new, f, o, g = np.split(u + p["b"] + h @ p["RW"], 4, -1)
    f, g = jax.nn.sigmoid(f + c * p["FF"]), jax.nn.sigmoid(g + c * p["GG"])
    c = f * c + g * np.tanh(new)
    return np.tanh(c) * jax.nn.sigmoid(o + c * p["OO"]), c


def _attention(jax: Any, np: Any, p: Any, u: Any, h: Any, c: Any) -> tuple[Any, Any]:
    weights = jax.nn.softmax(np.einsum("snh,nh->sn", p["memory"], h), 0)
    context = np.einsum("sn,snh->nh", weights, p["memory"])
    return _gates(jax, np, u + p["b"] + np.concatenate([h, context], 1) @ p["RW"], c)


STEPS = {
    "lstm": _lstm,
    "gru": _gru,
    "milstm": _milstm,
    "layernorm_lstm": _layer_norm,
    "peephole_lstm": _peephole,
    "attention_lstm": _attention,
}
