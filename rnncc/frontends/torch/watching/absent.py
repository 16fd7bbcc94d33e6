# pyright: basic, reportMissingImports=false
"""Lets TorchDynamo notice when an attribute or key appears that code did not find.

    try:
        h = h + self.bias
    except AttributeError:
        h = h + 0.1

Dynamo guards what code asks by `hasattr` and `in`, but not the errors that it catches.
"""

from __future__ import annotations

from functools import partial, wraps
from inspect import signature
from typing import Any

from torch._dynamo.exc import ObservedAttributeError
from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.source import AttrSource
from torch._dynamo.variables.dicts import ConstDictVariable
from torch._dynamo.variables.user_defined import UserDefinedObjectVariable

from rnncc.frontends.torch.readings import readings


def _absent(source: Any, name: str) -> Any:
    """The guard that an object has no attribute of a name."""
    if "attr" in signature(GuardBuilder.HASATTR).parameters:
        return source.make_guard(partial(GuardBuilder.HASATTR, attr=name))
    return AttrSource(source, name).make_guard(GuardBuilder.HASATTR)  # an older PyTorch


def notice_absent(reads_attribute: str) -> None:
    """Put guards where such an error is raised.

    Args:
        reads_attribute: the method by which Dynamo reads attributes.
    """
    owner: Any = UserDefinedObjectVariable
    get = getattr(owner, reads_attribute)

    @wraps(get)
    def get_attribute(variable: Any, tx: Any, name: str) -> Any:
        try:
            return get(variable, tx, name)
        except ObservedAttributeError:
            if readings.stack and variable.source:
                install_guard(_absent(variable.source, name))
            raise

    setattr(owner, reads_attribute, get_attribute)
    entries: Any = ConstDictVariable
    look_up = entries.getitem_const_raise_exception_if_absent

    @wraps(look_up)
    def get_entry(variable: Any, tx: Any, key: Any) -> Any:
        if readings.stack and key not in variable:
            variable.install_dict_contains_guard(tx, [key])
        return look_up(variable, tx, key)

    entries.getitem_const_raise_exception_if_absent = get_entry
