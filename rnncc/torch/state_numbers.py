# pyright: basic, reportMissingImports=false
"""Numbers of Python's in a state, such as a count of steps: `scan(cell, xs, (h, 0))`.

They are kept in a list beside the cell, as cells keep numbers in objects of their own, and the loop
carries a 0 in their places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch.compiler import is_dynamo_compiling

from rnncc.errors import CompileError
from rnncc.torch.all_steps import Manner
from rnncc.torch.first_steps import first_steps_apart
from rnncc.torch.objects.nests import copied, in_order_of, put_into_same, same_ones
from rnncc.torch.objects.trees import leaves, mapped
from rnncc.torch.tracing import PAIR, code_of


def is_number(x: Any) -> bool:
    """Whether it is a number or flag of Python's; TorchDynamo reads this too."""
    return isinstance(x, int | float) and not isinstance(x, torch.SymInt | torch.SymFloat)


def has_numbers(state: Any) -> bool:
    """Whether a number stands anywhere in a state."""
    return any(map(is_number, leaves(state)))


def scan_with_numbers(
    cell: Callable[..., Any], xs: Any, state: Any, how: Manner
) -> tuple[Any, Any]:
    """As `scan`, where numbers stand in the state; they are numbers after the last step, too.

    What is a number before the first step and a tensor after it is one from then on.
    """
    numbers, same = list(filter(is_number, leaves(state))), [False]
    own: Any = partial(_without_numbers, cell, numbers, same)
    own.__code__ = code_of(cell)  # it is read, and told of in errors, as the cell itself
    own.__qualname__ = getattr(cell, "__qualname__", type(cell).__qualname__)
    ys, finals = first_steps_apart(own, xs, mapped(_or_zero, state), how)
    return ys, put_into_same(state, _filled(finals, numbers), same[0])


def _without_numbers(
    cell: Callable[..., Any], numbers: list[Any], same: list[Any], x: Any, state: Any
) -> tuple[Any, Any]:
    """A step whose state has zeros where numbers stand, which it keeps.

    Args:
        same: where it puts what is to be known of the next state's nests (`same_ones`).
    """
    full = _filled(state, numbers)
    own = copied(full)
    result = cell(x, own)
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise TypeError(PAIR)
    y, new = result
    same[0] = same_ones(new, own, full)
    new = in_order_of(state, new)
    before, after = leaves(state), leaves(new)
    pairs = list(zip(before, after, strict=False))
    is_other = any(is_number(now) and not is_number(old) for old, now in pairs)
    if is_other or len(before) != len(after):
        if not is_dynamo_compiling() and any(map(is_number, after)):
            what = "a state has numbers after a step where none were before it"
            raise CompileError("", what, "torch.tensor(n), for a number that steps count")
        return y, new  # of other steps the loop refuses it
    for number, value in enumerate([now for old, now in pairs if is_number(old)]):
        numbers[number] = value
    left = iter([0 if is_number(old) else now for old, now in pairs])
    return y, mapped(lambda _: next(left), new)


def _or_zero(x: Any) -> Any:
    return 0 if is_number(x) else x


def _filled(state: Any, numbers: Iterable[Any]) -> Any:
    left = iter(numbers)
    return mapped(lambda x: next(left) if is_number(x) else x, state)
