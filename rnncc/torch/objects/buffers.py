# pyright: basic, reportMissingImports=false
"""Buffers that a module gives other tensors while it is exported, `self.k = ...`.

PyTorch sees that of the outermost module's buffers alone, and not where one is given another one:
what is assigned to others is lost. Here all of them are changed in place instead.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.export import _trace
from torch.utils import _pytree as pytree
from torch.utils.hooks import RemovableHandle

from rnncc.errors import CompileError
from rnncc.frontends.torch.patches import ThreadScope
from rnncc.frontends.torch.types import type_name

_Place = tuple[str, str]
"""The path of a module within another, and the name of a buffer of its own."""


_keeping = ThreadScope()
_NAME = "register_buffer_assignment_hook"
_theirs: Any = vars(_trace).get(_NAME)


def _hook(module: torch.nn.Module, assigned: dict[str, str]) -> Any:
    """PyTorch's, or none."""
    return RemovableHandle(OrderedDict()) if _keeping else _theirs(module, assigned)


if _theirs is not None:  # where it is elsewhere, what both copy is the same
    setattr(_trace, _NAME, _hook)


@contextmanager
def keeping_buffers(module: torch.nn.Module) -> Generator[None]:
    """While it lasts, what a call of `module` assigns to buffers is copied into what they were.

    Raises:
        CompileError: a buffer becomes a tensor of another type, or is another one's, too; or a
            parameter becomes another one.
    """
    before, parameters = dict[_Place, Any](), dict[str, Any]()

    def look(*_: Any) -> None:
        before.update(_buffers(module))
        parameters.update(module.named_parameters())

    def keep(_module: Any, _args: Any, results: Any) -> Any:
        for name, now in module.named_parameters():
            if parameters.get(name) is not now:
                what = "a parameter is given another tensor, which is not supported"
                raise CompileError(name, what, "keep a buffer instead")
        return _kept(module, before, results)

    hooks = [module.register_forward_pre_hook(look), module.register_forward_hook(keep)]
    try:
        with _keeping:
            yield
    finally:
        for hook in hooks:
            hook.remove()


def _buffers(module: torch.nn.Module) -> dict[_Place, Any]:
    parts = dict(module.named_modules())
    return {(path, name): x for path, part in parts.items() for name, x in part._buffers.items()}


def _kept(module: torch.nn.Module, before: Mapping[_Place, Any], results: Any) -> Any:
    """The results, which are no views of buffers any more where these have changed."""
    now = _buffers(module)
    assigned = [place for place in {**before, **now} if now.get(place) is not before.get(place)]
    if not assigned:
        return results
    count = Counter(map(id, before.values()))
    for place in assigned:
        _check(".".join(filter(None, place)), before.get(place), now.get(place), count)
    results = pytree.tree_map_only(torch.Tensor, torch.clone, results)
    values = {place: now[place].clone() for place in assigned}  # they may be swapped
    for (path, name), value in values.items():
        before[path, name].copy_(value)
        module.get_submodule(path)._buffers[name] = before[path, name]
    return results


def _check(target: str, old: Any, new: Any, count: Mapping[int, int]) -> None:
    texts = [_type_of(x) for x in (old, new)]
    if texts[0] != texts[1]:
        what = "a buffer is {} before a call and {} after it".format(*texts)
        hint = "call the module once before" if old is None else None
        raise CompileError(target, what, hint)
    if count[id(old)] > 1:
        raise CompileError(target, "a buffer that another module has, too, is given another tensor")


def _type_of(x: Any) -> str:
    return "None" if x is None else f"{type_name(x.dtype)} {list(x.shape)}"
