"""What the examples that train a Caffe2 net share: a net, Adam, the parameters as an init net."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rnncc.commands.charnet import char_lstm
from rnncc.netdef import NetDef

Array = np.ndarray[Any, Any]


def lstm_net(
    name: str, width: int, units: int, kind: str, beside: list[str], y: str
) -> list[NetDef]:
    """FC, LSTM, FC, and an operator of some kind that gives `y`; and how training starts.

    Args:
        width: of the input x and of `y`.
        beside: what the operator takes beside the second FC.
    """
    net, init = char_lstm(width, units)
    net.name = name
    last = net.op[-1]
    last.Clear()
    last.type = kind
    last.input.extend(["logits", *beside])
    last.output.append(y)
    del net.external_output[:]
    net.external_output.append(y)
    return [net, init]


class Adam:
    """Moments of gradients; `rate` falls in a line over the last third of the updates."""

    def __init__(self, parameters: Mapping[str, Array], rate: float, updates: int) -> None:
        self.parameters, self.rate, self.updates, self.update = parameters, rate, updates, 0
        zeros = {name: np.zeros_like(array) for name, array in parameters.items()}
        self._first, self._second = zeros, {name: array.copy() for name, array in zeros.items()}

    def step(self, grads: Mapping[str, Array]) -> None:
        """Update the parameters in place."""
        self.update += 1
        remaining = 1 - self.update / (self.updates + 1)
        rate = self.rate * min(1, 3 * remaining) / (1 - 0.9**self.update)
        for name, array in self.parameters.items():
            m, v = self._first[name], self._second[name]
            m += 0.1 * (grads[name] - m)
            v += 0.001 * (grads[name] ** 2 - v)
            array -= rate * m / (np.sqrt(v / (1 - 0.999**self.update)) + 1e-8)


def fills(name: str, parameters: Mapping[str, Array]) -> NetDef:
    """The net that fills the parameters."""
    init = NetDef(name=name)
    for output, array in parameters.items():
        op = init.op.add(type="GivenTensorFill", output=[output])
        op.arg.add(name="shape", ints=array.shape)
        op.arg.add(name="values", floats=array.ravel().tolist())
    return init
