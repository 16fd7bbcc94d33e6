# pyright: basic, reportMissingImports=false
"""`rnncc::recurrent`: what nn.LSTM, nn.GRU and nn.RNN call, as one operator of a graph.

PyTorch's own operators fall apart into as many steps as the example has while they are traced.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

import torch
import torch._dynamo
import torch._VF as _VF
from torch._dynamo.eval_frame import skip_code
from torch._subclasses.fake_tensor import is_fake
from torch.jit._builtins import _register_builtin

from rnncc.errors import CompileError
from rnncc.frontends.torch.packed import Lengths, pack, unpack
from rnncc.frontends.torch.patches import ThreadScope, once

KINDS = ("lstm", "gru", "rnn_tanh", "rnn_relu")
SCHEMA = (
    "recurrent(Tensor x, Tensor? lengths, Tensor[] hx, Tensor[] weights, str kind, bool biases, "
    "int layers, float dropout, bool both, bool batch_first) -> (Tensor, Tensor, Tensor)"
)
WEIGHTS = "Tensor w, Tensor u, Tensor? b=None, Tensor? c=None"
_library = torch.library.Library("rnncc", "DEF")
_library.define(SCHEMA)
_library.define(f"lstm_cell(Tensor x, Tensor[] hx, {WEIGHTS}) -> (Tensor, Tensor)")
for _kind in KINDS[1:]:
    _library.define(f"{_kind}_cell(Tensor x, Tensor hx, {WEIGHTS}) -> Tensor")


@torch.library.register_fake("rnncc::recurrent", lib=_library)
def _shapes(
    x: torch.Tensor,
    lengths: torch.Tensor | None,
    hx: Sequence[torch.Tensor],
    weights: Sequence[torch.Tensor],
    kind: str,
    biases: bool,
    layers: int,
    *_: Any,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """y, the last h, and the last c, which only an LSTM has; an h for each layer and direction."""
    ways = hx[0].shape[0] // layers
    width = hx[0].shape[2] * ways
    last = hx[1] if kind == "lstm" else x.new_empty(0)
    return x.new_empty(*x.shape[:2], width), torch.empty_like(hx[0]), torch.empty_like(last)


@torch.library.register_fake("rnncc::lstm_cell", lib=_library)
def _lstm_states(
    x: torch.Tensor, hx: Sequence[torch.Tensor], *_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(hx[0]), torch.empty_like(hx[1])


def _state(x: torch.Tensor, hx: torch.Tensor, *_: Any) -> torch.Tensor:
    return torch.empty_like(hx)


for _kind in KINDS[1:]:
    torch.library.register_fake(f"rnncc::{_kind}_cell", _state, lib=_library)
CELLS: dict[Any, Any] = {
    getattr(torch, f"{kind}_cell"): getattr(torch.ops.rnncc, f"{kind}_cell").default
    for kind in KINDS
}
"""One step of a layer: PyTorch's own function, and ours that stays whole."""


_kept = ThreadScope()
_patched: dict[str, Callable[..., Any]] = {}
_readers = list[Callable[[], bool]]()


@contextmanager
def kept_whole() -> Generator[None]:
    """While it lasts, recurrent layers that this thread traces become one operator each."""
    _patch()
    with _kept:
        yield


def keep_whole_where(reads: Callable[[], bool]) -> None:
    """Keep recurrent layers whole wherever this is so, too: steps of their own would ask an open
    number of steps how many there are."""
    _readers.append(reads)
    _patch()


def _is_kept(theirs: Callable[..., Any], args: Sequence[Any]) -> bool:
    """Whether a call becomes one of ours. Where readers are asked, code in Python may have packed
    its sequences before."""
    if _kept:
        return True
    is_packed = theirs.__name__ != "_pack_padded_sequence" and _is_of_batches(args[0])
    return not is_packed and any(reads() for reads in _readers)


def _is_of_batches(x: Any) -> bool:
    """Whether it is what PyTorch has beside packed sequences: how many have each step."""
    return isinstance(x, torch.Tensor) and x.dim() == 1


@once
def _patch() -> None:
    """Put functions into PyTorch that do what its own do, unless they are to be kept whole."""
    for kind in KINDS:
        _patched[kind] = _instead(getattr(_VF, kind), partial(call_whole, kind))
        setattr(_VF, kind, _patched[kind])
    for name, ours in (("_pack_padded_sequence", pack), ("_pad_packed_sequence", unpack)):
        setattr(_VF, name, _instead(getattr(_VF, name), ours))
    own = torch.nn.RNNBase.check_forward_args

    @wraps(own)  # torch.jit.script reads the source of what is wrapped
    def check_forward_args(self: Any, input: Any, hidden: Any, batch_sizes: Any) -> None:
        if not isinstance(batch_sizes, Lengths):
            own(self, input, hidden, batch_sizes)

    torch.nn.RNNBase.check_forward_args = check_forward_args


def _instead(theirs: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    """Ours for what a thread traces to be kept whole, else theirs.

    TorchDynamo leaves its frames alone, as it would the builtin's, which has none. To
    `torch.jit.script` ours is the builtin, too.
    """

    @wraps(theirs)
    def call(x: torch.Tensor, *args: Any) -> Any:
        return (ours if is_fake(x) and _is_kept(theirs, args) else theirs)(x, *args)

    kept: Any = torch._dynamo.allow_in_graph(call)
    skip_code(kept.__code__)
    _register_builtin(kept, f"aten::{theirs.__name__}")
    return kept


def recurrent_kind(target: Any) -> str | None:
    """The kind of layer that a function of PyTorch is, if it is one."""
    for kind in KINDS:
        if target in (getattr(torch, kind), _patched.get(kind)):
            return kind
    return None


def call_whole(kind: str, x: torch.Tensor, *args: Any) -> Any:
    """A layer as one operator, of padded sequences or of packed ones.

    Raises:
        CompileError: the sequences were packed while nothing was kept whole.
    """
    padded: Any = args
    lengths = None
    if not isinstance(args[2], bool):
        packed, *rest = args
        if not isinstance(packed, Lengths):
            raise CompileError(kind, "packed sequences are not supported here", "pad them")
        padded, lengths = (*rest, False), packed.of
    x, _, states, weights, *settings = arguments_of(kind, x, *padded)
    (x, *tensors), after = _autocast(kind, [x, *states, *weights])
    states, weights = tensors[: len(states)], tensors[len(states) :]
    y, h, c = map(after, torch.ops.rnncc.recurrent(x, lengths, states, weights, *settings))
    return (y, h, c) if kind == "lstm" else (y, h)


def arguments_of(
    kind: str,
    x: Any,
    hx: Any,
    weights: Sequence[Any],
    biases: bool,
    layers: int,
    dropout: float,
    train: bool,
    both: bool,
    batch_first: bool,
) -> tuple[Any, ...]:
    """What `rnncc::recurrent` takes for the arguments of PyTorch's own operator of one kind."""
    states = list(hx) if kind == "lstm" else [hx]
    dropped = float(dropout) if train else 0.0
    return x, None, states, weights, kind, biases, layers, dropped, both, batch_first


def _autocast(
    kind: str, tensors: Sequence[torch.Tensor]
) -> tuple[Sequence[torch.Tensor], Callable[[torch.Tensor], torch.Tensor]]:
    """What a layer takes where autocast is on, and what becomes of its results.

    Its tensors are rounded, its steps are computed in float32, which is more exact than PyTorch's.
    Results have PyTorch's types: those of a GRU, whose gates are mixed with a float32 state, are
    float32.
    """
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device) or torch.float64 in {x.dtype for x in tensors}:
        return tensors, lambda y: y
    narrow = torch.get_autocast_dtype(device)
    narrowed = [x.to(narrow).float() for x in tensors]
    return narrowed, lambda y: y if kind == "gru" else y.to(narrow)
