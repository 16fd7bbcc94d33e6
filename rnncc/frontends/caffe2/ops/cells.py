"""Recurrent units: the elementwise part of a step, and whole layers in PyTorch's layout."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.caffe2.graph import GraphMaker
from rnncc.frontends.caffe2.operator import ANY, Array, Blob, Emitter, Operator
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.dims import Dim
from rnncc.nn.arithmetic import plus
from rnncc.nn.axes import row
from rnncc.nn.cells import Lstm, Weights, gru_state, lstm_step
from rnncc.nn.layer import Direction, laid_out, run_layers, stack_states, time_first

UNROLLED = re.compile(r"(?:^|/)timestep_(\d{1,9})/timestep$")


class Unit(Operator):
    """A step of a gated cell: states (1, N, D), gates (1, N, gates * D), [lengths], timestep.

    Refused: states of more than one row; D of symbolic size; elements other than float32.
    """

    gates: int
    states: int

    def setup(self, maker: GraphMaker) -> None:
        self.has_lengths = self.args.flag("sequence_lengths", default=True)
        want = self.states + 2 + self.has_lengths
        if len(self.xs) != want:
            hint = f"sequence_lengths is {int(self.has_lengths)}"
            raise self.error(f"has {len(self.xs)} inputs, expected {want}", hint)
        self.drops = self.args.flag("drop_states")
        self.gate_blob = self.xs[self.states]

    def infer(self, s: Shapes) -> None:
        cell = self.xs[self.states - 1]
        if s.dims(cell) is None:
            s.expect(cell, (1, s.fresh(), s.fresh()))
        dims = s.known(cell)
        s.expect(cell, (1, dims[1], dims[2]) if len(dims) == 3 else (1, *dims[:2]), "f32")
        for state in (*self.xs[: self.states], *self.ys):
            s.expect(state, dims, "f32")
        s.expect(self.gate_blob, (1, dims[1], dims[2] * self.gates), "f32")
        if self.has_lengths:
            s.expect(self.xs[-2], (dims[1],), "i32")
        s.expect(self.xs[-1], (1,), "i32")

    def extent(self, s: Shapes) -> tuple[Dim | None, Dim | None]:
        return None, s.known(self.batch)[1]

    def fixed(self, s: Shapes) -> Iterable[Dim]:
        return [s.known(self.batch)[2]]

    def defaults(self, s: Shapes) -> Iterable[tuple[Blob, Array]]:
        """The unroller names each step's number timestep_<number>/timestep."""
        timestep = self.xs[-1]
        if match := UNROLLED.search(timestep.name):
            yield timestep, np.array([int(match[1])], np.int32)

    @property
    def batch(self) -> Blob:
        """A blob of shape (1, N, D)."""
        return self.xs[self.states - 1]

    def slices(self, e: Emitter) -> list[SSAValue]:
        """The gates, one (1, N, D) each."""
        size = e.dims(self.batch)[2]
        gates = e[self.gate_blob]
        return [e.b.slice(gates, 2, size * i, size) for i in range(self.gates)]

    def keep(self, e: Emitter, *new: SSAValue) -> None:
        """The new states where the step is inside the sequence, else the old ones or zero."""
        values = list(new)
        if self.has_lengths:
            n = e.dims(self.batch)[1]
            step = e.b.reshape(e[self.xs[-1]], (1, 1, 1))
            inside = e.b.compare("lt", step, e.b.reshape(e[self.xs[-2]], (1, n, 1)))
            old = [e.b.fill(0.0, ()) if self.drops else e[x] for x in self.xs[: self.states]]
            values = [e.b.select(inside, a, b) for a, b in zip(new, old, strict=True)]
        for blob, value in zip(self.ys, values, strict=True):
            e[blob] = value


class LSTMUnit(Unit):
    """C = f C' + i g, H = o tanh(C); gates i, f, o sigmoid (f with forget_bias), g tanh."""

    inputs = (4, 5)
    outputs = (2, 2)
    gates = 4
    states = 2

    def setup(self, maker: GraphMaker) -> None:
        super().setup(maker)
        self.forget_bias = self.args.float("forget_bias", 0.0)

    def build(self, e: Emitter) -> None:
        sums = dict(zip("ifog", self.slices(e), strict=True))
        if self.forget_bias:
            sums["f"] = plus(e.b, sums["f"], self.forget_bias)
        self.keep(e, *lstm_step(e.b, sums, e[self.xs[1]]))


class GRUUnit(Unit):
    """H = u H' + (1 - u) o; gates reset (not used here), u sigmoid, o tanh."""

    inputs = (3, 4)
    gates = 3
    states = 1

    def build(self, e: Emitter) -> None:
        b = e.b
        _, update, output = self.slices(e)
        self.keep(e, gru_state(b, e[self.xs[0]], b.sigmoid(update), b.tanh(output)))


class InferenceLSTM(Operator):
    """Y, H, C = a stack of LSTM layers in PyTorch's layout: w_ih, w_hh [, b_ih, b_hh] for each
    layer and direction, gates i, f, g, o.

    Refused: elements other than float32; D and H of symbolic size.
    """

    inputs = (5, ANY)
    outputs = (3, 3)

    def setup(self, maker: GraphMaker) -> None:
        self.layers = self.args.int("num_layers", 1)
        self.directions = 1 + self.args.flag("bidirectional")
        self.each = 2 + 2 * self.args.flag("has_biases", default=True)
        self.batch_first = self.args.flag("batch_first")
        want = 3 + self.layers * self.directions * self.each
        if self.layers < 1 or len(self.xs) != want:
            raise self.error(f"has {len(self.xs)} inputs, expected {want}: x, h, c and parameters")

    def _weights(self, layer: int, direction: int) -> list[Blob]:
        start = 3 + (layer * self.directions + direction) * self.each
        return self.xs[start : start + self.each]

    def infer(self, s: Shapes) -> None:
        x, h, c = self.xs[:3]
        for blob in (x, h):
            if s.dims(blob) is None:
                s.expect(blob, [s.fresh() for _ in range(3)])
        for blob in self.xs:
            s.expect_dtype(blob, "f32")
        t, n, d = self._sizes(s)
        hidden = s.known(h)[-1]
        s.expect(x, (n, t, d) if self.batch_first else (t, n, d))
        states = (self.layers * self.directions, n, hidden)
        for blob in (h, c, *self.ys[1:]):
            s.expect(blob, states, "f32")
        wide = hidden * self.directions
        s.expect(self.ys[0], (n, t, wide) if self.batch_first else (t, n, wide), "f32")
        for layer in range(self.layers):
            for direction in range(self.directions):
                w, u, *biases = self._weights(layer, direction)
                s.expect(w, (hidden * 4, wide if layer else d))
                s.expect(u, (hidden * 4, hidden))
                for bias in biases:
                    s.expect(bias, (hidden * 4,))

    def _sizes(self, s: Shapes) -> tuple[Dim, Dim, Dim]:
        dims = s.known(self.xs[0])
        if len(dims) != 3:
            raise self.error(f"data of shape {s.text(dims)}, expected 3 axes")
        t, n, d = dims
        return (n, t, d) if self.batch_first else (t, n, d)

    def extent(self, s: Shapes) -> tuple[Dim | None, Dim | None]:
        return self._sizes(s)[:2]

    def fixed(self, s: Shapes) -> Iterable[Dim]:
        return [self._sizes(s)[2], s.known(self.xs[1])[-1]]

    def build(self, e: Emitter) -> None:
        layout = "NTC" if self.batch_first else "TNC"
        x = time_first(e.b, e[self.xs[0]], layout)
        y, finals = run_layers(e.b, x, (self._layer(e, number) for number in range(self.layers)))
        e[self.ys[0]] = laid_out(e.b, y, layout)
        for blob, states in zip(self.ys[1:], stack_states(e.b, finals), strict=True):
            e[blob] = states

    def _layer(self, e: Emitter, number: int) -> Iterator[Direction]:
        for way in range(self.directions):
            w, u, *biases = (e[blob] for blob in self._weights(number, way))
            starts = [row(e.b, e[x], number * self.directions + way) for x in self.xs[1:3]]
            yield Direction(Lstm(Weights(w, u, biases)), starts, reverse=way == 1)


OPERATORS: dict[str, type[Operator]] = {
    "LSTMUnit": LSTMUnit,
    "GRUUnit": GRUUnit,
    "InferenceLSTM": InferenceLSTM,
}
