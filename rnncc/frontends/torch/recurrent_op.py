# pyright: basic, reportMissingImports=false
"""`rnncc::recurrent`: what nn.LSTM, nn.GRU and nn.RNN call, as one operator of a graph.

PyTorch's own operators fall apart into as many steps as the example has while they are traced.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
import torch._dynamo
import torch._VF as _VF
from torch._subclasses.fake_tensor import is_fake

from rnncc.errors import CompileError

KINDS = ("lstm", "gru", "rnn_tanh", "rnn_relu")
SCHEMA = (
    "recurrent(Tensor x, Tensor[] hx, Tensor[] weights, str kind, bool biases, int layers, "
    "float dropout, bool both, bool batch_first) -> (Tensor, Tensor, Tensor)"
)
_library = torch.library.Library("rnncc", "DEF")
_library.define(SCHEMA)
_lock = threading.Lock()


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


class _Own(threading.local):
    depth = 0


_own = _Own()
_patched: dict[str, Callable[..., Any]] = {}


@contextmanager
def kept_whole() -> Generator[None]:
    """While it lasts, recurrent layers that this thread traces become one operator each."""
    with _lock:
        for kind in KINDS:
            if kind not in _patched:
                _patched[kind] = _wrapper(kind, getattr(_VF, kind))
                setattr(_VF, kind, _patched[kind])
    _own.depth += 1
    try:
        yield
    finally:
        _own.depth -= 1


def recurrent_kind(target: Any) -> str | None:
    """The kind of layer that a function of PyTorch is, if it is one."""
    for kind in KINDS:
        if target in (getattr(torch, kind), _patched.get(kind)):
            return kind
    return None


def call_whole(kind: str, x: torch.Tensor, *given: Any) -> Any:
    """A layer as one operator.

    Raises:
        CompileError: the sequences are packed.
    """
    if not isinstance(given[-1], bool):
        raise CompileError(kind, "packed sequences are not supported", "pad them")
    hx, weights, biases, layers, dropout, train, both, batch_first = given
    states = list(hx) if kind == "lstm" else [hx]
    dropped = float(dropout) if train else 0.0
    settings = (kind, biases, layers, dropped, both, batch_first)
    y, h, c = torch.ops.rnncc.recurrent(x, states, list(weights), *settings)
    return (y, h, c) if kind == "lstm" else (y, h)


def _wrapper(kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """What stands in the place of PyTorch's function from then on."""

    @wraps(function)
    def call(x: torch.Tensor, *given: Any) -> Any:
        if not _own.depth or not is_fake(x):
            return function(x, *given)
        return call_whole(kind, x, *given)

    kept: Any = torch._dynamo.allow_in_graph(call)
    return kept
