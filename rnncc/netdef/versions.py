"""SSA versions of a net's blobs, as Caffe2 counts them."""

from __future__ import annotations

from rnncc.netdef.netdef_pb2 import NetDef

Versioned = list[tuple[str, int]]


def ssa(
    net: NetDef, versions: dict[str, int] | None = None
) -> tuple[list[tuple[Versioned, Versioned]], dict[str, int]]:
    """Number every writing of every blob.

    Args:
        versions: where to start from; changed in place and returned.
    Returns:
        For each operator its inputs and outputs as (blob, version), and every blob's last version.
        An operator that names an output twice writes it twice and lists it at the last version.
    """
    versions = {} if versions is None else versions
    for name in net.external_input:
        versions.setdefault(name, 0)
    operators: list[tuple[Versioned, Versioned]] = []
    for op in net.op:
        if not net.external_input:
            for name in op.input:
                versions.setdefault(name, 0)
        inputs = [(name, versions.get(name, 0)) for name in op.input]
        for name in op.output:
            versions[name] = versions.get(name, 0) + 1
        operators.append((inputs, [(name, versions[name]) for name in op.output]))
    return operators, versions
