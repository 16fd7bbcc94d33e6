"""Decision trees: the leaf of each row in each of many trees, all trees in one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder, Values
from rnncc.ir.dims import Dim, product
from rnncc.ir.types import dims_of
from rnncc.records import record

Array = np.ndarray[tuple[int, ...], np.dtype[np.generic]]
COMPARISONS = ("le", "lt", "ge", "gt", "eq", "ne")


@record
class Trees:
    """Nodes of trees in one table, in any order; a leaf's children are the leaf itself.

    Attributes:
        roots: [trees] the first node of each tree.
        features: [nodes] the column that a node compares.
        thresholds: [nodes] what with.
        kinds: [nodes] the place in COMPARISONS of how.
        holds, fails: [nodes] the next node, if the comparison holds or not.
        missing: [nodes] whether NaN counts as if it held; None if it does nowhere.
        depth: comparisons from a root to the furthest leaf.
    """

    roots: Array
    features: Array
    thresholds: Array
    kinds: Array
    holds: Array
    fails: Array
    missing: Array | None
    depth: int


def leaves(b: Builder, x: SSAValue, trees: Trees, literal: Callable[[Array], SSAValue]) -> SSAValue:
    """The number of the node where each row of x ends up in each tree.

    Args:
        x: [N, columns] of the type of the thresholds.
        literal: an array as a value.
    Returns:
        int64 [N, trees]
    """
    rows, columns = dims_of(x)
    shape = (rows, len(trees.roots))
    start = b.broadcast(literal(trees.roots), shape, [1])
    first = b.mul(b.iota(shape, 0, "i64"), b.fill(int(columns), (), "i64"))
    present = np.unique(trees.kinds)
    tables = {
        "features": literal(trees.features),
        "thresholds": literal(trees.thresholds),
        "holds": literal(trees.holds),
        "fails": literal(trees.fails),
    }
    if len(present) > 1:
        tables["kinds"] = literal(trees.kinds)
    if trees.missing is not None:
        tables["missing"] = literal(trees.missing)
    flat = b.reshape(x, (product([rows, columns]),))

    def step(inner: Builder, consts: Values, carry: Values, _: Values) -> tuple[Values, Values]:
        cells, offset, *held = consts
        known = dict(zip(tables, held, strict=True))
        return [_next(inner, cells, offset, known, carry[0], present)], []

    consts = [flat, first, *tables.values()]
    finals, _ = b.scan(consts, [start], [], step, length=Dim.of(trees.depth))
    return finals[0]


def _next(
    b: Builder,
    cells: SSAValue,
    first: SSAValue,
    tables: Mapping[str, SSAValue],
    node: SSAValue,
    kinds: Array,
) -> SSAValue:
    """One comparison further down."""
    shape = dims_of(node)
    node = b.reshape(node, (product(shape),))
    columns = {name: b.reshape(b.gather(table, node, 0), shape) for name, table in tables.items()}
    place = b.reshape(b.add(first, columns["features"]), (product(shape),))
    value = b.reshape(b.gather(cells, place, 0), shape)
    goes = b.compare(COMPARISONS[int(kinds[0])], value, columns["thresholds"])
    for kind in kinds[1:]:
        here = b.compare("eq", columns["kinds"], b.fill(int(kind), (), "i64"))
        other = b.compare(COMPARISONS[int(kind)], value, columns["thresholds"])
        goes = b.select(here, other, goes)
    if "missing" in columns:
        lost = b.logical("and", columns["missing"], b.compare("ne", value, value))
        goes = b.logical("or", goes, lost)
    return b.select(goes, columns["holds"], columns["fails"])
