# pyright: basic, reportMissingImports=false
"""Functions of ours that TorchDynamo does not read but does, where it meets parts of code that a
run may leave out or repeat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import wraps
from typing import Any, NoReturn

import torch
from torch._dynamo.current_scope_id import enter_new_scope
from torch._dynamo.exc import Unsupported
from torch._dynamo.variables.functions import UserFunctionVariable
from torch._dynamo.variables.tensor import TensorVariable

from rnncc.frontends.torch.readings import location, readings, refuse

_EFFECT = "side effect"
"""What TorchDynamo says of a change of objects from outside."""
_DEFERS = "defer_side_effect_checks"
"""What lets a part change an attribute that it restores; before PyTorch 2.13 there is none."""
_HINT = "return it from a function, or torch.where"


def alone(name: str, run: Callable[..., Any], *args: Any) -> Any:
    """What a part gives; read by TorchDynamo, it may change nothing of Python's that is not its
    own.

    Args:
        name: what it is part of: a branch, or a loop.
    """
    return run(*args)


def disagree(what: str, *values: Any) -> NoReturn:
    """Refuse values, of which the text tells by `{}`."""
    refuse(location(""), what.format(*map(_text, values)))


def refuse_effect(name: str, place: object) -> NoReturn:
    """Refuse a part that changes something of Python's that is not its own."""
    refuse(location(""), _effect(name, place), _HINT)


def _effect(name: str, place: object) -> str:
    return f"a {name} on a tensor's value changes {place}"


def _text(x: Any) -> str:
    return f"{x.dtype} {list(x.shape)}" if isinstance(x, torch.Tensor) else repr(x)


def read_regions(refusing: Callable[..., Any]) -> None:
    """Let TorchDynamo do these.

    Args:
        refusing: runs a check that refuses something, given the translator.
    """
    kind: Any = UserFunctionVariable
    own = kind.call_function

    def read_alone(variable: Any, tx: Any, args: Sequence[Any], kwargs: Any) -> Any:
        deferring = getattr(tx.output.side_effects, _DEFERS, None) or nullcontext
        try:
            with enter_new_scope(), deferring():
                return own(variable, tx, args, kwargs)
        except Unsupported as error:
            if _EFFECT in str(error):
                what = _effect(args[0].as_python_constant(), "what it has not made")
                refusing(tx, lambda where: refuse(where(""), what, _HINT))
            raise

    def read_disagree(variable: Any, tx: Any, args: Sequence[Any], kwargs: Any) -> Any:
        what, *values = map(_value, args)
        text = what.format(*map(_text, values))
        refusing(tx, lambda where: refuse(where(""), text))

    instead: dict[Any, Any] = {alone: read_alone, disagree: read_disagree}

    @wraps(own)
    def call_function(variable: Any, tx: Any, args: Any, kwargs: Any) -> Any:
        function = instead.get(variable.fn, own) if readings.stack else own
        return function(variable, tx, args, kwargs)

    kind.call_function = call_function


def _value(variable: Any) -> Any:
    variable = variable.realize()
    if isinstance(variable, TensorVariable):
        return variable.as_proxy().node.meta["example_value"]
    return variable.as_python_constant() if variable.is_python_constant() else variable
