"""The gated recurrent unit (Cho et al., 2014), with the reset before or after the product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Unpack

from xdsl.ir import SSAValue

from rnncc.cells import activations
from rnncc.cells.activations import Activation, Function
from rnncc.cells.builder import build_layer
from rnncc.cells.layer import Cell, Layer, Named, Values
from rnncc.cells.parameters import Parameter, Vector
from rnncc.cells.parts import cut, gate_parameters, normalised, project
from rnncc.cells.settings import Options, Settings
from rnncc.ir.build import Build
from rnncc.ir.types import dims_of


def gru(
    n_in: int | None = None,
    n_out: int | None = None,
    *,
    linear_before_reset: bool = True,
    activation: Activation = "tanh",
    gate_activation: Activation = "sigmoid",
    layer_norm: bool = False,
    **options: Unpack[Options],
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
        options: see `rnncc.cells.settings.Settings`.

    Raises:
        CompileError: an option, a size or a parameter that does not fit.
    """
    gate = activations.gate_activation(gate_activation)
    act = activations.layer_activation(activation)
    cell = _Gru(linear_before_reset, act, gate, layer_norm)
    return build_layer(cell, (n_in, n_out), Settings(**options))


@dataclass(frozen=True)
class _Gru(Cell):
    linear: bool
    act: Function
    gate: Function
    norm: bool
    kind: ClassVar[str] = "gru"

    def parameters(self, n_in: int, n_out: int) -> dict[str, Parameter]:
        made = gate_parameters(n_in, n_out, (0.0,) * 3, self.norm)
        return {**made, "rb": Vector(n_out)} if self.linear else made

    def prepare(self, b: Build, x: SSAValue, p: Named) -> tuple[Values, Values]:
        units = int(dims_of(p["RW"])[0])
        shared = [p["RW"], p["rb"]] if self.linear else list(_split(b, p["RW"], units))
        if self.norm:
            gains, biases = _split(b, p["gain"], units), _split(b, p["b"], units)
            shared += [gains[0], biases[0], gains[1], biases[1]]
        return shared, [project(b, x, p, self.norm)]

    def step(self, b: Build, shared: Values, rows: Values, states: Values) -> Values:
        (first, second, *norm), h = shared, states[0]
        units = int(dims_of(h)[1])
        u_gates, u_new = _split(b, rows[0], units)
        if self.linear:
            v_gates, v_new = _split(b, b.matmul(h, first), units)
            v_new = b.add(v_new, second)
        else:
            v_gates, v_new = b.matmul(h, first), None
        gates = normalised(b, b.add(u_gates, v_gates), norm[:2])
        r, z = (self.gate(b, part) for part in cut(b, gates, units))
        v_new = b.matmul(b.mul(r, h), second) if v_new is None else b.mul(r, v_new)
        new = self.act(b, normalised(b, b.add(u_new, v_new), norm[2:]))
        return [b.add(b.mul(b.sub(b.full_like(z, 1.0), z), new), b.mul(z, h))]


def _split(b: Build, x: SSAValue, units: int) -> tuple[SSAValue, SSAValue]:
    """The columns of r and z, and those of n."""
    axis = len(dims_of(x)) - 1
    return b.slice(x, axis, 0, 2 * units), b.slice(x, axis, 2 * units, units)
