# pyright: basic, reportMissingImports=false
"""Calls of TorchScript's `aten` operators, as lines of Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from rnncc.frontends.torch.scripted import operators
from rnncc.frontends.torch.scripted.text import Text

DEFAULTS = ("copy", "False"), ("alpha", "1")
"""Arguments that need not be said."""
WITH_FACTOR = ("add", "add_", "sub", "sub_", "rsub")
"""What takes a factor by its name alone."""


def write_operator(text: Text, node: Any, name: str) -> None:
    """Write what an operator computes, and give its results names."""
    if name == "warn" or _is_of_sizes(text, node, name):
        return
    schema = torch._C.parse_schema(node.schema())
    kinds = [str(argument.type) for argument in schema.arguments]
    listed = bool(kinds) and kinds[0].startswith(("List", "Dict"))
    plain = listed or name in operators.ASKED or not any("Tensor" in kind for kind in kinds)
    values = [text.read(value) for value in node.inputs()]
    if name == "size":
        whole = len(values) == 1
        text.assign(node, f"list({values[0]}.shape)" if whole else "{}.size({})".format(*values))
    elif listed and name in operators.CHANGES:
        text.put(f"{values[0]}.{operators.CHANGES[name]}({', '.join(values[1:])})")
        text.same(node, values[0])
    elif not plain or not _is_plain(text, node, name, schema, values):
        _call(text, node, name, schema)


def _is_of_sizes(text: Text, node: Any, name: str) -> bool:
    """Compute with sizes that traced code takes for tensors as with numbers; whether it does."""
    values = [text.names[value.debugName()] for value in node.inputs()]
    sizes = [value.debugName() in text.sizes for value in node.inputs()]
    if not any(sizes):
        return False
    if name in ("Int", "IntImplicit", "item", "ScalarImplicit"):
        text.assign(node, values[0])
        return True
    sign = operators.OF_SIZES.get(name) if values[2:] in ([], ["1"]) else None
    if name == "div" and values[2:] == ["'floor'"]:
        sign = "//"
    numbers = [known or value.isdigit() for known, value in zip(sizes, values, strict=True)]
    if sign is None or not all(numbers[:2]):
        return False
    text.assign(node, f"{values[0]} {sign} {values[1]}")
    text.sizes.add(node.output().debugName())
    return True


def _is_plain(text: Text, node: Any, name: str, schema: Any, values: Sequence[str]) -> bool:
    """Write an operator of Python's own types; whether it is one."""
    if name in operators.METHODS:
        text.assign(node, f"{values[0]}.{operators.METHODS[name]}({', '.join(values[1:])})")
    elif name in operators.CALLED:
        text.assign(node, f"{operators.CALLED[name]}({', '.join(values)})")
    elif name in operators.PYTHON:
        if name in ("eq", "ne") and not text.types.isdisjoint(values):
            values = [operators.dtype_of(value) for value in values]
        result = operators.PYTHON[name].format(*values)
        to_float = name == "pow" and str(schema.returns[0].type) == "float"
        text.assign(node, f"float({result})" if to_float else result)
    else:
        return False
    return True


def _call(text: Text, node: Any, name: str, schema: Any) -> None:
    """Call PyTorch's own function."""
    own, named = list[str](), dict[str, str]()
    for argument, value in zip(schema.arguments, node.inputs(), strict=True):
        argument_text = _argument(argument.name, text.read(value))
        if argument.name in operators.LEFT_OUT:
            continue
        factor = argument.name == "alpha" and name in WITH_FACTOR
        if argument.kwarg_only or factor or (name == "to" and own):
            if argument_text != "None" and (argument.name, argument_text) not in DEFAULTS:
                named[argument.name] = argument_text
        else:
            own.append(argument_text)
    if name == "to" and "other" in named:
        own.append(named.pop("other"))
    function = operators.function_of(name)
    if name == "_convolution":  # as traces have it, with settings of other machines
        function, own = "torch.convolution", own[:9]
    if function is None:
        function = f"torch.ops.aten.{name}.{schema.overload_name or 'default'}"
    elif function.startswith("."):
        function = f"{own.pop(0)}{function}"
    arguments = ", ".join([*own, *(f"{key}={value}" for key, value in named.items())])
    text.assign(node, f"{function}({arguments})")


def _argument(name: str, value: str) -> str:
    """An argument, where TorchScript has a number for it what that means."""
    if name == "dtype":
        return operators.dtype_of(value)
    if name == "memory_format" and value.isdigit():
        return str(operators.MEMORY_FORMATS[int(value)])
    return value
