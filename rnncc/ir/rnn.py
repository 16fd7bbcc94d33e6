"""The `rnn` dialect: what a net computes, on typed SSA values."""

from __future__ import annotations

from xdsl.ir import Dialect, Operation

from rnncc.ir.ops import (
    apply,
    chunks,
    control,
    elementwise,
    functions,
    indexing,
    linear,
    random,
    shape,
    source,
)

OPS: list[type[Operation]] = [
    *(*source.OPS, *elementwise.OPS, *functions.OPS, *apply.OPS, *random.OPS),
    *(*shape.OPS, *indexing.OPS, *linear.OPS, *control.OPS, *chunks.OPS),
]
RNN = Dialect("rnn", OPS, apply.ATTRIBUTES)
