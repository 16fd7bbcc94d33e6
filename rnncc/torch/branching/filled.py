# pyright: basic, reportMissingImports=false
"""Tensors that code makes of numbers, `torch.full(size, n)`, where a number has become a tensor,
and what else it asks of such a number.

Python's numbers are tensors of rank 0 once a loop or a branch on a tensor's value has changed them.
PyTorch would ask for their values.
"""

from __future__ import annotations

import ast
from typing import Any

import torch

from rnncc.frontends.torch.numbers.fills import FILLS
from rnncc.torch.branching.syntax import called, like
from rnncc.torch.branching.values import OF_NUMBERS, is_tensor

_MAKING = "full", "full_like", "new_full", "tensor", "LongTensor", "as_tensor", "new_tensor"


class FillCalls(ast.NodeTransformer):
    """Lets calls that make tensors of numbers take those that are tensors."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call of `torch.full`, or of something else's method of that name."""
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "type"), args=[x, *_], keywords=[]):
                node.args[0] = like(x, called("typed", x))
                return node
            case _:
                pass
        if not isinstance(node.func, ast.Attribute) or node.func.attr not in _MAKING:
            return node
        call = called("filled", node.func.value, ast.Constant(node.func.attr), *node.args)
        call.keywords = node.keywords
        return like(node, call)


def typed(x: Any) -> Any:
    """A value of whose type code asks: that of a number is not known where a tensor stands for
    it."""
    if is_tensor(x) and x.dim() == 0 and x.dtype in (*OF_NUMBERS.values(),):
        raise TypeError("asks for the type of a number that a tensor stands for")
    return x


def filled(owner: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    """`owner.name(*args, **kwargs)`, which may make a tensor of numbers that are tensors."""
    if owner is torch or isinstance(owner, torch.Tensor):
        make = FILLS.get(getattr(torch if owner is torch else torch.Tensor, name, None))
        own = args if owner is torch else (owner, *args)
        value: Any = kwargs["fill_value"] if "fill_value" in kwargs else own[-1] if own else None
        if make is not None and is_tensor(value) and not value.dim():
            return make(*own, **kwargs)
        if args and isinstance(args[0], list | tuple) and _has_tensor(args[0]):
            return _of_several(owner, name, *args, **kwargs)
    return getattr(owner, name)(*args, **kwargs)


def _of_several(owner: Any, name: str, data: Any, **kwargs: Any) -> Any:
    """A tensor of the numbers in lists."""
    stacked, dtype = _stacked(data), kwargs.pop("dtype", None)
    if dtype is None:
        dtype = {"LongTensor": torch.int64, "new_tensor": getattr(owner, "dtype", None)}.get(name)
    if dtype is None and stacked.dtype == torch.float64:
        # what has become of Python's numbers and what was a tensor have different types then
        raise TypeError("the type of a tensor that is made of a number of the run is not known")
    if any(value is not None for value in kwargs.values()):
        raise TypeError("a tensor that is made of a number of the run takes its type alone")
    return stacked if dtype is None else stacked.to(dtype)


def _stacked(data: Any) -> torch.Tensor:
    if isinstance(data, list | tuple):
        return torch.stack([_stacked(part) for part in data])
    return data.detach() if isinstance(data, torch.Tensor) else torch.tensor(data)


def _has_tensor(data: Any) -> bool:
    if isinstance(data, list | tuple):
        return any(_has_tensor(part) for part in data)
    return is_tensor(data)
