"""The nets of the cases, built in Python, and arrays for them.

All contenders compute with the same parameters, in the letters and layouts of `rnncc.cells`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from rnncc.bench.cases import Case
from rnncc.cells import graves_lstm, gru, lstm, milstm
from rnncc.driver.drawn import lengths, normal
from rnncc.ir.builder import Builder
from rnncc.ir.program import Program
from rnncc.ir.rewriting import Loop, LoopSequence, scans_of
from rnncc.ir.types import dims_of, tensor
from rnncc.nn.axes import cut
from rnncc.nn.normalisation import softmax
from rnncc.nn.steps import lstm_step
from rnncc.sizes import BATCH, TIME

Array = np.ndarray[Any, Any]

BUILDERS: dict[str, Callable[..., Program]] = {
    "lstm": lstm,
    "gru": gru,
    "milstm": milstm,
    "layernorm_lstm": partial(lstm, layer_norm=True),
    "peephole_lstm": partial(graves_lstm, layout="TNC"),
}
"""Of a cell: its inputs and units in, its net out."""


def build(case: Case) -> Program:
    """The program of a case's cell; its biases and gains are none that could be left out."""
    units, rng = case.units, np.random.default_rng(1)
    decodes = case.cell == "attention_lstm"
    program = attention_lstm(units) if decodes else BUILDERS[case.cell](units, units)
    for array in program.arrays.values():
        if array.ndim == 1:
            array[:] = array + rng.normal(0.0, 0.1, array.shape)
    if case.lengths:
        add_lengths(program)
    return program


def add_lengths(program: Program) -> None:
    """Another input, lengths i32 [N]: from step lengths[n] on states stay, and rows of y are 0."""
    net, (scan,) = program.net, scans_of(program.net.body.block)
    batch, loop = dims_of(scan.ys[0])[1], Loop(scan)
    net.name_added(["lengths"])
    lengths = net.body.block.insert_arg(tensor([batch], "i32"), len(net.body.block.args))
    ends, t = loop.add_const(lengths), loop.add_arg(tensor([], "i32"))
    loop.xs.append(LoopSequence(Builder.before(scan).iota([loop.steps], 0), t))
    b = Builder.before(loop.yields)
    inside = b.reshape(b.compare("lt", b.broadcast(t, [batch], []), ends), [batch, 1])
    for carry in loop.carries:
        carry.next = b.select(inside, carry.next, carry.arg)
    for output in loop.ys:
        output.row = b.select(inside, output.row, b.fill(0.0, ()))
    loop.rebuild()


def attention_lstm(units: int) -> Program:
    """A decoder: x [T, N, H] and memory [S, N, H] -> y [T, N, H].

        a   = softmax over s of m_s · h'        one weight a row of the memory
        z   = x_t W + [h', sum_s a_s m_s] RW + b, then as the LSTM

    Parameters: W [H, 4H], RW [2H, 4H], b [4H].
    """
    b = Builder.net("attention_lstm")
    x, memory = b.input("x", [TIME, BATCH, units]), b.input("memory", ["S", BATCH, units])
    rng = np.random.default_rng(0)
    shapes = {"W": [units, 4 * units], "RW": [2 * units, 4 * units]}
    arrays: dict[str, Array] = {
        name: (rng.standard_normal(shape) / (2 * units) ** 0.5).astype(np.float32)
        for name, shape in shapes.items()
    }
    arrays["b"] = np.zeros(4 * units, np.float32)
    w, rw, bias = (b.param(name, array.shape) for name, array in arrays.items())
    batch = dims_of(x)[1]
    start = b.fill(0.0, [batch, units])

    def body(
        inner: Builder, consts: list[SSAValue], carry: list[SSAValue], rows: list[SSAValue]
    ) -> tuple[list[SSAValue], list[SSAValue]]:
        (memory, recurrent), (h, c) = consts, carry
        scores = inner.reduce("sum", inner.mul(memory, h), [2])
        weights = softmax(inner, scores, 0)
        weighted = inner.mul(inner.reshape(weights, (*dims_of(weights), 1)), memory)
        context = inner.reduce("sum", weighted, [0])
        z = inner.add(rows[0], inner.matmul(inner.concat([h, context], 1), recurrent))
        h, c = lstm_step(inner, dict(zip("ifgo", cut(inner, z, 4), strict=True)), c)
        return [h, c], [h]

    projected = b.add(b.matmul(x, w), bias)
    _, (y,) = b.scan([memory, rw], [start, start], [projected], body)
    return b.finish({"y": y}, arrays, "attention_lstm")


def parameters(case: Case) -> dict[str, Array]:
    """The arrays by name; the last columns of the peephole LSTM's RW as FF, OO, GG."""
    arrays = {name: array.copy() for name, array in build(case).arrays.items()}
    if case.cell == "peephole_lstm":
        whole, width = arrays["RW"], 4 * case.units
        arrays["RW"] = np.ascontiguousarray(whole[:, :width])
        for k, name in enumerate(("FF", "OO", "GG")):
            arrays[name] = whole[:, width + k].copy()
    return arrays


def inputs(case: Case) -> dict[str, Array]:
    """X [T, N, H], for a decoder memory [S, N, H], and lengths [N], as `drawn` draws them."""
    sizes = case.dims
    arrays = {"x": normal([sizes[TIME], sizes[BATCH], case.units])}
    if case.cell == "attention_lstm":
        arrays["memory"] = normal([sizes["S"], sizes[BATCH], case.units])
    if case.lengths:
        rng = np.random.default_rng(0)
        steps = lengths(rng, [sizes[BATCH]], sizes[TIME], case.ragged)
        arrays["lengths"] = steps.astype(np.int32)
    return arrays
