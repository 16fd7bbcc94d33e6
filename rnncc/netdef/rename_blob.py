"""Renaming a blob as a whole: all that is ever written under a name."""

from __future__ import annotations

from rnncc.errors import NetError
from rnncc.netdef.checks import check_net
from rnncc.netdef.inner import visible_names
from rnncc.netdef.nested import expose
from rnncc.netdef.netdef_pb2 import NetDef
from rnncc.netdef.rename import check_free, renamed
from rnncc.netdef.versions import ssa


def rename_blob(
    net: NetDef, old: str, new: str, init: NetDef | None = None
) -> tuple[NetDef, NetDef]:
    """Rename every version of a blob, in the net's interface and in nets inside as well.

    Args:
        init: the net that fills parameters; a blob that it fills is renamed there too.
    Returns:
        The new net and the new init net, which is empty if none is given.
    Raises:
        NetError: neither net knows the blob; the name is taken; a gradient is found by it.
    """
    init = NetDef() if init is None else init
    check_net(net)
    check_net(init, "the init net")
    if not any(old in _names(n) for n in (net, init)):
        raise NetError(net.name, f'has no blob "{old}"')
    check_free(new)
    for any_net in (net, init):
        if new != old and new in visible_names(any_net):
            raise NetError(any_net.name, f'the name "{new}" is taken')
    return _renamed(net, old, new), _renamed(init, old, new)


def _names(net: NetDef) -> set[str]:
    return {*ssa(expose(net))[1], *net.external_output} | {n for op in net.op for n in op.input}


def _renamed(net: NetDef, old: str, new: str) -> NetDef:
    steps, last = ssa(expose(net))
    names = {(old, version): new for version in range(last.get(old, 0) + 1)}
    result = renamed(net, steps, names, nested=True)
    for field in (result.external_input, result.external_output):
        field[:] = [new if name == old else name for name in field]
    return result
