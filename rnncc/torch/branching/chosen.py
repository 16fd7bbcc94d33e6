# pyright: basic, reportMissingImports=false
"""A function that a branch on a tensor's value has chosen: each call of it is a branch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from rnncc.frontends.torch.readings import location, refuse
from rnncc.frontends.torch.watching.regions import disagree

Branch = Callable[[torch.Tensor, Callable[[], Any], Callable[[], Any]], Any]


def may_be_chosen(x: Any) -> bool:
    """Whether a value may be one of two that are called."""
    return callable(x) and not isinstance(x, (type, torch.Tensor))


class ChosenFunction:
    """One of two functions, or of two modules: a call takes one, as the flag says.

    What both have alike can be read; what differs is refused.

    Args:
        flag: whether it is the first.
        branch: what both calls give, of which the run will make one.
    """

    def __init__(self, flag: torch.Tensor, ways: tuple[Any, Any], branch: Branch) -> None:
        self._rnncc_flag, self._rnncc_ways, self._rnncc_branch = flag, ways, branch

    @property
    def __class__(self) -> Any:
        """What both are."""
        one, other = map(type, self._rnncc_ways)
        return next(kind for kind in one.__mro__ if issubclass(other, kind))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        one, other = self._rnncc_ways
        ways = (lambda: one(*args, **kwargs)), (lambda: other(*args, **kwargs))
        return self._rnncc_branch(self._rnncc_flag, *ways)

    def __getattr__(self, name: str) -> Any:
        values = [getattr(way, name, _MISSING) for way in self._rnncc_ways]
        if values[0] is not values[1]:
            refuse(location(""), _ASKED.format(name), "call the function within the branch")
        if values[0] is _MISSING:
            raise AttributeError(name)
        return values[0]


class ReadFunction:
    """The same where TorchDynamo reads: nothing of it is known but that it can be called.

    Args:
        flag: whether it is the first.
        branch: what both calls give, of which the run will make one.
    """

    def __init__(self, flag: torch.Tensor, ways: tuple[Any, Any], branch: Branch) -> None:
        self.flag, self.ways, self.branch = flag, ways, branch

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        one, other = self.ways
        ways = (lambda: one(*args, **kwargs)), (lambda: other(*args, **kwargs))
        return self.branch(self.flag, *ways)

    def __getattr__(self, name: str) -> Any:
        disagree(_ASKED.format(name))


_ASKED = "a function that a branch on a tensor's value has chosen is asked for {}"
_MISSING = object()
