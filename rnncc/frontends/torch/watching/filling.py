# pyright: basic, reportMissingImports=false
"""Lets TorchDynamo fill tensors with the number that is in another, as `numbers/fills.py` does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.tensor import TensorVariable

from rnncc.frontends.torch.numbers.fills import FILLS
from rnncc.frontends.torch.readings import readings

_NONE = ConstantVariable.create(None)


def fill_of(function: Any, args: Any, kwargs: Any) -> Callable[..., Any] | None:
    """What does the same as a function of PyTorch that fills, where the number is in a tensor."""
    return FILLS[function] if function in FILLS and _fills(args, kwargs) else None


def take_fills() -> None:
    """Let a tensor's method fill so, too."""

    def new_full(variable: Any, tx: Any, *args: Any, **kwargs: Any) -> Any:
        instead = fill_of(torch.Tensor.new_full, args, kwargs)
        if instead is None:
            return None  # Dynamo goes on
        return VariableTracker.build(tx, instead).call_function(tx, [variable, *args], kwargs)

    setattr(TensorVariable, "method_new_full", new_full)  # noqa: B010


def _fills(args: Any, kwargs: Any) -> bool:
    """Whether this thread reads how a tensor is made of the number in one, which comes second."""
    if not readings.stack:  # to realize a variable puts guards on it
        return False
    value = kwargs.get("fill_value", args[1] if len(args) > 1 else _NONE).realize()
    return isinstance(value, TensorVariable)
