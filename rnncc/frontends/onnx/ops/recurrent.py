"""LSTM, GRU and RNN: each direction a loop over primitives, all gates in one product."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.ir import SSAValue

from rnncc.frontends.onnx.node import FLOATS, Node, Operator
from rnncc.frontends.onnx.ops.gate_functions import Function, gate_functions
from rnncc.ir.build import Build
from rnncc.ir.dims import Dim
from rnncc.ir.types import dims_of, shape_text

DIRECTIONS = ("forward", "reverse", "bidirectional")
LENGTHS, STARTS, PEEPHOLES = 4, 5, 7
"""The inputs of these numbers: sequence_lens, initial_h with initial_c behind it, P."""


@dataclass
class Direction:
    """What one direction of a layer reads.

    Attributes:
        w, r: weights [gates · H, I] and [gates · H, H].
        wb, rb: biases of both, or none.
        functions: its activations.
    """

    w: SSAValue
    r: SSAValue
    wb: SSAValue | None
    rb: SSAValue | None
    functions: list[Function]


@dataclass(frozen=True)
class Weights:
    """The stacked parameters of all directions: W, R and, where it is given, B."""

    w: SSAValue
    r: SSAValue
    bias: SSAValue | None


class Layer(ABC):
    """A recurrent operator: its inputs checked, then one loop a direction."""

    gates: ClassVar[int]
    states: ClassVar[int]
    activations: ClassVar[Sequence[str]]

    def __init__(self, n: Node, weights: Weights) -> None:
        self.n, self.b, self.weights = n, n.b, weights
        self.direction = n.one_of("direction", DIRECTIONS, "forward")
        self.directions = 2 if self.direction == "bidirectional" else 1
        self.batch_first = n.opset >= 14 and bool(n.integer("layout", 0))
        self.x = self._sequence()
        self.hidden = self._check_weights()
        self.limit = n.real("clip", 0.0)
        self.functions = gate_functions(n, self.activations, self.directions)
        self.lengths = self._lengths()
        self.starts = [self._start(STARTS + k) for k in range(self.states)]

    @property
    def steps(self) -> Dim:
        """T"""
        return dims_of(self.x)[0]

    @property
    def batch(self) -> Dim:
        """N"""
        return dims_of(self.x)[1]

    def _sequence(self) -> SSAValue:
        x = self.n.x(0, FLOATS)
        if len(dims_of(x)) != 3:
            raise self.n.error(f"has data of shape {shape_text(dims_of(x))}, expected 3 axes")
        return self.b.transpose(x, (1, 0, 2)) if self.batch_first else x

    def _check_weights(self) -> int:
        w, r, size = dims_of(self.weights.w), dims_of(self.weights.r), dims_of(self.x)[2]
        hidden = r[-1] if r else Dim.of(0)
        rows = hidden * self.gates
        want: dict[str, tuple[Dim | int, ...]]
        want = {"W": (self.directions, rows, size), "R": (self.directions, rows, hidden)}
        held = {"W": w, "R": r}
        if self.weights.bias is not None:
            want["B"], held["B"] = (self.directions, rows * 2), dims_of(self.weights.bias)
        for name, dims in want.items():
            if held[name] != tuple(Dim.of(d) for d in dims):
                what = f"has {name} of shape {shape_text(held[name])}, expected {shape_text(dims)}"
                raise self.n.error(what)
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
            raise self.n.error(what, "--shape gives sizes that are equal one name")
        return lengths

    def _start(self, index: int) -> SSAValue:
        """[directions, N, H]"""
        want = (Dim.of(self.directions), self.batch, Dim.of(self.hidden))
        if not self.n.has(index):
            return self.b.fill(0.0, want)
        given = self.n.x(index, FLOATS)
        made = self.b.transpose(given, (1, 0, 2)) if self.batch_first else given
        if dims_of(made) != want:
            shown = shape_text(dims_of(given))
            what = f"has an initial state of shape {shown}, expected {shape_text(want)}"
            raise self.n.error(what)
        return made

    def run(self) -> list[SSAValue]:
        """Y, then the last states."""
        b, ys, lasts = self.b, list[SSAValue](), list[list[SSAValue]]()
        for index in range(self.directions):
            reverse = self.direction == "reverse" or index == 1
            finals, y = self._loop(index, reverse)
            lasts.append(finals)
            ys.append(b.reshape(y, (self.steps, 1, self.batch, self.hidden)))
        y = b.concat(ys, 1)
        states = [
            b.concat([b.reshape(last[k], (1, self.batch, self.hidden)) for last in lasts], 0)
            for k in range(self.states)
        ]
        if self.batch_first:
            y = b.transpose(y, (2, 0, 1, 3))
            states = [b.transpose(state, (1, 0, 2)) for state in states]
        return [y, *states]

    def _part(self, value: SSAValue, index: int) -> SSAValue:
        """One direction's part of something stacked."""
        dims = dims_of(value)
        return self.b.reshape(self.b.slice(value, 0, index, 1), dims[1:])

    def _loop(self, index: int, reverse: bool) -> tuple[list[SSAValue], SSAValue]:
        """One direction: the last states, and rows of h."""
        b, rows = self.b, self.gates * self.hidden
        wb = rb = None
        if self.weights.bias is not None:
            both = self._part(self.weights.bias, index)
            wb, rb = b.slice(both, 0, 0, rows), b.slice(both, 0, rows, rows)
        w, r = (self._part(v, index) for v in (self.weights.w, self.weights.r))
        direction = Direction(w, r, wb, rb, self.functions[index])
        inits = [self._part(start, index) for start in self.starts]
        projected, consts = self.prepare(direction, index)
        xs, lengths = [projected], self.lengths
        if lengths is not None:
            xs.append(b.iota((self.steps,), 0, "i32"))
            consts = [*consts, b.reshape(lengths, (self.batch, 1))]

        def body(inner: Build, given: Any, carry: Any, row: Any) -> Any:
            new = self.step(inner, direction, given, carry, row[0])
            if lengths is None:
                return new, [new[0]]
            live = inner.compare("lt", row[1], given[-1])
            kept = [inner.select(live, a, c) for a, c in zip(new, carry, strict=True)]
            return kept, [inner.select(live, new[0], inner.fill(0.0, ()))]

        finals, ys = b.scan(consts, inits, xs, body, reverse=reverse)
        return finals, ys[0]

    def clip(self, b: Build, x: SSAValue) -> SSAValue:
        """x held within the limit, if there is one."""
        if not self.limit:
            return x
        return b.maximum(b.fill(-self.limit, ()), b.minimum(b.fill(self.limit, ()), x))

    def project(self, d: Direction, biases: Sequence[SSAValue | None]) -> SSAValue:
        """x W + biases, for all steps."""
        made = self.b.matmul(self.x, d.w, transpose_b=True)
        for bias in biases:
            made = made if bias is None else self.b.add(made, bias)
        return made

    def gate(self, b: Build, rows: SSAValue, index: int, count: int = 1) -> SSAValue:
        """One gate's columns, or several's."""
        return b.slice(rows, 1, index * self.hidden, count * self.hidden)

    @abstractmethod
    def prepare(self, d: Direction, index: int) -> tuple[SSAValue, list[SSAValue]]:
        """The projected input, and what every step reads."""

    @abstractmethod
    def step(
        self, b: Build, d: Direction, consts: Any, carry: Any, row: SSAValue
    ) -> list[SSAValue]:
        """The next states; h first."""


class LSTM(Layer):
    """i, o, f, c = gates of x W + h R + b; c' = f c + i g, h' = o h(c')."""

    gates, states = 4, 2
    activations = ("Sigmoid", "Tanh", "Tanh")

    def __init__(self, n: Node, weights: Weights) -> None:
        super().__init__(n, weights)
        self.peep = n.maybe(PEEPHOLES, FLOATS)
        want = (Dim.of(self.directions), Dim.of(3 * self.hidden))
        if self.peep is not None and dims_of(self.peep) != want:
            shown = shape_text(dims_of(self.peep))
            raise n.error(f"has peepholes of shape {shown}, expected {shape_text(want)}")
        self.coupled = bool(n.integer("input_forget", 0))

    def prepare(self, d: Direction, index: int) -> tuple[SSAValue, list[SSAValue]]:
        consts = [d.r]
        if self.peep is not None:
            consts.append(self._part(self.peep, index))
        return self.project(d, [d.wb, d.rb]), consts

    def step(
        self, b: Build, d: Direction, consts: Any, carry: Any, row: SSAValue
    ) -> list[SSAValue]:
        (h, c), (f, g, out) = carry, d.functions
        joined = b.add(b.matmul(h, consts[0], transpose_b=True), row)
        enter, leave, forget, new = (self.gate(b, joined, k) for k in range(4))
        if self.peep is not None:
            enter = b.add(enter, b.mul(self._peephole(b, consts[1], 0), c))
            forget = b.add(forget, b.mul(self._peephole(b, consts[1], 2), c))
        enter = f(b, self.clip(b, enter))
        forget = b.sub(b.fill(1.0, ()), enter) if self.coupled else f(b, self.clip(b, forget))
        cell = b.add(b.mul(forget, c), b.mul(enter, g(b, self.clip(b, new))))
        if self.peep is not None:
            leave = b.add(leave, b.mul(self._peephole(b, consts[1], 1), cell))
        return [b.mul(f(b, self.clip(b, leave)), out(b, cell)), cell]

    def _peephole(self, b: Build, peep: SSAValue, index: int) -> SSAValue:
        return b.slice(peep, 0, index * self.hidden, self.hidden)


class GRU(Layer):
    """z, r = gates of x W + h R + b; h' = (1 - z) g + z h, with r on h or on h R."""

    gates, states = 3, 1
    activations = ("Sigmoid", "Tanh")

    def __init__(self, n: Node, weights: Weights) -> None:
        super().__init__(n, weights)
        self.reset_after = bool(n.integer("linear_before_reset", 0))

    def prepare(self, d: Direction, index: int) -> tuple[SSAValue, list[SSAValue]]:
        b = self.b
        if d.rb is None or not self.reset_after:
            return self.project(d, [d.wb, d.rb]), [d.r]
        both = b.slice(d.rb, 0, 0, 2 * self.hidden)
        gates = b.concat([both, b.fill(0.0, (self.hidden,))], 0)
        candidate = b.slice(d.rb, 0, 2 * self.hidden, self.hidden)
        return self.project(d, [d.wb, gates]), [d.r, candidate]

    def step(
        self, b: Build, d: Direction, consts: Any, carry: Any, row: SSAValue
    ) -> list[SSAValue]:
        (h,), (f, g), size = carry, d.functions, self.hidden
        weights = consts[0] if self.reset_after else b.slice(consts[0], 0, 0, 2 * size)
        turned = b.matmul(h, weights, transpose_b=True)
        both = b.add(self.gate(b, turned, 0, 2), self.gate(b, row, 0, 2))
        update, reset = (f(b, self.clip(b, self.gate(b, both, k))) for k in (0, 1))
        if self.reset_after:
            late = self.gate(b, turned, 2)
            candidate = b.mul(reset, late if d.rb is None else b.add(late, consts[1]))
        else:
            own = b.slice(consts[0], 0, 2 * size, size)
            candidate = b.matmul(b.mul(reset, h), own, transpose_b=True)
        new = g(b, self.clip(b, b.add(candidate, self.gate(b, row, 2))))
        return [b.add(b.mul(b.sub(b.fill(1.0, ()), update), new), b.mul(update, h))]


class Elman(Layer):
    """h' = f(x W + h R + b)."""

    gates, states = 1, 1
    activations = ("Tanh",)

    def prepare(self, d: Direction, index: int) -> tuple[SSAValue, list[SSAValue]]:
        return self.project(d, [d.wb, d.rb]), [d.r]

    def step(
        self, b: Build, d: Direction, consts: Any, carry: Any, row: SSAValue
    ) -> list[SSAValue]:
        total = b.add(b.matmul(carry[0], consts[0], transpose_b=True), row)
        return [d.functions[0](b, self.clip(b, total))]


def _weights(n: Node) -> Weights:
    return Weights(n.x(1, FLOATS), n.x(2, FLOATS), n.maybe(3, FLOATS))


def _lstm(n: Node) -> list[SSAValue]:
    """i, o, f, g = gates of X W + H R + B; C = f C' + i g, H = o h(C), in one direction or two,
    with peepholes, coupled gates, clipping, lengths and any activations.

    Refused: elements other than float32; states of open size; Affine, ScaledTanh and
    ThresholdedRelu without their alpha and beta.
    """
    return LSTM(n, _weights(n)).run()


def _gru(n: Node) -> list[SSAValue]:
    """z, r = gates of X W + H R + B; H = (1 - z) g + z H', with r before or behind the product, in
    one direction or two, with clipping, lengths and any activations.

    Refused: elements other than float32; states of open size; Affine, ScaledTanh and
    ThresholdedRelu without their alpha and beta.
    """
    return GRU(n, _weights(n)).run()


def _rnn(n: Node) -> list[SSAValue]:
    """H = f(X W + H' R + B), in one direction or two, with clipping, lengths and any activations.

    Refused: elements other than float32; states of open size; Affine, ScaledTanh and
    ThresholdedRelu without their alpha and beta.
    """
    return Elman(n, _weights(n)).run()


OPERATORS: dict[str, Operator] = {
    "LSTM": Operator(_lstm),
    "GRU": Operator(_gru),
    "RNN": Operator(_rnn),
}
