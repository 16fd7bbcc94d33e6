# pyright: basic, reportMissingImports=false
"""Transforms of torch.func that are under way: none while a cell is read, all while its loop runs.

TorchDynamo does not read within them; what a cell computes does not depend on them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
from torch._C._functorch import is_functorch_wrapped_tensor
from torch._functorch.pyfunctorch import (
    temporarily_clear_interpreter_stack,
    temporarily_restore_interpreter_stack,
)
from torch._subclasses.fake_tensor import FakeTensorMode

from rnncc.frontends.torch.patches import ThreadStack
from rnncc.frontends.torch.watching.reading import not_watching

_hidden = ThreadStack[tuple[Any, dict[int, Any]]]()
"""The transforms that are not seen now, and what stands for tensors of theirs."""


@contextmanager
def outside_of_transforms() -> Generator[None]:
    """Do what is within without them."""
    if not torch._C._are_functorch_transforms_active():
        yield
        return
    with temporarily_clear_interpreter_stack() as stack:
        _hidden.stack.append((stack, {}))
        try:
            yield
        finally:
            _hidden.stack.pop()


def within_transforms(function: Callable[..., Any], *args: Any) -> Any:
    """What the function returns within those that the innermost `outside_of_transforms` left."""
    if not _hidden.stack:
        return function(*args)
    with not_watching(), temporarily_restore_interpreter_stack(_hidden.stack[-1][0]):
        return function(*args)


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor that a transform knows nothing of, as the cell sees the given one."""
    known = _hidden.stack[-1][1]
    if id(tensor) not in known:
        # Guards compare strides, too, such as those of an axis before that of the instances.
        plain = torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
        )
        if not plain.shape and plain.is_floating_point():
            # For any other number TorchDynamo would put down `item()`, which a tensor that differs
            # between instances refuses.
            plain.fill_(torch.nan)
        known[id(tensor)] = tensor, plain.requires_grad_(tensor.requires_grad)
    return known[id(tensor)][1]


_from_tensor = FakeTensorMode.from_tensor


@wraps(_from_tensor)
def _from_plain_tensor(mode: Any, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    if _hidden.stack and is_functorch_wrapped_tensor(tensor):
        tensor = _plain(tensor)
    return _from_tensor(mode, tensor, *args, **kwargs)


setattr(FakeTensorMode, "from_tensor", _from_plain_tensor)  # noqa: B010
