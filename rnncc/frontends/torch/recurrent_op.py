# pyright: basic, reportMissingImports=false
"""`rnncc::recurrent`: what nn.LSTM, nn.GRU and nn.RNN call, as one operator of a graph.

PyTorch's own operators fall apart into as many steps as the example has while they are traced.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import RLock
from typing import Any

import torch
import torch._VF as _VF
from torch._subclasses.fake_tensor import is_fake

KINDS = ("lstm", "gru", "rnn_tanh", "rnn_relu")
SCHEMA = (
    "recurrent(Tensor x, Tensor[] hx, Tensor[] weights, str kind, bool biases, int layers, "
    "float dropout, bool both, bool batch_first) -> (Tensor, Tensor, Tensor)"
)
_library = torch.library.Library("rnncc", "DEF")
_library.define(SCHEMA)
_lock = RLock()


@torch.library.register_fake("rnncc::recurrent", lib=_library)
def _shapes(
    x: torch.Tensor,
    hx: Sequence[torch.Tensor],
    weights: Sequence[torch.Tensor],
    kind: str,
    biases: bool,
    layers: int,
    dropout: float,
    both: bool,
    batch_first: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Y, the last h, and the last c, which only an LSTM has."""
    width = hx[0].shape[2] * (2 if both else 1)
    last = hx[1] if kind == "lstm" else x.new_empty(0)
    return x.new_empty(*x.shape[:2], width), torch.empty_like(hx[0]), torch.empty_like(last)


@contextmanager
def kept_whole() -> Generator[None]:
    """While it lasts, recurrent layers of fake tensors become one operator each."""
    with _lock:
        own = {kind: getattr(_VF, kind) for kind in KINDS}
        try:
            for kind, function in own.items():
                setattr(_VF, kind, partial(_call, kind, function))
            yield
        finally:
            for kind in own:
                delattr(_VF, kind)


def _call(kind: str, function: Callable[..., Any], x: torch.Tensor, *given: Any) -> Any:
    if not is_fake(x) or not isinstance(given[-1], bool):  # what other threads compute
        return function(x, *given)
    hx, weights, biases, layers, dropout, train, both, batch_first = given
    states = list(hx) if kind == "lstm" else [hx]
    dropped = float(dropout) if train else 0.0
    settings = (kind, biases, layers, dropped, both, batch_first)
    y, h, c = torch.ops.rnncc.recurrent(x, states, list(weights), *settings)
    return (y, h, c) if kind == "lstm" else (y, h)
