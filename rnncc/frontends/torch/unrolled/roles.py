# pyright: basic, reportMissingImports=false
"""Compares the repeats of a part of a graph: what each argument is in all of them.

Nothing is known of what the nodes compute, but for those that read or replace part of a tensor
and for arithmetic, in which a number may differ from repeat to repeat.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Node

from rnncc.frontends.torch.graphs import held_graph
from rnncc.frontends.torch.unrolled.kinds import (
    BodyNode,
    Inner,
    Invariant,
    Kind,
    Numbers,
    OwnInputs,
    PlacedNode,
    Read,
    Repeats,
    Role,
    Same,
    Write,
)
from rnncc.frontends.torch.unrolled.places import (
    ALL,
    Sweep,
    TensorPart,
    read_of,
    sweep_of,
    write_of,
)
from rnncc.frontends.torch.unrolled.view import (
    Path,
    is_number,
    leaves_of,
    name_of,
    producer,
    text_of,
    type_of,
    value_of,
)
from rnncc.records import record

LONGEST_LAG = 8
"""How many repeats ago a value may have been computed."""
LEAST_INPUTS = 12
"""Inputs that make a sequence; fewer may be what differs between layers."""
ARITHMETIC = frozenset(
    "add sub rsub mul div truediv floordiv floor_divide mod remainder fmod "
    "eq ne lt le gt ge".split()
)
"""What takes a tensor of rank 0 for a number."""
VIEWS = frozenset(
    "alias chunk contiguous detach expand flatten getitem movedim narrow permute reshape select "
    "slice split squeeze t transpose unbind unflatten unsqueeze view".split()
)
"""What is the same wherever it is computed from the same tensor."""


def loops_of(
    rows: Sequence[Sequence[Node]], least: int, most: int = 8
) -> Generator[Repeats, None, None]:
    """The loops that some repeats of equal labels are, one after another.

    What follows a loop is looked at when the next one is asked for: the loop may be gone by then.

    Args:
        rows: the nodes of each repeat.
        least: how many repeats make a loop.
        most: after how many places at which a loop cannot go on no more are looked for.
    """
    first = 0
    for _ in range(most):
        if len(rows) - first < least:
            break
        loop = _longest(rows[first:], least)
        if loop is not None:
            yield loop
        first += 1 if loop is None else len(loop.rows)


def _longest(rows: Sequence[Sequence[Node]], least: int) -> Repeats | None:
    """As many of the repeats as are one body, from the first one on."""
    while len(rows) >= least:
        comparison = _Comparison(rows)
        body = comparison.body()
        if comparison.end == len(rows):
            return Repeats(rows, body)
        rows = rows[: comparison.end]
    return None


class _Comparison:
    """Args: rows: the nodes of each repeat."""

    def __init__(self, rows: Sequence[Sequence[Node]]) -> None:
        self.rows, self.end = rows, len(rows)
        """From repeat `end` on something differs."""
        self.kinds = list[Kind]()
        self.at = {node: (i, j) for i, row in enumerate(rows) for j, node in enumerate(row)}

    def body(self) -> list[Kind]:
        """What each node is, in the repeats before `end`."""
        for number in range(len(self.rows[0])):
            if self.end < 2:
                break
            self.kinds.append(self._kind(number))
        return self.kinds

    def _kind(self, number: int) -> Kind:
        nodes = [row[number] for row in self.rows[: self.end]]
        leaves = list(zip(*map(leaves_of, nodes), strict=True))
        moving = [x for x in leaves if is_number(x[0]) and any(not _alike(x[0], y) for y in x)]
        if moving:
            if (sweep := self._swept([read_of(node) for node in nodes])) is not None:
                return Read(sweep)
            if (written := self._write(number, nodes)) is not None:
                return written
            if (placed := self._placed(nodes)) is not None:
                return placed
        free = {i for i in (0, 1) if leaves[i:] and leaves[i] in moving}
        free = {i for i in free if dtype_of_numbers(nodes[0], leaves[i]) is not None}
        roles = tuple(self._role(values, i in free) for i, values in enumerate(leaves))
        if name_of(nodes[0]) in VIEWS and all(map(self._is_outside, roles)):
            return Invariant()
        return BodyNode(roles)

    def _is_outside(self, role: Role) -> bool:
        if isinstance(role, Inner):
            return role.lag == 0 and isinstance(self.kinds[role.number], Invariant)
        return isinstance(role, Same)

    def _stop(self, end: int) -> None:
        self.end = min(self.end, end)

    def _role(self, values: Sequence[Any], arithmetic: bool = False) -> Role:
        """What a leaf is in all repeats; where that ends is where the loop ends."""
        values = values[: max(self.end, 1)]  # the first tells the role even if no loop is left
        first = values[0]
        if isinstance(first, Node) and held_graph(first) is None:
            return self._node_role(values)
        end = next((i for i, x in enumerate(values) if not _alike(first, x)), len(values))
        if end < len(values) and arithmetic and is_number(first):
            return Numbers(tuple(values))
        self._stop(end)
        return Same(first)

    def _node_role(self, values: Sequence[Any]) -> Role:
        located = [self._located(node, i) for i, node in enumerate(values)]
        outside = next((i for i, place in enumerate(located) if place is not None), len(located))
        if outside == 0:
            place = located[0]
            self._stop(_prefix(located, place))
            if place is None or place[0] != 0:
                self._stop(0)
                return Same(None)
            return Inner(place[1], place[2])
        if outside < len(located) and self._is_carried(values[:outside], located[outside]):
            lag, number, path = located[outside]  # pyright: ignore
            self._stop(outside + _prefix(located[outside:], located[outside]))
            return Inner(number, path, lag, tuple(values[:outside]))
        self._stop(outside)
        values = values[:outside]
        if (sweep := self._swept([read_of(node) for node in values])) is not None:
            return sweep
        alike = next((i for i, x in enumerate(values) if not _is_like(x, values[0])), len(values))
        if alike >= LEAST_INPUTS and len({*values}) > 1:
            self._stop(alike)
            return OwnInputs(tuple(values[:alike]))
        self._stop(_prefix(values, values[0]))
        return Same(values[0])

    def _located(self, node: Node, repeat: int) -> tuple[int, int, Path] | None:
        """How many repeats ago, by which node of the body, and which of its results."""
        source, path = producer(node)
        at = self.at.get(source)
        return None if at is None else (repeat - at[0], at[1], path)

    def _is_carried(self, inits: Sequence[Node], place: Any) -> bool:
        lag, number, path = place
        if lag != len(inits) or lag > LONGEST_LAG:
            return False
        result = value_of(self.rows[0][number])
        kind = type_of(result if path is None else result[path])
        return all(type_of(value_of(init)) == kind for init in inits)

    def _swept(self, places: Sequence[TensorPart | None]) -> Sweep | None:
        """The sweep that places of a tensor from outside are, as far as it goes."""
        bases = [None if p is None else self._anchor(p.base) for p in places]
        moved = [p and b and replace(p, base=b) for p, b in zip(places, bases, strict=True)]
        sweep = sweep_of(moved)
        if sweep is None:
            return None
        self._stop(sweep[1])
        return sweep[0]

    def _anchor(self, node: Node) -> Node | None:
        """A node from outside, or what stands for one that all repeats compute alike."""
        at = self.at.get(producer(node)[0])
        if at is None:
            return node
        number = at[1]
        known = number < len(self.kinds) and isinstance(self.kinds[number], Invariant)
        return self.rows[0][number] if known and producer(node)[1] is None else None

    def _placed(self, nodes: Sequence[Node]) -> PlacedNode | None:
        """Reads or changes of one place each, of tensors that change from repeat to repeat."""
        bases: list[Any] = [node.args[0] for node in nodes]
        if not isinstance(bases[1], Node) or self._located(bases[1], 1) is None:
            return None
        parts = [place for node in nodes if (place := _place_of(node)) is not None]
        if len(parts) < len(nodes) or any(place.kind != parts[0].kind for place in parts):
            return None
        writes, axis, drops = parts[0].kind
        roles = [self._role(bases)]
        if writes:
            roles.append(self._role([place.source for place in parts]))
        numbers = Numbers(tuple(place.number for place in parts))
        return PlacedNode(tuple(roles), axis, numbers, drops)

    def _write(self, number: int, nodes: Sequence[Node]) -> Write | None:
        """A row of a tensor, of which nothing else is read before the loop's end."""
        written = [write for node in nodes if (write := write_of(node)) is not None]
        if len(written) < len(nodes):
            return None
        bases = [place.base for place, _ in written]
        if self._node_role(bases) != Inner(number, None, 1, (bases[0],)):
            return None
        for i, node in enumerate(nodes[:-1]):
            if set(node.users) - {self.rows[i + 1][number]}:
                self._stop(i + 1)
                break
        swept = sweep_of([replace(place, base=bases[0]) for place, _ in written])
        if swept is None:
            return None
        sweep, count = swept
        sources = [source for _, source in written]
        whole = sweep.base, sweep.axis, sweep.extent, sweep.drops
        fits = all(_fits(source, *whole) for source in sources)
        if not fits or not sweep.is_whole or abs(sweep.step) != sweep.extent:
            return None
        self._stop(count)
        return Write(sweep, bases[0], self._role(sources))


@record
class _Place:
    """One place along one axis, which a node reads or replaces.

    Attributes:
        kind: whether it replaces it, the axis, and whether the place has no such axis.
        source: what it puts there.
    """

    kind: tuple[bool, int, bool]
    number: int
    source: Any


def _place_of(node: Node) -> _Place | None:
    written = write_of(node)
    place, source = written or (read_of(node), None)
    if place is None or place.base is not node.args[0]:
        return None
    parts = [(axis, part) for axis, part in enumerate(place.parts) if part != ALL]
    if len(parts) != 1 or parts[0][1].size != 1:
        return None
    axis, part = parts[0]
    if written is not None and not _fits(source, place.base, axis, 1, part.drops):
        return None
    return _Place((written is not None, axis, part.drops), part.start, source)


def _fits(source: Any, base: Node, axis: int, extent: int, drops: bool) -> bool:
    """Whether a value is as large as what it replaces."""
    value = value_of(source) if isinstance(source, Node) else None
    if not isinstance(value, torch.Tensor):
        return False
    shape = list(value_of(base).shape)
    shape[axis : axis + 1] = [] if drops else [extent]
    return [str(size) for size in value.shape] == [str(size) for size in shape]


def dtype_of_numbers(node: Node, numbers: Sequence[int | float]) -> torch.dtype | None:
    """The dtype of tensors of rank 0 that may stand for numbers in arithmetic with a tensor."""
    operands = [value_of(leaf) for leaf in leaves_of(node)[:2] if isinstance(leaf, Node)]
    result = value_of(node)
    if name_of(node) not in ARITHMETIC or len(operands) != 1:
        return None
    kinds = [x.dtype for x in (result, *operands) if isinstance(x, torch.Tensor)]
    if len(kinds) < 2 or (
        isinstance(operands[0], torch.Tensor) and operands[0].dtype == torch.bool
    ):
        return None
    kind = kinds[1] if result.dtype == torch.bool else result.dtype
    whole = all(isinstance(number, int) for number in numbers)
    return kind if kind.is_floating_point or whole else None


def _is_like(node: Node, first: Node) -> bool:
    """Whether a node is an input that TorchDynamo found, no parameter, of the type of another."""
    value = node.meta.get("example_value") if node.op == "placeholder" else None
    is_given = isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter)
    return is_given and type_of(value) == type_of(value_of(first))


def _prefix(values: Sequence[Any], value: Any) -> int:
    return next((i for i, x in enumerate(values) if x != value), len(values))


def _alike(one: Any, other: Any) -> bool:
    inner = held_graph(one)
    if inner is not None:
        same = held_graph(other)
        return same is not None and (same is inner or text_of(same) == text_of(inner))
    return one is other or (type(one) is type(other) and repr(one) == repr(other))
