# pyright: basic, reportMissingImports=false
"""Tensors that a module's code makes of Python's numbers alone, such as a grid of times: their
values are known while it is exported.

PyTorch knows those of `torch.tensor(2)`, and what is computed of them, until something changes
them; here it also knows those of short lists and ranges. So the code may take numbers out of them
(`torch.arange(1, x.dim()).tolist()`) and branch on them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch._subclasses.meta_utils import MetaConverter
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

from rnncc.frontends.torch.numbers.known_constants import LIMIT, known_by_fakes_alone
from rnncc.torch.objects.places import MOST_LEAVES

_RANGES = frozenset({torch.arange, torch.linspace, torch.logspace})


@contextmanager
def knowing_values() -> Generator[None]:
    """While it lasts, the values of tensors that are made of numbers are known."""
    with knowing_lists(), known_by_fakes_alone(), _Ranges():
        yield


def knowing_lists() -> AbstractContextManager[object]:
    """While it lasts, the values of tensors that are made of lists of numbers are known."""
    # A version of PyTorch without the name knows those of single numbers, as it does by itself.
    return patch.object(fake_tensor, LIMIT, MOST_LEAVES, create=True)


class _Ranges(TorchFunctionMode):
    """Tells the values of ranges, which PyTorch knows of lists."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of PyTorch."""
        result = func(*args, **(kwargs or {}))
        if torch.compiler.is_dynamo_compiling():  # it reads this with the body of a PyTorch loop
            return result
        if func in _RANGES and all(isinstance(x, int | float) for x in args):
            with torch._C.DisableTorchFunction():  # these are no questions of the code
                if not result.requires_grad and result.device.type == "cpu":
                    tell(result, lambda: func(*args, **(kwargs or {})))
        return result


def tell(made: torch.Tensor, value: Callable[[], torch.Tensor]) -> None:
    """Let the value of a tensor be known that stands for another one while code is exported."""
    inner = _inner(made)
    if not isinstance(inner, FakeTensor):
        return
    converter = inner.fake_mode.fake_tensor_converter
    # What makes PyTorch forget the values where something changes them.
    register = getattr(converter, "add_constant_storage_mapping", None)
    if register is not None and inner.constant is None and made.numel() <= MOST_LEAVES:
        with _disable_current_modes():
            inner.constant = value()
            _note_memory(converter.meta_converter, inner.constant, inner)
        register(inner)


def _note_memory(converter: MetaConverter[Any], constant: torch.Tensor, fake: FakeTensor) -> None:
    """Let what stands for views of a constant have the memory of what stands for that, as what
    code changes by way of a view is found by its memory."""
    memory = converter.describer.describe_tensor(constant).storage
    if memory is not None:
        converter.set_storage_memo(memory, fake.untyped_storage())


def is_known(x: torch.Tensor) -> bool:
    """Whether the value of a tensor is known while code is exported."""
    return getattr(_inner(x), "constant", None) is not None


def known_number(x: torch.Tensor) -> Any:
    """The number in a tensor of rank 0, if it is known while code is exported."""
    constant = getattr(_inner(x), "constant", None)
    if constant is None:
        return None
    with _disable_current_modes():
        return constant.item()


def _inner(x: torch.Tensor) -> torch.Tensor:
    return x.from_functional() if isinstance(x, FunctionalTensor) else x
