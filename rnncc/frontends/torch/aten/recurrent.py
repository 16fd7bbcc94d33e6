"""Recurrent layers and cells of PyTorch: its weights, gate orders and layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xdsl.ir import SSAValue

from rnncc.frontends.torch.aten.random import dropped
from rnncc.frontends.torch.node_context import NodeContext, Table, Value
from rnncc.frontends.torch.own_operators.recurrent_op import KINDS
from rnncc.ir.builder import Builder
from rnncc.nn.axes import row
from rnncc.nn.cells import CellWeights, Elman, Gru, Lstm, reset_after_biases
from rnncc.nn.layer import Cell, Direction, laid_out, run_layers, stack_states, time_first


def recurrent(
    at: NodeContext,
    x: Value,
    lengths: Value | None,
    hx: Sequence[Value],
    weights: Sequence[Value],
    kind: str,
    biases: bool,
    layers: int,
    dropout: float,
    both: bool,
    batch_first: bool,
) -> tuple[Value, ...]:
    """All layers and directions; y, the last h and the last c; y is 0 beyond a length"""
    b, ways, layout = at.b, 2 if both else 1, "NTC" if batch_first else "TNC"
    per_cell = len(weights) // (layers * ways)

    def layer(number: int) -> Iterator[Direction]:
        for index in range(number * ways, (number + 1) * ways):
            cell = _cell(b, kind, weights[index * per_cell :][:per_cell], biases)
            yield Direction(cell, [row(b, h, index) for h in hx], index % ways == 1)

    def between(y: Value) -> Value:
        return dropped(at, y, dropout)

    x = time_first(b, x, layout)
    y, finals = run_layers(b, x, map(layer, range(layers)), lengths, between=between)
    return laid_out(b, y, layout), *stack_states(b, finals)


def cell(kind: str) -> Callable[..., Value | tuple[Value, ...]]:
    """One step, for nn.LSTMCell and its like"""

    def translate(
        at: NodeContext,
        x: Value,
        hx: Value | Sequence[Value],
        w: Value,
        u: Value,
        b: Value | None = None,
        c: Value | None = None,
    ) -> Value | tuple[Value, ...]:
        states = [hx] if isinstance(hx, SSAValue) else list(hx)
        added = [] if b is None or c is None else [b, c]
        own = _cell(at.b, kind, [w, u, *added], bool(added))
        new = own.step(at.b, *own.prepare(at.b, x), states)
        return new[0] if len(new) == 1 else tuple(new)

    return translate


def _cell(b: Builder, kind: str, values: Sequence[Value], biased: bool) -> Cell:
    """PyTorch's order: w, u, their biases, the projection; gates i, f, g, o and r, z, n."""
    w, u, *rest = values
    biases, late = (rest[:2] if biased else []), None
    if kind == "gru" and biased:
        biases, late = reset_after_biases(b, *biases)
    weights = CellWeights(w, u, biases)
    match kind:
        case "lstm":
            return Lstm(weights, projection=rest[-1] if len(rest) % 2 else None)
        case "gru":
            return Gru(weights, late=late)
        case _:
            return Elman(weights, Builder.relu if kind == "rnn_relu" else Builder.tanh)


OPERATORS: Table = {
    "rnncc::recurrent": recurrent,
    **{f"{name}{kind}_cell": cell(kind) for name in ("", "rnncc::") for kind in KINDS},
}
