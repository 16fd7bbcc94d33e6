# pyright: basic, reportMissingImports=false
"""Operators of TorchScript as Python expressions.

Of numbers, lists, dicts and texts TorchScript has operators of its own, which have Python's
meaning; those of tensors are PyTorch's functions and methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from rnncc.frontends.torch.own_operators.recurrent_op import KINDS

PYTHON = {
    "add": "({} + {})",
    "sub": "({} - {})",
    "mul": "({} * {})",
    "div": "({} / {})",
    "floordiv": "({} // {})",
    "__round_to_zero_floordiv": "int({} / {})",
    "remainder": "({} % {})",
    "pow": "({} ** {})",
    "neg": "(-{})",
    "eq": "({} == {})",
    "ne": "({} != {})",
    "lt": "({} < {})",
    "le": "({} <= {})",
    "gt": "({} > {})",
    "ge": "({} >= {})",
    "__and__": "({} & {})",
    "__or__": "({} | {})",
    "__xor__": "({} ^ {})",
    "__not__": "(not {})",
    "__is__": "({} is {})",
    "__isnot__": "({} is not {})",
    "__contains__": "({1} in {0})",
    "__getitem__": "{}[{}]",
    "slice": "{}[{}:{}:{}]",
    "keys": "list({}.keys())",
    "values": "list({}.values())",
    "items": "list({}.items())",
    "ceil": "math.ceil({})",
    "floor": "math.floor({})",
    "round": "float(round({}))",
    "__range_length": "len(range({}, {}, {}))",
    "__derive_index": "({1} + {0} * {2})",
}
"""Of numbers, lists, dicts and texts; with `{1}`, which argument stands where."""
PYTHON |= {name: f"math.{name}({{}})" for name in ("sqrt", "exp", "log", "sin", "cos", "tanh")}
CALLED = {name: name for name in "len list str abs min max sum any all ord chr sorted".split()}
CALLED |= {"Int": "int", "Float": "float", "Bool": "bool"}
CALLED |= {"IntImplicit": "int", "FloatImplicit": "float"}
"""The same as functions of any number of arguments."""
METHODS = {name: name for name in "pop index count copy get format split join strip".split()}
METHODS |= {name: name for name in "upper lower startswith endswith item dim numel".split()}
METHODS |= {"ScalarImplicit": "item"}
"""And as methods of the first argument."""
CHANGES = {name: name for name in ("append", "extend", "insert", "clear", "reverse")}
CHANGES |= {"_set_item": "__setitem__", "Delete": "__delitem__", "add_": "extend"}
"""Methods that change the first argument, which is the result, if there is one."""
ASKED = {"Int", "IntImplicit", "Float", "FloatImplicit", "Bool", "ScalarImplicit", "item", "len"}
ASKED |= {"dim", "numel", "__contains__", "__is__", "__isnot__"}
"""Those of all these that tensors answer, too."""
ATTRIBUTES = "dtype device shape is_cuda requires_grad layout ndim data type".split()
"""`prim::NAME` of a tensor; the last one of a device."""
OF_SIZES = {"add": "+", "sub": "-", "mul": "*", "floor_divide": "//", "remainder": "%"}
"""What traced code computes of sizes that it takes for tensors."""
SCALAR_TYPES: Sequence[Any] = (
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.float32, torch.float64),
    *(torch.complex32, torch.complex64, torch.complex128, torch.bool),
    *(torch.qint8, torch.quint8, torch.qint32, torch.bfloat16),
)
"""By the numbers that TorchScript has in their place."""
MEMORY_FORMATS: Sequence[Any] = (
    *(torch.contiguous_format, torch.preserve_format),
    *(torch.channels_last, torch.channels_last_3d),
)
LEFT_OUT = {"layout", "pin_memory", "non_blocking", "requires_grad", "implicit"}
"""Arguments by name that say nothing of values."""


def function_of(name: str) -> str | None:
    """What calls an operator of tensors in Python; what begins with a dot is a method. None where
    only the operator itself will do."""
    if name in (*KINDS, "_pack_padded_sequence", "_pad_packed_sequence"):
        return f"torch._VF.{name}"  # where recurrent layers stay whole
    if name in ("index", "index_put_"):
        return None  # no function has them with places that are None
    if name.endswith("_") and not name.startswith("_") and hasattr(torch.Tensor, name):
        return f".{name}"
    known: Any = torch._C
    own = getattr(known._VariableFunctions, name, None)
    if own is not None:  # some of torch.NAME are functions around these, of other arguments
        return f"torch.{name}" if getattr(torch, name, None) is own else f"torch._VF.{name}"
    for place, owner in (("torch._C._nn", known._nn), ("torch", torch)):
        if callable(getattr(owner, name, None)):
            return f"{place}.{name}"
    return f".{name}" if callable(getattr(torch.Tensor, name, None)) else None


def dtype_of(text: str) -> str:
    """A dtype, where TorchScript has a number for it."""
    return str(SCALAR_TYPES[int(text)]) if text.isdigit() else text
