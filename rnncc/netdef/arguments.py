"""Typed access to an operator's arguments; the wrong kind of value is an error."""

from __future__ import annotations

from typing import Any

from rnncc.errors import CompileError, Location
from rnncc.netdef.netdef_pb2 import Argument, NetDef, OperatorDef

_SINGLE = {"f": "a float", "i": "an integer", "s": "a string", "n": "a net", "t": "a tensor"}
_LISTS = {"floats": "floats", "ints": "integers", "strings": "strings"}


class Arguments:
    """The arguments of one operator by name; every method raises `CompileError` at `location`."""

    def __init__(self, op: OperatorDef, location: Location) -> None:
        self.location = location
        self._named: dict[str, Argument] = {}
        for arg in op.arg:
            previous = self._named.setdefault(arg.name, arg)
            if previous is not arg and previous != arg:
                raise self._error(arg.name, "is given twice, with different values")

    def __contains__(self, name: str) -> bool:
        return name in self._named

    def unequal(self, other: Arguments) -> list[str]:
        """The arguments that another operator lacks, has besides, or gives another value."""
        names = sorted(self._named.keys() | other._named.keys())
        return [name for name in names if self._named.get(name) != other._named.get(name)]

    def holds(self, name: str, field: str) -> bool:
        """Whether an argument is there that has such a field: `f`, `i`, `s` or `n`."""
        return name in self._named and self._named[name].HasField(field)

    def float(self, name: str, default: float, allow_nan: bool = False) -> float:
        """A float; NaN is an error unless it makes sense."""
        value: float = self._single(name, "f", default)
        if value != value and not allow_nan:
            raise self._error(name, "is NaN")
        return value

    def int(self, name: str, default: int) -> int:
        return self._single(name, "i", default)

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.int(name, int(default))
        if value not in (0, 1):
            raise self._error(name, f"is {value}, expected 0 or 1")
        return bool(value)

    def str(self, name: str, default: str = "") -> str:
        value: bytes | str = self._single(name, "s", default)
        return self._decode(name, value) if isinstance(value, bytes) else value

    def content(self, name: str) -> bytes:
        """The bytes of a string that is no text."""
        return self._single(name, "s", b"")

    def net(self, name: str) -> NetDef | str | None:
        """A net, in text form or as a message; None where there is none."""
        arg = self._named.get(name)
        if arg is None or arg.HasField("n"):
            return None if arg is None else arg.n
        return self.str(name)

    def floats(self, name: str) -> Any:
        """The repeated field itself: NumPy reads it fast."""
        return self._list(name, "floats")

    def ints(self, name: str) -> Any:
        return self._list(name, "ints")

    def strings(self, name: str) -> list[str]:
        return [self._decode(name, value) for value in self._list(name, "strings")]

    def _single(self, name: str, field: str, default: Any) -> Any:
        arg = self._named.get(name)
        if arg is None:
            return default
        if not arg.HasField(field):
            raise self._error(name, f"holds {_kind(arg)}, expected {_SINGLE[field]}")
        return getattr(arg, field)

    def _list(self, name: str, field: str) -> Any:
        arg = self._named.get(name)
        if arg is None:
            return []
        values = getattr(arg, field)
        if not values and _kind(arg) != "nothing":
            raise self._error(name, f"holds {_kind(arg)}, expected a list of {_LISTS[field]}")
        return values

    def _decode(self, name: str, value: bytes) -> str:
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise self._error(name, f"holds {value[:40]!r}, which is not UTF-8") from error

    def _error(self, name: str, what: str) -> CompileError:
        return CompileError(self.location, f"argument {name!r} {what}")


def _kind(arg: Argument) -> str:
    """What an argument holds, in words."""
    for field, words in _SINGLE.items():
        if arg.HasField(field):
            return words
    for field, words in _LISTS.items():
        if getattr(arg, field):
            return f"a list of {words}"
    return "nothing"
