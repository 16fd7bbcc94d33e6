"""The simple recurrent network of Elman (1990)."""

from __future__ import annotations

from typing import ClassVar, Unpack

from rnncc.cells import activations
from rnncc.cells.activations import Activation
from rnncc.cells.builder import build_layer
from rnncc.cells.layer import CellKind, Layer
from rnncc.cells.parameters import Parameter, gate_parameters, weights_of
from rnncc.cells.settings import LayerOptions, LayerSettings
from rnncc.ir.builder import Builder
from rnncc.nn.cells import Elman
from rnncc.nn.layer import Cell
from rnncc.nn.steps import Function, Named
from rnncc.records import record


def elman(
    n_in: int | None = None,
    n_out: int | None = None,
    *,
    activation: Activation = "tanh",
    layer_norm: bool = False,
    **options: Unpack[LayerOptions],
) -> Layer:
    """The Elman network: x [T, N, nIn] -> y [T, N, H], h_last [N, H].

        h = act(x_t W + h' RW + b)

    Parameters: W [nIn, H], RW [H, H], b [H]; with layer norm the sums are normalised before b is
    added, with gain [H].

    Args:
        n_in, n_out: nIn and H; by default the rows of the given W and RW.
        activation: a name among `ACTIVATIONS`, or a function that builds ops.
        options: see `rnncc.cells.settings.LayerSettings`.

    Raises:
        CompileError: an option, a size or a parameter that does not fit.
    """
    cell = _Elman(activations.layer_activation(activation), layer_norm)
    return build_layer(cell, (n_in, n_out), LayerSettings(**options))


@record
class _Elman(CellKind):
    act: Function
    norm: bool
    kind: ClassVar[str] = "elman"

    def parameters(self, n_in: int, n_out: int) -> dict[str, Parameter]:
        return gate_parameters(n_in, n_out, (0.0,), self.norm)

    def cell(self, b: Builder, p: Named) -> Cell:
        return Elman(weights_of(p, self.norm), self.act)
