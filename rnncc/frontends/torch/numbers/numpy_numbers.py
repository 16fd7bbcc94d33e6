# pyright: basic, reportMissingImports=false
"""Lets TorchDynamo take NumPy's numbers for constants, as it takes Python's.

By itself it makes a tensor of rank 0 of each, of which code may not ask for the value: `float(v)`,
`if v > 0.2`, `range(v)`. Here NumPy computes with them while code is read, with its own types and
rounding, and an operator of PyTorch gets the number of Python's that PyTorch takes them for. Code
is read again when a number changes.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch._dynamo import symbolic_convert
from torch._dynamo.exc import unimplemented
from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.source import CallMethodItemSource
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builder import SourcelessBuilder, VariableBuilder
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.lists import BaseListVariable
from torch._dynamo.variables.misc import NumpyVariable
from torch._dynamo.variables.torch import TorchInGraphFunctionVariable

from rnncc.frontends.torch.readings import readings

_TYPED = torch.tensor, torch.as_tensor, torch.asarray
"""Functions whose result has the type of a NumPy number; to all others it is a mere number."""
_OPERATORS = {*filter(callable, vars(operator).values()), int, float, bool, abs, round, pow}
"""Functions of Python's without effects on numbers."""


class NumPyNumber(ConstantVariable):
    """A number of NumPy's, of which a graph holds the value."""

    def __init__(self, value: Any, **kwargs: Any) -> None:
        super().__init__(value.item(), **kwargs)
        self.value = value

    def as_proxy(self) -> Any:
        # PyTorch takes a boolean of NumPy's for 1.0 or 0.0
        return float(self.value) if isinstance(self.value, np.bool_) else self.value.item()

    def call_method(self, tx: Any, name: str, args: Any, kwargs: Any) -> Any:
        """What a method gives: numbers do not change, so it may be called now."""
        method = getattr(self.value, name, None)
        result = None if method is None else _folded(tx, method, args, kwargs)
        return result or super().call_method(tx, name, args, kwargs)

    def reconstruct(self, codegen: Any) -> None:
        codegen.append_output(codegen.create_load_const_unchecked(self.value))


def is_number(value: Any) -> bool:
    """Whether a value is a real number of NumPy's that Python has the like of."""
    real = isinstance(value, np.bool_ | np.integer | np.floating)
    return real and isinstance(value.item(), bool | int | float)


def take_numbers() -> None:
    """Put them into TorchDynamo, for what is read for us."""
    builder: Any = VariableBuilder
    sourceless: Any = SourcelessBuilder
    constant: Any = ConstantVariable
    wrap, build, create = builder._wrap, sourceless.create, constant.create

    def wrap_number(self: Any, value: Any) -> Any:
        if not (readings.stack and is_number(value)):
            return wrap(self, value)
        item = CallMethodItemSource(self.source)
        install_guard(
            self.source.make_guard(GuardBuilder.TYPE_MATCH),
            item.make_guard(GuardBuilder.CONSTANT_MATCH),
        )
        return NumPyNumber(value, source=self.source)

    def build_number(tx: Any, value: Any) -> Any:
        return NumPyNumber(value) if readings.stack and is_number(value) else build(tx, value)

    def create_number(value: Any, **kwargs: Any) -> Any:
        is_ours = readings.stack and is_number(value)
        return NumPyNumber(value, **kwargs) if is_ours else create(value, **kwargs)

    builder._wrap = wrap_number
    sourceless.create = staticmethod(build_number)
    constant.create = staticmethod(create_number)
    _fold_functions()
    _fold_operators()
    _keep_types()


def _fold_functions() -> None:
    """Let functions and types of NumPy's that get constants alone be called now."""
    kind: Any = NumpyVariable
    own = kind.call_function

    def call_function(variable: Any, tx: Any, args: Any, kwargs: Any) -> Any:
        function = variable.value
        is_type = isinstance(function, type) and issubclass(function, np.generic)
        folds = bool(readings.stack) and (is_type or isinstance(function, np.ufunc))
        result = _folded(tx, function, args, kwargs) if folds else None
        return result or own(variable, tx, args, kwargs)

    kind.call_function = call_function


def _fold_operators() -> None:
    """Let operators be called now where they get a number of NumPy's, and other constants alone:
    TorchDynamo knows those of Python's types."""
    kind: Any = BuiltinVariable
    own = kind.call_function

    def call_function(variable: Any, tx: Any, args: Any, kwargs: Any) -> Any:
        is_range = variable.fn is range
        folds = bool(readings.stack) and (is_range or variable.fn in _OPERATORS)
        if not (folds and any(isinstance(x.realize(), NumPyNumber) for x in args)):
            return own(variable, tx, args, kwargs)
        if is_range:
            return own(variable, tx, [_index(tx, x) for x in args], kwargs)
        return _folded(tx, variable.fn, args, kwargs) or own(variable, tx, args, kwargs)

    kind.call_function = call_function
    handlers = symbolic_convert.compare_op_handlers  # which hold the method as it was
    for sign, handler in handlers.items():
        owner = getattr(handler, "__self__", None)
        if isinstance(owner, kind):
            handlers[sign] = partial(call_function, owner)


def _index(tx: Any, x: Any) -> Any:
    """What Python's `range` makes of a number."""
    return (isinstance(x.realize(), NumPyNumber) and _folded(tx, operator.index, [x], {})) or x


def _keep_types() -> None:
    """Let `torch.tensor(v)` have the number's type, and refuse to guess that of a list."""
    kind: Any = TorchInGraphFunctionVariable
    own = kind.call_function

    def call_function(variable: Any, tx: Any, args: Any, kwargs: Any) -> Any:
        is_typed = bool(readings.stack) and variable.value in _TYPED
        data = [*args, *(kwargs[name] for name in ("data", "obj") if name in kwargs)]
        if is_typed and "dtype" not in kwargs and len(data) == 1:
            kwargs = {**kwargs, **_type_of(tx, data[0].realize())}
        return own(variable, tx, args, kwargs)

    kind.call_function = call_function


def _type_of(tx: Any, data: Any) -> dict[str, Any]:
    """The argument that states the type of a tensor of NumPy's numbers."""
    numbers = list(_numbers_in(data))
    if not numbers:
        return {}
    if numbers[0] is not data:
        what = "makes a tensor of several NumPy numbers (state its type: dtype=...)"
        unimplemented(gb_type="rnncc", context="", explanation=what, hints=[])
    dtype = torch.from_numpy(np.asarray(data.value)).dtype
    return {"dtype": VariableTracker.build(tx, dtype)}


def _numbers_in(data: Any) -> Iterator[NumPyNumber]:
    if isinstance(data, NumPyNumber):
        yield data
    elif isinstance(data, BaseListVariable):
        for part in data.items:
            yield from _numbers_in(part.realize())


def _folded(tx: Any, function: Any, args: Any, kwargs: Any) -> Any:
    """What a function without effects gives for constants, if that is a constant."""
    known = [x.realize() for x in (*args, *kwargs.values())]
    if not all(x.is_python_constant() for x in known):
        return None
    positional, named = known[: len(args)], known[len(args) :]
    try:
        result = function(
            *(x.as_python_constant() for x in positional),
            **{name: x.as_python_constant() for name, x in zip(kwargs, named, strict=True)},
        )
    except Exception as error:  # whatever NumPy raises
        what = f"{type(error).__name__}: {error}"
        unimplemented(gb_type="rnncc", context="", explanation=what, hints=[])
    is_constant = is_number(result) or ConstantVariable.is_base_literal(result)
    return VariableTracker.build(tx, result) if is_constant else None
