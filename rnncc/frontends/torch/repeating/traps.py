# pyright: basic, reportMissingImports=false
"""What a step that stands for others must not read, as it differs from step to step."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn

from torch._dynamo.exc import SpeculationRestartAnalysis
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.lists import (
    CommonListMethodsVariable,
    ListVariable,
    TupleVariable,
)

_OPEN_TO_ALL = frozenset({
    "__class__", "__dict__", "unwrap", "realize", "source", "mutation_type", "is_realized",
    "user_code_variable_name", "_nonvar_fields", "held", "sprung", "__hash__", "__eq__",
})  # fmt: skip


class Sprung(SpeculationRestartAnalysis):
    """Has TorchDynamo begin again, and read a loop step by step."""


class Withheld(VariableTracker):
    """Stands for a number that differs from step to step.

    Attributes:
        held: the number, TorchDynamo's.
        sprung: called when something reads it.
    """

    def __init__(self, held: Any, sprung: Callable[[], NoReturn]) -> None:
        super().__init__()
        self.held, self.sprung = held, sprung

    def __getattribute__(self, name: str) -> Any:
        if name in _OPEN_TO_ALL:
            return super().__getattribute__(name)
        return self.sprung()


class Growing(list[Any]):
    """The entries that a step appends to a list; how many there were before is not read.

    Attributes:
        before: the entries from before, of which code may read the last ones, as in `ys[-1]`.
        read: how far from the list's end those were before the step that it has read.
        sprung: called when something reads others.
    """

    def __init__(self, before: list[Any], sprung: Callable[[], NoReturn]) -> None:
        super().__init__()
        self.before, self.sprung, self.read = before, sprung, set[int]()

    def own(self) -> list[Any]:
        """The entries that the step has appended."""
        return list.copy(self)

    def __getitem__(self, place: Any) -> Any:
        new = list.__len__(self)
        if type(place) is not int or not -new - len(self.before) <= place < 0:
            return self.sprung()
        if place >= -new:
            return list.__getitem__(self, place)
        self.read.add(-place - new)
        return self.before[place + new]

    def _spring(self, *_: Any, **__: Any) -> Any:
        return self.sprung()


for _name in (
    "__len__ __setitem__ __delitem__ __iter__ __reversed__ __contains__ __add__ __mul__ __rmul__ "
    "__imul__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ copy count index insert pop remove reverse "
    "sort clear"
).split():
    setattr(Growing, _name, Growing._spring)


def extend_growing() -> None:
    """Let `ys += [h]` and `ys.extend` be as `ys.append` is: TorchDynamo asks how long a list is."""
    lists: Any = CommonListMethodsVariable
    own = lists.call_method

    @wraps(own)
    def call_method(variable: Any, tx: Any, name: str, args: Any, kwargs: Any) -> Any:
        if name == "extend" and type(variable.items) is Growing and len(args) == 1:
            other = args[0].realize()
            if type(other) in (ListVariable, TupleVariable):
                tx.output.side_effects.mutation(variable)
                variable.items.extend(other.items)
                return ConstantVariable.create(None)
        return own(variable, tx, name, args, kwargs)

    lists.call_method = call_method
