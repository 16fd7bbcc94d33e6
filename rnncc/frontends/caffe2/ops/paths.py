"""The most likely labels of a sequence, as conditional random fields search for them."""

from __future__ import annotations

from rnncc.frontends.caffe2.operator import Emitter, Operator
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.builder import Builder, Values
from rnncc.ir.dims import Dims
from rnncc.ir.types import dims_of
from rnncc.nn.axes import along
from rnncc.nn.indexing import extremum_place, one_hot


class OfScores(Operator):
    """What reads X0, a score for each label of each step."""

    inputs = (2, 2)

    def scores(self, s: Shapes) -> Dims:
        """The shape of X0: steps and labels."""
        if s.dims(self.xs[0]) is None:
            s.expect(self.xs[0], (s.fresh(), s.fresh()))
        dims = s.known(self.xs[0])
        if len(dims) != 2:
            raise self.error(f"scores of shape {s.text(dims)}, expected two axes")
        return dims


class ViterbiPath(OfScores):
    """Y = labels y[t] with the largest sum of X0[t, y[t]] and X1[y[t-1], y[t]], int32: the search
    of A. Viterbi (1967). Of equal sums the first label, from the end on.

    Refused: elements other than float32.
    """

    def infer(self, s: Shapes) -> None:
        scores, steps = self.xs
        s.expect_dtypes("f32", scores, steps)
        s.expect_dtype(self.ys[0], "i32")
        dims = self.scores(s)
        s.expect(steps, (dims[1], dims[1]))
        s.expect(self.ys[0], dims[:1])

    def build(self, e: Emitter) -> None:
        b, scores = e.b, e[self.xs[0]]
        count, labels = dims_of(scores)
        first = b.reshape(b.slice(scores, 0, 0, 1), (labels,))
        rest = b.slice(scores, 0, 1, count - 1)
        (best,), (before,) = b.scan([e[self.xs[1]]], [first], [rest], _extended)
        last = extremum_place(b, best, "max", 0)
        _, (path,) = b.scan([], [last], [before], _followed, reverse=True)
        path = b.concat([path, b.reshape(last, (1,))], 0)
        e[self.ys[0]] = b.cast(path, "i32")


def _extended(b: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
    """The best sums of paths that end in each label, one step longer, and the labels before."""
    (steps,), (best,), (scores,) = consts, carry, rows
    sums = b.add(steps, along(b, best, 0, 2))
    return [b.add(b.reduce("max", sums, [0]), scores)], [extremum_place(b, sums, "max", 0)]


def _followed(b: Builder, _: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
    """The label before one, twice: as what is carried, and as a row."""
    label = b.gather(rows[0], carry[0], 0)
    return [label], [label]


class SwapBestPath(OfScores):
    """Y = X0 with the largest score of each row t where label X1[t] stands, and that label's score
    where the largest one stood, the first of equals; a call with a label that is none fails.

    Refused: elements other than float32.
    """

    def infer(self, s: Shapes) -> None:
        scores, path = self.xs
        s.same_shape(scores, self.ys[0])
        s.expect_dtypes("f32", scores, self.ys[0])
        s.expect_dtype(path, "i32")
        dims = self.scores(s)
        s.expect(path, dims[:1])

    def build(self, e: Emitter) -> None:
        b, scores, path = e.b, e[self.xs[0]], e[self.xs[1]]
        count, labels = dims_of(scores)
        best = extremum_place(b, scores, "max", 1)
        # A label that is none must make the call fail, which reading a table of all does.
        path = b.gather(b.iota((labels,), 0, "i64"), path, 0)
        at_best, at_path = (one_hot(b, place, labels, 1) for place in (best, path))
        highest = b.reshape(b.reduce("max", scores, [1]), (count, 1))
        none = b.fill(0.0, ())
        chosen = b.reshape(b.reduce("sum", b.select(at_path, scores, none), [1]), (count, 1))
        swapped = b.select(at_best, chosen, scores)
        e[self.ys[0]] = b.select(at_path, highest, swapped)


OPERATORS: dict[str, type[Operator]] = {"ViterbiPath": ViterbiPath, "SwapBestPath": SwapBestPath}
