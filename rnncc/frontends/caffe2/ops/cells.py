"""Recurrent units: the elementwise part of a step."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.caffe2.blobs import Blob
from rnncc.frontends.caffe2.graph import Resolver
from rnncc.frontends.caffe2.operator import Array, Emitter, Operator
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.dims import Dim
from rnncc.nn.arithmetic import plus
from rnncc.nn.layer import STATES
from rnncc.nn.steps import gru_state, lstm_step, named

UNROLLED = re.compile(r"(?:^|/)timestep_(\d{1,9})/timestep$")


class Unit(Operator):
    """A step of a gated cell: states (1, N, D), gates (1, N, gates * D), [lengths], timestep.

    Refused: states of more than one row; D of symbolic size; elements other than float32.
    """

    gates: int
    states: int

    def setup(self, maker: Resolver) -> None:
        self.has_lengths = self.args.flag("sequence_lengths", default=True)
        expected = self.states + 2 + self.has_lengths
        if len(self.xs) != expected:
            hint = f"sequence_lengths is {int(self.has_lengths)}"
            raise self.error(f"has {len(self.xs)} inputs, expected {expected}", hint)
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
            named(inside, "live")
            for value, name in zip(new, STATES, strict=False):
                named(value, name)
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

    def setup(self, maker: Resolver) -> None:
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
        update, output = named(b.sigmoid(update), "u"), named(b.tanh(output), "o")
        self.keep(e, gru_state(b, e[self.xs[0]], update, output))


OPERATORS: dict[str, type[Operator]] = {
    "LSTMUnit": LSTMUnit,
    "GRUUnit": GRUUnit,
}
