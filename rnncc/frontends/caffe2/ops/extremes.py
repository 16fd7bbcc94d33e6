"""The largest elements along an axis, and their places."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import ClassVar

from xdsl.ir import SSAValue

from rnncc.frontends.caffe2.blobs import Blob
from rnncc.frontends.caffe2.operator import Emitter, Operator
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.dims import Dim, product
from rnncc.ir.types import dtype_of
from rnncc.nn.indexing import element_places, extremum_place
from rnncc.nn.ranking import top_k


class ArgMax(Operator):
    """Y = where along `axis` the largest element stands, the first of equals; `keepdims` leaves the
    axis.

    Refused: nothing.
    """

    kind: ClassVar[str] = "max"

    def infer(self, s: Shapes) -> None:
        s.expect_dtype(self.ys[0], "i64")
        dims = s.dims(self.xs[0])
        if dims is not None:
            axis = self.axis("axis", -1, len(dims))
            kept = [1] if self.args.flag("keepdims", default=True) else []
            s.expect(self.ys[0], (*dims[:axis], *kept, *dims[axis + 1 :]))

    def build(self, e: Emitter) -> None:
        axis = self.axis("axis", -1, len(e.dims(self.xs[0])))
        place = extremum_place(e.b, e[self.xs[0]], self.kind, axis)
        e[self.ys[0]] = e.b.reshape(place, e.dims(self.ys[0]))


class ArgMin(ArgMax):
    """Y = where along `axis` the smallest element stands, the first of equals; `keepdims` leaves
    the axis."""

    kind = "min"


class TopK(Operator):
    """Y0, Y1 = the `k` largest elements along `axis`, largest first, and their places; Y2 = their
    places among all of X's elements, in a vector.

    Refused: an axis of symbolic size.
    """

    outputs = (2, 3)
    takes_ends = True

    def infer(self, s: Shapes) -> None:
        s.same_dtype(self.xs[0], self.ys[0])
        for places in self.ys[1:]:
            s.expect_dtype(places, "i64")
        s.same_shape(*self.ys[:2])
        dims = s.dims(self.xs[0])
        if dims is None:
            return
        axis, count = self.axis("axis", -1, len(dims)), self.args.int("k", 0)
        size = dims[axis]
        if size.is_static and not 1 <= count <= int(size):
            raise self.error(f"takes {count} of {size} elements")
        s.expect(self.ys[0], (*dims[:axis], count, *dims[axis + 1 :]))
        for flat in self.ys[2:]:
            s.expect(flat, (product(s.known(self.ys[0])),))

    def fixed(self, s: Shapes) -> Iterable[Dim]:
        dims = s.known(self.xs[0])
        return [dims[self.axis("axis", -1, len(dims))]]

    def build(self, e: Emitter) -> None:
        dims = e.dims(self.xs[0])
        x, axis = e[self.xs[0]], self.axis("axis", -1, len(dims))
        if self.xs[0].end is not None:
            self._build_to_end(e, x, self.xs[0].end)
            return
        e[self.ys[0]], e[self.ys[1]] = top_k(e.b, x, self.args.int("k", 0), axis, largest=True)
        for flat in self.ys[2:]:
            numbers = element_places(e.b, e[self.ys[1]], dims, axis)
            e[flat] = e.b.reshape(numbers, e.dims(flat))

    def _build_to_end(self, e: Emitter, x: SSAValue, end: Blob) -> None:
        """Of one row that ends where a run decides; for what it lacks 0, in place -1."""
        b, dims = e.b, e.dims(self.xs[0])
        last = len(dims) - 1
        if self.axis("axis", -1, len(dims)) != last or len(self.ys) == 3:
            raise self.error(f'takes "{end.name}" elements: of the last axis alone, without Y2')
        count = b.reshape(e[end], ())
        behind = b.add(b.size(dims[last] + 1, dtype_of(count)), count)
        is_behind = b.compare("lt", count, b.full_like(count, 0))
        count = b.cast(b.select(is_behind, behind, count), "i64")
        inside = b.compare("lt", b.iota(dims, last, "i64"), count)
        lowest = b.fill(-inf, (), dtype_of(x))
        y, index = top_k(b, b.select(inside, x, lowest), self.args.int("k", 0), last, largest=True)
        exists = b.compare("lt", index, count)
        e[self.ys[0]] = b.select(exists, y, b.full_like(y, 0.0))
        e[self.ys[1]] = b.select(exists, index, b.full_like(index, -1))


OPERATORS: dict[str, type[Operator]] = {"ArgMax": ArgMax, "ArgMin": ArgMin, "TopK": TopK}
