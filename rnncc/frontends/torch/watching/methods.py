# pyright: basic, reportMissingImports=false
"""Lets TorchDynamo notice when a class is given another method, or the environment or a name among
Python's builtins another value.

    Cell.forward = another_forward

Dynamo compares functions that it finds in modules and closures, but not those that it finds in the
classes of objects, nor what `os.getenv` reads, nor numbers among the builtins.
"""

from __future__ import annotations

import builtins
import os
from functools import wraps
from types import FunctionType, MethodType
from typing import Any

import torch
from torch._dynamo.guards import install_guard
from torch._dynamo.source import GlobalStateSource
from torch._dynamo.symbolic_convert import (
    InliningInstructionTranslator,
    InstructionTranslatorBase,
)
from torch._dynamo.variables.lazy import LazyVariableTracker
from torch._dynamo.variables.user_defined import UserDefinedVariable

from rnncc.frontends.torch.readings import readings

_FOUND = "rnncc_found"
"""The attribute of a graph that is being made, and of what builds its guards, for what was found
so far."""
_KNOWN = frozenset({"torch", "builtins", "collections", "abc", "rnncc"})
"""Packages whose classes stay as they are."""


class _Found:
    """What code found in classes and in the environment."""

    def __init__(self) -> None:
        self.entries = dict[tuple[int, str], tuple[Any, str, Any]]()
        self.environment = dict[str, str | None]()
        self.create = self._guard

    def _guard(self, builder: Any, guard: Any) -> None:
        """Let Dynamo compare all of it, once: it keeps a guard of each function that was read."""
        if builder.__dict__.get(_FOUND) is self:
            return
        setattr(builder, _FOUND, self)
        entries, environment = list(self.entries.values()), list(self.environment.items())

        def is_same(_: Any) -> bool:
            return all(owner.get(name) is value for owner, name, value in entries) and all(
                os.environ.get(name) == value for name, value in environment
            )

        names = [name for _, name, _ in entries] + list(self.environment)
        manager = builder.guard_manager.root
        manager.add_lambda_guard(is_same, [f"rnncc found {', '.join(names)}"], guard.user_stack)


def notice_methods() -> None:
    """Put guards where Dynamo reads the body of a function."""
    kind: Any = InliningInstructionTranslator
    own = kind.inline_call.__func__

    @wraps(own)
    def inline_call(
        cls: Any, parent: Any, function: Any, args: Any, *rest: Any, **kwargs: Any
    ) -> Any:
        if readings.stack and readings.stack[-1].guarded:
            _note(parent.output, getattr(function, "fn", None), args)
        return own(cls, parent, function, args, *rest, **kwargs)

    kind.inline_call = classmethod(inline_call)
    load = InstructionTranslatorBase.load_builtin_from_argval

    @wraps(load)
    def load_builtin(tx: Any, name: Any) -> Any:
        result = load(tx, name)
        if readings.stack and readings.stack[-1].guarded and result.source is None:
            entries = _found_by(tx.output).entries
            entries[id(builtins), name] = vars(builtins), name, vars(builtins).get(name)
        return result

    setattr(InstructionTranslatorBase, "load_builtin_from_argval", load_builtin)  # noqa: B010


def _note(graph: Any, function: Any, args: Any) -> None:
    """Note where a function was found that is called with its object, or with its class, first."""
    if not (args and isinstance(function, FunctionType)):
        return
    methods = _found_by(graph)
    if function is os.getenv and args[0].is_python_constant():
        name = args[0].as_python_constant()
        methods.environment[name] = os.environ.get(name)
    else:
        for kind, name in _places(function, args[0]):
            methods.entries[id(kind), name] = kind.__dict__, name, kind.__dict__.get(name)


def _found_by(graph: Any) -> _Found:
    """What code of a graph found so far, which Dynamo compares at each call."""
    known: _Found = graph.__dict__.setdefault(_FOUND, _Found())
    install_guard(GlobalStateSource().make_guard(known.create))
    return known


def _places(function: FunctionType, first: Any) -> list[tuple[type, str]]:
    """The class that has a function, by its name there, and those that are asked before it."""
    if isinstance(first, LazyVariableTracker):
        first = first.unwrap()
    if not isinstance(first, UserDefinedVariable):
        return []
    value: Any = first.value
    classes = (value if isinstance(value, type) else type(value)).__mro__
    for number, kind in enumerate(classes):
        if kind.__module__.partition(".")[0] in _KNOWN and not _is_layer(kind):
            continue
        for name, entry in kind.__dict__.items():
            if _function_of(entry) is function:
                return [(before, name) for before in classes[: number + 1]]
    return []


def _is_layer(kind: type) -> bool:
    """Whether it is one of PyTorch's modules, whose `forward` users replace."""
    return kind is not torch.nn.Module and kind.__module__.startswith("torch.nn.modules.")


def _function_of(entry: Any) -> Any:
    """What is called of something in a class."""
    if isinstance(entry, staticmethod | classmethod | MethodType):
        return entry.__func__
    return entry.fget if isinstance(entry, property) else entry
