"""What tells operators apart when nets are lined up; names of inner blobs do not count."""

from __future__ import annotations

from collections.abc import Hashable

from rnncc.netdef.inner import holds_text, names_blobs, nets_in
from rnncc.netdef.netdef_pb2 import NetDef, OperatorDef
from rnncc.netdef.versions import ssa


def fingerprints(net: NetDef, inside: bool) -> list[list[Hashable]]:
    """Keys of the operators, from the strictest to the laxest: what they compute from the inputs,
    what becomes of their outputs, type and arguments, type.

    Args:
        inside: the net stands in an operator, so that no name of it counts.
    """
    kinds = [_kind(op) for op in net.op]
    types: list[Hashable] = [op.type for op in net.op]
    steps, last = ssa(net)
    ahead: list[Hashable] = []
    hashes: dict[tuple[str, int], Hashable] = {}
    for index, (inputs, outputs) in enumerate(steps):
        read = [hashes.get(value, "" if inside else value[0]) for value in inputs]
        ahead.append(hash((kinds[index], *read)))
        hashes.update((value, hash((ahead[-1], k))) for k, value in enumerate(outputs))
    uses: dict[tuple[str, int], list[int]] = {}
    if not inside:
        uses = {(name, last.get(name, 0)): [hash(name)] for name in net.external_output}
    behind: list[Hashable] = []
    for index, (inputs, outputs) in reversed(list(enumerate(steps))):
        used = [tuple(sorted(uses.get(value, ()))) for value in outputs]
        behind.append(hash((kinds[index], *used)))
        for k, value in enumerate(inputs):
            uses.setdefault(value, []).append(hash((behind[-1], k)))
    return [ahead, behind[::-1], kinds, types]


def _kind(op: OperatorDef) -> Hashable:
    """Type and arguments, but for blobs' names; of nets inside what operators they hold."""
    values = [
        arg.SerializeToString(deterministic=True)
        for arg in op.arg
        if not (names_blobs(op, arg) or holds_text(arg) or arg.HasField("n") or arg.nets)
    ]
    inner = [(name, *(o.type for o in net.op)) for name, net in nets_in(op)]
    return hash((op.type, *sorted(values), *inner))
