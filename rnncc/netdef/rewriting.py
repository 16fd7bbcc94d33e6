"""A net in which every blob is written once."""

from __future__ import annotations

import re
from collections.abc import Collection

from rnncc.errors import NetError
from rnncc.netdef.checks import check_net, locate
from rnncc.netdef.nested import expose, names_in
from rnncc.netdef.netdef_pb2 import NetDef
from rnncc.netdef.rename import renamed, ties
from rnncc.netdef.versions import Value, results, ssa


def ssa_rewrite(
    net: NetDef,
    init: NetDef | None = None,
    value_info: Collection[str] | None = None,
    nested: bool = False,
) -> NetDef:
    """Give each version of a blob a name of its own.

    A blob keeps its name at version 0, and where operators name one version of it only; any other
    version is called `name_version`, or the next free name after that. External outputs are named
    as their last versions are, external inputs as before.

    Args:
        init: the net that fills parameters; it must do nothing else, and stays as it is.
        value_info: names of further blobs that are known, such as those with a known shape.
        nested: follow names into the nets of If and While too, which stay as they are otherwise.
            A blob that these write keeps one name with what it was before, because it stays that
            where the writing does not happen.
    Raises:
        NetError: an external output that the net does not know; an `init` that computes.
    """
    check_net(net)
    reserved = names_in(net) | set(value_info or ())
    if init is not None:
        check_net(init, "the init net")
        _check_fills(init)
        reserved |= names_in(init)
    steps, last = ssa(expose(net) if nested else net)
    ends = results(net, last)
    first = ties(net, steps) if nested else {}
    values = dict.fromkeys(
        first.get(v, v) for inputs, outputs in steps for v in (*inputs, *outputs)
    )
    names = _names(list(values), reserved)
    names |= {value: names[root] for value, root in first.items() if root in names}
    rewritten = renamed(net, steps, names, nested)
    rewritten.external_output[:] = [names.get(value, value[0]) for value in ends]
    return rewritten


def _names(values: list[Value], reserved: set[str]) -> dict[Value, str]:
    """The new names of those versions that need one; `taken` grows by them."""
    count: dict[str, int] = {}
    for name, _ in values:
        count[name] = count.get(name, 0) + 1
    names: dict[Value, str] = {}
    for name, version in values:
        if version > 0 and count[name] > 1:
            names[name, version] = free_name(f"{name}_{version}", reserved)
    return names


def free_name(wish: str, reserved: set[str]) -> str:
    """The wish, or where it is taken the first free name of `wish_1`, `wish_2`, ...; takes it."""
    name, number = wish, 0
    while name in reserved:
        number += 1
        name = f"{wish}_{number}"
    reserved.add(name)
    return name


def _check_fills(init: NetDef) -> None:
    for index, op in enumerate(init.op):
        if not re.match("GivenTensor.*Fill", op.type):
            what = "computes, where an init net may only hold GivenTensor...Fill operators"
            raise NetError(locate(init, index), what)
        if len(op.output) != 1:
            raise NetError(locate(init, index), f"has {len(op.output)} outputs, expected 1")
