# pyright: basic, reportMissingImports=false
"""Operators that mark, in a graph that is traced, both ways of a branch on a tensor's value, and
the test and the body of a loop that ends by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx.node import has_side_effect

from rnncc.frontends.torch.mark_places import (
    LOOP_BODY,
    LOOP_END,
    LOOP_TEST,
    TRIAL,
    TRIAL_END,
)
from rnncc.frontends.torch.numbers.known_constants import forget, note_mark

_library = torch.library.Library("rnncc", "FRAGMENT")
_library.define("mark(Tensor flag, int place) -> ()")
_library.define("choose(Tensor flag, Tensor one, Tensor other) -> Tensor")
# Each iteration has another value there; what PyTorch knows of the first one must not count.
_library.define("begin(Tensor init) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))
_library.define("end(Tensor flag, Tensor carried, Tensor result) -> Tensor")
MARK = has_side_effect(torch.ops.rnncc.mark.default)
CHOICE = torch.ops.rnncc.choose.default
BEGIN = has_side_effect(torch.ops.rnncc.begin.default)
END = has_side_effect(torch.ops.rnncc.end.default)


def mark(flag: torch.Tensor, place: int) -> None:
    """Put a mark into the graph that is traced.

    Args:
        place: one of `mark_places`.
    """
    MARK(flag, place)


def choose(flag: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """What there is behind both ways: of one kind, from one of them."""
    return CHOICE(flag, one, other)


def forgotten(flag: torch.Tensor, run: Callable[[], Any]) -> Any:
    """What a run gives, which leaves nothing in the graph."""
    mark(flag, TRIAL)
    result = run()
    mark(flag, TRIAL_END)
    return result


def unknown(init: torch.Tensor) -> torch.Tensor:
    """A tensor like that, of whose value nothing is known."""
    return BEGIN(init)


def mark_loop(
    going: Callable[..., torch.Tensor],
    body: Callable[..., Sequence[torch.Tensor]],
    inits: Sequence[torch.Tensor],
) -> tuple[torch.Tensor, ...]:
    """`while going(*inits): inits = body(*inits)`, of which the graph has both parts once,
    with marks around them.

    Args:
        going: gives a bool of rank 0.
        body: gives tensors of the types and shapes of `inits`.
    """
    carried = list(map(unknown, inits))
    mark(carried[0], LOOP_TEST)
    flag = going(*carried)
    mark(flag, LOOP_BODY)
    results = body(*carried)
    mark(flag, LOOP_END)
    pairs = zip(carried, results, strict=True)
    return tuple(END(flag, one, other) for one, other in pairs)


def _marked(flag: torch.Tensor, place: int) -> None:
    note_mark(flag, place)


def _chosen(flag: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return torch.where(flag, one, other).clone(memory_format=torch.contiguous_format)


def _begun(init: torch.Tensor) -> torch.Tensor:
    return init.clone(memory_format=torch.contiguous_format)


def _unknown(init: torch.Tensor) -> torch.Tensor:
    """A stand-in; of a clone PyTorch would know the value that it knows of the tensor."""
    forget(init)  # which others may read by another name, while it changes
    return torch.empty(init.shape, dtype=init.dtype, device=init.device)


def _setup_of_nothing(ctx: Any, inputs: Any, output: torch.Tensor) -> None:
    pass


def _handed_on(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
    return grad


def _setup(ctx: Any, inputs: Any, output: torch.Tensor) -> None:
    ctx.save_for_backward(inputs[0])


def _backward(ctx: Any, grad: torch.Tensor) -> tuple[None, torch.Tensor, torch.Tensor]:
    (flag,) = ctx.saved_tensors
    return None, torch.where(flag, grad, 0), torch.where(flag, 0, grad)


_FUNCTIONS = {"mark": _marked, "choose": _chosen, "begin": _begun, "end": _chosen}
for _name, _function in _FUNCTIONS.items():
    fake = _unknown if _name == "begin" else _function
    torch.library.register_fake(f"rnncc::{_name}", fake, lib=_library)
    _library.impl(_name, _function, "CompositeExplicitAutograd")
for _name in ("choose", "end"):
    torch.library.register_autograd(
        f"rnncc::{_name}", _backward, setup_context=_setup, lib=_library
    )
torch.library.register_autograd(
    "rnncc::begin", _handed_on, setup_context=_setup_of_nothing, lib=_library
)
