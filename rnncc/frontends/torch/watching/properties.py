# pyright: basic, reportMissingImports=false
"""Lets TorchDynamo run what sets or deletes a property, where it takes that for a plain attribute.

    self.rate = 2 * rate
    del self.rate

PyTorch 2.11 reads the rest of the code as if nothing had been set.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import getattr_static, unwrap
from typing import Any

from torch._dynamo.exc import raise_observed_exception
from torch._dynamo.source import AttrSource
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.misc import DeletedVariable, SuperVariable
from torch._dynamo.variables.user_defined import UserDefinedObjectVariable

_OBJECTS: Any = UserDefinedObjectVariable
_LACKS_THEM = "property" not in unwrap(_OBJECTS.method_setattr_standard).__code__.co_names
"""Whether TorchDynamo does not ask whether an attribute of an object is a property."""


def run_setters(applies: Callable[[Any], bool]) -> None:
    """Read the setters and deleters of properties.

    Args:
        applies: whether a translator reads for one of ours.
    """
    _run_deleters(applies)
    if not _LACKS_THEM:
        return
    own = _OBJECTS.method_setattr_standard

    @wraps(own)
    def set_attribute(owner: Any, tx: Any, name: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        in_dict = any((*args, *kwargs.values()))  # `self.__dict__["rate"] = rate`
        known = not in_dict and name.is_python_constant() and applies(tx)
        kind = type(owner.value)
        attribute = getattr_static(kind, name.as_python_constant(), None) if known else None
        if not isinstance(attribute, property) or owner._is_c_defined_property(attribute):
            return own(owner, tx, name, value, *args, **kwargs)
        return _run(owner, tx, name.as_python_constant(), attribute, value)

    _OBJECTS.method_setattr_standard = set_attribute


def _run_deleters(applies: Callable[[Any], bool]) -> None:
    """Let modules, too, delete as other objects do: no PyTorch runs deleters of theirs."""
    parents: Any = SuperVariable
    call = parents.call_method

    @wraps(call)
    def call_method(parent: Any, tx: Any, name: str, args: Any, kwargs: Any) -> Any:
        deletes = name == "__delattr__" and isinstance(parent.objvar, _OBJECTS) and applies(tx)
        method = parent._resolved_getattr_and_source(tx, name)[0] if deletes else None
        if method is object.__delattr__:
            return parent.objvar.method_setattr_standard(tx, args[0], DeletedVariable())
        return call(parent, tx, name, args, kwargs)

    parents.call_method = call_method


def _run(owner: Any, tx: Any, name: str, held: property, value: Any) -> Any:
    deletes = isinstance(value, DeletedVariable)
    part, operands = ("fdel", [owner]) if deletes else ("fset", [owner, value])
    function = getattr(held, part)
    if function is None:
        kind = type(owner.value).__name__
        what = "deleter" if deletes else "setter"
        text = f"property '{name}' of '{kind}' object has no {what}"
        raise_observed_exception(AttributeError, tx, args=[text])
    source = None
    if owner.cls_source:
        source = AttrSource(owner.get_source_by_walking_mro(name), part)
    return VariableTracker.build(tx, function, source).call_function(tx, operands, {})
