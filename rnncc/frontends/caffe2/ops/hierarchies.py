"""Cross entropies of words that are the leaves of a tree, with a softmax at each inner node."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from google.protobuf.message import DecodeError
from xdsl.ir import SSAValue

from rnncc.frontends.caffe2.gradient import PlainGradient
from rnncc.frontends.caffe2.graph import Resolver
from rnncc.frontends.caffe2.operator import Emitter, Operator
from rnncc.frontends.caffe2.ops.entropies import log_of
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim, product
from rnncc.ir.types import dims_of
from rnncc.netdef.netdef_pb2 import HierarchyProto
from rnncc.nn.indexing import gather_elements
from rnncc.nn.linear import matmul
from rnncc.nn.normalisation import softmax

MOST_NODES = 1 << 24
"""Of the table with a row for each word, as long as the longest path."""


class HSoftmax(Operator):
    """Y0[n] = the sum along the path of word X3[n] in the tree `hierarchy` of -log p, p being the
    probability of the path's next node: softmax of X0[n] X1[rows]ᵀ + X2[rows], rows being the
    node's, and 1e-20 at least; a call with a label that is no word fails.

    Refused: reading Y1; words that are not 0, 1, 2 and so on, once each; labels other than int32;
    elements other than float32.
    """

    inputs = (4, 4)
    outputs = (2, 2)

    def setup(self, maker: Resolver) -> None:
        self.starts, self.sizes, self.targets = self._tables()
        self.ys[1].opaque = True
        self.ys[1].lacks = "holds what its gradient alone reads"

    def _tables(self) -> tuple[np.ndarray, ...]:
        """Of each word the nodes on its path: their first rows, numbers of rows, and next nodes.

        Shorter paths are filled up with nodes of one row, whose softmax is 1.
        """
        try:
            tree = HierarchyProto.FromString(self.args.content("hierarchy"))
        except DecodeError as error:
            raise self.error("argument 'hierarchy' holds no HierarchyProto") from error
        paths = sorted(tree.paths, key=lambda path: path.word_id)
        if not paths or any(path.word_id != i for i, path in enumerate(paths)):
            raise self.error("argument 'hierarchy' has not the words 0, 1, 2 and so on, once each")
        most = max(len(path.path_nodes) for path in paths)
        if not all(path.path_nodes for path in paths) or len(paths) * most > MOST_NODES:
            raise self.error(f"argument 'hierarchy' has paths of no nodes, or of {most}")
        table = np.zeros((3, len(paths), most), np.int64)
        for word, path in enumerate(paths):
            nodes = [(node.index, node.length, node.target) for node in path.path_nodes]
            for index, length, target in nodes:
                if index < 0 or not 0 <= target < length:
                    what = f"node {index} of {length} rows and target {target}"
                    raise self.error(f"argument 'hierarchy' has for word {word} a {what}")
            nodes += [(nodes[0][0], 1, 0)] * (most - len(nodes))
            table[:, word] = np.transpose(nodes)
        if (table[0] + table[1]).max() >= 1 << 31:
            raise self.error("argument 'hierarchy' has rows beyond those of any matrix")
        return tuple(table.astype(np.int32))

    def infer(self, s: Shapes) -> None:
        x, w, bias, labels = self.xs
        s.expect_dtypes("f32", x, w, bias, self.ys[0])
        s.expect_dtype(labels, "i32")
        dims = s.dims(x)
        if dims is None:
            s.expect(x, (s.fresh(), s.fresh()))
            dims = s.known(x)
        if len(dims) != 2:
            raise self.error(f"data of shape {s.text(dims)}, expected two axes")
        s.expect(labels, dims[:1])
        s.expect(self.ys[0], dims[:1])
        if s.dims(w) is None:
            s.expect(w, (s.fresh(), dims[1]))
        rows = s.known(w)[0] if s.known(w) else s.fresh()
        s.expect(w, (rows, dims[1]))
        s.expect(bias, (rows,))

    def fixed(self, s: Shapes) -> Iterable[Dim]:
        return s.known(self.xs[1])[:1]

    def build(self, e: Emitter) -> None:
        b, (x, w, bias, labels) = e.b, (e[blob] for blob in self.xs)
        needed, rows = int((self.starts + self.sizes).max()), int(dims_of(w)[0])
        if needed > rows:
            raise self.error(f"argument 'hierarchy' has {needed} rows, the matrix {rows}")
        e[self.ys[0]] = self._loss(b, x, w, bias, labels)

    def _loss(
        self, b: Builder, x: SSAValue, w: SSAValue, bias: SSAValue, labels: SSAValue
    ) -> SSAValue:
        (count, width), most = dims_of(x), int(self.sizes.max())
        tables = (self.starts, self.sizes, self.targets)
        start, size, target = (b.gather(b.constant(table), labels, 0) for table in tables)
        lanes = (count, self.starts.shape[1], most)
        wide = [b.broadcast(part, lanes, [0, 1]) for part in (start, size)]
        lane = b.iota(lanes, 2, "i32")
        is_row = b.compare("lt", lane, wide[1])
        row = b.add(wide[0], b.select(is_row, lane, b.full_like(lane, 0)))  # reads no other node's
        weights = b.reshape(b.gather(w, row, 0), (count, product(lanes[1:]), width))
        scores = matmul(b, weights, b.reshape(x, (count, width, 1)))
        scores = b.add(b.reshape(scores, lanes), b.gather(bias, row, 0))
        shares = softmax(b, b.select(is_row, scores, b.full_like(scores, -np.inf)), 2)
        picked = gather_elements(b, shares, b.reshape(target, (*lanes[:2], 1)), 2)
        return b.neg(b.reduce("sum", log_of(b, b.reshape(picked, lanes[:2])), [1]))


class HSoftmaxGradient(PlainGradient):
    """The gradient of HSoftmax: dx0 dx1 dx2 from x0 x1 x2 x3 y1 dy0.

    Refused: reading the fourth output, which is Caffe2's own; a net in which no earlier operator of
    that type has these blobs in the same versions; arguments other than that operator's.
    """

    outputs = (1, 4)
    kind = "HSoftmax"
    read = "x0 x1 x2 x3 y1 dy0"
    written = "dx0 dx1 dx2"
    settings = None

    def setup(self, maker: Resolver) -> None:
        for scratch in self.ys[3:]:
            scratch.opaque = True
            scratch.lacks = "holds what nobody reads"
        del self.ys[3:]


OPERATORS: dict[str, type[Operator]] = {"HSoftmax": HSoftmax}
GRADIENTS: dict[str, type[Operator]] = {"HSoftmaxGradient": HSoftmaxGradient}
