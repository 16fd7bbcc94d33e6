"""SSA versions of a net's blobs, as Caffe2 counts them, and who makes and reads each of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from rnncc.errors import NetError
from rnncc.netdef.checks import check_index, check_net, locate
from rnncc.netdef.netdef_pb2 import NetDef

Value = tuple[str, int]
"""A blob at one version."""

Versioned = list[Value]
Steps = list[tuple[Versioned, Versioned]]


def ssa(net: NetDef, versions: Mapping[str, int] | None = None) -> tuple[Steps, dict[str, int]]:
    """Number every writing of every blob; nets in arguments do not count.

    Args:
        versions: where to start from.
    Returns:
        For each operator its inputs and outputs as (blob, version), and every blob's last version.
        An operator that names an output twice writes it twice and lists it at the last version.
    """
    check_net(net)
    last = dict(versions or {})
    for name in net.external_input:
        last.setdefault(name, 0)
    operators: Steps = []
    for op in net.op:
        if not net.external_input:
            for name in op.input:
                last.setdefault(name, 0)
        inputs = [(name, last.get(name, 0)) for name in op.input]
        for name in op.output:
            last[name] = last.get(name, 0) + 1
        operators.append((inputs, [(name, last[name]) for name in op.output]))
    return operators, last


def undefined_blobs(net: NetDef, versions: Mapping[str, int] | None = None) -> list[str]:
    """The blobs that the net reads before it writes them, sorted."""
    steps, _ = ssa(net, versions)
    return sorted({name for inputs, _ in steps for name, version in inputs if version == 0})


def producers(net: NetDef) -> dict[Value, tuple[int, int]]:
    """Of each version of a blob that an operator writes: the operator and which output."""
    return producers_of(ssa(net)[0])


def consumers(net: NetDef) -> dict[Value, list[tuple[int, int]]]:
    """Of each version of a blob that is read: all operators that read it, and as which input."""
    return consumers_of(ssa(net)[0])


def producers_of(steps: Steps) -> dict[Value, tuple[int, int]]:
    """`producers` of a net whose versions are known."""
    return {
        value: (op, index)
        for op, (_, outputs) in enumerate(steps)
        for index, value in enumerate(outputs)
    }


def consumers_of(steps: Steps) -> dict[Value, list[tuple[int, int]]]:
    """`consumers` of a net whose versions are known."""
    consumers: dict[Value, list[tuple[int, int]]] = {}
    for op, (inputs, _) in enumerate(steps):
        for index, value in enumerate(inputs):
            consumers.setdefault(value, []).append((op, index))
    return consumers


def results(net: NetDef, versions: Mapping[str, int]) -> list[Value]:
    """The external outputs at their last versions.

    Raises:
        NetError: one that is neither declared as an input nor written.
    """
    for name in net.external_output:
        if name not in versions:
            what = f'the external output "{name}" is no declared input and no operator writes it'
            raise NetError(net.name, what)
    return [(name, versions[name]) for name in net.external_output]


def subgraph_io(net: NetDef, op_indices: Sequence[int]) -> tuple[Versioned, Versioned]:
    """What a set of operators takes from the rest of the net, and what it gives to it.

    An input that one operator reads twice is listed twice, across operators once. An index below
    0 counts from the end, and its operator also counts as one of the rest.

    Raises:
        NetError: an index past the operators; an external output that the net does not know.
    """
    steps, versions = ssa(net)
    chosen = [steps[check_index(net, index)] for index in op_indices]
    produced = {value for _, outputs in chosen for value in outputs}
    seen: set[Value] = set()
    read: Versioned = []
    for inputs, _ in chosen:
        read += [value for value in inputs if value not in produced and value not in seen]
        seen.update(inputs)
    inside = set(op_indices)
    needed = set(results(net, versions))
    needed.update(v for i, (inputs, _) in enumerate(steps) if i not in inside for v in inputs)
    return read, [value for _, outputs in chosen for value in outputs if value in needed]


def external_blobs(net: NetDef, scope: Collection[str]) -> tuple[list[str], list[str]]:
    """What a net inside an operator reads and writes of the blobs around it, sorted.

    Raises:
        NetError: the net reads a blob that neither it nor the scope has by then.
    """
    steps, _ = ssa(net)
    around = set(scope)
    for index, (inputs, _) in enumerate(steps):
        for name, version in inputs:
            if version == 0 and name not in around:
                what = f'reads "{name}", which is not in the scope and which nothing wrote before'
                raise NetError(locate(net, index), what)
    written = {name for _, outputs in steps for name, _ in outputs}
    return undefined_blobs(net), sorted(around & written)
