# pyright: basic, reportMissingImports=false
"""Modules of TorchScript as modules in Python, which can be read like any others."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
from torch.utils import _pytree as pytree

from rnncc.errors import CompileError
from rnncc.frontends.torch.scripted.writing import WrittenFunction

IS_SCRIPT = "a module of TorchScript, which does not show its code"
UNSCRIPTED = "rnncc.torch.unscripted(module) is the same in Python"
"""What helps."""


def unscripted(module: torch.nn.Module) -> torch.nn.Module:
    """A module without TorchScript: of `torch.jit.script`, `torch.jit.trace` or `torch.jit.load`.

    Args:
        module: one of TorchScript, or one that has such parts.

    Returns:
        A module with the same parameters, buffers and methods, written in Python; the given one
        where it has nothing of TorchScript.

    Raises:
        CompileError: TorchScript does what has no Python code here.
    """
    return _unscripted(module, {})


def refuse_scripts(module: torch.nn.Module, name: str) -> None:
    """Refuse modules of TorchScript, whose code PyTorch does not show.

    Raises:
        CompileError: the module is one, or has one.
    """
    for place, part in module.named_modules():
        if isinstance(part, torch.jit.ScriptModule):
            raise CompileError(f"{name}.{place}" if place else name, IS_SCRIPT, UNSCRIPTED)


def _unscripted(module: torch.nn.Module, known: dict[int, torch.nn.Module]) -> torch.nn.Module:
    if id(module) in known:
        return known[id(module)]
    if isinstance(module, torch.jit.ScriptModule):
        known[id(module)] = _written(module)
        return known[id(module)]
    parts = {n: p and _unscripted(p, known) for n, p in module._modules.items()}
    if all(part is module._modules[name] for name, part in parts.items()):
        return module
    result = known[id(module)] = copy.copy(module)
    result.__dict__ = {**module.__dict__, "_modules": parts}
    return result


def _written(module: torch.jit.ScriptModule) -> torch.nn.Module:
    """A module that does what one of TorchScript does."""
    own: Any = module._c
    tensors = _Tensors()
    tree = _tree(module, {}, tensors)
    kind: type[torch.nn.Module] = type(own._type().name(), (torch.nn.Module,), {})
    tree.__class__ = kind
    for name in own._method_names():
        method = own._get_method(name)
        try:
            written = WrittenFunction(own, method)
        except CompileError as error:
            if name == "forward":
                raise
            setattr(kind, name, _refused(error))
            continue
        defaults = [a.default_value for a in method.schema.arguments if a.has_default_value()]
        setattr(kind, name, written.function(tuple(defaults)))
        for path, attribute in written.attributes:
            _set_attribute(tree, own, path, attribute, tensors)
    return tree


def _refused(error: CompileError) -> Callable[..., Any]:
    """A method that nobody may ever call."""

    def refused(*_: Any, **__: Any) -> Any:
        raise error

    return refused


_Tensors = dict[int, tuple[Any, Any]]
"""By the number of a tensor of TorchScript's: it, and the one in its place."""


def _tree(module: Any, known: dict[int, torch.nn.Module], tensors: _Tensors) -> torch.nn.Module:
    """The parameters and buffers of a module and of its parts."""
    if id(module) not in known:
        result = known[id(module)] = torch.nn.Module()
        result.training = getattr(module, "training", False)  # a frozen one has no modes
        for name, x in module._parameters.items():
            tensors.setdefault(id(x), (x, _parameter(x)))
            result.register_parameter(name, tensors[id(x)][1])
        for name, x in module._buffers.items():
            result.register_buffer(name, x)
        for name, part in module._modules.items():
            result.add_module(name, _tree(part, known, tensors))
    return known[id(module)]


def _parameter(x: Any) -> Any:
    """What was loaded is a tensor alone."""
    if x is None or isinstance(x, torch.nn.Parameter):
        return x
    return torch.nn.Parameter(x, x.requires_grad)


def _set_attribute(
    tree: torch.nn.Module, own: Any, path: tuple[str, ...], name: str, tensors: _Tensors
) -> None:
    """Give a part what it has besides; parameters in lists are those that it has."""
    part = reduce(getattr, path, tree)
    if not any(name in held for held in (part.__dict__, part._parameters, part._buffers)):
        value = reduce(lambda owner, n: owner.getattr(n), path, own).getattr(name)
        kept = pytree.tree_map(lambda x: tensors.get(id(x), (x, x))[1], value)
        setattr(part, name, kept)
