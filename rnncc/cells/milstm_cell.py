"""The LSTM with multiplicative integration (Wu et al., 2016)."""

from __future__ import annotations

from typing import ClassVar, Unpack

from rnncc.cells import activations
from rnncc.cells.activations import Activation
from rnncc.cells.builder import build_layer
from rnncc.cells.layer import Layer
from rnncc.cells.lstm_cell import LstmKind
from rnncc.cells.parameters import Parameter, ParameterVector
from rnncc.cells.settings import LayerOptions, LayerSettings
from rnncc.ir.builder import Builder
from rnncc.nn.cells import CellWeights, Lstm
from rnncc.nn.layer import Cell
from rnncc.nn.steps import Named


def milstm(
    n_in: int | None = None,
    n_out: int | None = None,
    *,
    activation: Activation = "tanh",
    gate_activation: Activation = "sigmoid",
    layer_norm: bool = False,
    **options: Unpack[LayerOptions],
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
        options: see `rnncc.cells.settings.LayerSettings`.

    Raises:
        CompileError: an option, a size or a parameter that does not fit.
    """
    gate = activations.gate_activation(gate_activation)
    cell = _MiLstm(activations.layer_activation(activation), gate, layer_norm)
    return build_layer(cell, (n_in, n_out), LayerSettings(**options))


class _MiLstm(LstmKind):
    kind: ClassVar[str] = "milstm"

    def parameters(self, n_in: int, n_out: int) -> dict[str, Parameter]:
        factors = ("alpha", "beta_x", "beta_h")
        return {
            **super().parameters(n_in, n_out),
            **{name: ParameterVector(n_out, (1.0,) * 4) for name in factors},
        }

    def cell(self, b: Builder, p: Named) -> Cell:
        names = ["alpha", "beta_x", "beta_h", *([] if self.norm else ["b"])]
        norm = (p["gain"], p["b"]) if self.norm else None
        weights = CellWeights(p["W"], p["RW"], norm=norm, by_unit=False)
        integration = {name: p[name] for name in names}
        return Lstm(weights, "ifgo", self.gate, self.act, integration=integration)
