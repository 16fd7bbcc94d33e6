# pyright: basic, reportMissingImports=false
"""Operators that mark, in a graph that is traced, both ways of a branch on a tensor's value."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx.node import has_side_effect

_library = torch.library.Library("rnncc", "FRAGMENT")
_library.define("mark(Tensor flag, int place) -> ()")
_library.define("choose(Tensor flag, Tensor one, Tensor other) -> Tensor")
MARK = has_side_effect(torch.ops.rnncc.mark.default)
CHOICE = torch.ops.rnncc.choose.default


def mark(flag: torch.Tensor, place: int) -> None:
    """Put a mark into the graph that is traced: 0 before the way that is taken where the flag is
    true, 1 before the other one, 2 behind it."""
    torch.ops.rnncc.mark(flag, place)


def choose(flag: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """What there is behind both ways: of one kind, from one of them."""
    return torch.ops.rnncc.choose(flag, one, other)


def _marked(flag: torch.Tensor, place: int) -> None:
    return None


def _chosen(flag: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return torch.where(flag, one, other).clone(memory_format=torch.contiguous_format)


def _setup(ctx: Any, inputs: Any, output: torch.Tensor) -> None:
    ctx.save_for_backward(inputs[0])


def _backward(ctx: Any, grad: torch.Tensor) -> tuple[None, torch.Tensor, torch.Tensor]:
    (flag,) = ctx.saved_tensors
    return None, torch.where(flag, grad, 0), torch.where(flag, 0, grad)


for _name, _function in (("mark", _marked), ("choose", _chosen)):
    torch.library.register_fake(f"rnncc::{_name}", _function, lib=_library)
    _library.impl(_name, _function, "CompositeExplicitAutograd")
torch.library.register_autograd("rnncc::choose", _backward, setup_context=_setup, lib=_library)
