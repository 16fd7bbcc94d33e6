# pyright: basic, reportMissingImports=false
"""Lets TorchDynamo read what it has no handler for.

    del scale                  # which an inner function reads
    torch.autograd.Variable(x)

    state is before           # of dicts and lists, before PyTorch 2.12

Code that is rewritten deletes variables that one way of a branch alone assigns. Code of PyTorch 0.3
makes its tensors by Variable: `x.detach()`, of which it may say whether it needs gradients.
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from functools import partial, wraps
from operator import is_, is_not
from typing import Any

import torch
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.dicts import ConstDictVariable
from torch._dynamo.variables.lists import ListVariable
from torch._dynamo.variables.misc import DeletedVariable
from torch._dynamo.variables.tensor import TensorVariable
from torch._dynamo.variables.user_defined import UserDefinedClassVariable

from rnncc.frontends.torch.readings import readings
from rnncc.frontends.torch.watching.properties import run_setters

_DELETES = dis.opmap["DELETE_DEREF"]


def fill_gaps() -> None:
    """Put these into TorchDynamo, where it reads for one of ours."""
    base: Any = InstructionTranslatorBase
    for translator in (base, *base.__subclasses__()):
        translator.dispatch_table[_DELETES] = _deleting(translator.dispatch_table[_DELETES])
    take_variables(lambda _: bool(readings.stack))
    run_setters(lambda _: bool(readings.stack))
    _tell_identity()


def take_variables(applies: Callable[[Any], bool]) -> None:
    """Let calls of Variable be these methods.

    Args:
        applies: whether a translator reads for one of ours.
    """
    classes: Any = UserDefinedClassVariable
    classes.call_function = _making_variables(classes.call_function, applies)


def _tell_identity() -> None:
    """Let dicts and lists be the same where one translation stands for both."""
    if not hasattr(BuiltinVariable, "_binop_handlers"):
        return
    handlers: Any = BuiltinVariable._binop_handlers()
    for operator in (is_, is_not):
        handler = partial(_identity, operator)
        for kind in (ConstDictVariable, ListVariable):
            handlers[operator].append(((kind, kind), handler))  # asked behind PyTorch's own
    BuiltinVariable.call_function_handler_cache.clear()  # made of those that there were


def _identity(operator: Any, tx: Any, left: Any, right: Any) -> Any:
    return ConstantVariable.create(operator(left, right)) if readings.stack else None


def _deleting(own: Any) -> Any:
    def delete(tx: Any, step: Any) -> None:
        if not readings.stack:
            own(tx, step)
            return
        cell = tx.symbolic_locals[step.argval]
        tx.output.side_effects.store_cell(cell, DeletedVariable())  # which is refused when read

    return delete


def _making_variables(own: Any, applies: Callable[[Any], bool]) -> Any:
    @wraps(own)
    def call_function(variable: Any, tx: Any, args: Any, kwargs: Any) -> Any:
        is_ours = variable.value is torch.autograd.Variable and applies(tx)
        if not is_ours or len(args) != 1 or not {*kwargs} <= {"requires_grad", "volatile"}:
            return own(variable, tx, args, kwargs)
        tensor = args[0].realize()
        if not isinstance(tensor, TensorVariable):
            return own(variable, tx, args, kwargs)
        detached = tensor.call_method(tx, "detach", [], {})
        flag = kwargs.get("requires_grad", ConstantVariable.create(False))
        if flag.is_python_constant() and not flag.as_python_constant():
            return detached
        return detached.call_method(tx, "requires_grad_", [flag], {})

    return call_function
