"""Renaming blobs: one version of a blob, everywhere it is made and read."""

from __future__ import annotations

from collections.abc import Mapping

from rnncc.errors import NetError
from rnncc.netdef.checks import check_index, check_net, copy_of, locate
from rnncc.netdef.inside import rename_operator
from rnncc.netdef.nested import CONTROL, expose, names_in
from rnncc.netdef.netdef_pb2 import NetDef
from rnncc.netdef.versions import Steps, Value, consumers_of, producers_of, ssa
from rnncc.sources import MAX_NAME


def rename_input(
    net: NetDef,
    init: NetDef,
    op: int,
    index: int,
    name: str,
    from_producer: bool = False,
    nested: bool = False,
) -> tuple[NetDef, NetDef]:
    """Rename the blob that is an operator's input, and in `init` what makes it.

    Args:
        init: the net that runs before; an empty one where there is none.
        from_producer: rename the output of the operator that makes it, for all who read it.
        nested: follow names into the nets of If and While too, which stay as they are otherwise.
    Returns:
        The new net and the new init net.
    Raises:
        NetError: another operator reads the same version; no operator of the net makes it
            (`from_producer`); the name is taken; no such input.
    """
    check_net(net)
    check_net(init, "the init net")
    op = check_index(net, op)
    _check_position(net, op, "input", len(net.op[op].input), index)
    before = ssa(init)[1]
    steps, last = ssa(expose(net) if nested else net, before)
    value = steps[op][0][index]
    if name == value[0]:
        return copy_of(net), copy_of(init)
    check_free(name, net, init)
    if from_producer:
        maker = producers_of(steps).get(value)
        if maker is None:
            what = f'reads "{value[0]}", which no operator of the net makes'
            raise NetError(locate(net, op), what)
        return _rename_from(net, *maker, name, nested), copy_of(init)
    readers = sorted({reader for reader, _ in consumers_of(steps)[value]})
    if len(readers) > 1:
        other = next(reader for reader in readers if reader != op)
        what = f'reads "{value[0]}", as does operator {other}: only one of them would be renamed'
        raise NetError(locate(net, op), what, "rename it from its producer")
    names = _versions(net, steps, value, name, nested)
    result = renamed(net, steps, names, nested)
    _rename_ends(result, names, before, last)
    steps, last = ssa(init)
    new_init = renamed(init, steps, names)
    _rename_ends(new_init, names, {}, last)
    return result, new_init


def rename_output(net: NetDef, op: int, index: int, name: str, nested: bool = False) -> NetDef:
    """Rename the blob that is an operator's output, for all who read that version.

    Args:
        nested: as for `rename_input`.
    Raises:
        NetError: the name is taken; no such output.
    """
    check_net(net)
    op = check_index(net, op)
    _check_position(net, op, "output", len(net.op[op].output), index)
    if name == net.op[op].output[index]:
        return copy_of(net)
    check_free(name, net)
    return _rename_from(net, op, index, name, nested)


def renamed(net: NetDef, steps: Steps, names: Mapping[Value, str], nested: bool = False) -> NetDef:
    """A copy in which operators call these versions by new names.

    Args:
        steps: the net's versions; those of `expose(net)` where nets of If and While follow.
    """
    copy = copy_of(net)
    for index, (op, (inputs, outputs)) in enumerate(zip(copy.op, steps, strict=True)):
        read = {value[0]: names[value] for value in inputs if value in names}
        written = {value[0]: names[value] for value in outputs if value in names}
        rename_operator(op, read, written, locate(net, index), nested)
    return copy


def ties(net: NetDef, steps: Steps) -> dict[Value, Value]:
    """Versions that must keep one name with an earlier one, each with the earliest of these.

    What If or While writes by name stays what it was where the writing does not happen.
    """
    first: dict[Value, Value] = {}
    for op, (inputs, outputs) in zip(net.op, steps, strict=True):
        if op.type in CONTROL:
            read = {value[0]: value for value in inputs}
            for value in outputs:
                if value[0] in read:
                    first[value] = first.get(read[value[0]], read[value[0]])
    return first


def _rename_from(net: NetDef, op: int, index: int, name: str, nested: bool) -> NetDef:
    steps, last = ssa(expose(net) if nested else net)
    names = _versions(net, steps, steps[op][1][index], name, nested)
    result = renamed(net, steps, names, nested)
    _rename_ends(result, names, {}, last)
    return result


def _versions(net: NetDef, steps: Steps, value: Value, name: str, nested: bool) -> dict[Value, str]:
    """The version to rename, and those that go with it."""
    if not nested:
        return {value: name}
    first = ties(net, steps)
    root = first.get(value, value)
    return dict.fromkeys([root, *(v for v, r in first.items() if r == root)], name)


def _rename_ends(
    net: NetDef, names: Mapping[Value, str], first: Mapping[str, int], last: Mapping[str, int]
) -> None:
    """Rename external inputs at their first versions and external outputs at their last."""
    net.external_input[:] = [names.get((n, first.get(n, 0)), n) for n in net.external_input]
    net.external_output[:] = [names.get((n, last.get(n, 0)), n) for n in net.external_output]


def _check_position(net: NetDef, op: int, kind: str, count: int, index: int) -> None:
    if not 0 <= index < count:
        raise NetError(locate(net, op), f"has no {kind} {index}: it has {count}")


def check_free(name: str, *nets: NetDef) -> None:
    """Raise `NetError` unless this can be a new blob's name in all of the nets."""
    if not name or len(name) > MAX_NAME or not name.isprintable():
        raise NetError("", f"{name[:40]!r} is no name for a blob")
    for net in nets:
        if name in names_in(net):
            raise NetError(net.name, f'the name "{name}" is taken')
