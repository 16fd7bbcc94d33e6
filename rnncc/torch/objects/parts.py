# pyright: basic, reportMissingImports=false
"""What a module consists of: when that is no longer so, it is compiled anew."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

import torch
from torch.nn.modules import module as modules

from rnncc.torch.devices import PLAIN_TENSORS


class Parts:
    """The modules that one consists of, at some moment."""

    def __init__(self, module: torch.nn.Module) -> None:
        own = list(module.modules())
        self._modules = [
            (x, type(x), dict(x._modules), _absent(x), _counts(x), _hooks(x)) for x in own
        ]
        self._shared, self._common, self._kinds = _shared(own), _common(), _kinds(own)

    def are_of(self, module: torch.nn.Module) -> bool:
        """Whether these are still the same, have tensors of the same names, shapes and types and
        the same hooks, and share those tensors that the code takes for one."""
        return (
            self._modules[0][0] is module
            and self._common == _common()
            and all(
                type(x) is kind
                and x._modules == parts
                and _counts(x) == counts
                and (not absent or _absent(x) == absent)
                and _hooks(x) == hooks
                for x, kind, parts, absent, counts, hooks in self._modules
            )
            and self._are_alike()
            and all(
                getattr(*place, None) is getattr(*places[0], None)
                for places in self._shared
                for place in places[1:]
            )
        )

    def _are_alike(self) -> bool:
        """Whether all tensors are still there, as they were; each call waits for this."""
        for module, place, name, own, kind in self._kinds:
            x = getattr(module, place).get(name)
            if type(x) is own and own in PLAIN_TENSORS:
                if x.dtype is not kind[1] or x.shape != kind[0]:
                    return False
            elif _kind(x) != kind:
                return False
        return True

    def modes(self) -> tuple[bool, ...]:
        """Which ones are in `train()` mode."""
        return tuple([x.training for x, *_ in self._modules])


def _absent(module: torch.nn.Module) -> list[str]:
    """The names of parameters and buffers that a module might have."""
    tensors = *module._parameters.items(), *module._buffers.items()
    return [name for name, tensor in tensors if tensor is None]


def _counts(module: torch.nn.Module) -> tuple[int, int]:
    """Of names of parameters and of buffers."""
    return len(module._parameters), len(module._buffers)


_PLACES = "_parameters", "_buffers", "__dict__"
"""Where a module has tensors."""


def _kinds(modules: Iterable[torch.nn.Module]) -> list[tuple[Any, ...]]:
    """The tensors that modules have by their places, with their classes, and with what code may ask
    of them besides their values."""
    return [
        (module, place, name, type(tensor), _kind(tensor))
        for module in modules
        for place in _PLACES
        for name, tensor in getattr(module, place).items()
        if isinstance(tensor, torch.Tensor)
    ]


def _kind(tensor: Any) -> Any:
    is_known = isinstance(tensor, torch.Tensor) and not torch.nn.parameter.is_lazy(tensor)
    return (tensor.shape, tensor.dtype) if is_known else None


def _common() -> tuple[Any, ...]:
    """What all modules depend on."""
    hooks = modules._global_forward_pre_hooks, modules._global_forward_hooks
    return torch.get_default_dtype(), *(number for kind in hooks for number in kind)


def _hooks(module: torch.nn.Module) -> tuple[int, ...]:
    """The numbers of a module's hooks."""
    own = module.__dict__
    return (
        *own["_forward_pre_hooks"],
        *own["_forward_hooks"],
        *own["_backward_pre_hooks"],
        *own["_backward_hooks"],
    )


def _shared(modules: Iterable[torch.nn.Module]) -> list[list[tuple[torch.nn.Module, str]]]:
    """The places of each tensor that modules have more than once."""
    places = dict[int, list[tuple[torch.nn.Module, str]]]()
    for module in modules:
        for name, tensor in chain(*(getattr(module, place).items() for place in _PLACES)):
            if isinstance(tensor, torch.Tensor):
                places.setdefault(id(tensor), []).append((module, name))
    return [owners for owners in places.values() if len(owners) > 1]
