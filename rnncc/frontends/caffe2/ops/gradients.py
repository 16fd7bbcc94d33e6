"""The gradients of plain operators, and the sum that a loss is."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import SSAValue

from rnncc.frontends.caffe2.gradient import Formula, OutputGradient, PlainGradient
from rnncc.frontends.caffe2.operator import Emitter, Operator
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.builder import Builder
from rnncc.ir.dims import product
from rnncc.ir.types import dims_of

Settings = Mapping[str, int | float]


class SumElements(Operator):
    """Y = the sum of X's elements, a scalar; with `average` their mean.

    Refused: elements other than float32.
    """

    def infer(self, s: Shapes) -> None:
        s.expect(self.ys[0], (), "f32")
        s.expect_dtype(self.xs[0], "f32")

    def build(self, e: Emitter) -> None:
        e[self.ys[0]] = self.total(e, e[self.xs[0]])

    def total(self, e: Emitter, x: SSAValue) -> SSAValue:
        """The sum or the mean."""
        dims = dims_of(x)
        total = e.b.reduce("sum", x, range(len(dims)))
        if not self.args.flag("average"):
            return total
        return e.b.div(total, e.b.cast(e.b.size(product(dims)), "f32"))


class SumSqrElements(SumElements):
    """Y = the sum of the squares of X's elements, a scalar; with `average` their mean."""

    def build(self, e: Emitter) -> None:
        x = e[self.xs[0]]
        e[self.ys[0]] = self.total(e, e.b.mul(x, x))


_NO_FORWARD = (
    "a net in which no earlier operator of that type has these blobs in the same versions;"
    " arguments other than that operator's"
)


def _of(kind: str, read: str, written: str, settings: Settings | None = None) -> type[Operator]:
    """The gradient of one type of operator."""
    text = f"The gradient of {kind}: {written} from {read}.\n\nRefused: {_NO_FORWARD}."
    members = {"kind": kind, "read": read, "written": written, "settings": dict(settings or {})}
    return type("PlainGradient", (PlainGradient,), {**members, "__doc__": text})


def _of_output(
    kind: str, text: str, formula: Formula, settings: Settings | None = None
) -> type[Operator]:
    """The gradient of an operator that needs its output alone."""
    members = {"kind": kind, "formula": staticmethod(formula), "settings": dict(settings or {})}
    return type(
        "OutputGradient",
        (OutputGradient,),
        {**members, "__doc__": f"dX = {text}.\n\nRefused: nothing."},
    )


def _sigmoid(b: Builder, y: SSAValue, dy: SSAValue, axis: int) -> SSAValue:
    return b.mul(dy, b.mul(y, b.sub(b.fill(1.0, ()), y)))


def _tanh(b: Builder, y: SSAValue, dy: SSAValue, axis: int) -> SSAValue:
    return b.mul(dy, b.sub(b.fill(1.0, ()), b.mul(y, y)))


def _relu(b: Builder, y: SSAValue, dy: SSAValue, axis: int) -> SSAValue:
    return b.select(b.compare("gt", y, b.fill(0.0, ())), dy, b.fill(0.0, ()))


def _softmax(b: Builder, y: SSAValue, dy: SSAValue, axis: int) -> SSAValue:
    dims = dims_of(y)
    rows = (*dims[:axis], product(dims[axis:]))
    y, dy = b.reshape(y, rows), b.reshape(dy, rows)
    total = b.reduce("sum", b.mul(y, dy), [axis])
    return b.reshape(b.mul(y, b.sub(dy, b.reshape(total, (*rows[:-1], 1)))), dims)


_BROADCAST = {"broadcast": 0, "axis": -1}
_UNIT = {"sequence_lengths": 1, "drop_states": 0}
_NORM = {"axis": 1, "epsilon": 1e-5, "elementwise_affine": 0}
_LSTM = {**_UNIT, "forget_bias": 0.0}

OPERATORS: dict[str, type[Operator]] = {
    "SumElements": SumElements,
    "SumSqrElements": SumSqrElements,
    "SumElementsGradient": _of("SumElements", "x0 dy0", "dx0", {"average": 0}),
    "FCGradient": _of("FC", "x0 x1 dy0", "dx1 dx2 dx0", {"axis": 1}),
    "FCTransposedGradient": _of("FCTransposed", "x0 x1 dy0", "dx1 dx2 dx0", {"axis": 1}),
    "AddGradient": _of("Add", "dy0 x0 x1", "dx0 dx1", _BROADCAST),
    "SubGradient": _of("Sub", "dy0 x0 x1", "dx0 dx1", _BROADCAST),
    "MulGradient": _of("Mul", "dy0 x0 x1", "dx0 dx1", _BROADCAST),
    "ElementwiseLinearGradient": _of("ElementwiseLinear", "dy0 x0 x1", "dx0 dx1 dx2", {"axis": 1}),
    "LayerNormGradient": _of("LayerNorm", "dy0 y0 y1 y2 x0 x1", "dx0 dx1 dx2", _NORM),
    "LSTMUnitGradient": _of("LSTMUnit", "x* y0 y1 dy0 dy1", "dx0 dx1 dx2", _LSTM),
    "GRUUnitGradient": _of("GRUUnit", "x* y0 dy0", "dx0 dx1", _UNIT),
    "SigmoidGradient": _of_output("Sigmoid", "dY Y (1 - Y)", _sigmoid),
    "TanhGradient": _of_output("Tanh", "dY (1 - Y²)", _tanh),
    "ReluGradient": _of_output("Relu", "dY where Y > 0, else 0", _relu),
    "SoftmaxGradient": _of_output("Softmax", "Y (dY - sum dY Y)", _softmax, {"axis": 1}),
}
