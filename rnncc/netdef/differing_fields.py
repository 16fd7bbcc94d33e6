"""What differs between two operators or nets apart from blobs and nets inside, in words."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rnncc.netdef.inner import holds_text, names_blobs
from rnncc.netdef.netdef_pb2 import Argument, NetDef, OperatorDef

_NET = ("name", "type", "num_workers", "device_option")
_OPERATOR = (
    *("type", "name", "engine", "device_option", "is_gradient_op", "debug_info", "domain"),
    *("op_version", "control_input"),
)
_SINGLE = ("f", "i", "s", "t")
_LISTS = ("floats", "ints", "strings", "tensors", "qtensors")
_SHOWN = 60

Message = NetDef | OperatorDef


def different_fields(a: Message, b: Message, where: str) -> list[str]:
    """The plain fields that differ."""
    differences: list[str] = []
    for field in _NET if isinstance(a, NetDef) else _OPERATOR:
        x, y = getattr(a, field), getattr(b, field)
        if x != y:
            differences.append(_two_values(f"{where}: {field}", x, y))
    return differences


def different_arguments(a: Message, b: Message, where: str) -> list[str]:
    """The arguments that differ, whatever their order; nets in them only in number."""
    first, second = _by_name(a), _by_name(b)
    differences: list[str] = []
    for name in dict.fromkeys([*first, *second]):
        what = f"{where}: argument {name!r}"
        if name not in first or name not in second:
            side = "first" if name in first else "second"
            differences.append(f"{what} is in the {side} net only")
        else:
            differences += _different(what, a, b, first[name], second[name])
    return differences


def _by_name(message: Message) -> dict[str, Argument]:
    """Arguments by name; names stand in `.rename` arguments, so that these are numbered."""
    arguments: dict[str, Argument] = {}
    times = Counter[str]()
    for arg in message.arg:
        naming = isinstance(message, OperatorDef) and names_blobs(message, arg)
        name = ".rename" if naming and arg.name.endswith(".rename") else arg.name
        arguments[f"{name} {times[name]}" if times[name] else name] = arg
        times[name] += 1
    return arguments


def _different(what: str, a: Message, b: Message, x: Argument, y: Argument) -> list[str]:
    if x.SerializeToString(deterministic=True) == y.SerializeToString(deterministic=True):
        return []
    differences: list[str] = []
    naming = isinstance(a, OperatorDef) and names_blobs(a, x)
    nets = [_nets(x), _nets(y)]
    if nets[0] != nets[1]:
        differences.append(_two_values(f"{what}: the number of nets", *nets))
    for field in () if naming else _SINGLE:
        values = [getattr(arg, field) if arg.HasField(field) else None for arg in (x, y)]
        if not (field == "s" and (holds_text(x) or holds_text(y))) and _differ(*values):
            differences.append(_two_values(what, *values))
    for field in _LISTS:
        values = list(getattr(x, field)), list(getattr(y, field))
        if not (naming and field == "strings") and _differ(*values):
            differences.append(_lists(what, *values))
    return differences


def _nets(arg: Argument) -> int:
    return len(arg.nets) + (arg.HasField("n") or holds_text(arg))


def _differ(x: Any, y: Any) -> bool:
    """Whether values differ to the bit: NaN is NaN, 0 is not -0."""
    return repr(x) != repr(y)


def _lists(what: str, x: list[Any], y: list[Any]) -> str:
    if len(x) != len(y):
        return _two_values(f"{what}: the number of items", len(x), len(y))
    index = next(i for i in range(len(x)) if _differ(x[i], y[i]))
    return _two_values(f"{what} item {index}", x[index], y[index])


def _two_values(what: str, x: object, y: object) -> str:
    return f"{what} is {_text(x)} in the first net, {_text(y)} in the second"


def _text(value: object) -> str:
    if value is None:
        return "nothing"
    value = value.decode(errors="replace") if isinstance(value, bytes) else value
    if isinstance(value, (str, bool, int, float)):
        text = repr(value)
    else:
        text = " ".join(str(value).split()) or "empty"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
