"""Recurrent cells, with all their variants, for `rnncc.nn.layer` to run."""

from __future__ import annotations

from dataclasses import field
from functools import reduce

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder, Values
from rnncc.ir.types import dims_of
from rnncc.nn.axes import cut
from rnncc.nn.normalisation import layer_norm
from rnncc.nn.steps import Function, Named, gru_state, lstm_step, named
from rnncc.records import record

EPSILON = 1e-5
"""Added to the variance by layer norm."""


@record
class CellWeights:
    """What one direction of a layer multiplies its rows and its state with.

    Attributes:
        w, u: of x [I] and of h [H]; k blocks of H.
        biases: [kH] each, added to the products with x, for all steps at once.
        norm: gain and bias [kH] of a layer norm of the sums; None for none.
        by_unit: whether w and u are [kH, I] and [kH, H], or [I, kH] and [H, kH].
    """

    w: SSAValue
    u: SSAValue
    biases: Values = ()
    norm: tuple[SSAValue, SSAValue] | None = None
    by_unit: bool = True

    def project(self, b: Builder, x: SSAValue) -> SSAValue:
        """X · w + the sum of the biases, for all steps at once."""
        y = b.matmul(x, self.w, transpose_b=self.by_unit)
        return named(b.add(y, reduce(b.add, self.biases)) if self.biases else y, "projection")

    def shared(self) -> dict[str, SSAValue]:
        """What each step reads, by name."""
        if self.norm is None:
            return {"u": self.u}
        gain, bias = self.norm
        return {"u": self.u, "gain": gain, "bias": bias}

    def product(self, b: Builder, shared: Named, h: SSAValue) -> SSAValue:
        """H · u"""
        return b.matmul(h, shared["u"], transpose_b=self.by_unit)


def normalise(b: Builder, z: SSAValue, shared: Named) -> SSAValue:
    """Layer norm of sums over their features, where there is a gain; else the sums themselves."""
    if "gain" not in shared:
        return z
    gain, bias = shared["gain"], shared["bias"]
    return layer_norm(b, z, gain, bias, len(dims_of(z)) - 1, EPSILON)[0]


@record
class Elman:
    """The simple recurrent network (Elman, 1990): h = act(x w + h' u + bias)."""

    weights: CellWeights
    act: Function = Builder.tanh

    def prepare(self, b: Builder, x: SSAValue) -> tuple[Named, Values]:
        return self.weights.shared(), [self.weights.project(b, x)]

    def step(self, b: Builder, shared: Named, rows: Values, states: Values) -> list[SSAValue]:
        z = named(b.add(self.weights.product(b, shared, states[0]), rows[0]), "sums")
        return [self.act(b, normalise(b, z, shared))]


@record
class Lstm:
    """The LSTM: `lstm_step` of z = x w + h' u + bias.

    Attributes:
        order: the letters of the blocks of z.
        peepholes: by the letters of gates, [H] each.
        projection: [P, H], which makes an h of P numbers of each (Sak et al., 2014).
        integration: alpha, beta_x, beta_h and b [4H]: z = alpha · u · v + beta_x · u + beta_h · v
            + b, of the products u with x and v with h (Wu et al., 2016); with layer norm b is its
            bias, and not here.
    """

    weights: CellWeights
    order: str = "ifgo"
    gate: Function = Builder.sigmoid
    act: Function = Builder.tanh
    out: Function | None = None
    peepholes: Named = field(default_factory=dict[str, SSAValue])
    coupled: bool = False
    projection: SSAValue | None = None
    integration: Named = field(default_factory=dict[str, SSAValue])

    def prepare(self, b: Builder, x: SSAValue) -> tuple[Named, Values]:
        shared = {**self.weights.shared(), **self.integration}
        shared |= {f"peephole_{letter}": p for letter, p in self.peepholes.items()}
        if self.projection is not None:
            shared["projection"] = self.projection
        return shared, [self.weights.project(b, x)]

    def step(self, b: Builder, shared: Named, rows: Values, states: Values) -> list[SSAValue]:
        h, c = states
        v = self.weights.product(b, shared, h)
        z = _integrated(b, shared, rows[0], v) if self.integration else b.add(v, rows[0])
        gates = cut(b, normalise(b, named(z, "sums"), shared), 4)
        peepholes = {letter: shared[f"peephole_{letter}"] for letter in self.peepholes}
        sums = dict(zip(self.order, gates, strict=True))
        h, c = lstm_step(b, sums, c, self.gate, self.act, self.out, peepholes, self.coupled)
        if self.projection is not None:
            h = b.matmul(h, shared["projection"], transpose_b=True)
        return [h, c]


def _integrated(b: Builder, p: Named, u: SSAValue, v: SSAValue) -> SSAValue:
    single = b.add(b.mul(p["beta_x"], u), b.mul(p["beta_h"], v))
    z = b.add(b.mul(b.mul(p["alpha"], u), v), single)
    return b.add(z, p["b"]) if "b" in p else z


@record
class Gru:
    """The gated recurrent unit (Cho et al., 2014).

        r = gate(x w_r + h' u_r + bias),  z = gate(x w_z + h' u_z + bias)
        n = act(x w_n + bias + r · (h' u_n + late))     reset_after, as cuDNN has it
        n = act(x w_n + bias + (r · h') u_n)            else
        h = z · h' + (1 - z) · n

    With layer norm the sums of r and z together, and those of n, are normalised.

    Attributes:
        order: the letters of the blocks of w and u, n last.
        late: [H], the candidate's bias within what is reset; None for none.
    """

    weights: CellWeights
    order: str = "rzn"
    gate: Function = Builder.sigmoid
    act: Function = Builder.tanh
    reset_after: bool = True
    late: SSAValue | None = None

    def prepare(self, b: Builder, x: SSAValue) -> tuple[Named, Values]:
        shared = self.weights.shared()
        if not self.reset_after:
            axis = 0 if self.weights.by_unit else 1
            shared["u"], shared["u_new"] = _split(b, shared["u"], axis)
        if self.late is not None:
            shared["late"] = self.late
        for name in ("gain", "bias") if self.weights.norm is not None else ():
            shared[name], shared[f"{name}_new"] = _split(b, shared[name], 0)
        return shared, [self.weights.project(b, x)]

    def step(self, b: Builder, shared: Named, rows: Values, states: Values) -> list[SSAValue]:
        h, v = states[0], self.weights.product(b, shared, states[0])
        u_gates, u_new = _split(b, rows[0], 1)
        v_gates, v_new = _split(b, v, 1) if self.reset_after else (v, None)
        sums = cut(b, normalise(b, named(b.add(v_gates, u_gates), "sums"), shared), 2)
        letters = zip(self.order, sums, strict=False)
        gates = {letter: named(self.gate(b, z), letter) for letter, z in letters}
        if v_new is None:
            reset = named(b.mul(gates["r"], h), "reset")
            v_new = b.matmul(reset, shared["u_new"], transpose_b=self.weights.by_unit)
        else:
            v_new = b.add(v_new, shared["late"]) if "late" in shared else v_new
            v_new = named(b.mul(gates["r"], v_new), "reset")
        norm = {name: shared[f"{name}_new"] for name in ("gain", "bias") if name in shared}
        new = self.act(b, normalise(b, b.add(v_new, u_new), norm))
        return [gru_state(b, h, gates["z"], named(new, "n"))]


def reset_after_biases(
    b: Builder, of_x: SSAValue, of_h: SSAValue
) -> tuple[list[SSAValue], SSAValue]:
    """The biases [3H] of both products of a GRU that resets after its product, n last.

    Returns:
        `CellWeights.biases` and `Gru.late`: all but what is reset is added to the products with x.
    """
    gates, late = _split(b, of_h, 0)
    return [of_x, b.concat([gates, b.full_like(late, 0.0)], 0)], late


def _split(b: Builder, x: SSAValue, axis: int) -> tuple[SSAValue, SSAValue]:
    """The blocks of r and z, and that of n."""
    units = int(dims_of(x)[axis]) // 3
    return b.slice(x, axis, 0, 2 * units), b.slice(x, axis, 2 * units, units)
