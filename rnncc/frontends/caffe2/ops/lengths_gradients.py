"""The gradients of sums, means and extremes over parts and segments, as Caffe2 writes them."""

from __future__ import annotations

from typing import ClassVar

from xdsl.ir import SSAValue

from rnncc.frontends.caffe2.blobs import Blob
from rnncc.frontends.caffe2.graph import Resolver
from rnncc.frontends.caffe2.operator import Emitter, Operator
from rnncc.frontends.caffe2.ops.lengths import OfParts, RowParts
from rnncc.frontends.caffe2.ops.segments import means_of
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.types import dims_of
from rnncc.nn.axes import along
from rnncc.nn.reduction import total


class RowsGradient(OfParts):
    """dX0[i] = what a function makes of dY[k], for each row i of part k.

    Attributes:
        names: what the inputs hold: gradient, weights, lengths, and what has as many rows.
    """

    is_gradient = True
    names: ClassVar[tuple[str, ...]]
    averages: ClassVar[bool] = False

    def setup(self, maker: Resolver) -> None:
        self.by_name = dict(zip(self.names, self.xs, strict=False))

    def shows(self) -> Blob:
        holders = ("indices", "weights", "data")
        return next(self.by_name[name] for name in holders if name in self.by_name)

    def infer(self, s: Shapes) -> None:
        gradient = self.by_name["gradient"]
        s.expect_dtypes("f32", gradient, *self.ys)
        super().infer(s)
        dims, rows = s.dims(gradient), self.rows(s)
        if dims is None or rows is None:
            return
        s.expect(self.ys[0], (rows, *dims[1:]))
        for weights in self.ys[1:]:
            s.expect(weights, (rows,))

    def build(self, e: Emitter) -> None:
        b, parts, dy = e.b, self.parts(e), e[self.by_name["gradient"]]
        rank = len(dims_of(dy))
        if self.averages:
            dy = b.div(dy, self.counts(e, rank))
        rows = b.gather(dy, parts.part, 0)
        if "weights" not in self.by_name:
            e[self.ys[0]] = self.of_rows(e, rows, parts)
            return
        e[self.ys[0]] = b.mul(rows, along(b, e[self.by_name["weights"]], 0, rank))
        for y in self.ys[1:]:
            data = e[self.by_name["data"]]
            if "indices" in self.by_name:
                data = b.gather(data, e[self.by_name["indices"]], 0)
            e[y] = total(b, b.mul(rows, data), range(1, rank))

    def of_rows(self, e: Emitter, rows: SSAValue, parts: RowParts) -> SSAValue:
        """The gradient, given dY of each row's part."""
        return rows


class LargestGradient(RowsGradient):
    """dX[i] = dY[k] where X[i] = Y[k], for each row i of part k, else 0.

    Refused: elements other than float32.
    """

    inputs, lengths = (4, 4), 2
    names = ("largest", "gradient", "lengths", "data")

    def of_rows(self, e: Emitter, rows: SSAValue, parts: RowParts) -> SSAValue:
        b, x = e.b, e[self.by_name["data"]]
        most = b.gather(e[self.by_name["largest"]], parts.part, 0)
        return b.select(b.compare("eq", x, most), rows, b.full_like(x, 0.0))


def _rows_gradient(text: str, names: str, averages: bool = False) -> type[Operator]:
    inputs = tuple(name.strip() for name in names.split(","))
    wide = 2 if "weights" in inputs and "data" in inputs else 1
    members = {
        "__doc__": f"dX[i] = {text}, for each row i of part k.\n\n"
        "Refused: elements other than float32.",
        "names": inputs,
        "averages": averages,
        "lengths": inputs.index("lengths"),
        "inputs": (len(inputs), len(inputs)),
        "outputs": (wide, wide),
    }
    return type("RowsGradient", (RowsGradient,), members)


class SegmentsGradient(Operator):
    """dX[i] = dY[X1[i]].

    Refused: elements other than float32.
    """

    inputs, is_gradient, averages = (2, 2), True, False

    def infer(self, s: Shapes) -> None:
        s.expect_dtypes("f32", self.xs[0], self.ys[0])
        s.expect_dtype(self.xs[1], "i32")
        dims, ids = s.dims(self.xs[0]), s.dims(self.xs[1])
        if dims is not None and ids is not None:
            s.expect(self.ys[0], (*ids, *dims[1:]))

    def build(self, e: Emitter) -> None:
        b, dy, ids = e.b, e[self.xs[0]], e[self.xs[1]]
        dy = means_of(b, dy, ids) if self.averages else dy
        e[self.ys[0]] = b.gather(dy, ids, 0)


class MeanSegmentsGradient(SegmentsGradient):
    """dX[i] = dY[X1[i]] / how many rows have that number."""

    averages = True


GRADIENTS: dict[str, type[Operator]] = {
    **{
        f"{kind}IndicesInGradientSumGradient": _rows_gradient("dY[k]", f"gradient, lengths, {rows}")
        for kind, rows in (("Lengths", "data"), ("SparseLengths", "indices"))
    },
    **{
        f"{kind}IndicesInGradientMeanGradient": _rows_gradient(
            "dY[k] / the rows of the part", f"gradient, lengths, {rows}", averages=True
        )
        for kind, rows in (("Lengths", "data"), ("SparseLengths", "indices"))
    },
    "LengthsWeightedSumGradient": _rows_gradient("dY[k] weights[i]", "weights, gradient, lengths"),
    "LengthsWeightedSumWithMainInputGradient": _rows_gradient(
        "dY[k] weights[i], and the sum of dY[k] X[i]", "weights, gradient, lengths, data"
    ),
    "SparseLengthsIndicesInGradientWeightedSumGradient": _rows_gradient(
        "dY[k] weights[i]", "weights, gradient, lengths, indices"
    ),
    "SparseLengthsIndicesInGradientWeightedSumWithMainInputGradient": _rows_gradient(
        "dY[k] weights[i], and the sum of dY[k] X[indices[i]]",
        "weights, gradient, lengths, data, indices",
    ),
    "LengthsMaxWithMainInputAndForwardOutputGradient": LargestGradient,
    "UnsortedSegmentSumGradient": SegmentsGradient,
    "UnsortedSegmentMeanGradient": MeanSegmentsGradient,
    "SortedSegmentSumGradient": SegmentsGradient,
    "SortedSegmentMeanGradient": MeanSegmentsGradient,
}
