# pyright: basic, reportMissingImports=false
"""A loop that ends by a tensor's value, of a function that was written anew (`rewriting.py`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._higher_order_ops.while_loop import while_loop
from torch.utils import _pytree as pytree

from rnncc.frontends.torch.marks import mark_loop
from rnncc.frontends.torch.merged import passed
from rnncc.torch.branching.values import OF_NUMBERS, Nothing, as_flag_on, as_tensor, is_tensor


def repeated(
    goes_on: Callable[..., Any], step: Callable[..., tuple[Any, ...]], held: tuple[Any, ...]
) -> tuple[Any, ...]:
    """The variables behind `while goes_on(*held): held = step(numbers, *held)`.

    Iterations before which no tensor is asked are done as Python does them. From then on numbers
    that change are tensors.

    Args:
        step: is told which variables began as numbers and may be tensors by now.
        held: the variables' values; `Nothing` where one is not bound.
    """
    plain, before = (False,) * len(held), None
    numbers = tuple(type(x) in OF_NUMBERS for x in held)
    test = goes_on(*held)
    while not is_tensor(test):
        if not test:
            return held
        before, held = held, step(plain, *held)
        test = goes_on(*held)
    after = step(plain, *pytree.tree_map(_copied, held)) if before is None else held
    changed = _changed(before or held, after)
    return _of_tensors(goes_on, lambda *xs: step(numbers, *xs), held, changed, after, test)


def _copied(x: Any) -> Any:
    return x.clone() if isinstance(x, torch.Tensor) else x


def _changed(before: Sequence[Any], after: Sequence[Any]) -> list[bool]:
    """Which leaves of variables an iteration has changed, or where they are not known to be the
    same."""
    found: list[bool] = []
    for one, other in zip(before, after, strict=True):
        leaves, spec = pytree.tree_flatten(one)
        others, spec_of_other = pytree.tree_flatten(other)
        if spec == spec_of_other:
            found += [not _is_same(*both) for both in zip(leaves, others, strict=True)]
        else:
            found += [True for _ in others]
    return found


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) or isinstance(other, torch.Tensor):
        return False
    return one is other or (type(one) is type(other) and one == other)


def _of_tensors(
    goes_on: Callable[..., Any],
    step: Callable[..., tuple[Any, ...]],
    held: tuple[Any, ...],
    changed: Sequence[bool],
    after: tuple[Any, ...],
    test: torch.Tensor,
) -> tuple[Any, ...]:
    """The loop from where its test is a tensor."""
    leaves, spec = pytree.tree_flatten(held)
    if len(leaves) != len(changed):
        raise TypeError("a loop that ends by a tensor's value changes how its variables are nested")
    others = pytree.tree_flatten(after)[0]
    carries = [
        isinstance(x, torch.Tensor) or (type(x) in OF_NUMBERS and differs)
        for x, differs in zip(leaves, changed, strict=True)
    ]
    inits = tuple(
        passed(as_tensor(x, other, test))
        for x, other, carried in zip(leaves, others, carries, strict=True)
        if carried
    )

    def values_of(carried: Sequence[Any]) -> Any:
        rest = iter(carried)
        full = [next(rest) if c else x for x, c in zip(leaves, carries, strict=True)]
        return pytree.tree_unflatten(full, spec)

    def going(*carried: Any) -> torch.Tensor:
        return passed(as_flag_on(goes_on(*values_of(carried)), test))

    def body(*carried: Any) -> tuple[Any, ...]:
        new = _next(step(*values_of(carried)), held)
        found, kind = pytree.tree_flatten(new)
        if kind != spec:
            what = "a loop that ends by a tensor's value changes how its variables are nested"
            raise TypeError(what)
        given: list[Any] = []
        for x, y, c in zip(leaves, found, carries, strict=True):
            if c:
                given.append(passed(_like(y, inits[len(given)])))
            elif not _is_same(x, y):
                raise TypeError("a loop that ends by a tensor's value changes what is no tensor")
        return tuple(given)

    run = while_loop if torch.compiler.is_dynamo_compiling() else mark_loop
    return tuple(values_of(run(going, body, inits)))


def _next(values: tuple[Any, ...], held: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values of the next iteration, but of variables that were not bound before the first."""
    return tuple(Nothing if old is Nothing else new for old, new in zip(held, values, strict=True))


def _like(x: Any, init: torch.Tensor) -> Any:
    """A number as a tensor of a carried one's type."""
    if type(x) in OF_NUMBERS:
        return torch.full((), x, dtype=init.dtype, device=init.device)
    return x
