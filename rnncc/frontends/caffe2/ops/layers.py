"""Whole recurrent layers, in PyTorch's layout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rnncc.frontends.caffe2.blobs import Blob
from rnncc.frontends.caffe2.graph import Resolver
from rnncc.frontends.caffe2.operator import ANY, Emitter, Operator
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.dims import Dim
from rnncc.nn.axes import row
from rnncc.nn.cells import CellWeights, Lstm
from rnncc.nn.layer import Direction, laid_out, run_layers, stack_states, time_first


class InferenceLSTM(Operator):
    """Y, H, C = a stack of LSTM layers in PyTorch's layout: w_ih, w_hh [, b_ih, b_hh] for each
    layer and direction, gates i, f, g, o.

    Refused: elements other than float32; D and H of symbolic size.
    """

    inputs = (5, ANY)
    outputs = (3, 3)

    def setup(self, maker: Resolver) -> None:
        self.layers = self.args.int("num_layers", 1)
        self.directions = 1 + self.args.flag("bidirectional")
        self.each = 2 + 2 * self.args.flag("has_biases", default=True)
        self.batch_first = self.args.flag("batch_first")
        count = 3 + self.layers * self.directions * self.each
        if self.layers < 1 or len(self.xs) != count:
            raise self.error(f"has {len(self.xs)} inputs, expected {count}: x, h, c and parameters")

    def _weights(self, layer: int, direction: int) -> list[Blob]:
        start = 3 + (layer * self.directions + direction) * self.each
        return self.xs[start : start + self.each]

    def infer(self, s: Shapes) -> None:
        x, h, c = self.xs[:3]
        for blob in (x, h):
            if s.dims(blob) is None:
                s.expect(blob, [s.fresh() for _ in range(3)])
        s.expect_dtypes("f32", *self.xs)
        t, n, d = self._sizes(s)
        if len(s.known(h)) != 3:
            raise self.error(f"a state of shape {s.text(s.known(h))}, expected 3 axes")
        hidden = s.known(h)[-1]
        s.expect(x, (n, t, d) if self.batch_first else (t, n, d))
        states = (self.layers * self.directions, n, hidden)
        for blob in (h, c, *self.ys[1:]):
            s.expect(blob, states, "f32")
        wide = hidden * self.directions
        s.expect(self.ys[0], (n, t, wide) if self.batch_first else (t, n, wide), "f32")
        for layer in range(self.layers):
            for direction in range(self.directions):
                w, u, *biases = self._weights(layer, direction)
                s.expect(w, (hidden * 4, wide if layer else d))
                s.expect(u, (hidden * 4, hidden))
                for bias in biases:
                    s.expect(bias, (hidden * 4,))

    def _sizes(self, s: Shapes) -> tuple[Dim, Dim, Dim]:
        dims = s.known(self.xs[0])
        if len(dims) != 3:
            raise self.error(f"data of shape {s.text(dims)}, expected 3 axes")
        t, n, d = dims
        return (n, t, d) if self.batch_first else (t, n, d)

    def extent(self, s: Shapes) -> tuple[Dim | None, Dim | None]:
        return self._sizes(s)[:2]

    def fixed(self, s: Shapes) -> Iterable[Dim]:
        return [self._sizes(s)[2], s.known(self.xs[1])[-1]]

    def build(self, e: Emitter) -> None:
        layout = "NTC" if self.batch_first else "TNC"
        x = time_first(e.b, e[self.xs[0]], layout)
        y, finals = run_layers(e.b, x, (self._layer(e, number) for number in range(self.layers)))
        e[self.ys[0]] = laid_out(e.b, y, layout)
        for blob, states in zip(self.ys[1:], stack_states(e.b, finals), strict=True):
            e[blob] = states

    def _layer(self, e: Emitter, number: int) -> Iterator[Direction]:
        for way in range(self.directions):
            w, u, *biases = (e[blob] for blob in self._weights(number, way))
            starts = [row(e.b, e[x], number * self.directions + way) for x in self.xs[1:3]]
            yield Direction(Lstm(CellWeights(w, u, biases)), starts, reverse=way == 1)


OPERATORS: dict[str, type[Operator]] = {"InferenceLSTM": InferenceLSTM}
