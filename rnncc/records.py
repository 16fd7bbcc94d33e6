"""Value classes that are cheap to define: the compiler has some hundred and fifty of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")


@overload
def record(cls: type[T], /) -> type[T]: ...
@overload
def record(*, eq: bool = True) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[T] | None = None, /, *, eq: bool = True) -> Any:
    """A dataclass whose attributes are never set again, as pyright checks.

    `dataclass(frozen=True)` compiles six functions for each class, which took a tenth of the
    command's time for a small net. Here one is compiled, the constructor; the others are closures,
    and nothing stands in the way of an assignment while the compiler runs.

    Args:
        eq: Whether objects are equal if their fields are, and hash alike; else each is its own.
    """

    def define(cls: type[T]) -> type[T]:
        dataclass(eq=False, repr=False)(cls)
        if "__repr__" not in vars(cls):
            cls.__repr__ = _shown
        if eq:
            compared = [f.name for f in fields(cls) if f.compare]  # pyright: ignore[reportArgumentType]
            _compare(cls, attrgetter(*compared) if compared else lambda of: ())
        return cls

    return define if cls is None else define(cls)


def _shown(self: Any) -> str:
    values = (f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)
    return f"{type(self).__qualname__}({', '.join(values)})"


def _compare(cls: type[Any], values: Callable[[Any], object]) -> None:
    def equal(self: object, other: object) -> bool:
        return type(other) is type(self) and values(self) == values(other)

    def number(self: object) -> int:
        return hash(values(self))

    cls.__eq__ = equal  # pyright: ignore[reportAttributeAccessIssue]
    cls.__hash__ = number  # pyright: ignore[reportAttributeAccessIssue]
