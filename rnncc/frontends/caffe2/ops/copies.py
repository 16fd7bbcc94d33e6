"""Operators that copy: what matters to devices and gradients alone."""

from __future__ import annotations

from rnncc.frontends.caffe2.operator import Emitter, Operator
from rnncc.frontends.caffe2.shapes import Shapes


class Identity(Operator):
    """Y = X; what only matters to devices and gradients.

    Refused: nothing.
    """

    outputs = (0, 1)

    def infer(self, s: Shapes) -> None:
        s.same_shape(self.xs[0], *self.ys)
        s.same_dtype(self.xs[0], *self.ys)
        value = s.value(self.xs[0])
        for y in self.ys:
            if value is not None:
                s.expect_value(y, value, self.xs[0].dtype or "i64")

    def build(self, e: Emitter) -> None:
        for y in self.ys:
            e[y] = e[self.xs[0]]


class SameMemory(Identity):
    """Y = X, in the same memory.

    Refused: writing X or Y later on.
    """

    shares_memory = True


class StopGradient(Identity):
    """Y = X, through which no gradient goes.

    Refused: nothing.
    """

    outputs = (1, 1)

    def build(self, e: Emitter) -> None:
        e[self.ys[0]] = e.b.stop_gradient(e[self.xs[0]])


class CopyOnDeviceLike(Identity):
    """Y = X0; X1 only says on which device.

    Refused: nothing.
    """

    inputs = (2, 2)


OPERATORS: dict[str, type[Operator]] = {
    **dict.fromkeys(
        (
            "Copy",
            "CopyFromCPUInput",
            "CopyCPUToGPU",
            "CopyGPUToCPU",
            "EnsureCPUOutput",
            "ZeroGradient",
            "EnsureDense",
        ),
        Identity,
    ),
    "Alias": SameMemory,
    "AliasWithName": SameMemory,
    "CopyOnDeviceLike": CopyOnDeviceLike,
    "StopGradient": StopGradient,
}
