"""Whether what a function of Python's computes follows from its arguments, by its bytecode.

A function passes if all that it names besides its arguments is known to stay the same: constants,
operators of PyTorch, and functions that pass themselves. What it does to attributes it may do to
its first argument alone. Whatever is not known is refused.
"""

from __future__ import annotations

import builtins
import dis
import math
from collections.abc import Callable, Iterable
from inspect import getattr_static
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, cast

import torch
from torch.autograd.function import FunctionCtx

_BUILTINS = frozenset(
    "abs all any bool enumerate float int isinstance len list map max min pow range reversed round "
    "slice sorted sum tuple zip".split()
)
_MAKERS = frozenset(
    "arange as_tensor empty empty_like eye full full_like ones ones_like stack cat scalar_tensor "
    "tensor zeros zeros_like".split()
)
"""What makes tensors; other functions of PyTorch that pass are methods of tensors too."""
_OPERATORS = torch.nn.functional, torch.special, torch.linalg, torch.fft, math
_STATUS = frozenset(
    "_base _version as_strided backward data_ptr grad grad_fn is_leaf item names numpy output_nr "
    "register_hook requires_grad_ retain_grad retains_grad set_ storage storage_offset tolist "
    "untyped_storage".split()
)
"""What a tensor's shape, dtype and device do not tell."""
_NAMING = "GLOBAL", "DEREF", "NAME", "ATTR", "METHOD", "IMPORT", "BUILD_CLASS", "LOCALS", "YIELD"
_ATTRIBUTE = "LOAD_ATTR", "LOAD_METHOD"
_CONSTANT = bool | int | float | str | torch.dtype | None


class Open(Exception):
    """It may depend on more than arguments."""


class Names:
    """What some functions name outside of themselves.

    Attributes:
        used: the names of variables and attributes that hold it.
    """

    def __init__(self, functions: Iterable[tuple[Any, bool]]) -> None:
        """Take functions, and whether each one's first argument is a context of its own.

        Raises:
            Open: that is not known.
        """
        self.used = {"__code__", "__defaults__", "__kwdefaults__"}
        self._known, self._kept, self._reads = set[int](), set[str](), set[str]()
        for function, has_context in functions:
            self._function(function, has_context)
        kept = {*self._kept, *dir(FunctionCtx), "saved_tensors", "needs_input_grad"}
        if not self._reads <= kept:
            raise Open(*self._reads - kept)

    def _function(self, function: Any, has_context: bool = False) -> None:
        if id(function) in self._known:
            return
        self._known.add(id(function))
        if not isinstance(function, FunctionType):
            raise Open(str(function))
        defaults = *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()
        if not all(map(_is_constant, defaults)):
            raise Open("defaults")
        closed = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        context = function.__code__.co_varnames[:1] if has_context else ()
        self._code(function.__code__, function.__globals__, dict(closed), context)

    def _code(
        self, code: CodeType, globals: dict[str, Any], cells: dict[str, Any], context: Any
    ) -> None:
        for inner in code.co_consts:
            if isinstance(inner, CodeType):
                self._code(inner, globals, cells, ())
        instructions = list(dis.get_instructions(code))
        at = 0
        while at < len(instructions):
            step = instructions[at]
            at += 1
            name: Any = step.argval
            if not any(part in step.opname for part in _NAMING):
                continue
            of_context = _loaded(instructions[at - 2]) in context
            if step.opname in _ATTRIBUTE:
                self._attribute(name, of_context)
            elif step.opname == "STORE_ATTR" and of_context:
                self._kept.add(name)
            elif "DEREF" in step.opname and name not in cells:
                continue  # a variable of the function around it
            elif step.opname in ("LOAD_GLOBAL", "LOAD_DEREF"):
                chain = list[str]()
                while at < len(instructions) and instructions[at].opname in _ATTRIBUTE:
                    chain.append(instructions[at].argval)
                    at += 1
                is_cell = step.opname == "LOAD_DEREF"
                value = cells[name].cell_contents if is_cell else _global(globals, name)
                self.used.add("cell_contents" if is_cell else name)
                self._value(value, name, chain)
            else:
                raise Open(step.opname)

    def _attribute(self, name: str, of_context: bool) -> None:
        """An attribute of what a function was given or has made, which tensors are."""
        if of_context:
            self._reads.add(name)
        elif not hasattr(torch.Tensor, name) or name in _STATUS or name.startswith("__"):
            raise Open(name)

    def _value(self, value: Any, name: str, chain: list[str]) -> None:
        """What stands at the end of a chain of attributes, of modules and classes."""
        while chain and isinstance(value, ModuleType):
            owner, name = value, chain.pop(0)
            self.used.add(name)
            value = vars(owner).get(name, Open)
            if not isinstance(value, ModuleType) and _is_operator(owner, name, value):
                value = None
        if chain and isinstance(value, type) and issubclass(value, torch.autograd.Function):
            name = chain.pop(0)
            self.used.add(name)
            value = getattr_static(value, name, Open)
            value = value.__func__ if isinstance(value, staticmethod) else value
        for name in chain:
            self._attribute(name, False)
        if not (_is_constant(value) or value is torch.Tensor or _is_builtin(value)):
            self._function(value)


def _global(globals: dict[str, Any], name: str) -> Any:
    return globals[name] if name in globals else getattr(builtins, name, Open)


def _loaded(step: dis.Instruction) -> Any:
    """The local variable that an instruction has put on top."""
    name: Any = step.argval if step.opname.startswith("LOAD_FAST") else None
    return cast("tuple[Any, ...]", name)[-1] if isinstance(name, tuple) else name


def _is_constant(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_constant, cast("tuple[Any, ...]", value)))
    return isinstance(value, _CONSTANT)


def _is_builtin(value: Any) -> bool:
    name = getattr(value, "__name__", "")
    errors = isinstance(value, type) and issubclass(value, Exception) and value is not Open
    return errors or (name in _BUILTINS and getattr(builtins, name) is value)


def _is_operator(owner: ModuleType, name: str, value: Any) -> bool:
    if owner in _OPERATORS:
        return isinstance(value, Callable)
    is_tensors = hasattr(torch.Tensor, name) and name not in _STATUS and name[0] != "_"
    named = isinstance(value, (BuiltinFunctionType, FunctionType)) and (
        name in _MAKERS or is_tensors
    )
    return owner is torch and named
