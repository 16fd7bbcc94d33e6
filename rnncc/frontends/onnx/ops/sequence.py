"""Lists of tensors, as far as exporters use them: a loop appends, and they are joined behind it."""

from __future__ import annotations

from xdsl.ir import SSAValue

from rnncc.frontends.onnx.node import COMPUTED, Node, Operator
from rnncc.frontends.onnx.values import Rows, Value, size_value
from rnncc.ir.composites import move_axis
from rnncc.ir.dims import Dim
from rnncc.ir.types import dims_of


def _empty(n: Node) -> Value:
    """A list without elements."""
    return Rows.empty()


def _construct(n: Node) -> Value:
    """A list of the inputs."""
    made = Rows.empty()
    for index in range(len(n.inputs)):
        made = made.appended(_element(n, index))
    return made


def _element(n: Node, index: int) -> Value:
    value = n.value(index)
    if isinstance(value, Rows) or value.dtype not in COMPUTED:
        raise n.unsupported("puts another list, or what is not read, into a list")
    return value


def _rows(n: Node) -> Rows:
    value = n.value(0)
    if not isinstance(value, Rows):
        raise n.error(f'input "{n.op.input[0]}" is no list')
    return value


def _insert(n: Node) -> Value:
    """A list with one more element at its end.

    Refused: another place than the end.
    """
    if n.has(2):
        raise n.unsupported("puts an element at a place of its own, which is not supported")
    return _rows(n).appended(_element(n, 1))


def _concat(n: Node) -> SSAValue:
    """The elements of a list along an axis, or along one of their own.

    Refused: an empty list.
    """
    rows, b, parts = _rows(n), n.b, list[SSAValue]()
    new, given = bool(n.integer("new_axis", 0)), n.integer("axis")
    if rows.stacked is None and not rows.items:
        raise n.unsupported("puts nothing together")
    if rows.stacked is not None:
        count, *dims = dims_of(rows.stacked)
        axis = n.axis(given, len(dims) + new)
        turned = move_axis(b, rows.stacked, 0, axis)
        joined = [*dims[:axis], count * dims[axis], *dims[axis + 1 :]] if not new else None
        parts.append(turned if joined is None else b.reshape(turned, joined))
    for item in rows.items:
        dims = list(item.dims)
        axis = n.axis(given, len(dims) + new)
        value = n.scope.ssa(item)
        parts.append(b.reshape(value, [*dims[:axis], 1, *dims[axis:]]) if new else value)
    rank = len(dims_of(parts[0]))
    return b.concat(parts, n.axis(given, rank))


def _length(n: Node) -> Value:
    """How many elements a list has."""
    rows = _rows(n)
    held = Dim.of(0) if rows.stacked is None else dims_of(rows.stacked)[0]
    return size_value(held + len(rows.items))


def _at(n: Node) -> Value:
    """One element of a list.

    Refused: elements that a loop of open length appended; a place that is computed.
    """
    rows, place = _rows(n), int(n.scalar(1))
    if rows.stacked is not None and not -len(rows.items) <= place < 0:
        raise n.unsupported("takes an element that a loop appended, which is not supported")
    if not -len(rows.items) <= place < len(rows.items):
        raise n.error(f"takes element {place} of {len(rows.items)}")
    return rows.items[place]


OPERATORS: dict[str, Operator] = {
    "SequenceEmpty": Operator(_empty),
    "SequenceConstruct": Operator(_construct),
    "SequenceInsert": Operator(_insert),
    "SequenceAt": Operator(_at),
    "SequenceLength": Operator(_length),
    "ConcatFromSequence": Operator(_concat),
}
