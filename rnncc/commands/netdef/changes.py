"""What `rnncc netdef prune`, `rename` and `split` do with a net and the net of its parameters."""

from __future__ import annotations

from collections.abc import Sequence

from rnncc.errors import NetError
from rnncc.netdef import NetDef, Removed, export, parameters, rename_output
from rnncc.netdef import prune as prune_net
from rnncc.netdef.checks import check_index, copy_of, locate
from rnncc.netdef.fills_apart import fills_apart
from rnncc.netdef.nested import names_in
from rnncc.netdef.rename_blob import rename_blob


def prune(net: NetDef, init: NetDef | None) -> tuple[NetDef, NetDef, list[Removed]]:
    """The net without what changes no output, its init net without what went, and what did."""
    init = NetDef() if init is None else init
    pruned, removed = prune_net(net, parameters(init))
    unread = names_in(NetDef(op=net.op)) - names_in(NetDef(op=pruned.op))
    unread = unread & {name for op in init.op for name in op.output}
    pruned.external_input[:] = [name for name in pruned.external_input if name not in unread]
    left = copy_of(init)
    del left.op[:]
    left.op.extend(op for op in init.op if not unread.intersection(op.output))
    return pruned, left, removed


def rename(
    net: NetDef, old: str, new: str, op: int | None, init: NetDef | None
) -> tuple[NetDef, NetDef]:
    """The net and its init net with another name for a blob, or for what one operator writes."""
    if op is None:
        return rename_blob(net, old, new, init)
    index = check_index(net, op)
    outputs = list(net.op[index].output)
    if old not in outputs:
        raise NetError(locate(net, index), f'does not write "{old}"')
    return rename_output(net, index, outputs.index(old), new, nested=True), NetDef()


def split(
    net: NetDef, init: NetDef | None, outputs: Sequence[str] | None, seed: int
) -> tuple[NetDef, NetDef]:
    """The init net, with the arrays that are read, and the predict net."""
    fills, rest = fills_apart(net)
    for op in init.op if init else ():
        fills.op.append(op)
    read = names_in(rest)
    arrays = {name: array for name, array in parameters(fills, seed).items() if name in read}
    return export(rest, arrays, outputs)
