"""The LSTM without peepholes, in PyTorch's and Caffe2's letters."""

from __future__ import annotations

from typing import ClassVar, Unpack

from rnncc.cells import activations
from rnncc.cells.activations import Activation
from rnncc.cells.builder import build_layer
from rnncc.cells.layer import CellKind, Layer
from rnncc.cells.parameters import Parameter, gate_parameters, weights_of
from rnncc.cells.settings import LayerOptions, LayerSettings
from rnncc.ir.builder import Builder
from rnncc.nn.cells import Lstm
from rnncc.nn.layer import Cell
from rnncc.nn.steps import Function, Named
from rnncc.records import record


def lstm(
    n_in: int | None = None,
    n_out: int | None = None,
    *,
    activation: Activation = "tanh",
    gate_activation: Activation = "sigmoid",
    layer_norm: bool = False,
    **options: Unpack[LayerOptions],
) -> Layer:
    """The LSTM: x [T, N, nIn] -> y [T, N, H], h_last and c_last [N, H].

        z = x_t W + h' RW + b           four blocks of H columns: i, f, g, o
        c = gate(z_f) · c' + gate(z_i) · act(z_g)
        h = gate(z_o) · act(c)

    Parameters: W [nIn, 4H], RW [H, 4H], b [4H], 1 for the forget gate: the transposes of PyTorch's
    weight_ih and weight_hh, and the sum of its biases. With layer norm z is normalised over its
    4H sums before b is added, with gain [4H].

    Args:
        n_in, n_out: nIn and H; by default the rows of the given W and RW.
        activation, gate_activation: names among `ACTIVATIONS` and `GATE_ACTIVATIONS`, or
            functions that build ops.
        options: see `rnncc.cells.settings.LayerSettings`.

    Raises:
        CompileError: an option, a size or a parameter that does not fit.
    """
    gate = activations.gate_activation(gate_activation)
    cell = LstmKind(activations.layer_activation(activation), gate, layer_norm)
    return build_layer(cell, (n_in, n_out), LayerSettings(**options))


@record
class LstmKind(CellKind):
    """The LSTM, and what the MI-LSTM has in common with it."""

    act: Function
    gate: Function
    norm: bool
    kind: ClassVar[str] = "lstm"
    states: ClassVar[tuple[str, ...]] = ("h", "c")

    def parameters(self, n_in: int, n_out: int) -> dict[str, Parameter]:
        return gate_parameters(n_in, n_out, (0.0, 1.0, 0.0, 0.0), self.norm)

    def cell(self, b: Builder, p: Named) -> Cell:
        return Lstm(weights_of(p, self.norm), "ifgo", self.gate, self.act)
