# pyright: basic, reportMissingImports=false
"""What a step that stands for others must not read, as it differs from step to step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from torch._dynamo.exc import SpeculationRestartAnalysis
from torch._dynamo.variables.base import VariableTracker

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
    """The entries that a step appends to a list; those from before, and how many, are not read."""

    sprung: Callable[[], NoReturn]

    def _spring(self, *_: Any, **__: Any) -> Any:
        return self.sprung()


for _name in (
    "__len__ __getitem__ __setitem__ __delitem__ __iter__ __reversed__ __contains__ __add__ "
    "__mul__ __rmul__ __imul__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ copy count index insert "
    "pop remove reverse sort clear"
).split():
    setattr(Growing, _name, Growing._spring)
