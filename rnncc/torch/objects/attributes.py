# pyright: basic, reportMissingImports=false
"""Puts tensors into modules that are read by TorchDynamo, as `self.mem = mem` does at each step.

TorchDynamo reads `nn.Module.__setattr__` each time. Where it has read that once for an attribute of
a module, what it does with a further tensor follows from where the name stands now.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import getattr_static
from typing import Any

import torch
from torch._dynamo.variables import builtin
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.nn_module import UnspecializedNNModuleVariable
from torch._dynamo.variables.tensor import TensorVariable

from rnncc.torch.leaves import is_for

_PUT = "rnncc_attributes"
"""The attribute of a graph that is being made for what was put so far."""
_METHODS = "getattr_helper", "method_setattr_standard", "var_getattr"


def put_quickly(backend: Callable[..., Any]) -> None:
    """Read `__setattr__` of modules once for each attribute, in graphs for one back end."""
    kind: Any = getattr(builtin, "SetAttrBuiltinVariable", None)
    put: Any = getattr(kind, "_call_setattr", None)
    known = all(hasattr(UnspecializedNNModuleVariable, name) for name in _METHODS)
    if put is None or not known:  # an older PyTorch
        return

    @wraps(put)
    def put_attribute(variable: Any, tx: Any, owner: Any, name: Any, value: Any) -> Any:
        if not (is_for(backend, tx.output) and _is_plain(owner, name, value)):
            return put(variable, tx, owner, name, value)
        seen = tx.output.__dict__.setdefault(_PUT, set())
        key = owner, name.as_python_constant()
        if key not in seen:
            seen.add(key)
            return put(variable, tx, owner, name, value)
        return _put(tx, owner, name, value)

    setattr(kind, "_call_setattr", put_attribute)  # noqa: B010


def _is_plain(owner: Any, name: Any, value: Any) -> bool:
    """Whether a tensor that is no parameter is put into a module by the method of all modules."""
    if type(owner) is not UnspecializedNNModuleVariable or type(value) is not TensorVariable:
        return False
    own = getattr_static(type(owner.value), "__setattr__")
    hooks: Any = torch.nn.modules.module
    return (
        own is torch.nn.Module.__setattr__
        and name.is_python_constant()
        and value.python_type() is torch.Tensor
        and not hooks._global_buffer_registration_hooks
    )


def _put(tx: Any, owner: Any, name: Any, value: Any) -> Any:
    """As `__setattr__` does it."""
    for places in ("_parameters", "_modules"):
        if owner.getattr_helper(tx, places, name) is not None:
            return owner.call_method(tx, "__setattr__", [name, value], {})
    if owner.getattr_helper(tx, "_buffers", name) is None:
        return owner.method_setattr_standard(tx, name, value)
    owner.is_state_mutated = True
    operands = [owner.var_getattr(tx, "_buffers"), name, value]
    return VariableTracker.build(tx, _put_item).call_function(tx, operands, {})


def _put_item(owner: Any, key: Any, value: Any) -> None:
    """What TorchDynamo reads, instead of all of `__setattr__`."""
    owner[key] = value
