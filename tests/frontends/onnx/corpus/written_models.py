"""Models written by hand, node by node, as people do who have no exporter: `written_models.py DIR`.

Searches and decoders as loops over lists, paths traced back, functions of functions, a Scan of
opset 8, rows that a threshold chooses cut into parts and put in order.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, parser

GRU = {"W": (1, 24, 6), "R": (1, 24, 8), "B": (1, 48)}
BOTH_WAYS = {"W": (2, 32, 6), "R": (2, 32, 8), "B": (2, 64)}
CELL = {"U": (6, 8), "V": (8, 8)}
NUMBERS: dict[str, Any] = {
    **{"izero": 0, "ione": 1, "itwo": 2, "three": 3, "ax0": [0], "one": [1], "two": [2]},
    **{"minus1": [-1], "rows": [-1, 8], "eight": [8], "bos": [0], "tokens0": [0, 0, 0]},
    **{"none": [-1], "ends": [[-1], [0], [-1]], "as_wide": [3, 8]},
    **{"joined": [0, 0, -1]},
}
"""Integers that models read by these names."""
FLOATS = {"scores0": [0, -1e9, -1e9]}
"""Floats that they read."""


@dataclass
class Written:
    """A model's text.

    Attributes:
        weights: initialiser -> its shape.
        functions: of the model, in the domain `local`.
        told: what stands beside it, as of `comparing.compare`.
    """

    text: str
    weights: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    functions: str = ""
    opset: int = 17
    told: Mapping[str, Any] = field(default_factory=dict[str, Any])


ONE_ROW = {"draws": [[1, 6], [1, 17]]}
CHOSEN = """
  yy, hh = GRU<hidden_size=8>(x, W, R, B)
  y0 = Squeeze(yy, one)
  y = Squeeze(y0, one)
  s = MatMul(y, P)
  m0 = Squeeze(s, one)
  zf = Constant<value_float=0.0>()
  m = Greater(m0, zf)
  kept = Compress<axis=0>(y, m)
"""
"""Rows y of a GRU, and those of them that a layer chooses."""
MODELS = {
    "collapsed_path": Written(
        """g (float[T,6] x) => (int64[L] tokens) {
  xt = Unsqueeze(x, one)
  yy, h = GRU<hidden_size=8>(xt, W, R, B)
  y = Squeeze(yy, one)
  y2 = Squeeze(y, one)
  logits = MatMul(y2, P)
  best = ArgMax<axis=-1, keepdims=0>(logits)
  n0 = Shape<start=0,end=1>(best)
  n = Squeeze(n0)
  s0 = SequenceConstruct(none)
  prev0 = Constant<value_int=0>()
  true = Constant<value=bool {1}>()
  p, s = Loop(n, true, prev0, s0) <body = b (int64 i, bool c, int64 prev, seq(int64[K]) sq) =>
      (bool c2, int64 cur, seq(int64[K]) sq2) {
     cur = Gather<axis=0>(best, i)
     same = Equal(cur, prev)
     zero = Constant<value_int=0>()
     blank = Equal(cur, zero)
     skip = Or(same, blank)
     sq2 = If(skip) <then_branch = t () => (seq(int64[K]) a) { a = Identity(sq) },
         else_branch = e () => (seq(int64[K]) d) {
       u = Unsqueeze(cur, ax0)
       d = SequenceInsert(sq, u)
     }>
     c2 = Identity(c)
  }>
  tokens = ConcatFromSequence<axis=0>(s)
}
""",
        GRU | {"P": (8, 5)},
        told=ONE_ROW,
    ),
    "beam_search": Written(
        """g (float[T,6] x) => (int64[3,L] paths, float[3] scores) {
  xt = Unsqueeze(x, one)
  y, h0 = GRU<hidden_size=8>(xt, W, R, B)
  h1 = Squeeze(h0, ax0)
  shp = Constant<value_ints=[3,8]>()
  hb = Expand(h1, shp)
  n0 = Shape<start=0,end=1>(x)
  n = Squeeze(n0)
  true = Constant<value=bool {1}>()
  hF, sF, tF, toks, backs = Loop(n, true, hb, scores0, tokens0) <body = b (int64 i, bool c,
      float[3,8] h, float[3] s, int64[3] tk) => (bool c2, float[3,8] hn, float[3] sn, int64[3] tn,
      int64[3] to, int64[3] bo) {
    e = Gather(E, tk)
    cat = Concat<axis=1>(e, h)
    a = MatMul(cat, Wn)
    hh = Tanh(a)
    lo = MatMul(hh, Wo)
    lp = LogSoftmax<axis=-1>(lo)
    su = Unsqueeze(s, one)
    tot = Add(lp, su)
    flat = Reshape(tot, minus1)
    k = Constant<value_ints=[3]>()
    sn, ix = TopK(flat, k)
    v = Constant<value_int=11>()
    bo = Div(ix, v)
    tn = Mod(ix, v)
    to = Identity(tn)
    hn = Gather(hh, bo)
    c2 = Identity(c)
  }>
  last = Constant<value_int=1>()
  nm = Sub(n, last)
  beam0 = Constant<value_ints=[0,1,2]>()
  bF, rev = Loop(n, true, beam0) <body = b2 (int64 j, bool cc, int64[3] beam) => (bool c3,
      int64[3] bn, int64[3] out) {
    t = Sub(nm, j)
    row = Gather<axis=0>(toks, t)
    out = Gather(row, beam)
    brow = Gather<axis=0>(backs, t)
    bn = Gather(brow, beam)
    c3 = Identity(cc)
  }>
  st = Constant<value_ints=[-1]>()
  en = Constant<value_ints=[-9223372036854775807]>()
  rr = Slice(rev, st, en, ax0, st)
  paths = Transpose<perm=[1,0]>(rr)
  scores = Identity(sF)
}
""",
        GRU | {"E": (11, 5), "Wn": (13, 8), "Wo": (8, 11)},
        told=ONE_ROW,
    ),
    "viterbi": Written(
        """g (float[T,N,6] x) => (int64[N,L] path, float[N] score) {
  y4, h0, c0 = LSTM<hidden_size=8, direction="bidirectional">(x, W, R, B)
  yt = Transpose<perm=[0,2,1,3]>(y4)
  y = Reshape(yt, joined)
  em = MatMul(y, P)
  st0 = Constant<value_ints=[0]>()
  st1 = Constant<value_ints=[1]>()
  en = Constant<value_ints=[9223372036854775807]>()
  first = Gather<axis=0>(em, izero)
  init = Add(first, first_scores)
  rest = Slice(em, st1, en, st0)
  alpha, bps = Scan<num_scan_inputs=1, body = b (float[N,5] a, float[N,5] e) => (float[N,5]
      an, int64[N,5] bp) {
    au = Unsqueeze(a, two)
    sc = Add(au, trans)
    m = ReduceMax<axes=[1],keepdims=0>(sc)
    bp = ArgMax<axis=1,keepdims=0>(sc)
    an = Add(m, e)
  }>(init, rest)
  fin = Add(alpha, last_scores)
  score = ReduceMax<axes=[1],keepdims=0>(fin)
  lastt = ArgMax<axis=1,keepdims=1>(fin)
  lf, steps = Scan<num_scan_inputs=1, scan_input_directions=[1], scan_output_directions=[1],
      body = b2 (int64[N,1] tag, int64[N,5] bp) => (int64[N,1] tn, int64[N,1] out) {
    tn = GatherElements<axis=1>(bp, tag)
    out = Identity(tn)
  }>(lastt, bps)
  lu = Unsqueeze(lastt, st0)
  all = Concat<axis=0>(steps, lu)
  sq = Squeeze(all, two)
  path = Transpose<perm=[1,0]>(sq)
}
""",
        BOTH_WAYS | {"P": (16, 5), "first_scores": (5,), "last_scores": (5,), "trans": (5, 5)},
    ),
    "transducer": Written(
        """g (float[T,6] x) => (int64[L] tokens) {
  xt = Unsqueeze(x, one)
  y, h0 = GRU<hidden_size=8>(xt, W, R, B)
  enc = Reshape(y, rows)
  n0 = Shape<start=0,end=1>(x)
  n = Squeeze(n0)
  true = Constant<value=bool {1}>()
  s0 = SequenceConstruct(bos)
  hp0 = ConstantOfShape<value=float[1] {0}>(eight)
  zero = Constant<value_int=0>()
  hF, tF, s = Loop(n, true, hp0, zero, s0) <body = b (int64 i, bool c, float[8] h, int64 tk,
      seq(int64[1]) sq) => (bool c2, float[8] hn, int64 tn, seq(int64[1]) sn) {
    f = Gather<axis=0>(enc, i)
    hn, tn, gF, sn = Loop(three, true, h, tk, true, sq) <body = b2 (int64 j, bool cc, float[8]
        h1, int64 t1, bool go, seq(int64[1]) q1) => (bool cn, float[8] h2, int64 t2, bool go2,
        seq(int64[1]) q2) {
      e = Gather<axis=0>(E, t1)
      pe = MatMul(e, Wp)
      ph = MatMul(h1, Wh)
      pa = Add(pe, ph)
      pn = Tanh(pa)
      j1 = Add(pn, f)
      j2 = Tanh(j1)
      lo = MatMul(j2, Wo)
      best = ArgMax<axis=0,keepdims=0>(lo)
      z = Constant<value_int=0>()
      notblank = Greater(best, z)
      h2 = Where(notblank, pn, h1)
      t2 = Where(notblank, best, t1)
      go2 = Identity(notblank)
      cn = Identity(notblank)
      q2 = If(notblank) <then_branch = t () => (seq(int64[1]) a) { ax =
          Constant<value_ints=[0]>() u = Unsqueeze(best, ax) a = SequenceInsert(q1, u) },
          else_branch = el () => (seq(int64[1]) d) { d = Identity(q1) }>
    }>
    c2 = Identity(c)
  }>
  tokens = ConcatFromSequence<axis=0>(s)
}
""",
        GRU | {"E": (7, 4), "Wp": (4, 8), "Wh": (8, 8), "Wo": (8, 7)},
        told=ONE_ROW,
    ),
    "lists": Written(
        """g (float[N,T,6] x) => (float[A,N,8] y, int64 n, float[N,8] z, float[N,B2] w,
    float[N,T9,3] u) {
  t = Transpose<perm=[1,0,2]>(x)
  yy, hh = GRU<hidden_size=8>(t, W, R, B)
  s = Squeeze(yy, one)
  parts = SplitToSequence<axis=0, keepdims=0>(s)
  n = SequenceLength(parts)
  l = Constant<value_int=-1>()
  z = SequenceAt(parts, l)
  more = SequenceInsert(parts, z, izero)
  less = SequenceErase(more, l)
  y = ConcatFromSequence<axis=0, new_axis=1>(less)
  feats = SplitToSequence<axis=2>(x, three)
  f0 = SequenceAt(feats, izero)
  f1 = SequenceAt(feats, l)
  u = Sub(f0, f1)
  m0 = ReduceMax<axes=[2],keepdims=0>(f0)
  m1 = ReduceMin<axes=[2],keepdims=0>(f1)
  q = SequenceConstruct(m0, m1)
  w = ConcatFromSequence<axis=1>(q)
}
""",
        GRU,
    ),
    "mapped_list": Written(
        """g (float[N,T,6] x) => (float[N,T2,8] y) {
  parts = SplitToSequence<axis=1>(x)
  mapped = SequenceMap<body = b (float[N,1,6] p) => (float[N,1,8] q) { m = MatMul(p, U) q =
      Tanh(m) }>(parts)
  c = ConcatFromSequence<axis=1>(mapped)
  t = Transpose<perm=[1,0,2]>(c)
  yy, hh = GRU<hidden_size=8>(t, W, R, B)
  s = Squeeze(yy, one)
  y = Transpose<perm=[1,0,2]>(s)
}
""",
        GRU | {"W": (1, 24, 8), "U": (6, 8)},
    ),
    "nested_functions": Written(
        """g (float[T,N,6] x) => (float[T2,N,8] y, float[N,8] z) {
  sh = Shape<start=1,end=2>(x)
  e = Constant<value_ints=[8]>()
  s2 = Concat<axis=0>(sh, e)
  h0 = ConstantOfShape(s2)
  hf, y = Scan<num_scan_inputs=1, body = b (float[N,8] hh, float[N,6] a) => (float[N,8] hn,
      float[N,8] yo) {
    hn = local.Cell<slope=0.3>(a, hh, U, V)
    yo = local.Act<alpha=0.1>(hn)
  }>(h0, x)
  z = local.Act(hf)
}
""",
        CELL,
        functions="""
<domain: "local", opset_import: ["" : 17, "local" : 1]>
Cell <slope> (a, h, u, v) => (hn) {
  p = MatMul(a, u)
  q = MatMul(h, v)
  s = Add(p, q)
  l = local.Act<alpha: float = @slope>(s)
  t = Tanh(l)
  half = Constant<value_float=0.5>()
  k = Mul(h, half)
  m = Mul(t, half)
  hn = Add(k, m)
}
<domain: "local", opset_import: ["" : 17]>
Act <alpha: float = 0.2> (x) => (y) {
  y = LeakyRelu<alpha: float = @alpha>(x)
}
""",
    ),
    "chosen_in_order": Written(
        """g (float[T,1,6] x) => (float[K,8] a, float[K2,8] b) {
"""
        + CHOSEN
        + """k0 = Slice(kept, ax0, one, one)
  sc = Squeeze(k0, one)
  n = Shape(sc)
  v, i = TopK<axis=0>(sc, n)
  iu = Unsqueeze(i, one)
  shp = Shape(kept)
  ie = Expand(iu, shp)
  a = GatherElements<axis=0>(kept, ie)
  ii = Expand(ends, as_wide)
  b = GatherElements<axis=0>(kept, ii)
}
""",
        GRU | {"P": (8, 1)},
    ),
    "chosen_parts": Written(
        """g (float[T,1,6] x) => (float[K,8] a, float[K2,8] b, float[2,8] c) {
"""
        + CHOSEN
        + """n = Shape<start=0,end=1>(kept)
  both = Concat<axis=0>(kept, kept, two8)
  t = Tanh(both)
  sz = Concat<axis=0>(n, n, two)
  a, b, c = Split<axis=0>(t, sz)
}
""",
        GRU | {"P": (8, 1), "two8": (2, 8)},
    ),
}


def weight(name: str, shape: tuple[int, ...]) -> Any:
    """An initialiser: the same for a name in each model."""
    rng = np.random.default_rng(sum(name.encode()))
    return numpy_helper.from_array(np.asarray(rng.standard_normal(shape), np.float32) / 2, name)


def parsed(written: Written) -> Any:
    """The model of a text, with the initialisers that it reads."""
    opsets = f'["" : {written.opset}, "local" : 1]'
    header = f"<ir_version: 8, opset_import: {opsets}>\n"
    model = parser.parse_model(header + written.text + written.functions)
    held = [weight(name, shape) for name, shape in written.weights.items()]
    held += [numpy_helper.from_array(np.array(v, np.int64), k) for k, v in NUMBERS.items()]
    held += [numpy_helper.from_array(np.array(v, np.float32), k) for k, v in FLOATS.items()]
    model.graph.initializer.extend(held)
    return model


def scan_of_opset_8() -> Any:
    """Sequences of lengths, the batch in front."""
    text = """b (float[8] h, float[6] x) => (float[8] next, float[8] y) {
      a = MatMul(x, U)
      r = MatMul(h, V)
      s = Add(a, r)
      next = Tanh(s)
      y = Identity(next)
    }"""
    scan = helper.make_node(
        "Scan",
        ["lengths", "h", "x"],
        ["last", "y"],
        body=parser.parse_graph(text),
        num_scan_inputs=1,
    )
    info = helper.make_tensor_value_info
    inputs = [info("lengths", 7, ["N"]), info("h", 1, ["N", 8]), info("x", 1, ["N", "T", 6])]
    outputs = [info("last", 1, ["N", 8]), info("y", 1, ["N", "T", 8])]
    held = [weight(name, shape) for name, shape in CELL.items()]
    graph = helper.make_graph([scan], "scan", inputs, outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=4)


def save(models: Mapping[str, Written], prefix: str, folder: Path) -> None:
    """Models, and what is told beside them."""
    for name, written in models.items():
        onnx.save(parsed(written), folder / f"{prefix}_{name}.onnx")
        (folder / f"{prefix}_{name}.json").write_text(json.dumps(dict(written.told)))


def main() -> None:
    """All of them."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    save(MODELS, "written", folder)
    onnx.save(scan_of_opset_8(), folder / "written_scan_8.onnx")
    beside = {"integers": {"lengths": [1, 6]}}
    (folder / "written_scan_8.json").write_text(json.dumps(beside))


if __name__ == "__main__":
    main()
