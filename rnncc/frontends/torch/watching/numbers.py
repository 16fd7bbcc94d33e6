# pyright: basic, reportMissingImports=false
"""Refuses what code asks of a number that a tensor stands for: to be a key, its text, its type.

A tensor takes a number's place in arithmetic and as an index. As a key of a dict or a set it would
be equal to itself alone, its text is not that of a number, and neither is its type: the code would
silently go another way.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch._dynamo.exc import unimplemented
from torch._dynamo.variables import dicts
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._dynamo.variables.dicts import ConstDictVariable
from torch._dynamo.variables.misc import StringFormatVariable
from torch._dynamo.variables.tensor import TensorVariable
from torch._dynamo.variables.torch import TorchInGraphFunctionVariable

from rnncc.frontends.torch.readings import check_first, is_users, location, readings, refuse

TEXTS = "__repr__", "__str__", "__format__"
"""Methods that give a tensor's text."""
_TYPES = torch.int64, torch.float64, torch.bool
"""Of tensors that stand for Python's numbers."""
_WHAT = "asks for the {} of a number that a tensor stands for"
_HINT = "compare it (n == 2), or index a tensor by it"


def is_number(x: Any) -> bool:
    """Whether a tensor of which nothing is known may stand for a number of Python's."""
    is_unknown = isinstance(x, torch.Tensor) and type(x) is not torch.Tensor
    return is_unknown and x.dim() == 0 and x.dtype in _TYPES


def check_text(x: Any, frame: Any) -> None:
    """Refuse to tell a number's text to users' code that a loop or branch has written anew."""
    if readings.written and is_number(x) and is_users(frame.f_code.co_filename):
        refuse(location("number"), _WHAT.format("text"), _HINT)


def asks_for_key(own: Callable[[Any], int]) -> Callable[[Any], int]:
    """A tensor's `__hash__`, which users' code may not ask of a number."""

    def hash_of(x: Any) -> int:
        if readings.stack and is_users(sys._getframe(1).f_code.co_filename) and is_number(x):
            refuse(location("number"), _WHAT.format("key"), _HINT)
        return own(x)

    return hash_of


def local_name(source: Any) -> str:
    """The name of the argument in which TorchDynamo finds something."""
    while hasattr(source, "base"):
        source = source.base
    return getattr(source, "local_name", "")


def refuse_numbers() -> None:
    """Let TorchDynamo refuse it."""

    def check_key(_: Any, variable: Any) -> None:
        for part in _parts(variable):
            is_made = isinstance(part, TensorVariable) and not part.source
            if is_made and is_number(_node(part).meta["example_value"]):
                _refuse("key")

    def check_type(_: Any, tx: Any, x: Any, *others: Any) -> None:
        known = x.unwrap()
        if isinstance(known, TensorVariable) and is_users(tx.f_code.co_filename):
            node = _node(known)
            if is_number(node.meta["example_value"]) and _is_of_kept(node):
                _refuse("type")

    def check_call(variable: Any, tx: Any, args: Any, kwargs: Any) -> None:
        if variable.value is torch.is_tensor and args:
            check_type(variable, tx, args[0])

    entries: Any = ConstDictVariable
    keys: Any = getattr(dicts, "HashableTracker", None) or entries._HashableTracker
    check_first(keys, "__init__", check_key)
    for method in vars(BuiltinVariable).keys() & {"call_isinstance", "call_type"}:
        check_first(BuiltinVariable, method, check_type)
    check_first(TorchInGraphFunctionVariable, "call_function", check_call)


def _node(variable: Any) -> Any:
    return variable.as_proxy().node


def _is_of_kept(node: Any) -> bool:
    """Whether a value is computed of what a cell keeps from step to step, and of nothing else."""
    waiting, names = [node], set[str]()
    while waiting:
        one = waiting.pop()
        waiting += one.all_input_nodes
        if one.op == "placeholder":
            names.add(local_name(getattr(one.meta.get("grapharg"), "source", None)))
    return names == {"kept"}


def _parts(variable: Any) -> list[Any]:
    """What a key is made of, where that is text."""
    known = variable.unwrap()
    if isinstance(known, StringFormatVariable):
        return [*known.sym_args, *known.sym_kwargs.values()]
    return [known]


def _refuse(what: str) -> NoReturn:
    explanation = f"{_WHAT.format(what)} ({_HINT})"
    unimplemented(gb_type="rnncc", context="", explanation=explanation, hints=[])
