"""Loops as converters and people write them, in the forms that meet seldom: `idiom_models.py DIR`.

Keras' loop under a mask, loops that end early, loops, branches and scans in each other, lists as
queues, keys that grow, windows and places that move, rings, flags as states, branches that differ
in rank, functions with attributes, sums of hashes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.frontends.onnx.corpus.written_models import Written, save

CELL = {"W": (3, 4), "R": (4, 4)}
FEW = {"max_iterations": 12}
COUNT = """
  sh = Shape(x)
  n = Gather(sh, izero)
  go = Constant<value=bool {1}>()
  x0 = Gather(x, izero)
"""
"""The number of rows of x, and its first row."""
FUNCTIONS = """
<domain: "local", opset_import: ["" : 18]>
scaled <k>(x, b) => (y) {
  factor = Constant<value_float: float = @k>()
  m = Mul(x, factor)
  y = Add(m, b)
}
<domain: "local", opset_import: ["" : 18, "local" : 1]>
step <k>(h, x) => (next) {
  s = local.scaled<k: float = @k>(h, x)
  next = Tanh(s)
}
<domain: "local", opset_import: ["" : 18, "local" : 1]>
run <k>(h, xs) => (last, ys) {
  last, ys = Scan<num_scan_inputs=1, body = b (a, v) => (next, o) {
    next = local.step<k: float = @k>(a, v)
    o = Softmax<axis=0>(next)
  }>(h, xs)
}
"""
MODELS = {
    "masked": Written(
        """g (float[N,T,3] x) => (float[N,T,4] y, float[N,4] last) {
  sh = Shape(x)
  n = Gather(sh, izero)
  t = Gather(sh, ione)
  xt = Transpose<perm=[1,0,2]>(x)
  zero = Constant<value=float {0.0}>()
  above = Greater(x, zero)
  counts = Cast<to=6>(above)
  some = ReduceMax<axes=[2], keepdims=0>(counts)
  known = Cast<to=9>(some)
  masks = Transpose<perm=[1,0]>(known)
  four = Constant<value=int64[1] {4}>()
  n1 = Unsqueeze(n, ax0)
  shape = Concat<axis=0>(n1, four)
  h0 = ConstantOfShape(shape)
  go = Constant<value=bool {1}>()
  last, o, ys = Loop(t, go, h0, h0) <body = b (int64 i, bool c, float[N,4] h, float[N,4] o) =>
      (bool c2, float[N,4] h2, float[N,4] o2, float[N,4] row) {
    xi = Gather(xt, i)
    m1 = Gather(masks, i)
    m = Unsqueeze(m1, one)
    a = MatMul(xi, W)
    r = MatMul(h, R)
    s = Add(a, r)
    new = Tanh(s)
    h2 = Where(m, new, h)
    o2 = Where(m, new, o)
    row = Identity(o2)
    c2 = Identity(c)
  }>
  y = Transpose<perm=[1,0,2]>(ys)
}
""",
        CELL,
    ),
    "early_exit": Written(
        """g (float[D] x, int64 n) => (float[D] y, float[K,D] ys, int64 steps) {
  go = Constant<value=bool {1}>()
  y, steps, ys = Loop(n, go, x, izero) <body = b (int64 i, bool c, float[D] v, int64 k) =>
      (bool c2, float[D] v2, int64 k2, float[D] row) {
    half = Constant<value=float {0.5}>()
    v2 = Mul(v, half)
    a = Abs(v2)
    m = ReduceMax<keepdims=0>(a)
    least = Constant<value=float {0.1}>()
    c2 = Greater(m, least)
    row = Identity(v2)
    k2 = Add(k, ione)
  }>
}
""",
        told=FEW | {"integers": {"n": [0, 9]}},
    ),
    "in_each_other": Written(
        """g (float[T,D] x, int64 n) => (float[D] y, float[K,D] ys) {
  go = Constant<value=bool {1}>()
  h0 = ReduceSum<keepdims=0>(x, ax0)
  y, ys = Loop(n, go, h0) <body = b (int64 i, bool c, float[D] v) =>
      (bool c2, float[D] v2, float[D] row) {
    even = Mod(i, itwo)
    is_even = Equal(even, izero)
    v2 = If(is_even) <then_branch = t () => (float[D] a) {
        q, qs = Scan<num_scan_inputs=1, body = s (float[D] u, float[D] xi) =>
            (float[D] u2, float[D] o) {
          sum = Add(u, xi)
          u2 = Tanh(sum)
          o = Mul(u2, u2)
        }>(v, x)
        mean = ReduceMean<axes=[0], keepdims=0>(qs)
        a = Add(q, mean)
      }, else_branch = e () => (float[D] d) {
        j, js = Loop(i, c, v) <body = f (int64 k, bool c3, float[D] u) =>
            (bool c4, float[D] u2, float[D] o) {
          number = Cast<to=1>(k)
          sum = Add(u, number)
          u2 = Sin(sum)
          c4 = Identity(c3)
          o = Identity(u2)
        }>
        total = ReduceSum<keepdims=0>(js, ax0)
        d = Sub(j, total)
      }>
    row = Neg(v2)
    c2 = Identity(c)
  }>
}
""",
        told=FEW | {"integers": {"n": [0, 9]}},
    ),
    "queue": Written(
        f"""g (float[T,D] x) => (float[2,D] y) {{
{COUNT}
  zeros = Sub(x0, x0)
  q0 = SequenceConstruct(zeros, zeros)
  q = Loop(n, go, q0) <body = b (int64 i, bool c, seq(float[D]) s) =>
      (bool c2, seq(float[D]) s2) {{
    xi = Gather(x, i)
    oldest = SequenceAt(s, izero)
    newest = SequenceAt(s, ione)
    a = Add(oldest, xi)
    d = Sub(a, newest)
    new = Tanh(d)
    rest = SequenceErase(s, izero)
    s2 = SequenceInsert(rest, new)
    c2 = Identity(c)
  }}>
  y = ConcatFromSequence<axis=0, new_axis=1>(q)
}}
"""
    ),
    "growing_keys": Written(
        f"""g (float[T,D] x) => (float[D] y, float[S,D] keys) {{
{COUNT}
  k0 = Unsqueeze(x0, ax0)
  y, keys = Loop(n, go, x0, k0) <body = b (int64 i, bool c, float[D] h, float[M,D] k) =>
      (bool c2, float[D] h2, float[L,D] k2) {{
    xi = Gather(x, i)
    row = Unsqueeze(xi, ax0)
    k2 = Concat<axis=0>(k, row)
    column = Unsqueeze(h, one)
    scores = MatMul(k2, column)
    p = Softmax<axis=0>(scores)
    weights = Transpose(p)
    mix = MatMul(weights, k2)
    flat = Squeeze(mix, ax0)
    h2 = Tanh(flat)
    c2 = Identity(c)
  }}>
}}
"""
    ),
    "moving_places": Written(
        f"""g (float[T,D] x) => (float[K,D] y, float[K,D] z) {{
{COUNT}
  zeros = Sub(x0, x0)
  fewer = Sub(n, itwo)
  h, y, z = Loop(fewer, go, zeros) <body = b (int64 i, bool c, float[D] h) =>
      (bool c2, float[D] h2, float[D] o, float[D] p) {{
    end = Add(i, three)
    i1 = Unsqueeze(i, ax0)
    end1 = Unsqueeze(end, ax0)
    window = Slice(x, i1, end1)
    m = ReduceMean<axes=[0], keepdims=0>(window)
    minus = Constant<value=int64 {{-1}}>()
    j = Sub(minus, i)
    from_end = Gather(x, j)
    h2 = Add(h, m)
    square = Mul(i, i)
    place = Mod(square, n)
    other = Gather(x, place)
    o = Tanh(h2)
    d = Sub(other, h)
    p = Add(d, from_end)
    c2 = Identity(c)
  }}>
}}
"""
    ),
    "ring": Written(
        f"""g (float[T,D] x) => (float[T,D] y) {{
{COUNT}
  r0 = Sub(x, x)
  y = Loop(n, go, r0) <body = b (int64 i, bool c, float[T,D] r) => (bool c2, float[T,D] r2) {{
    next = Add(i, ione)
    k = Mod(next, n)
    xi = Gather(x, i)
    old = Gather(r, k)
    s = Add(xi, old)
    new = Tanh(s)
    k1 = Unsqueeze(k, ax0)
    place = Unsqueeze(k1, ax0)
    row = Unsqueeze(new, ax0)
    r2 = ScatterND(r, place, row)
    c2 = Identity(c)
  }}>
}}
"""
    ),
    "flags": Written(
        f"""g (float[T,N] x) => (bool[N] found, int64[N] waited, bool[K,N] changes) {{
{COUNT}
  f0 = Greater(x0, x0)
  k0 = Cast<to=7>(f0)
  found, waited, changes = Loop(n, go, f0, k0) <body = b (int64 i, bool c, bool[N] f, int64[N] k) =>
      (bool c2, bool[N] f2, int64[N] k2, bool[N] o) {{
    xi = Gather(x, i)
    most = Constant<value=float {{1.0}}>()
    above = Greater(xi, most)
    f2 = Or(f, above)
    waits = Not(f2)
    more = Cast<to=7>(waits)
    k2 = Add(k, more)
    o = Xor(f, above)
    number = Cast<to=6>(f2)
    least = ReduceMin<keepdims=0>(number)
    all = Cast<to=9>(least)
    c2 = Not(all)
  }}>
}}
""",
        told={"sizes": [{"T": 9, "N": 2}]},
    ),
    "squeezed_or_not": Written(
        """g (float[N,1,T] x, int64 k) => (float[N,K] y, float[N,M] z) {
  c = Greater(k, itwo)
  s = If(c) <then_branch = t () => (float[N,T] a) { a = Squeeze(x, one) },
      else_branch = e () => (float[N,1,T] b) { b = Identity(x) }>
  total = ReduceSum<keepdims=0>(s)
  scaled = Mul(s, total)
  r = Tanh(scaled)
  flat = Constant<value=int64[2] {0, -1}>()
  y = Reshape(r, flat)
  z = Relu(y)
}
""",
        told={"integers": {"k": [0, 6]}},
    ),
    "functions": Written(
        """g (float[T,D] x, float[D] h) => (float[D] last, float[T,D] ys) {
  last, ys = local.run<k=0.3>(h, x)
}
""",
        functions=FUNCTIONS,
        opset=18,
    ),
    "hash": Written(
        """g (int64[T,N] x, int64[N] h) => (int64[N] last, int64[T,N] y) {
  last, y = Scan<num_scan_inputs=1, body = b (int64[N] a, int64[N] v) =>
      (int64[N] a2, int64[N] o) {
    factor = Constant<value=int64 {6364136223846793005}>()
    m = Mul(a, factor)
    a2 = Add(m, v)
    prime = Constant<value=int64 {1000003}>()
    o = Mod(a2, prime)
  }>(h, x)
}
""",
        told={"integers": {"x": [-1000, 1000], "h": [1, 9]}},
    ),
}


def main() -> None:
    """All of them."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    save(MODELS, "idiom", folder)


if __name__ == "__main__":
    main()
