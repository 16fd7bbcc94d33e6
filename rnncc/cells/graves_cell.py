"""The LSTM of Graves (2013) as Deeplearning4j has it: peepholes, letters and layout."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Unpack

from xdsl.ir import SSAValue

from rnncc.cells import activations
from rnncc.cells.activations import Activation
from rnncc.cells.builder import build_layer
from rnncc.cells.layer import CellKind, Layer
from rnncc.cells.parameters import Parameter, gate_parameters, weights_of
from rnncc.cells.settings import LayerOptions, LayerSettings
from rnncc.ir.builder import Builder
from rnncc.ir.types import dims_of
from rnncc.nn.cells import Lstm
from rnncc.nn.layer import Cell
from rnncc.nn.steps import Function, Named
from rnncc.records import record


def graves_lstm(
    n_in: int | None = None,
    n_out: int | None = None,
    *,
    peepholes: bool = True,
    activation: Activation = "tanh",
    gate_activation: Activation = "sigmoid",
    layer_norm: bool = False,
    **options: Unpack[LayerOptions],
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
        options: see `rnncc.cells.settings.LayerSettings`; the layout is "NCT" if not given.

    To train a long sequence in segments, build with `initial_state=True` and hand `h_last` and
    `c_last` of one segment to the next as `h0` and `c0`, ignoring their gradients.

    Raises:
        CompileError: an option, a size or a parameter that does not fit.
    """
    gate = activations.gate_activation(gate_activation)
    cell = _Graves(peepholes, activations.layer_activation(activation), gate, layer_norm)
    options.setdefault("layout", "NCT")
    return build_layer(cell, (n_in, n_out), LayerSettings(**options), peepholes)


@record
class _Graves(CellKind):
    peepholes: bool
    act: Function
    gate: Function
    norm: bool
    kind: ClassVar[str] = "graves_lstm"
    states: ClassVar[tuple[str, ...]] = ("h", "c")

    def parameters(self, n_in: int, n_out: int) -> dict[str, Parameter]:
        extra = 3 if self.peepholes else 0
        return gate_parameters(n_in, n_out, (0.0, 1.0, 0.0, 0.0), self.norm, extra)

    def cell(self, b: Builder, p: Named) -> Cell:
        weights, units = weights_of(p, self.norm), int(dims_of(p["RW"])[0])
        peepholes = dict[str, SSAValue]()
        for k, letter in enumerate("foi" if self.peepholes else ""):
            column = b.slice(p["RW"], 1, 4 * units + k, 1)
            peepholes[letter] = b.reshape(column, [units])
        weights = replace(weights, u=b.slice(p["RW"], 1, 0, 4 * units))
        return Lstm(weights, "gfoi", self.gate, self.act, peepholes=peepholes)
