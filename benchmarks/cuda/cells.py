# pyright: reportMissingImports=false
"""The custom cells: their arrays, and their steps in PyTorch and JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks import cells
from benchmarks.peers import jax_cells, torch_cells
from rnncc.bench.cases import Case

OWN = "own"
CELLS = ("milstm", "layernorm_lstm", OWN)
NAMES = {"milstm": "MI-LSTM", "layernorm_lstm": "layer-norm LSTM", OWN: "a user's own"}
SIZES = ((256, 32), (512, 64))
STEPS = 64
UNROLLED = 16
"""As many as torch.compile unrolls, forward and backward, in bearable time."""
GATES = {OWN: 2}

Arrays = dict[str, np.ndarray[Any, Any]]


def arrays_of(cell: str, units: int) -> Arrays:
    """A cell's parameters: W and RW of the products, b, and what else it has."""
    if cell != OWN:
        return cells.parameters(Case(cell, units))
    rng = np.random.default_rng(1)
    scale = units**-0.5
    arrays = {
        "W": rng.normal(0, scale, (units, 2 * units)),
        "RW": rng.normal(0, scale, (units, 2 * units)),
        "b": rng.normal(0, 0.1, 2 * units),
    }
    return {name: array.astype(np.float32) for name, array in arrays.items()}


def _own(torch: Any, p: dict[str, Any], u: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """A minimal gated unit whose gate also scales what h gives to the new state."""
    (gate, new), (gate_h, new_h) = (u + p["b"]).chunk(2, -1), (h @ p["RW"]).chunk(2, -1)
    f = torch.sigmoid(gate + gate_h)
    return h + f * (torch.tanh(new + f * new_h) - h), c


def _own_in_jax(jax: Any, np: Any, p: Any, u: Any, h: Any, c: Any) -> tuple[Any, Any]:
    (gate, new), (gate_h, new_h) = np.split(u + p["b"], 2, -1), np.split(h @ p["RW"], 2, -1)
    f = jax.nn.sigmoid(gate + gate_h)
    return h + f * (np.tanh(new + f * new_h) - h), c


TORCH = {**torch_cells.STEPS, OWN: _own}
JAX = {**jax_cells.STEPS, OWN: _own_in_jax}


def loop_of(cell: str, p: dict[str, Any]) -> Callable[[Any], Any]:
    """All steps in Python, the input's product computed at once: [T, N, H] -> [T, N, H]."""
    step, gates = TORCH[cell], GATES.get(cell, 4)
    return lambda x: torch_cells.loop(torch, step, p, x, gates)[0]


def step_of(cell: str, p: dict[str, Any]) -> Callable[[Any, Any], Any]:
    """One step as `rnncc.torch.scan` takes it."""
    step = TORCH[cell]

    def one(x: Any, state: Any) -> Any:
        h, c = step(torch, p, x @ p["W"], *state)
        return h, (h, c)

    return one
