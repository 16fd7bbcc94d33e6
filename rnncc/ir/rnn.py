"""The `rnn` dialect: what a net computes, on typed SSA values."""

from __future__ import annotations

from xdsl.ir import Dialect

from rnncc.ir.ops import control, elementwise, linear, shape, source

OPS = [*source.OPS, *elementwise.OPS, *shape.OPS, *linear.OPS, *control.OPS]
RNN = Dialect("rnn", OPS)
