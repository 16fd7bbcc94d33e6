"""Kernel programs built by hand, and a short way to write kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects.builtin import IntAttr, ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from rnncc.ir.attributes import dim_attr
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.ops.control import Yield
from rnncc.ir.types import tensor
from rnncc.kern.access import Access, dense
from rnncc.kern.dialect import Buffer, For, Func, Row
from rnncc.kern.kernels import Gemm, Map
from rnncc.kern.packing import PackedGeometry, pack
from rnncc.kern.program import KernelProgram, Port

T, N = Dim.of("T"), Dim.of("N")
Size = Dim | int
Body = Callable[..., Sequence[SSAValue]]


def row_major(dims: Sequence[Size], offset: Size = 0) -> Access:
    return Access(Dim.of(offset), dense([Dim.of(d) for d in dims]))


def strided(*strides: Size, offset: Size = 0) -> Access:
    return Access(Dim.of(offset), tuple(Dim.of(s) for s in strides))


class Kern:
    """Appends to a function or to a loop's body."""

    def __init__(self, block: Block | None = None) -> None:
        self.block = block or Block()

    def add(self, op: Operation) -> Operation:
        self.block.add_op(op)
        return op

    def buffer(
        self,
        label: str,
        role: str,
        size: Size,
        dtype: str = "f32",
        ring: int | None = None,
        fallback_size: Size | None = None,
    ) -> SSAValue:
        op = Buffer(label, role, dtype, Dim.of(size))
        op.ring = None if ring is None else IntAttr(ring)
        op.fallback = None if fallback_size is None else dim_attr(fallback_size)
        return self.add(op).results[0]

    def row(self, buffer: SSAValue, index: Size, stride: Size) -> SSAValue:
        return self.add(Row(buffer, Dim.of(index), Dim.of(stride))).results[0]

    def map(
        self,
        domain: Sequence[Size],
        ins: Sequence[tuple[SSAValue, Access]],
        outs: Sequence[tuple[SSAValue, Access]],
        body: Body,
    ) -> Operation:
        return self.add(Map([Dim.of(d) for d in domain], ins, outs, region(ins, body)))

    def copy(self, domain: Sequence[Size], source: SSAValue, target: SSAValue) -> Operation:
        access = row_major(domain)
        return self.map(domain, [(source, access)], [(target, access)], lambda b, x: [x])

    def gemm(
        self,
        domain: Sequence[Size],
        a: tuple[SSAValue, Access],
        weights: SSAValue,
        geometry: PackedGeometry,
        ins: Sequence[tuple[SSAValue, Access]],
        outs: Sequence[tuple[SSAValue, Access]],
        body: Body,
    ) -> Operation:
        block = region(ins, body, slots=geometry.slots)
        dims = [Dim.of(d) for d in domain]
        return self.add(Gemm(dims, a, weights, geometry, ins, outs, block))

    def loop(
        self,
        index: str,
        count: Size,
        inits: Sequence[SSAValue],
        body: Callable[..., Sequence[SSAValue]],
        start: Size = 0,
        reverse: bool = False,
        chunk: tuple[str, int, Dim] | None = None,
    ) -> Sequence[SSAValue]:
        """`body` takes a `Kern` and the carried buffers, and gives the next ones."""
        inner = Kern(Block(arg_types=[v.type for v in inits]))
        inner.add(Yield(list(body(inner, *inner.block.args))))
        loop = For(index, Dim.of(start), Dim.of(count), inits, inner.block, reverse, chunk)
        return self.add(loop).results

    def program(
        self,
        inputs: Sequence[Port] = (),
        outputs: Sequence[Port] = (),
        arrays: dict[str, np.ndarray] | None = None,
    ) -> KernelProgram:
        """End the function."""
        self.add(Yield([]))
        module = ModuleOp([Func("main", ["T", "N"], self.block)])
        return KernelProgram(
            module, "main", "by hand", ["T", "N"], list(inputs), list(outputs), [], arrays or {}
        )


def region(
    ins: Sequence[tuple[SSAValue, Access]], body: Body, slots: int = 0, dtype: str = "f32"
) -> Block:
    """A kernel's region: the sums of a product's slots, then a value an input."""
    types = [tensor((), dtype)] * slots
    types += [tensor((), value.type.dtype.data) for value, _ in ins]  # type: ignore[attr-defined]
    block = Block(arg_types=types)
    results = list(body(Builder(block), *block.args))
    block.add_op(Yield(results))
    return block


def port(name: str, *dims: Size, dtype: str = "f32") -> Port:
    return Port(name, tuple(Dim.of(d) for d in dims), dtype)


def lstm(hidden: int, depth: int, panel: int = 4, chunk: int = 8) -> KernelProgram:
    """An LSTM: the input's products in chunks of time, then a step an iteration; gates i, f, o, g.

    hidden_all may be absent: a ring of two rows stands in for it.
    """
    step, k = N * hidden, Kern()
    x = k.buffer("x", "input", T * N * depth)
    h0, c0 = k.buffer("h0", "input", step), k.buffer("c0", "input", step)
    w = k.buffer("w", "param", 4 * hidden * depth)
    u = k.buffer("u", "param", 4 * hidden * hidden)
    hidden_all = k.buffer("hidden_all", "output", T * step, ring=2, fallback_size=step * 2)
    last = k.buffer("hidden_last", "output", step)
    cell = k.buffer("cell", "state", step)
    gates = k.buffer("gates", "scratch", (N + chunk) * 4 * hidden)
    k.copy([N, hidden], c0, cell)

    def run_of_steps(k: Kern, h: SSAValue) -> Sequence[SSAValue]:
        first, extent = Dim.of("t0"), Dim.of("run")
        outs = [
            (gates, strided(step * 4, 4 * hidden, 1, offset=slot * hidden)) for slot in range(4)
        ]
        k.gemm(
            [extent, N, hidden],
            (k.row(x, first, N * depth), row_major([extent, N, depth])),
            w,
            PackedGeometry(depth, 4, panel),
            [],
            outs,
            lambda b, *z: z,
        )
        return k.loop("t", extent, [h], one_step, start=first)

    def one_step(k: Kern, h: SSAValue) -> Sequence[SSAValue]:
        mine = k.row(gates, Dim.of("t") - Dim.of("t0"), step * 4)
        out, access = k.row(hidden_all, Dim.of("t"), step), row_major([N, hidden])
        ins = [(mine, strided(4 * hidden, 1, offset=slot * hidden)) for slot in range(4)]
        ins.append((cell, access))
        k.gemm(
            [N, hidden],
            (h, access),
            u,
            PackedGeometry(hidden, 4, panel),
            ins,
            [(out, access), (cell, access)],
            _lstm_cell,
        )
        return [out]

    (h,) = k.loop("t0", T, [h0], run_of_steps, chunk=("run", chunk, N))
    k.copy([N, hidden], h, last)
    rng = np.random.default_rng(0)
    shapes = {"w": depth, "u": hidden}
    arrays = {
        name: pack(
            list(rng.standard_normal((4, hidden, d)).astype("f4")), PackedGeometry(d, 4, panel)
        )
        for name, d in shapes.items()
    }
    inputs = [port("x", T, N, depth), port("h0", N, hidden), port("c0", N, hidden)]
    outputs = [port("hidden_all", T, N, hidden), port("hidden_last", N, hidden)]
    return k.program(inputs, outputs, arrays)


def _lstm_cell(b: Builder, *values: SSAValue) -> Sequence[SSAValue]:
    """z of i, f, o, g; their input parts; the cell -> h, the next cell."""
    i, f, o, g = (b.add(z, part) for z, part in zip(values[:4], values[4:8], strict=True))
    kept = b.mul(b.sigmoid(f), values[8])
    cell = b.add(kept, b.mul(b.sigmoid(i), b.tanh(g)))
    return [b.mul(b.sigmoid(o), b.tanh(cell)), cell]
