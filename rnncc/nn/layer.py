"""One driver for all recurrent layers: directions, stacks, lengths, initial states, layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder, Values
from rnncc.ir.types import dims_of
from rnncc.nn.steps import Named, named
from rnncc.records import record

STATES = "h", "c"
"""What drawings and plans call a cell's states."""
Join = Callable[[Builder, Sequence[SSAValue]], SSAValue]
"""The y of each direction [T, N, H] -> what the layer hands on."""


class Cell(Protocol):
    """One direction of a recurrent layer, with its weights, as functions that append ops."""

    def prepare(self, b: Builder, x: SSAValue) -> tuple[Named, Values]:
        """What all steps share, by name; and what they read of x [T, N, I], as sequences [T, N, K].

        All that depends on x alone belongs here: for all steps at once it is one product.
        """
        ...

    def step(self, b: Builder, shared: Named, rows: Values, states: Values) -> list[SSAValue]:
        """The states [N, H] after a step, from those before it and its rows [N, K].

        The first one is the output.
        """
        ...


@record
class Direction:
    """A cell, the states [N, H] that it starts from, and whether it runs from the last step on."""

    cell: Cell
    starts: Values
    reverse: bool = False


def run_direction(
    b: Builder, direction: Direction, x: SSAValue, lengths: SSAValue | None = None
) -> tuple[SSAValue, list[SSAValue]]:
    """One direction of one layer over x [T, N, I]: y [T, N, H], and the states after it.

    Args:
        lengths: steps of each sequence, integers [N]; from there on y is 0 and states stay
            as they are, so that a reversed direction starts at each sequence's own end.
    """
    cell = direction.cell
    shared, rows = cell.prepare(b, x)
    names, consts, xs = list(shared), list(shared.values()), list(rows)
    if lengths is not None:
        steps, batch = dims_of(x)[:2]
        xs.append(b.iota([steps], 0))
        consts.append(b.reshape(b.cast(lengths, "i32"), (batch, 1)))

    def body(inner: Builder, consts: Values, carry: Values, row: Values) -> tuple[Values, Values]:
        own = dict(zip(names, consts, strict=False))
        new = cell.step(inner, own, row[: len(rows)], carry)
        for state, name in zip(new, STATES, strict=False):
            named(state, name)
        if lengths is None:
            return new, new[:1]
        live = named(inner.compare("lt", row[-1], consts[-1]), "live")
        kept = [inner.select(live, state, old) for state, old in zip(new, carry, strict=True)]
        return kept, [inner.select(live, new[0], inner.full_like(new[0], 0.0))]

    finals, ys = b.scan(consts, direction.starts, xs, body, direction.reverse)
    return ys[0], finals


def side_by_side(b: Builder, ys: Sequence[SSAValue]) -> SSAValue:
    """The features of all directions, [T, N, directions · H]."""
    return b.concat(ys, 2)


def run_layers(
    b: Builder,
    x: SSAValue,
    layers: Iterable[Iterable[Direction]],
    lengths: SSAValue | None = None,
    join: Join = side_by_side,
    between: Callable[[SSAValue], SSAValue] | None = None,
) -> tuple[SSAValue, list[list[SSAValue]]]:
    """Layers of one direction or more over x [T, N, I], each over the y of the one before.

    Args:
        lengths: as of `run_direction`.
        between: what a layer does to the y of the one before, such as dropout.
    Returns:
        The last layer's y; and the states after the last step of each direction, layer by layer.
    """
    finals = list[list[SSAValue]]()
    for number, layer in enumerate(layers):
        x = between(x) if number and between is not None else x
        ys = list[SSAValue]()
        for direction in layer:
            y, last = run_direction(b, direction, x, lengths)
            ys.append(y)
            finals.append(last)
        x = join(b, ys)
    return x, finals


def stack_states(b: Builder, finals: Sequence[Values]) -> list[SSAValue]:
    """Of each state [N, H] one tensor [directions, N, H]."""
    by_state = zip(*finals, strict=True)
    return [b.concat([b.reshape(s, (1, *dims_of(s))) for s in states], 0) for states in by_state]


def time_first(b: Builder, x: SSAValue, layout: str) -> SSAValue:
    """Features [T, N, C], or numbers [T, N], in whatever order `layout` has these letters.

    Without T it is one step.
    """
    if "T" not in layout:
        return b.reshape(x, (1, *dims_of(x)))
    return b.transpose(x, [layout.index(axis) for axis in "TNC" if axis in layout])


def laid_out(b: Builder, y: SSAValue, layout: str) -> SSAValue:
    """The opposite of `time_first`, of features [T, N, C]."""
    if "T" not in layout:
        return b.reshape(y, dims_of(y)[1:])
    return b.transpose(y, ["TNC".index(axis) for axis in layout])
