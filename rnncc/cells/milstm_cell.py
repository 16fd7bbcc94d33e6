"""The LSTM with multiplicative integration (Wu et al., 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Unpack

from xdsl.ir import SSAValue

from rnncc.cells import activations
from rnncc.cells.activations import Activation, Function
from rnncc.cells.builder import build_layer
from rnncc.cells.layer import Cell, Layer, Named, Values
from rnncc.cells.lstm_cell import lstm_states
from rnncc.cells.parameters import Parameter, Vector
from rnncc.cells.parts import gate_parameters, normalised
from rnncc.cells.settings import Options, Settings
from rnncc.ir.build import Build


def milstm(
    n_in: int | None = None,
    n_out: int | None = None,
    *,
    activation: Activation = "tanh",
    gate_activation: Activation = "sigmoid",
    layer_norm: bool = False,
    **options: Unpack[Options],
) -> Layer:
    """The MI-LSTM: x [T, N, nIn] -> y [T, N, H], h_last and c_last [N, H].

        u = x_t W,  v = h' RW           four blocks of H columns: i, f, g, o
        z = alpha · u · v + beta_x · u + beta_h · v + b
        c = gate(z_f) · c' + gate(z_i) · act(z_g)
        h = gate(z_o) · act(c)

    Parameters: W [nIn, 4H], RW [H, 4H], alpha, beta_x, beta_h [4H], from 1, b [4H], 1 for the
    forget gate. With layer norm z is normalised over its 4H sums before b is added, with gain [4H].

    Args:
        n_in, n_out: nIn and H; by default the rows of the given W and RW.
        activation, gate_activation: names among `ACTIVATIONS` and `GATE_ACTIVATIONS`, or
            functions that build ops.
        options: see `rnncc.cells.settings.Settings`.

    Raises:
        CompileError: an option, a size or a parameter that does not fit.
    """
    gate = activations.gate_activation(gate_activation)
    cell = _MiLstm(activations.layer_activation(activation), gate, layer_norm)
    return build_layer(cell, (n_in, n_out), Settings(**options))


@dataclass(frozen=True)
class _MiLstm(Cell):
    act: Function
    gate: Function
    norm: bool
    kind: ClassVar[str] = "milstm"
    states: ClassVar[tuple[str, ...]] = ("h", "c")

    def parameters(self, n_in: int, n_out: int) -> dict[str, Parameter]:
        made = gate_parameters(n_in, n_out, (0.0, 1.0, 0.0, 0.0), self.norm)
        factors = ("alpha", "beta_x", "beta_h")
        return {**made, **{name: Vector(n_out, (1.0,) * 4) for name in factors}}

    def prepare(self, b: Build, x: SSAValue, p: Named) -> tuple[Values, Values]:
        names = ["RW", "alpha", "beta_x", "beta_h", "b", *(["gain"] if self.norm else [])]
        return [p[name] for name in names], [b.matmul(x, p["W"])]

    def step(self, b: Build, shared: Values, rows: Values, states: Values) -> Values:
        (recurrent, alpha, beta_x, beta_h, bias, *gain), (h, c), u = shared, states, rows[0]
        v = b.matmul(h, recurrent)
        single = b.add(b.mul(beta_x, u), b.mul(beta_h, v))
        z = b.add(b.mul(b.mul(alpha, u), v), single)
        z = normalised(b, z, [*gain, bias]) if gain else b.add(z, bias)
        return lstm_states(b, z, c, self.act, self.gate)
