# pyright: basic, reportMissingImports=false
"""`module.buffers()` of a module that was assigned some: TorchDynamo refuses that, as it would read
those that the module had before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._dynamo.variables import builtin
from torch._dynamo.variables.functions import UserMethodVariable
from torch._dynamo.variables.nn_module import UnspecializedNNModuleVariable


def read_buffers(applies: Callable[[], bool]) -> None:
    """Let TorchDynamo read a module's buffers one by one, by name.

    Args:
        applies: whether it reads for one of ours.
    """
    kind: Any = getattr(builtin, "GetAttrBuiltinVariable", builtin.BuiltinVariable)
    own = kind.call_function

    def call_function(variable: Any, tx: Any, args: Any, kwargs: Any) -> Any:
        answer = _asked(args) if getattr(variable, "fn", getattr) is getattr and applies() else None
        return own(variable, tx, args, kwargs) if answer is None else answer

    kind.call_function = call_function


def _asked(args: Sequence[Any]) -> Any:
    """The method that is read of a module that was assigned buffers, if it is PyTorch's own."""
    module = args[0].realize() if len(args) == 2 else None
    if not isinstance(module, UnspecializedNNModuleVariable) or not module.is_state_mutated:
        return None
    name = args[1].as_python_constant() if args[1].is_python_constant() else None
    if name not in _FUNCTIONS or getattr(type(module.value), name) is not _PLAIN[name]:
        return None
    return UserMethodVariable(_FUNCTIONS[name], module)


def _named_buffers(
    module: torch.nn.Module, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
) -> Iterator[tuple[str, torch.Tensor]]:
    known: list[Any] = []  # TorchDynamo reads this
    for name, value in _places(module, prefix, recurse):
        if remove_duplicate and any(value is x for x in known):
            continue
        known.append(value)
        yield name, value


def _places(module: torch.nn.Module, prefix: str, recurse: bool) -> Iterator[tuple[str, Any]]:
    start = prefix + "." if prefix else ""
    for name in module._buffers:
        value = getattr(module, name)
        if value is not None:
            yield start + name, value
    for name, part in module._modules.items() if recurse else ():
        if part is not None:
            yield from _places(part, start + name, recurse)


def _buffers(module: torch.nn.Module, recurse: bool = True) -> Iterator[torch.Tensor]:
    for _, value in _named_buffers(module, recurse=recurse):
        yield value


_PLAIN = {name: getattr(torch.nn.Module, name) for name in ("named_buffers", "buffers")}
_FUNCTIONS = {"named_buffers": _named_buffers, "buffers": _buffers}
