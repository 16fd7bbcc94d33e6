# pyright: basic, reportMissingImports=false
"""What a part of code, a way of a branch or a loop, changes of Python's: nothing, or it is refused.

Both ways of a branch may leave the same number somewhere, such as a count of calls.

Where TorchDynamo reads the part, it sees to that itself (`watching.regions.alone`).
"""

from __future__ import annotations

from typing import Any

import torch

from rnncc.frontends.torch.watching.regions import refuse_effect
from rnncc.torch.objects.kept import Holdings, StatePlace, put

Numbers = list[tuple[StatePlace, int | float]]
"""Where a way of a branch has left numbers, and which."""


def held_by(parts: Any) -> Holdings | None:
    """What everything holds that parts lead to; None where TorchDynamo reads."""
    return None if torch.compiler.is_dynamo_compiling() else Holdings(parts)


def numbers_left(before: Holdings | None) -> Numbers:
    """Put back the numbers that one way of a branch replaced, as the other starts from them too."""
    numbers: Numbers = [] if before is None else before.take_back()
    check_unchanged(before, "branch")
    return numbers


def leave_numbers(one: Numbers, other: Numbers) -> None:
    """Put numbers where both ways of a branch left them; refuse those that one alone left."""
    known = {(id(place.owner), place.key): number for place, number in other}
    for place, number in one:
        if known.pop((id(place.owner), place.key), None) != number:
            refuse_effect("branch", place)
        put(place.owner, place.key, number)
    if known:
        refuse_effect("branch", next(x for x, _ in other if (id(x.owner), x.key) in known))


def check_unchanged(before: Holdings | None, name: str) -> None:
    """Refuse a part that has changed something since.

    Args:
        name: what it is of: a branch, or a loop.
    """
    if before is not None and (place := before.changed()):
        refuse_effect(name, place)
