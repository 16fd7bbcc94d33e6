"""The gradients of plain operators."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import SSAValue

from rnncc.frontends.caffe2.gradient import Formula, OutputGradient, PlainGradient
from rnncc.frontends.caffe2.graph import Resolver
from rnncc.frontends.caffe2.operator import ANY, Emitter, Operator
from rnncc.frontends.caffe2.ops.reductions import Reduced
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim, Dims, product
from rnncc.ir.types import dims_of
from rnncc.nn.arithmetic import times
from rnncc.nn.axes import kept_dims

Settings = Mapping[str, int | float]


_NO_FORWARD = (
    "a net in which no earlier operator of that type has these blobs in the same versions;"
    " arguments other than that operator's"
)


class ToEquals(PlainGradient):
    """The gradient of an extreme, all of which every element has that is equal to it."""

    def build(self, e: Emitter) -> None:
        assert self.forward is not None
        [(result, gradient)] = self.output_grads
        lined_up = [self._lined_up(e, e[blob]) for blob in (result, gradient)]
        for blob, written in self.input_grads:
            x = e.read(self.forward, blob)
            y, dy = (e.b.broadcast_together(v, x)[0] for v in lined_up)
            e[written] = e.b.select(e.b.compare("eq", x, y), dy, e.b.full_like(x, 0.0))

    def _lined_up(self, e: Emitter, y: SSAValue) -> SSAValue:
        """With the reduced axes of size 1, where there are such."""
        if not isinstance(self.forward, Reduced):
            return y
        x = e[self.forward.xs[0]]
        return e.b.reshape(y, kept_dims(x, self.forward.axes(len(dims_of(x)))))


class AffineChannelGradient(PlainGradient):
    """The gradient of AffineChannel: dx0 from dy0 x1, with `is_learnable` dx0 dx1 dx2 from dy0 x0
    x1.

    Refused: a net in which no earlier operator of that type has these blobs in the same versions.
    """

    kind = "AffineChannel"

    def setup(self, maker: Resolver) -> None:
        learns = self.args.flag("is_learnable")
        self.read, self.written = ("dy0 x0 x1", "dx0 dx1 dx2") if learns else ("dy0 x1", "dx0")


class TileGradient(Operator):
    """dX = the sum of dY's copies along `axis`.

    Refused: numbers in blobs.
    """

    is_gradient = True

    def setup(self, maker: Resolver) -> None:
        self.tiles = self.args.int("tiles", 1)
        if self.tiles < 1:
            raise self.error(f"argument 'tiles' is {self.tiles}, expected 1 or more")

    def infer(self, s: Shapes) -> None:
        s.expect_dtypes("f32", self.xs[0], self.ys[0])
        dims = s.dims(self.xs[0])
        if dims is not None and not any(s.is_open(d) for d in dims):
            s.expect(self.ys[0], self._wide(dims)[1])

    def _wide(self, dims: Dims) -> tuple[int, Dims]:
        """The axis, and the shape of one copy."""
        axis = self.axis("axis", 0, len(dims))
        size = dims[axis].divide(self.tiles)
        if size is None:
            raise self.error(f"an axis of {dims[axis]} elements is not {self.tiles} copies")
        return axis, (*dims[:axis], size, *dims[axis + 1 :])

    def build(self, e: Emitter) -> None:
        axis, one = self._wide(e.dims(self.xs[0]))
        copies = e.b.reshape(e[self.xs[0]], (*one[:axis], self.tiles, *one[axis:]))
        e[self.ys[0]] = e.b.reduce("sum", copies, [axis])


class MakeTwoClassGradient(Operator):
    """dX = dY1 - dY0, along the last axis.

    Refused: nothing.
    """

    is_gradient = True

    def infer(self, s: Shapes) -> None:
        s.expect_dtypes("f32", self.xs[0], self.ys[0])
        dims = s.dims(self.xs[0])
        if dims is not None:
            if not dims or not s.equal(dims[-1], Dim.of(2)):
                raise self.error(f"data of shape {s.text(dims)}, expected pairs")
            s.expect(self.ys[0], dims[:-1])

    def build(self, e: Emitter) -> None:
        last = len(e.dims(self.xs[0])) - 1
        zero, one = (e.b.slice(e[self.xs[0]], last, Dim.of(i), Dim.of(1)) for i in range(2))
        e[self.ys[0]] = e.b.reshape(e.b.sub(one, zero), e.dims(self.ys[0]))


class MeanGradient(Operator):
    """dX0 = dX1 = ... = dY / the number of outputs.

    Refused: nothing.
    """

    outputs = (1, ANY)
    is_gradient = True

    def infer(self, s: Shapes) -> None:
        s.same_shape(self.xs[0], *self.ys)
        s.expect_dtypes("f32", self.xs[0], *self.ys)

    def build(self, e: Emitter) -> None:
        each = times(e.b, e[self.xs[0]], 1 / len(self.ys))
        for y in self.ys:
            e[y] = each


class WeightedSumGradient(Operator):
    """dX0 = X1 of the sum times dY, and so on; with `grad_on_w` then the gradients of the factors.

    Refused: elements other than float32.
    """

    inputs = (3, ANY)
    outputs = (1, ANY)
    is_gradient = True

    def setup(self, maker: Resolver) -> None:
        pairs = (len(self.xs) - 1) / 2
        expected = pairs * 2 if self.args.flag("grad_on_w") else pairs
        if len(self.ys) != expected:
            raise self.error(f"has {len(self.ys)} outputs for {len(self.xs)} inputs")

    def infer(self, s: Shapes) -> None:
        s.expect_dtypes("f32", *self.xs, *self.ys)
        terms, factors = self.xs[1::2], self.xs[2::2]
        s.same_shape(self.xs[0], *terms, *self.ys[: len(terms)])
        for factor, y in zip(factors, self.ys[len(terms) :], strict=False):
            s.same_shape(factor, y)

    def build(self, e: Emitter) -> None:
        dy, terms, factors = e[self.xs[0]], self.xs[1::2], self.xs[2::2]
        for factor, y in zip(factors, self.ys, strict=False):
            e[y] = e.b.mul(dy, e.b.reshape(e[factor], ()))
        for x, y in zip(terms, self.ys[len(terms) :], strict=False):
            total = e.b.reduce("sum", e.b.mul(dy, e[x]), range(len(e.dims(x))))
            e[y] = e.b.reshape(total, e.dims(y))


def _of(
    kind: str,
    read: str,
    written: str = "dx0",
    settings: Settings | None = None,
    base: type[PlainGradient] = PlainGradient,
) -> type[Operator]:
    """The gradient of one type of operator; the arguments in `settings` must be equal, or all."""
    text = f"The gradient of {kind}: {written} from {read}.\n\nRefused: {_NO_FORWARD}."
    options = None if settings is None else dict(settings)
    members = {"kind": kind, "read": read, "written": written, "settings": options}
    return type("PlainGradient", (base,), {**members, "__doc__": text})


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


_READ = {
    "x0 dy0": "Abs Erf Softsign Sin Cos Tan Asin Acos Atan Logit AveragedLoss Normalize Slice"
    " Log1p LpNorm",
    "y0 dy0": "Reciprocal Elu Selu LeakyRelu HardSigmoid Softplus Clip ThresholdedRelu ReluN",
    "dy0 x0": "Cube Sinh Cosh Gelu ReduceFrontSum ReduceFrontMean ReduceBackSum ReduceBackMean"
    " Expand ResizeNearest UpsampleBilinear",
    "dy0 y0": "Rsqrt Cbrt",
    "x0 y0 dy0": "Swish Mish AveragePool MaxPool LpPool LRN",
    "dy0 x0 y0": "ReduceSum ReduceMean ReduceL1 ReduceL2",
    "x0 x1 dy0": "LabelCrossEntropy CrossEntropy CosineEmbeddingCriterion",
    "dy0 y1 x0": "TopK",
    "x1 y1 dy0": "LengthsTopK",
    "dy0 x0 x1": "SigmoidCrossEntropyWithLogits BernoulliJSD",
    "dy0 x0 x1 x2": "WeightedSigmoidCrossEntropyWithLogits",
    "x* y0 dy1": "SoftmaxWithLoss SpatialSoftmaxWithLoss",
}
"""Of gradients to the first input: what they read, and whose they are."""

_EXTREMES = {
    "dy0 x0 y0": "ReduceMax ReduceMin ReduceFrontMax ReduceBackMax",
    "x0 y0 dy0": "RowwiseMax ColwiseMax",
}

_BROADCAST = {"broadcast": 0, "axis": -1}
_UNIT = {"sequence_lengths": 1, "drop_states": 0}
_NORM = {"axis": 1, "epsilon": 1e-5, "elementwise_affine": 0}
_LSTM = {**_UNIT, "forget_bias": 0.0}

OPERATORS: dict[str, type[Operator]] = {
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
    "DivGradient": _of("Div", "dy0 x0 x1 y0", "dx0 dx1", _BROADCAST),
    **{
        f"{kind}Gradient": _of(kind, read, base=base)
        for base, table in ((PlainGradient, _READ), (ToEquals, _EXTREMES))
        for read, kinds in table.items()
        for kind in kinds.split()
    },
    "MaxGradient": _of("Max", "y0 dy0 x*", "dx*", base=ToEquals),
    "MinGradient": _of("Min", "y0 dy0 x*", "dx*", base=ToEquals),
    "MeanGradient": MeanGradient,
    "WeightedSumGradient": WeightedSumGradient,
    "TileGradient": TileGradient,
    "MakeTwoClassGradient": MakeTwoClassGradient,
    "AffineChannelGradient": AffineChannelGradient,
    "SortedSegmentWeightedSumGradient": _of("SortedSegmentWeightedSum", "x1 dy0 x2"),
    "UnsortedSegmentWeightedSumGradient": _of("UnsortedSegmentWeightedSum", "x1 dy0 x2"),
    **{
        f"SortedSegmentRange{kind}Gradient": _of(f"SortedSegmentRange{kind}", "x0 y0 dy0 x1")
        for kind in ("Sum", "Mean", "LogSumExp", "LogMeanExp")
    },
    "BatchGatherGradient": _of("BatchGather Gather", "x0 x1 dy0"),
    "BatchPermutationGradient": _of("BatchPermutation", "x1 dy0"),
    **{
        f"{kind}Gradient": _of(kind, "x0 x1 dy0", "dx0 dx1")
        for kind in ("DotProduct", "SquaredL2Distance", "L1Distance", "CosineSimilarity")
    },
    "DotProductWithPaddingGradient": _of(
        "DotProductWithPadding", "x0 x1 dy0", "dx0 dx1", {"pad_value": 0.0, "replicate": 0}
    ),
    "PReluGradient": _of("PRelu", "y0 dy0 x0 x1", "dx0 dx1"),
    "ConvGradient": _of("Conv", "x0 x1 dy0", "dx1 dx2 dx0"),
    "ConvTransposeGradient": _of("ConvTranspose", "x0 x1 dy0", "dx1 dx2 dx0"),
    "InstanceNormGradient": _of("InstanceNorm", "x0 x1 x2 dy0 y1 y2", "dx0 dx1 dx2"),
    "GroupNormGradient": _of("GroupNorm", "dy0 x0 x1 x2 y1 y2", "dx0 dx1 dx2"),
    "SpatialBNGradient": _of("SpatialBN", "x0 x1 dy0 y3 y4", "dx0 dx1 dx2"),
    "RMSNormGradient": _of("RMSNorm", "dy0 x0 x1 y1", "dx0 dx1 dx2"),
    "MomentsGradient": _of("Moments", "dy0 dy1 x0 y0"),
    "MarginRankingCriterionGradient": _of("MarginRankingCriterion", "x0 x1 x2 dy0", "dx0 dx1"),
    **{
        f"{kind}{rank}DGradient": _of(f"{kind}{rank}D", read, written)
        for rank in (1, 2, 3)
        for kind, read, written in (
            ("Conv", "x0 x1 dy0", "dx1 dx2 dx0"),
            ("MaxPool", "x0 y0 dy0", "dx0"),
            ("AveragePool", "x0 y0 dy0", "dx0"),
        )
    },
}
