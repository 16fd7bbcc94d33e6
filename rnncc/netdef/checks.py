"""What the functions on nets check of their arguments, and how they name an operator."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from rnncc.errors import Location, NetError
from rnncc.netdef.netdef_pb2 import NetDef, OperatorDef


def check_net(net: object, what: str = "the net") -> None:
    """Raise `NetError` unless this is a NetDef message."""
    if not isinstance(net, NetDef):
        raise NetError("", f"{what} is {type(net).__name__}, not a NetDef message")


def locate(net: NetDef, index: int) -> Location:
    """An operator, as messages name it."""
    return Location(net.name, operator_text(net.op[index], f"op {index}"))


def operator_text(op: OperatorDef, word: str) -> str:
    """An operator as messages name it: `op 3 (FC "y")`, where `op 3` is the word."""
    blob = next(iter([*op.output, *op.input]), "")
    return f'{word} ({op.type or "no type"} "{blob[:80]}")'


def check_index(net: NetDef, index: int) -> int:
    """An operator's index counted from the front; raises `NetError` past the ends."""
    if not -len(net.op) <= index < len(net.op):
        raise NetError(net.name, f"there is no operator {index}: the net has {len(net.op)}")
    return index % len(net.op)


def copy_of(net: NetDef) -> NetDef:
    """A copy that may be changed; raises `NetError` where nets are nested too deep for one."""
    copy = NetDef()
    try:
        copy.CopyFrom(net)
    except DecodeError as error:
        raise NetError(net.name, "nets are nested too deep") from error
    return copy
