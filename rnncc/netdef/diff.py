"""Two nets compared: what differs, in words, whatever their inner blobs are called.

Operators are lined up in order. Then every reference to a blob stands beside one in the other net,
and the nets are the same if these match one to one: as versions of blobs in the net itself, as
names in the nets inside operators. What the net does not write keeps its name.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rnncc.netdef.align import align
from rnncc.netdef.checks import operator_text
from rnncc.netdef.differing_fields import different_arguments, different_fields
from rnncc.netdef.fingerprints import fingerprints
from rnncc.netdef.inner import naming_strings, nets_in
from rnncc.netdef.netdef_pb2 import NetDef, OperatorDef
from rnncc.netdef.versions import ssa
from rnncc.records import record

Scope = tuple[str, ...]
"""Which workspace a name is of: () is that of the net, operators' own are named after blobs."""


class Ref(NamedTuple):
    """A reference to a blob: to a version of it, or in a net inside an operator to its name.

    Attributes:
        version: -1 for a name.
        fixed: the name matters, since nothing in the net gives it.
        writer: the operator that writes the version, -1 for none.
    """

    scope: Scope
    name: str
    version: int = -1
    fixed: bool = False
    writer: int = -1

    def __str__(self) -> str:
        return f'"{self.name}"' + (f" of op {self.writer}" if self.writer >= 0 else "")


class Beside(NamedTuple):
    """What two nets refer to in one place; `defined` where this place alone writes it."""

    where: str
    a: Ref | None
    b: Ref | None
    defined: bool = False


def diff(a: NetDef, b: NetDef) -> list[str]:
    """What differs between two nets, a line each, in the order of the first net's operators.

    Names of blobs that operators of the net write and that are not its outputs do not matter;
    neither does the order of an operator's arguments.

    Raises:
        CompileError: a step net in text form with a syntax error.
    """
    comparison = _NetComparison()
    comparison.compare(a, b)
    matched = _match([entry for entry in comparison.found if isinstance(entry, Beside)])
    lines = [
        entry if isinstance(entry, str) else _sentence(entry, matched)
        for entry in comparison.found
        if isinstance(entry, str) or not _agree(entry, matched)
    ]
    return list(dict.fromkeys(lines))


def two_sides(what: str, a: object, b: object) -> str:
    """`what is a in the first net, b in the second`."""
    texts = ["nothing" if side is None else side for side in (a, b)]
    return f"{what} is {texts[0]} in the first net, {texts[1]} in the second"


class _Values:
    """The versions of a net's blobs as references."""

    def __init__(self, net: NetDef) -> None:
        self._operators, self._last = ssa(net)
        self._writes: dict[str, list[int]] = {}
        self._known = set(net.external_input)
        for index, (inputs, outputs) in enumerate(self._operators):
            self._known.update(name for name, version in inputs if version == 0)
            for name, _ in outputs:
                self._writes.setdefault(name, []).append(index)

    def inputs(self, index: int) -> list[Ref]:
        return [self._ref(*value) for value in self._operators[index][0]]

    def outputs(self, index: int) -> list[Ref]:
        return [self._ref(*value) for value in self._operators[index][1]]

    def before(self, index: int, name: str) -> Ref | None:
        """What a blob holds before an operator; None if nothing is known to fill it."""
        version = bisect_left(self._writes.get(name, []), index)
        return self._ref(name, version) if version or name in self._known else None

    def last(self, name: str) -> Ref:
        return self._ref(name, self._last.get(name, 0))

    def _ref(self, name: str, version: int) -> Ref:
        writer = self._writes[name][version - 1] if version else -1
        return Ref((), name, version, version == 0, writer)


@record
class _BlobNames:
    """A workspace in which nets inside operators find blobs by name; `free` ones have no fixed
    name."""

    scope: Scope
    free: frozenset[str]

    def ref(self, name: str) -> Ref:
        return Ref(self.scope, name, fixed=name not in self.free)

    def refs(self, names: Iterable[str]) -> list[Ref]:
        return [self.ref(name) for name in names]


class _NetComparison:
    """Collects what differs at once, and the references whose matching is judged in the end."""

    def __init__(self) -> None:
        self.found: list[str | Beside] = []

    def compare(self, a: NetDef, b: NetDef) -> None:
        self.found += different_fields(a, b, "the net")
        self.found += different_arguments(a, b, "the net")
        for what in ("external_input", "external_output"):
            self._interface(getattr(a, what), getattr(b, what), what)
        first, second = _Values(a), _Values(b)
        names = _BlobNames((), _written(a)), _BlobNames((), _written(b))
        for i, j, where in self._lined_up(a, b, "", inside=False):
            self._beside(f"{where}: input", first.inputs(i), second.inputs(j))
            self._beside(f"{where}: output", first.outputs(i), second.outputs(j), defined=True)
            for x, y in self._inside(a.op[i], b.op[j], where, names):
                before = first.before(i, x), second.before(j, y)
                if before != (None, None):
                    self.found.append(Beside(f'{where}: what "{x}" holds before', *before))
        for name in a.external_output:
            if name in b.external_output:
                what = f"external_output {name!r}"
                self.found.append(Beside(what, first.last(name), second.last(name)))

    def _lined_up(
        self, a: NetDef, b: NetDef, prefix: str, inside: bool
    ) -> Iterable[tuple[int, int, str]]:
        """Pairs of operators; tells of those that stand in one net alone, and of what differs in
        the pairs but for blobs."""
        word = f"{prefix}op"
        keys = list(zip(fingerprints(a, inside), fingerprints(b, inside), strict=True))
        last = (-1, -1)
        for i, j in [*align(keys), (len(a.op), len(b.op))]:
            for net, side, start, end in ((a, "first", last[0], i), (b, "second", last[1], j)):
                for alone in range(start + 1, end):
                    text = operator_text(net.op[alone], f"{word} {alone}")
                    self.found.append(f"{text} is in the {side} net only")
            last = (i, j)
            if i < len(a.op):
                where = operator_text(a.op[i], f"{word} {i}") + (
                    f", op {j} of the second" if i != j else ""
                )
                self.found += different_fields(a.op[i], b.op[j], where)
                self.found += different_arguments(a.op[i], b.op[j], where)
                yield i, j, where

    def _interface(self, a: Sequence[str], b: Sequence[str], what: str) -> None:
        for side, names, others in (("first", a, set(b)), ("second", b, set(a))):
            alone = [name for name in names if name not in others]
            self.found += [f"{what} {name!r} is declared in the {side} net only" for name in alone]
        if list(a) != list(b) and set(a) == set(b):
            self.found.append(f"{what} lists the same blobs in another order or number")

    def _beside(self, what: str, a: Sequence[Ref], b: Sequence[Ref], defined: bool = False) -> None:
        if len(a) != len(b):
            self.found.append(two_sides(f"{what}: their number", len(a), len(b)))
            return
        for index, (x, y) in enumerate(zip(a, b, strict=True)):
            self.found.append(Beside(f"{what} {index}", x, y, defined))

    def _inside(
        self, a: OperatorDef, b: OperatorDef, where: str, around: tuple[_BlobNames, _BlobNames]
    ) -> Iterable[tuple[str, str]]:
        """Compare the nets in two operators; which names of theirs stand beside each other that
        the net around can know."""
        nets = nets_in(a), nets_in(b)
        names = _workspace(a, a, around[0]), _workspace(b, a, around[1])
        start = len(self.found)
        self._naming_arguments(a, b, where, names)
        for (what, x), (_, y) in zip(*nets, strict=False):
            self._by_name(x, y, f"{where}: {what}", names)
        if a.type == "Do":
            return ()
        inner = [e for e in self.found[start:] if isinstance(e, Beside) and _is_in(e, names)]
        pairs = {(e.a.name, e.b.name): None for e in inner if e.a and e.b}
        used = {name for pair in pairs for name in pair}
        for what in ("input", "output"):
            mine, others = list(getattr(a, what)), list(getattr(b, what))
            for x, y in zip(mine, others, strict=True) if len(mine) == len(others) else ():
                if x in used or y in used:
                    place = f'{where}: in the nets inside, the {what} "{x}"'
                    self.found.append(Beside(place, names[0].ref(x), names[1].ref(y)))
        return pairs

    def _naming_arguments(
        self, a: OperatorDef, b: OperatorDef, where: str, names: tuple[_BlobNames, _BlobNames]
    ) -> None:
        others = {arg.name: arg for arg in b.arg}
        for arg in a.arg:
            if arg.name in others:
                mine, named = naming_strings(a, arg), naming_strings(b, others[arg.name])
                what = f"{where}: argument {arg.name!r}"
                self._beside(what, names[0].refs(mine), names[1].refs(named))

    def _by_name(
        self, a: NetDef, b: NetDef, where: str, names: tuple[_BlobNames, _BlobNames]
    ) -> None:
        """Compare two nets inside operators."""
        self.found += different_fields(a, b, where)
        self.found += different_arguments(a, b, where)
        for what in ("external_input", "external_output"):
            mine, others = names[0].refs(getattr(a, what)), names[1].refs(getattr(b, what))
            self._beside(f"{where}: {what}", mine, others)
        for i, j, at in self._lined_up(a, b, f"{where}: ", inside=True):
            x, y = a.op[i], b.op[j]
            self._beside(f"{at}: input", names[0].refs(x.input), names[1].refs(y.input))
            self._beside(f"{at}: output", names[0].refs(x.output), names[1].refs(y.output))
            self._inside(x, y, at, names)


def _workspace(op: OperatorDef, first: OperatorDef, around: _BlobNames) -> _BlobNames:
    """Where an operator's nets find blobs: Do and RecurrentNetwork have workspaces of their own,
    which their gradients share; both sides' scope is called as the first net calls it."""
    inner = [net for _, net in nets_in(op)]
    bound = frozenset(name for arg in op.arg for name in naming_strings(op, arg))
    bound |= frozenset(name for net in inner for name in _all_written(net))
    if op.type == "Do":
        return _BlobNames((*around.scope, "Do", *first.input[-1:]), bound)
    if op.type.startswith("RecurrentNetwork"):
        names = first.input if op.type.endswith("Gradient") else first.output
        return _BlobNames((*around.scope, *names[-1:]), bound | {*op.input, *op.output})
    return around


def _written(net: NetDef) -> frozenset[str]:
    """What a net's operators and the nets in them write, but for its interface."""
    interface = {*net.external_input, *net.external_output}
    return frozenset(name for name in _all_written(net) if name not in interface)


def _all_written(net: NetDef) -> Iterable[str]:
    for op in net.op:
        yield from op.output
        for _, inner in nets_in(op) if op.type != "Do" else ():
            yield from _all_written(inner)


def _is_in(entry: Beside, names: tuple[_BlobNames, _BlobNames]) -> bool:
    return entry.a is not None and entry.a.scope == names[0].scope and entry.a.version < 0


def _match(entries: Sequence[Beside]) -> dict[Ref, Ref]:
    """The one-to-one matching that most entries ask for; what defines a blob goes first."""
    pairs = [e for e in entries if e.a and e.b and not (e.a.fixed or e.b.fixed)]
    votes = Counter((e.a, e.b) for e in pairs)
    order = [(e.a, e.b) for e in pairs if e.defined] + [pair for pair, _ in votes.most_common()]
    matched: dict[Ref, Ref] = {}
    used = set[Ref]()
    for a, b in order:
        if a and b and a not in matched and b not in used:
            matched[a] = b
            used.add(b)
    return matched


def _sentence(entry: Beside, matched: dict[Ref, Ref]) -> str:
    text = two_sides(entry.where, entry.a, entry.b)
    if entry.a and str(entry.a) == str(entry.b) and entry.a in matched:
        text += f", but the first's is {matched[entry.a]} elsewhere"
    return text


def _agree(entry: Beside, matched: dict[Ref, Ref]) -> bool:
    a, b = entry.a, entry.b
    if a is None or b is None:
        return a is b
    if a.fixed or b.fixed:
        return a.fixed == b.fixed and a.name == b.name
    return matched.get(a) == b
