"""Copies that bring a value back to where it was, and copies that bring it nowhere."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from heapq import heappop, heappush

from rnncc.netdef.checks import check_net, copy_of
from rnncc.netdef.liveness import kept
from rnncc.netdef.nested import expose, holds_nets
from rnncc.netdef.netdef_pb2 import NetDef
from rnncc.netdef.versions import Value, consumers_of, producers_of, results, ssa

REVERSE = {"CopyCPUToGPU": "CopyGPUToCPU", "CopyGPUToCPU": "CopyCPUToGPU"}
IDENTITIES = frozenset({"Copy", "Alias"})
"""Copies that stay on one device."""


def fuse_copies(net: NetDef) -> NetDef:
    """Remove pairs of copies between CPU and GPU, there and back; readers read the source.

    A pair stays if its blobs are read in any other way, if they are external outputs, or if the
    source is overwritten before a reader comes, or if a net inside an operator reads it by name.

    Raises:
        NetError: an external output that the net does not know.
    """
    check_net(net)
    return without_copies(net, pairs=True)[0]


def without_copies(net: NetDef, pairs: bool) -> tuple[NetDef, list[int]]:
    """A net without pairs of copies there and back, or without copies that change nothing.

    Returns:
        The net and the operators that went.
    """
    fusion = _Fusion(net)
    kinds = REVERSE if pairs else IDENTITIES
    waiting = [index for index, op in enumerate(net.op) if op.type in kinds]
    while waiting:
        copy = heappop(waiting)
        if copy in fusion.gone:
            continue
        backs = fusion.backs(copy) if pairs else [copy]
        for other in fusion.remove(copy, backs) if backs else ():
            if net.op[other].type in kinds:
                heappush(waiting, other)
    return fusion.net(), sorted(fusion.gone)


class _Fusion:
    """A net while copies are taken out of it.

    Attributes:
        gone: the operators taken out.
        readers: of each version, the (operator, input) that read it now.
        makers: of each version, the (operator, output) that writes it.
        sources: of each operator with one input, that input's version now.
    """

    def __init__(self, net: NetDef) -> None:
        self.given = net
        exposed = expose(net)
        self.steps, last = ssa(exposed)
        self.ends = set(results(net, last))
        self.makers = producers_of(self.steps)
        self.readers = {value: dict.fromkeys(of) for value, of in consumers_of(self.steps).items()}
        self.sources = {i: ins[0] for i, (ins, _) in enumerate(self.steps) if len(ins) == 1}
        self.gone: set[int] = set()
        self.moved: dict[tuple[int, int], str] = {}
        self.writers: dict[str, list[int]] = {}
        for index, op in enumerate(exposed.op):
            for name in dict.fromkeys(op.output):
                self.writers.setdefault(name, []).append(index)

    def backs(self, copy: int) -> list[int]:
        """The copies back, if nothing else reads what the copy makes."""
        readers = [op for value in self.steps[copy][1] for op, _ in self.readers.get(value, ())]
        back = REVERSE[self.given.op[copy].type]
        return readers if all(self.given.op[op].type == back for op in readers) else []

    def remove(self, copy: int, backs: list[int]) -> list[int]:
        """Let the readers of the copies back read the copy's source, if it is the same by then.

        Returns:
            The operators to look at again; none if nothing was removed.
        """
        group = {copy, *backs}
        results = [value for op in group for value in self.steps[op][1]]
        source = self.sources.get(copy)
        if source is None or len(results) != len(group) or not self.ends.isdisjoint(results):
            return []
        moved = [r for back in backs for r in self.readers.get(self.steps[back][1][0], ())]
        if not self._may_read(moved, source, self._overwritten(source, group)):
            return []
        self.readers[source].pop((copy, 0))
        for op, index in moved:
            self.readers[source][op, index] = None
            self.moved[op, index] = source[0]
            if op in self.sources:
                self.sources[op] = source
        for op in group:
            writers = self.writers[self.steps[op][1][0][0]]
            writers.pop(bisect_left(writers, op))
        self.gone |= group
        maker = self.makers.get(source)
        return [*({maker[0]} if maker else ()), *(op for op, _ in moved)]

    def net(self) -> NetDef:
        """The net as it is now."""
        copy = copy_of(self.given)
        for (op, index), name in self.moved.items():
            copy.op[op].input[index] = name
        return kept(copy, [i for i in range(len(copy.op)) if i not in self.gone])

    def _name(self, op: int, index: int) -> str:
        """What an operator reads now."""
        return self.moved.get((op, index)) or self.given.op[op].input[index]

    def _may_read(self, readers: list[tuple[int, int]], source: Value, end: int) -> bool:
        """Whether inputs may be a version, over which the operator `end` writes."""
        for op, index in readers:
            # What writes over the very name that it reads may go on to do so.
            in_time = op < end or (op == end and self._name(op, index) == source[0])
            if not in_time or not self._reads_alone(op, index):
                return False
            if end < len(self.steps) and self.given.op[op].type == "Alias":
                return False  # it would share memory that is written while it is read
        return True

    def _overwritten(self, source: Value, group: set[int]) -> int:
        """The operator that next writes the source's name, apart from some."""
        name, maker = source[0], self.makers.get(source, (-1, 0))[0]
        writers = self.writers.get(name, [])
        later = range(bisect_right(writers, maker), len(writers))
        return next((writers[i] for i in later if writers[i] not in group), len(self.steps))

    def _reads_alone(self, op: int, index: int) -> bool:
        """Whether this input is a matter of the operator itself, not also of nets inside it."""
        reader = self.given.op[op]
        return index < len(reader.input) and not holds_nets(reader)
