"""The LSTM without peepholes, in PyTorch's and Caffe2's letters."""

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


def lstm(
    n_in: int | None = None,
    n_out: int | None = None,
    *,
    activation: Activation = "tanh",
    gate_activation: Activation = "sigmoid",
    layer_norm: bool = False,
    **options: Unpack[Options],
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
        options: see `rnncc.cells.settings.Settings`.

    Raises:
        CompileError: an option, a size or a parameter that does not fit.
    """
    gate = activations.gate_activation(gate_activation)
    cell = _Lstm(activations.layer_activation(activation), gate, layer_norm)
    return build_layer(cell, (n_in, n_out), Settings(**options))


def lstm_states(
    b: Build, z: SSAValue, c: SSAValue, act: Function, gate: Function
) -> tuple[SSAValue, SSAValue]:
    """H and c after a step, from its sums z [N, 4H] and the c before it."""
    z_i, z_f, z_g, z_o = cut(b, z, int(dims_of(c)[1]))
    c = b.add(b.mul(gate(b, z_f), c), b.mul(gate(b, z_i), act(b, z_g)))
    return b.mul(gate(b, z_o), act(b, c)), c


@dataclass(frozen=True)
class _Lstm(Cell):
    act: Function
    gate: Function
    norm: bool
    kind: ClassVar[str] = "lstm"
    states: ClassVar[tuple[str, ...]] = ("h", "c")

    def parameters(self, n_in: int, n_out: int) -> dict[str, Parameter]:
        return gate_parameters(n_in, n_out, (0.0, 1.0, 0.0, 0.0), self.norm)

    def prepare(self, b: Build, x: SSAValue, p: Named) -> tuple[Values, Values]:
        norm = [p["gain"], p["b"]] if self.norm else []
        return [p["RW"], *norm], [project(b, x, p, self.norm)]

    def step(self, b: Build, shared: Values, rows: Values, states: Values) -> Values:
        (recurrent, *norm), (h, c) = shared, states
        z = normalised(b, b.add(rows[0], b.matmul(h, recurrent)), norm)
        return lstm_states(b, z, c, self.act, self.gate)
