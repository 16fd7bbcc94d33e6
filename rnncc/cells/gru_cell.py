"""The gated recurrent unit (Cho et al., 2014), with the reset before or after the product."""

from __future__ import annotations

from typing import ClassVar, Unpack

from rnncc.cells import activations
from rnncc.cells.activations import Activation
from rnncc.cells.builder import build_layer
from rnncc.cells.layer import CellKind, Layer
from rnncc.cells.parameters import Parameter, ParameterVector, gate_parameters, weights_of
from rnncc.cells.settings import LayerOptions, LayerSettings
from rnncc.ir.builder import Builder
from rnncc.nn.cells import Gru
from rnncc.nn.layer import Cell
from rnncc.nn.steps import Function, Named
from rnncc.records import record


def gru(
    n_in: int | None = None,
    n_out: int | None = None,
    *,
    linear_before_reset: bool = True,
    activation: Activation = "tanh",
    gate_activation: Activation = "sigmoid",
    layer_norm: bool = False,
    **options: Unpack[LayerOptions],
) -> Layer:
    """The GRU: x [T, N, nIn] -> y [T, N, H], h_last [N, H].

        u = x_t W + b                   three blocks of H columns: r, z, n
        r = gate(u_r + h' RW_r)
        z = gate(u_z + h' RW_z)
        n = act(u_n + r · (h' RW_n + rb))       linear before reset
        n = act(u_n + (r · h') RW_n)            else
        h = (1 - z) · n + z · h'

    Parameters: W [nIn, 3H], RW [H, 3H], b [3H], and rb [H] where linear before reset: PyTorch's
    are transposed; its hidden bias of r and z adds to b, that of n is rb. With layer norm the sums
    of r and z together, and those of n, are normalised before b is added, with gain [3H].

    Args:
        n_in, n_out: nIn and H; by default the rows of the given W and RW.
        activation, gate_activation: names among `ACTIVATIONS` and `GATE_ACTIVATIONS`, or
            functions that build ops.
        options: see `rnncc.cells.settings.LayerSettings`.

    Raises:
        CompileError: an option, a size or a parameter that does not fit.
    """
    gate = activations.gate_activation(gate_activation)
    act = activations.layer_activation(activation)
    cell = _Gru(linear_before_reset, act, gate, layer_norm)
    return build_layer(cell, (n_in, n_out), LayerSettings(**options))


@record
class _Gru(CellKind):
    linear: bool
    act: Function
    gate: Function
    norm: bool
    kind: ClassVar[str] = "gru"

    def parameters(self, n_in: int, n_out: int) -> dict[str, Parameter]:
        parameters_by_name = gate_parameters(n_in, n_out, (0.0,) * 3, self.norm)
        return (
            {**parameters_by_name, "rb": ParameterVector(n_out)}
            if self.linear
            else parameters_by_name
        )

    def cell(self, b: Builder, p: Named) -> Cell:
        weights, late = weights_of(p, self.norm), p["rb"] if self.linear else None
        return Gru(weights, "rzn", self.gate, self.act, self.linear, late)
