"""Arithmetic with shapes of which the run counts a size: what is decided all the same.

Exporters write `where(shape == -1, 1, shape)`, which is the shape.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.formulas.offsets import formulas_of, parted
from rnncc.frontends.onnx.formulas.sizes import Undecided, decide
from rnncc.frontends.onnx.node import Node
from rnncc.frontends.onnx.values import (
    MAX_RANK,
    Value,
    as_objects,
    size_value,
    sizes_value,
    varies,
)
from rnncc.ir.dims import Dim
from rnncc.ir.ops.shape import Concat, Slice
from rnncc.ir.size_proofs import is_natural
from rnncc.ir.types import dims_of

COUNT = "counted_"
"""What symbols of counts begin with, which are at least 0, as sizes are."""


def known_part(n: Node, part: SSAValue) -> SSAValue | Value:
    """A part of a shape: known, if no size that the run counts is in it."""
    sizes = formulas_of(n.b, part)
    if sizes is None:
        return part
    return sizes_value(sizes) if dims_of(part) else size_value(sizes[0])


def compared(n: Node, kind: str) -> Value | None:
    """What comparing two shapes gives, if that is the same whatever is counted."""
    if not (_is_shape(n, 0) or _is_shape(n, 1)):
        return None
    symbols = dict[SSAValue, Dim]()
    left, right = (_formulas(n, index, symbols) for index in (0, 1))
    if left is None or right is None:
        return None
    try:
        pairs = np.broadcast(
            as_objects(np.array(left, object)), as_objects(np.array(right, object))
        )
        return Value.of(np.array([decide(kind, x, y, n.scope.model.known.facts) for x, y in pairs]))
    except (Undecided, ValueError):
        return None


def chosen(n: Node) -> SSAValue | None:
    """The elements of two shapes that known conditions choose."""
    condition = n.value(0).known
    if condition is None or condition.ndim != 1 or not (_is_shape(n, 1) or _is_shape(n, 2)):
        return None
    x, y = (_elements(n, index) for index in (1, 2))
    if x is None or y is None or not len(condition) == len(x) == len(y):
        return None
    elements = [a if c else b for c, a, b in zip(condition, x, y, strict=True)]
    return n.b.concat([n.b.reshape(n.scope.number(e), (1,)) for e in elements], 0)


def narrowed(n: Node, dtype: str) -> SSAValue | None:
    """Sizes as int32, of which some are counted: they stay formulas and counts, as sizes do."""
    value = n.value(0)
    if value.made is None or (value.dtype, dtype) != ("i64", "i32") or value.rank > 1:
        return None
    if value.rank and not _is_shape(n, 0):
        return None
    elements = n.places(0) if value.rank else [value.made]
    numbers, counts = list[SSAValue](), n.scope.model.counts
    for element in elements:
        if isinstance(element, Dim) and not varies(element):
            numbers.append(n.b.size(element, dtype))
            continue
        if isinstance(element, Dim):
            return None
        base, more = parted(element)
        if base is None or base not in counts:
            return None
        number = n.b.cast(element, dtype)
        counts[number] = counts[base] + more
        numbers.append(number)
    vector = n.b.concat([n.b.reshape(number, (1,)) for number in numbers], 0)
    return n.b.reshape(vector, value.dims)


def multiplied_sizes(n: Node) -> SSAValue | None:
    """The product of a vector of sizes, of which the run counts one: some times that one."""
    value = n.value(0)
    if not _is_shape(n, 0, ("i32", "i64")):
        return None
    counted, times = list[SSAValue](), Dim.of(1)
    for element in n.places(0):
        if isinstance(element, Dim):
            times *= element
        else:
            counted.append(element)
    if len(counted) != 1 or not is_natural(times):
        return None
    whole = n.b.cast(n.b.mul(counted[0], n.scope.number(times)), value.dtype)
    (base, more), counts = parted(counted[0]), n.scope.model.counts
    if base is not None and base in counts:
        counts[whole] = (counts[base] + more) * times
    return whole


def _is_shape(n: Node, index: int, dtypes: tuple[str, ...] = ("i64",)) -> bool:
    """Whether a vector is put together from as many numbers as a shape may have."""
    value = n.value(index)
    op = None if value.made is None else value.made.owner
    shape = isinstance(op, Concat) or (isinstance(op, Slice) and isinstance(op.x.owner, Concat))
    if not shape or value.rank != 1 or value.dtype not in dtypes:
        return False
    return value.dims[0].is_static and int(value.dims[0]) <= MAX_RANK


def _elements(n: Node, index: int) -> list[Dim | SSAValue] | None:
    value = n.value(index)
    if value.dtype != "i64" or value.rank != 1 or (value.known is None and not _is_shape(n, index)):
        return None
    return n.places(index)


def _formulas(n: Node, index: int, symbols: dict[SSAValue, Dim]) -> list[Dim] | None:
    """The sizes, with a symbol for each number that counts rows."""
    formulas = list[Dim]()
    for element in _elements(n, index) or ():
        base, more = (None, element) if isinstance(element, Dim) else parted(element)
        if base is not None and base not in n.scope.model.counts:
            return None
        if base is not None:
            more += symbols.setdefault(base, Dim.of(f"{COUNT}{len(symbols)}"))
        formulas.append(more)
    return formulas or None
