# pyright: basic, reportMissingImports=false
"""Nodes that read or replace part of a tensor, and how such parts move from repeat to repeat."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch.fx import Node

from rnncc.frontends.torch.unrolled.view import arguments_of, known, name_of, producer, value_of
from rnncc.records import record

END = 2**63 - 1
"""What aten calls the end of an axis."""


@record
class AxisPart:
    """Part of an axis: `size` places from `start` on, or one place, which leaves no axis.

    All of an axis is a part without a size.
    """

    start: int = 0
    size: int | None = None
    drops: bool = False

    @property
    def extent(self) -> int:
        """How many places it has, if not all."""
        return 1 if self.size is None else self.size


ALL = AxisPart()


@record
class TensorPart:
    """Part of a tensor: a part of each axis; those that are not named are whole."""

    base: Node
    parts: tuple[AxisPart, ...]


@record
class Sweep:
    """Places of one tensor, one for each repeat: `start` + i * `step` along `axis`.

    Attributes:
        rest: the other axes, as a place without this one has them; whole ones are None.
    """

    base: Node
    axis: int
    start: int
    step: int
    extent: int
    drops: bool
    rest: tuple[AxisPart, ...]

    @property
    def is_whole(self) -> bool:
        """Whether all other axes are."""
        return all(part == ALL for part in self.rest)

    def covers(self, count: int) -> tuple[int, int]:
        """The first place and the place behind the last, over all repeats."""
        ends = (self.start, self.start + self.step * (count - 1))
        return min(ends), max(ends) + self.extent


def put(x: torch.Tensor, index: Any, value: Any) -> torch.Tensor:
    """A copy of x, where x[index] is another value."""
    copy = x.clone()
    copy[index] = value
    return copy


def read_of(node: Node) -> TensorPart | None:
    """The place that a node reads, if that is all that it does."""
    source, path = producer(node)
    if path is not None:
        return _split_part(source, path)
    match name_of(node) if node.args else "":
        case "select":
            return _on_axis(node, arguments_of(node, dim=0, index=0), "index")
        case "narrow":
            return _on_axis(node, arguments_of(node, dim=0, start=0, length=None), "narrow")
        case "slice":
            arguments = arguments_of(node, dim=0, start=None, end=None, step=1)
            return _on_axis(node, arguments, "slice")
        case "getitem":
            return _indexed(node.args[0], node.args[1], value_of(node))
        case _:
            return None


def write_of(node: Node) -> tuple[TensorPart, Any] | None:
    """The place that a node's result has replaced in its first argument, and by what."""
    match name_of(node):
        case "put" | "setitem":
            place = _indexed(node.args[0], node.args[1])
        case "select_scatter":
            place = _on_axis(node, arguments_of(node, src=None, dim=0, index=0), "index")
        case "slice_scatter":
            arguments = arguments_of(node, src=None, dim=0, start=None, end=None, step=1)
            place = _on_axis(node, arguments, "slice")
        case _:
            return None
    source: Any = (
        node.args[2] if name_of(node) in ("put", "setitem") else arguments_of(node, src=None)["src"]
    )
    return None if place is None else (place, source)


def sweep_of(places: Sequence[TensorPart | None]) -> tuple[Sweep, int] | None:
    """Places of one tensor that differ along one axis alone, by equal steps; and how many do."""
    if len(places) < 2 or places[0] is None or places[1] is None:
        return None
    first, second = places[0], places[1]
    pairs = list(zip(first.parts, second.parts, strict=False))
    moving = [axis for axis, (one, other) in enumerate(pairs) if one != other]
    if first.base is not second.base or len(moving) != 1:
        return None
    axis = moving[0]
    own, step = first.parts[axis], second.parts[axis].start - first.parts[axis].start

    def place(number: int) -> TensorPart:
        part = AxisPart(own.start + number * step, own.size, own.drops)
        return TensorPart(first.base, (*first.parts[:axis], part, *first.parts[axis + 1 :]))

    count = next((i for i, p in enumerate(places) if p != place(i)), len(places))
    if own.size is None or step == 0 or count < 2:
        return None
    rest = (*first.parts[:axis], *first.parts[axis + 1 :])
    return Sweep(first.base, axis, own.start, step, own.extent, own.drops, rest), count


def _split_part(source: Node, number: int) -> TensorPart | None:
    kind = name_of(source)
    if kind == "unbind":
        arguments = arguments_of(source, dim=0)
        return _on_axis(source, {**arguments, "index": number}, "index")
    if kind not in ("split", "chunk", "split_with_sizes", "tensor_split"):
        return None
    axis = arguments_of(source, sizes=None, dim=0)["dim"]
    values: Any = value_of(source)
    sizes = [known(x.shape[axis]) for x in values]
    if None in sizes:
        return None
    arguments = {"dim": axis, "start": sum(sizes[:number]), "length": sizes[number]}  # pyright: ignore
    return _on_axis(source, arguments, "narrow")


def _on_axis(node: Node, arguments: dict[str, Any], kind: str) -> TensorPart | None:
    base: Any = node.args[0] if node.args else None
    tensor = value_of(base) if isinstance(base, Node) else None
    if not isinstance(tensor, torch.Tensor) or any(
        isinstance(x, Node) for k, x in arguments.items() if k != "src"
    ):
        return None
    axis = arguments["dim"] % max(tensor.dim(), 1)
    match kind:
        case "index":
            part = _part(arguments["index"], tensor.shape[axis])
        case "narrow":
            part = _part(
                slice(arguments["start"], arguments["start"] + arguments["length"]),
                tensor.shape[axis],
            )
        case _:
            entry = slice(arguments["start"], arguments["end"], arguments["step"])
            result = None if "src" in arguments else value_of(node)
            part = _part(entry, tensor.shape[axis], _size_on(result, axis))
    if part is None:
        return None
    return TensorPart(base, tuple(part if i == axis else ALL for i in range(tensor.dim())))


def _indexed(base: Any, index: Any, result: Any = None) -> TensorPart | None:
    """`base[index]`, where the index has numbers, slices and ... alone; `result` is its value."""
    tensor = value_of(base) if isinstance(base, Node) else None
    if not isinstance(tensor, torch.Tensor):
        return None
    entries = list(index) if isinstance(index, (tuple, list)) else [index]
    if isinstance(index, list) or len([e for e in entries if e is not Ellipsis]) > tensor.dim():
        return None
    if Ellipsis in [e for e in entries if not isinstance(e, Node)]:
        at = next(i for i, e in enumerate(entries) if e is Ellipsis)
        entries[at : at + 1] = [slice(None)] * (tensor.dim() - len(entries) + 1)
    entries += [slice(None)] * (tensor.dim() - len(entries))
    if len(entries) != tensor.dim():
        return None
    kept = accumulate((not isinstance(e, int) for e in entries), initial=0)
    sizes = [_size_on(result, axis) for axis in list(kept)[:-1]]
    parts = list(map(_part, entries, tensor.shape, sizes))
    return None if None in parts else TensorPart(base, tuple(parts))  # pyright: ignore


def _size_on(result: Any, axis: int) -> int | None:
    """The size of what is read along an axis, where it is known."""
    is_known = isinstance(result, torch.Tensor) and axis < result.dim()
    return known(result.shape[axis]) if is_known else None


def _part(entry: Any, size: Any, extent: int | None = None) -> AxisPart | None:
    """A number or a slice of an axis, counted from its start; None for anything else.

    Args:
        size: of the axis.
        extent: of what is read along it. A slice that has all its places lies within the axis, of
            whatever size that is.
    """
    total = known(size)
    if type(entry) is int:
        if entry < 0 and total is None:
            return None
        place = entry + total if entry < 0 and total is not None else entry
        return AxisPart(place, 1, True)
    if not isinstance(entry, slice) or entry.step not in (None, 1):
        return None
    start, stop = entry.start or 0, END if entry.stop is None else entry.stop
    if start == 0 and stop == END:
        return ALL
    if type(start) is not int or type(stop) is not int:
        return None
    if total is None:
        is_within = 0 <= start < stop and extent == stop - start
        return AxisPart(start, stop - start) if is_within else None
    start, stop, _ = slice(start, stop).indices(total)
    return ALL if (start, stop) == (0, total) else AxisPart(start, max(stop - start, 0))
