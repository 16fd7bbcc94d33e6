# pyright: basic, reportMissingImports=false
"""What functions call that were written anew (`rewriting.py`): both ways of a branch, of which the
run will take one.

Both ways are run, with marks around what they compute (`frontends.torch.regions`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

from rnncc.frontends.torch.branches.marks import choose, forgotten, mark
from rnncc.frontends.torch.mark_places import BRANCH_END, WAY_IF_FALSE, WAY_IF_TRUE
from rnncc.frontends.torch.readings import readings
from rnncc.frontends.torch.watching.regions import alone, disagree
from rnncc.torch.branching.chosen import ChosenFunction, ReadFunction, may_be_chosen
from rnncc.torch.branching.effects import Numbers, held_by, leave_numbers, numbers_left
from rnncc.torch.branching.filled import filled, typed  # noqa: F401
from rnncc.torch.branching.loops import repeated  # noqa: F401
from rnncc.torch.branching.values import (
    Unbound,
    as_exact,  # noqa: F401
    as_flag,
    as_flag_on,
    as_tensor,
    blanks,
    is_open,
    is_tensor,
)
from rnncc.torch.objects.places import is_alike

Way = Callable[..., tuple[Any, ...]]
_KINDS = {"float": float, "int": int, "bool": bool}


@torch._dynamo.assume_constant_result
def reading(number: int) -> bool:
    """Whether code runs to be read: that of a number."""
    readings.written.add(number)
    return readings.branches


def either(test: Any, yes: Way, no: Way, held: Sequence[Any]) -> tuple[Any, ...]:
    """`yes(*held)` where the test is true, else `no(*held)`."""
    if not is_open(test):
        return yes(*held) if test else no(*held)
    return _in_turn(as_flag(test), yes, no, held)


def blank(value: Any, test: Any, yes: Way, no: Way, held: Sequence[Any], place: int) -> Any:
    """What a variable holds that one of two ways alone binds: zeros like that, if it is None.

    Args:
        place: the variable's among what the ways give.
    """
    if value is not None or not is_open(test):
        return value
    before = held_by((yes, no, held))
    results = forgotten(as_flag(test), lambda: [way(*held)[place] for way in (yes, no)])
    numbers_left(before)
    return next((blanks(x) for x in results if x is not None), None)


def both(one: Any, other: Callable[[], Any], exact: bool, guards: bool = False) -> Any:
    """`one and other()`, as a test, or exactly.

    Args:
        guards: whether `other` may fail where `one` is not true.
    """
    if not is_tensor(one):
        return one and other()
    read = partial(_guarded, as_flag(one), other, exact, True) if guards else other
    return torch.logical_and(*_flags(one, read(), exact))


def some(one: Any, other: Callable[[], Any], exact: bool, guards: bool = False) -> Any:
    """`one or other()`, as a test, or exactly.

    Args:
        guards: whether `other` may fail where `one` is true.
    """
    if not is_tensor(one):
        return one or other()
    read = partial(_guarded, as_flag(one), other, exact, False) if guards else other
    return torch.logical_or(*_flags(one, read(), exact))


def _guarded(flag: torch.Tensor, other: Callable[[], Any], exact: bool, when: bool) -> Any:
    """What the other operand gives, read in the run only where the first one is so."""

    def asked() -> tuple[Any]:
        answer = other()
        return (answer if exact else as_flag_on(answer, flag),)

    def known() -> tuple[Any]:
        return (torch.full((), not when, device=flag.device),)

    yes, no = (asked, known) if when else (known, asked)
    return either(flag, yes, no, ())[0]


def negated(x: Any) -> Any:
    """`not x`."""
    return torch.logical_not(as_flag(x)) if is_tensor(x) else not x


def of_several(function: Any, items: Any) -> Any:
    """`any(items)` or `all(items)`, if that is what the function is."""
    if function is not any and function is not all:
        return function(items)
    several = list(items)
    tensors = [x for x in several if is_tensor(x)]
    if not tensors:
        return function(several)
    join, flag = torch.logical_or if function is any else torch.logical_and, as_flag(tensors[0])
    for x in several:
        flag = join(flag, as_flag_on(x, flag))
    return flag


def sized(items: Any) -> Any:
    """What a loop goes through that ends by a tensor's value: both are read, as if it did not."""
    if not hasattr(items, "__len__"):
        raise TypeError("a loop that ends by a tensor's value goes over what has no length")
    return items


def number(x: Any, kind: str) -> Any:
    """`x.item()`, `float(x)`, `int(x)` or `bool(x)`, of a tensor as one as exact as Python's."""
    if not is_tensor(x):
        return x.item() if kind == "item" else _KINDS[kind](x)
    if kind == "bool":
        return as_flag(x)
    is_float = kind == "float" or (kind == "item" and x.is_floating_point())
    x = x.detach().reshape(())
    return x.to(torch.float64) if is_float else x.to(torch.int64) if kind == "int" else x


def numbers(x: Any) -> Any:
    """`x.tolist()`, of a tensor with numbers as exact as Python's."""
    if not is_tensor(x):
        return x.tolist()
    return [numbers(part) for part in x.unbind(0)] if x.dim() else number(x, "item")


def _flags(one: torch.Tensor, other: Any, exact: bool) -> tuple[torch.Tensor, torch.Tensor]:
    if exact and not (_is_flag(one) and _is_flag(other)):
        raise TypeError("`and` or `or` gives something else than true or false")
    return as_flag(one), as_flag_on(other, one)


def _is_flag(x: Any) -> bool:
    if isinstance(x, torch.Tensor):
        return x.dtype == torch.bool and x.dim() == 0
    return isinstance(x, bool)


def _in_turn(flag: torch.Tensor, yes: Way, no: Way, held: Sequence[Any]) -> tuple[Any, ...]:
    """Both ways, one after the other, with marks."""
    before = held_by((yes, no, held))
    mark(flag, WAY_IF_TRUE)
    ones, numbers = _way(flag, yes, held, before, WAY_IF_FALSE)
    others, numbers_of_other = _way(flag, no, held, before, BRANCH_END)
    leave_numbers(numbers, numbers_of_other)
    return tuple(_joined(flag, *both) for both in zip(ones, others, strict=True))


def _joined(flag: torch.Tensor, one: Any, other: Any) -> Any:
    """What a variable is behind both ways; unbound, where one way leaves it so."""
    if one is Unbound or other is Unbound:
        return Unbound
    (leaves, spec), (others, spec_of_other) = map(pytree.tree_flatten, (one, other))
    if spec != spec_of_other:
        disagree("the branches on a tensor's value make different nests of tensors")
    merged = [_merged(flag, a, b) for a, b in zip(leaves, others, strict=True)]
    return pytree.tree_unflatten(merged, spec)


def _way(
    flag: torch.Tensor, way: Way, held: Sequence[Any], before: Any, behind: int
) -> tuple[tuple[Any, ...], Numbers]:
    """What one of two ways gives, with the numbers that it left, and the mark behind it."""
    values = alone("branch", way, *held)
    numbers = numbers_left(before)
    mark(flag, behind)
    return values, numbers


def _merged(flag: torch.Tensor, one: Any, other: Any) -> Any:
    """What a value is behind both ways."""
    if one is other or is_alike(one, other):
        return one
    if may_be_chosen(one) and may_be_chosen(other):
        kind = ReadFunction if torch.compiler.is_dynamo_compiling() else ChosenFunction
        return kind(flag, (one, other), _called)
    both = as_tensor(one, other, flag), as_tensor(other, one, flag)
    kinds = [(x.dtype, x.device, x.shape) if isinstance(x, torch.Tensor) else x for x in both]
    if not isinstance(both[0], torch.Tensor) or kinds[0] != kinds[1]:
        disagree("a branch on a tensor's value makes {}, and the other one {}", one, other)
    return choose(flag, *both)


def _called(flag: torch.Tensor, one: Callable[[], Any], other: Callable[[], Any]) -> Any:
    return either(flag, lambda: (one(),), lambda: (other(),), ())[0]
