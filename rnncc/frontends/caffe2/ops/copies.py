"""Operators that copy: what matters to devices and gradients alone."""

from __future__ import annotations

from rnncc.frontends.caffe2.operator import Emitter, Operator
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.nn.narrow import narrowed


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


class HalfToFloat(Identity):
    """Y = X: what holds float16 in Caffe2 holds such numbers as float32.

    Refused: elements other than float32.
    """

    def infer(self, s: Shapes) -> None:
        s.expect_dtypes("f32", self.xs[0], *self.ys)
        super().infer(s)


class FloatToHalf(HalfToFloat):
    """Y = the float16 nearest to X, as float32; the gradient is X's as it is.

    Refused: elements other than float32.
    """

    def build(self, e: Emitter) -> None:
        for y in self.ys:
            e[y] = narrowed(e.b, e[self.xs[0]], "f16")


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
    "FloatToHalf": FloatToHalf,
    "HalfToFloat": HalfToFloat,
    "StopGradient": StopGradient,
}
