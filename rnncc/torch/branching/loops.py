# pyright: basic, reportMissingImports=false
"""A loop that ends by a tensor's value, of a function that was written anew (`rewriting.py`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from rnncc.frontends.torch.branches.marks import forgotten, mark_loop, unknown
from rnncc.frontends.torch.watching.regions import alone
from rnncc.torch.branching.effects import check_unchanged, held_by
from rnncc.torch.branching.values import OF_NUMBERS, Unbound, as_flag_on, as_tensor, is_tensor


def repeated(
    goes_on: Callable[..., Any], step: Callable[..., tuple[Any, ...]], held: tuple[Any, ...]
) -> tuple[Any, ...]:
    """The variables behind `while goes_on(*held): held = step(numbers, *held)`.

    Iterations before which no tensor is asked are done as Python does them. From then on numbers
    that change are tensors.

    Args:
        step: gets the variables that began as numbers and may be tensors by now.
        held: the variables' values; `Unbound` where one is not bound.
    """
    plain, before = (False,) * len(held), None
    numbers = tuple(type(x) in OF_NUMBERS for x in held)
    test = goes_on(*held)
    while not is_tensor(test):
        if not test:
            return held
        before, held = held, step(plain, *held)
        test = goes_on(*held)
    kept = held_by((goes_on, step, held))

    def body(values: Sequence[Any]) -> tuple[Any, ...]:
        return _next(alone("loop", step, numbers, *values), held)

    after = forgotten(test, lambda: body(_copies(held))) if before is None else held
    changed = _changed(before or held, after)
    results = _of_tensors(goes_on, body, held, changed, after, test)
    check_unchanged(kept, "loop")
    return results


def _copies(values: Sequence[Any]) -> Any:
    return pytree.tree_map(lambda x: unknown(x) if isinstance(x, torch.Tensor) else x, values)


def _changed(before: Sequence[Any], after: Sequence[Any]) -> list[bool]:
    """Which leaves of variables an iteration has changed, or where they are not known to be the
    same."""
    differing: list[bool] = []
    for one, other in zip(before, after, strict=True):
        leaves, spec = pytree.tree_flatten(one)
        others, spec_of_other = pytree.tree_flatten(other)
        if spec == spec_of_other:
            differing += [not _is_same(*both) for both in zip(leaves, others, strict=True)]
        else:
            differing += [True for _ in others]
    return differing


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) or isinstance(other, torch.Tensor):
        return False
    return one is other or (type(one) is type(other) and one == other)


def _of_tensors(
    goes_on: Callable[..., Any],
    step: Callable[[Sequence[Any]], tuple[Any, ...]],
    held: tuple[Any, ...],
    changed: list[bool],
    after: tuple[Any, ...],
    test: torch.Tensor,
) -> tuple[Any, ...]:
    """The loop from where its test is a tensor."""
    leaves, spec = pytree.tree_flatten(held)
    others = _leaves_like(spec, after)
    inits = [as_tensor(*both, test) for both in zip(leaves, others, strict=True)]

    def values_of(carried: Sequence[Any]) -> Any:
        """The variables, of what is carried from one iteration to the next."""
        rest = iter(carried)
        full = [next(rest) if c else x for x, c in zip(leaves, changed, strict=True)]
        return pytree.tree_unflatten(full, spec)

    def chosen(values: Sequence[Any]) -> list[Any]:
        return [x for x, c in zip(values, changed, strict=True) if c]

    def once() -> tuple[Any, ...]:
        return step(_copies(values_of(chosen(inits))))

    while not all(c or type(x) not in OF_NUMBERS for x, c in zip(leaves, changed, strict=True)):
        following = _leaves_like(spec, forgotten(test, once))
        same = [_is_same(*both) for both in zip(leaves, following, strict=True)]
        if all(c or s for c, s in zip(changed, same, strict=True)):
            break
        changed = [c or not s for c, s in zip(changed, same, strict=True)]

    def going(*carried: Any) -> torch.Tensor:
        return as_flag_on(alone("loop", goes_on, *values_of(carried)), test)

    def body(*carried: Any) -> tuple[Any, ...]:
        new = _leaves_like(spec, step(values_of(carried)))
        if not all(c or _is_same(x, y) for x, y, c in zip(leaves, new, changed, strict=True)):
            raise TypeError("a loop that ends by a tensor's value changes what is no tensor")
        pairs = zip(chosen(new), carried, strict=True)
        return tuple(_like(x, old) for x, old in pairs)

    starts = chosen(inits)
    if not starts:  # what it changes, it changes in place
        mark_loop(lambda _: going(), lambda flag: (*body(), flag), (test,))
        return held
    _check_starts(starts)
    return tuple(values_of(mark_loop(going, body, starts)))


def _check_starts(starts: Sequence[Any]) -> None:
    if not all(isinstance(x, torch.Tensor) for x in starts) or not starts:
        raise TypeError("a loop that ends by a tensor's value changes what is no tensor")


def _leaves_like(spec: Any, values: Any) -> list[Any]:
    """What values hold that are nested alike."""
    leaves, structure = pytree.tree_flatten(values)
    if structure != spec:
        raise TypeError("a loop that ends by a tensor's value changes how its variables are nested")
    return leaves


def _next(values: tuple[Any, ...], held: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values of the next iteration, but of variables that were not bound before the first."""
    return tuple(Unbound if old is Unbound else new for old, new in zip(held, values, strict=True))


def _like(x: Any, old: torch.Tensor) -> Any:
    """What becomes of a carried tensor: another one of its type, or a number."""
    if type(x) in OF_NUMBERS and _fits(OF_NUMBERS[type(x)], old.dtype) and old.dim() == 0:
        return torch.full((), x, dtype=old.dtype, device=old.device)
    if not isinstance(x, torch.Tensor) or (x.dtype, x.shape) != (old.dtype, old.shape):
        what = "a loop that ends by a tensor's value makes {} of {} {}"
        raise TypeError(what.format(_text(x), old.dtype, list(old.shape)))
    return x


def _fits(dtype: torch.dtype, other: torch.dtype) -> bool:
    return torch.promote_types(dtype, other) == other or other.is_floating_point


def _text(x: Any) -> str:
    return f"{x.dtype} {list(x.shape)}" if isinstance(x, torch.Tensor) else type(x).__name__
