"""The LSTM of Graves (2013) as Deeplearning4j has it: peepholes, letters and layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Unpack

from xdsl.ir import SSAValue

from rnncc.cells import activations
from rnncc.cells.activations import Activation, Function
from rnncc.cells.builder import build_layer
from rnncc.cells.layer import Cell, Layer, Named, Values
from rnncc.cells.parameters import Parameter
from rnncc.cells.parts import cut, gate_parameters, normalised, project
from rnncc.cells.settings import Options, Settings
from rnncc.ir.build import Build
from rnncc.ir.types import dims_of


def graves_lstm(
    n_in: int | None = None,
    n_out: int | None = None,
    *,
    peepholes: bool = True,
    activation: Activation = "tanh",
    gate_activation: Activation = "sigmoid",
    layer_norm: bool = False,
    **options: Unpack[Options],
) -> Layer:
    """The Graves LSTM: x [N, nIn, T] -> y [N, H, T], h_last and c_last [N, H].

        z   = x_t W + h' RW + b         four blocks of H columns: I, F, O, G
        i   = act(z_I)                  the candidate
        f   = gate(z_F + c' · FF)
        g   = gate(z_G + c' · GG)       what is let in of it
        c   = f · c' + g · i
        o   = gate(z_O + c · OO)
        h   = act(c) · o

    Parameters: W [nIn, 4H], RW [H, 4H + 3] whose last columns are FF, OO, GG (without peepholes
    [H, 4H]), b [4H], 1 for the forget gate; with layer norm z is normalised over its 4H sums
    before b is added, with gain [4H].

    Args:
        n_in, n_out: nIn and H; by default the rows of the given W and RW.
        activation, gate_activation: names among `ACTIVATIONS` and `GATE_ACTIVATIONS`, or
            functions that build ops.
        options: see `rnncc.cells.settings.Settings`; the layout is "NCT" if not given.

    To train a long sequence in segments, build with `initial_state=True` and hand `h_last` and
    `c_last` of one segment to the next as `h0` and `c0`, ignoring their gradients.

    Raises:
        CompileError: an option, a size or a parameter that does not fit.
    """
    gate = activations.gate_activation(gate_activation)
    cell = _Graves(peepholes, activations.layer_activation(activation), gate, layer_norm)
    options.setdefault("layout", "NCT")
    return build_layer(cell, (n_in, n_out), Settings(**options), peepholes)


@dataclass(frozen=True)
class _Graves(Cell):
    peepholes: bool
    act: Function
    gate: Function
    norm: bool
    kind: ClassVar[str] = "graves_lstm"
    states: ClassVar[tuple[str, ...]] = ("h", "c")

    def parameters(self, n_in: int, n_out: int) -> dict[str, Parameter]:
        extra = 3 if self.peepholes else 0
        return gate_parameters(n_in, n_out, (0.0, 1.0, 0.0, 0.0), self.norm, extra)

    def prepare(self, b: Build, x: SSAValue, p: Named) -> tuple[Values, Values]:
        units = int(dims_of(p["RW"])[0])
        shared = [b.slice(p["RW"], 1, 0, 4 * units)]
        if self.peepholes:
            columns = (b.slice(p["RW"], 1, 4 * units + k, 1) for k in range(3))
            shared += [b.reshape(column, [units]) for column in columns]
        shared += [p["gain"], p["b"]] if self.norm else []
        return shared, [project(b, x, p, self.norm)]

    def step(self, b: Build, shared: Values, rows: Values, states: Values) -> Values:
        recurrent, *rest = shared
        peepholes, norm = (rest[:3], rest[3:]) if self.peepholes else ([], rest)
        h, c = states
        z = normalised(b, b.add(rows[0], b.matmul(h, recurrent)), norm)
        z_i, z_f, z_o, z_g = cut(b, z, int(dims_of(h)[1]))
        if self.peepholes:
            z_f = b.add(z_f, b.mul(c, peepholes[0]))
            z_g = b.add(z_g, b.mul(c, peepholes[2]))
        kept = b.mul(self.gate(b, z_f), c)
        c = b.add(kept, b.mul(self.gate(b, z_g), self.act(b, z_i)))
        if self.peepholes:
            z_o = b.add(z_o, b.mul(c, peepholes[1]))
        return [b.mul(self.act(b, c), self.gate(b, z_o)), c]
