"""LSTM, GRU and RNN: their inputs checked, their gate orders, functions and layouts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

from xdsl.ir import SSAValue

from rnncc.frontends.onnx.node import FLOATS, Node, OnnxOperator
from rnncc.frontends.onnx.ops.gate_functions import Function, gate_functions
from rnncc.frontends.onnx.weights import maybe_weights, weights
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.types import dims_of, dtype_of, shape_text
from rnncc.nn.axes import cut, row
from rnncc.nn.cells import CellWeights, Elman, Gru, Lstm, reset_after_biases
from rnncc.nn.layer import Cell, Direction, run_layers, stack_states
from rnncc.records import record

DIRECTIONS = ("forward", "reverse", "bidirectional")
LENGTHS, STARTS, PEEPHOLES = 4, 5, 7
"""The inputs of these numbers: sequence_lens, initial_h with initial_c behind it, P."""


@record
class Stacked:
    """The parameters of all directions: W, R and, where it is given, B."""

    w: SSAValue
    r: SSAValue
    bias: SSAValue | None

    def of(self, b: Builder, index: int, biases: Sequence[SSAValue]) -> CellWeights:
        """Those of one direction, with biases [kH] each."""
        return CellWeights(row(b, self.w, index), row(b, self.r, index), biases)


class RecurrentOperator(ABC):
    """A recurrent operator: its inputs checked, then one loop a direction."""

    gates: ClassVar[int]
    states: ClassVar[int]
    activations: ClassVar[Sequence[str]]

    def __init__(self, n: Node, weights: Stacked) -> None:
        self.n, self.b, self.weights = n, n.b, weights
        self.direction = n.one_of("direction", DIRECTIONS, "forward")
        self.directions = 2 if self.direction == "bidirectional" else 1
        self.limit = self._limit()
        self.batch_first = n.opset >= 14 and n.flag("layout", 0)
        self.x = self._sequence()
        self.hidden = self._check_weights()
        self.functions = gate_functions(n, self.activations, self.directions)
        self.lengths = self._lengths()
        self.starts = [self._start(STARTS + k) for k in range(self.states)]

    @property
    def batch(self) -> Dim:
        """N"""
        return dims_of(self.x)[1]

    def _limit(self) -> float | None:
        """Within which sums are held: None is no limit."""
        limit = self.n.real("clip", 0.0)
        if self.n.given("clip") and not limit > 0:
            hint = "a limit is above 0; without one nothing is clipped"
            raise self.n.unsupported(f"attribute 'clip' = {limit:g}", hint)
        return limit or None

    def _sequence(self) -> SSAValue:
        x = self.n.x(0, FLOATS)
        if len(dims_of(x)) != 3:
            raise self.n.error(f"has data of shape {shape_text(dims_of(x))}, expected 3 axes")
        return self.b.transpose(x, (1, 0, 2)) if self.batch_first else x

    def _check_weights(self) -> int:
        w, r, size = dims_of(self.weights.w), dims_of(self.weights.r), dims_of(self.x)[2]
        hidden = r[-1] if r else Dim.of(0)
        rows = hidden * self.gates
        expected: dict[str, tuple[Dim | int, ...]]
        expected = {"W": (self.directions, rows, size), "R": (self.directions, rows, hidden)}
        held = {"W": w, "R": r}
        if self.weights.bias is not None:
            expected["B"], held["B"] = (self.directions, rows * 2), dims_of(self.weights.bias)
        for name, dims in expected.items():
            shape = tuple(Dim.of(d) for d in dims)
            if held[name] != shape:
                what = f"has {name} of shape {shape_text(held[name])}, expected {shape_text(dims)}"
                raise self.n.differ(held[name], shape, what)
        if not hidden.is_static:
            raise self.n.unsupported(f"has states of {hidden} units", "--shape gives a size")
        if self.n.given("hidden_size") and self.n.integer("hidden_size") != int(hidden):
            what = f"attribute 'hidden_size' = {self.n.integer('hidden_size')}, R has {hidden}"
            raise self.n.error(what)
        return int(hidden)

    def _lengths(self) -> SSAValue | None:
        lengths = self.n.maybe(LENGTHS, ("i32",))
        if lengths is not None and dims_of(lengths) != (self.batch,):
            shown = shape_text(dims_of(lengths))
            what = f"has sequence_lens of shape {shown} for a batch of {self.batch}"
            raise self.n.differ(dims_of(lengths), [self.batch], what)
        return lengths

    def _start(self, index: int) -> SSAValue:
        """[directions, N, H]"""
        expected = (Dim.of(self.directions), self.batch, Dim.of(self.hidden))
        if not self.n.has(index):
            return self.b.fill(0.0, expected, dtype_of(self.x))
        state = self.n.x(index, FLOATS)
        by_direction = self.b.transpose(state, (1, 0, 2)) if self.batch_first else state
        if dims_of(by_direction) != expected:
            shown = shape_text(dims_of(state))
            what = f"has an initial state of shape {shown}, expected {shape_text(expected)}"
            raise self.n.differ(dims_of(by_direction), expected, what)
        return self._of_sequences_with_steps(by_direction)

    def _of_sequences_with_steps(self, start: SSAValue) -> SSAValue:
        """Initial states, zeros for sequences of length 0, whose last states they are: the standard
        does not say what these are, and ONNX Runtime has zeros."""
        b, dims = self.b, dims_of(start)
        if self.lengths is None or not any(self.n.op.output[1:]):
            return start
        held = b.broadcast(self.lengths, dims, [1])
        return b.select(b.compare("gt", held, b.full_like(held, 0)), start, b.full_like(start, 0.0))

    def run(self) -> list[SSAValue]:
        """Y, then the last states."""
        b, ways = self.b, range(self.directions)
        layer = (self._direction(index) for index in ways)
        y, finals = run_layers(b, self.x, [layer], self.lengths, join=_stack_directions)
        states = stack_states(b, finals)
        if self.batch_first:
            y = b.transpose(y, (2, 0, 1, 3))
            states = [b.transpose(state, (1, 0, 2)) for state in states]
        return [y, *states]

    def _direction(self, index: int) -> Direction:
        """One direction."""
        b, own, rows = self.b, self.weights, self.gates * self.hidden
        biases = list[SSAValue]()
        if own.bias is not None:
            both = row(b, own.bias, index)
            biases = [b.slice(both, 0, 0, rows), b.slice(both, 0, rows, rows)]
        starts = [row(b, start, index) for start in self.starts]
        cell = self.cell(own.of(b, index, biases), self.functions[index], index)
        return Direction(cell, starts, self.direction == "reverse" or index == 1)

    def clipped(self, function: Function) -> Function:
        """A function of a sum that is held within the limit, if there is one."""
        return function if self.limit is None else partial(_clipped, function, self.limit)

    @abstractmethod
    def cell(self, weights: CellWeights, functions: Sequence[Function], index: int) -> Cell:
        """The cell of one direction."""


def _clipped(function: Function, limit: float, b: Builder, x: SSAValue) -> SSAValue:
    """f of x, held within -limit and limit."""
    low, high = (b.fill(bound, (), dtype_of(x)) for bound in (-limit, limit))
    held = b.maximum(low, b.minimum(high, x))
    return function(b, held)


def _stack_directions(b: Builder, ys: Sequence[SSAValue]) -> SSAValue:
    """[T, N, H] of each as [T, directions, N, H]."""
    wide = [b.reshape(y, (dims_of(y)[0], 1, *dims_of(y)[1:])) for y in ys]
    return b.concat(wide, 1)


class LstmLayer(RecurrentOperator):
    """Gates i, o, f, c; peepholes of i, o, f."""

    gates, states = 4, 2
    activations = ("Sigmoid", "Tanh", "Tanh")

    def __init__(self, n: Node, weights: Stacked) -> None:
        super().__init__(n, weights)
        self.peep = n.maybe(PEEPHOLES, FLOATS)
        expected = (Dim.of(self.directions), Dim.of(3 * self.hidden))
        if self.peep is not None and dims_of(self.peep) != expected:
            shown = shape_text(dims_of(self.peep))
            raise n.error(f"has peepholes of shape {shown}, expected {shape_text(expected)}")
        self.coupled = n.flag("input_forget", 0)

    def cell(self, weights: CellWeights, functions: Sequence[Function], index: int) -> Cell:
        gate, act, out = functions
        own = [] if self.peep is None else cut(self.b, row(self.b, self.peep, index), 3)
        peepholes = dict(zip("iof", own, strict=False))
        return Lstm(
            weights,
            "iofg",
            self.clipped(gate),
            self.clipped(act),
            out,
            peepholes,
            self.coupled,
        )


class GruLayer(RecurrentOperator):
    """Gates z, r, h; the biases of both products may be one, but for that which r multiplies."""

    gates, states = 3, 1
    activations = ("Sigmoid", "Tanh")

    def __init__(self, n: Node, weights: Stacked) -> None:
        super().__init__(n, weights)
        self.reset_after = n.flag("linear_before_reset", 0)

    def cell(self, weights: CellWeights, functions: Sequence[Function], index: int) -> Cell:
        gate, act = map(self.clipped, functions)
        cell = Gru(weights, "zrn", gate, act, self.reset_after)
        if not (weights.biases and self.reset_after):
            return cell
        biases, late = reset_after_biases(self.b, *weights.biases)
        return replace(cell, weights=replace(weights, biases=biases), late=late)


class ElmanLayer(RecurrentOperator):
    """One function of all sums."""

    gates, states = 1, 1
    activations = ("Tanh",)

    def cell(self, weights: CellWeights, functions: Sequence[Function], index: int) -> Cell:
        return Elman(weights, self.clipped(functions[0]))


def _weights(n: Node) -> Stacked:
    return Stacked(weights(n, 1), weights(n, 2), maybe_weights(n, 3))


def _lstm(n: Node) -> list[SSAValue]:
    """i, o, f, g = gates of X W + H R + B; C = f C' + i g, H = o h(C), in one direction or two,
    with peepholes, coupled gates, clipping, lengths and any activations.

    Refused: elements other than floats; states of open size; a clip of 0 or less; Affine,
    ScaledTanh and ThresholdedRelu without their alpha and beta.
    """
    return LstmLayer(n, _weights(n)).run()


def _gru(n: Node) -> list[SSAValue]:
    """z, r = gates of X W + H R + B; H = (1 - z) g + z H', with r before or behind the product, in
    one direction or two, with clipping, lengths and any activations.

    Refused: elements other than floats; states of open size; a clip of 0 or less; Affine,
    ScaledTanh and ThresholdedRelu without their alpha and beta.
    """
    return GruLayer(n, _weights(n)).run()


def _rnn(n: Node) -> list[SSAValue]:
    """H = f(X W + H' R + B), in one direction or two, with clipping, lengths and any activations.

    Refused: elements other than floats; states of open size; a clip of 0 or less; Affine,
    ScaledTanh and ThresholdedRelu without their alpha and beta.
    """
    return ElmanLayer(n, _weights(n)).run()


OPERATORS: dict[str, OnnxOperator] = {
    "LSTM": OnnxOperator(_lstm),
    "GRU": OnnxOperator(_gru),
    "RNN": OnnxOperator(_rnn),
}
