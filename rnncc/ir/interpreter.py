"""The meaning of a program, in NumPy: the oracle of every test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rnncc_runtime.arrays import cut
from rnncc_runtime.sizes import Size
from rnncc_runtime.texts import Texts, Words
from xdsl.ir import Block, SSAValue

from rnncc.errors import LimitError
from rnncc.ir.attributes import get_ints
from rnncc.ir.bounds import bounds_of, check_bounds
from rnncc.ir.ops.base import Array, Context, RnnOp
from rnncc.ir.ops.chunks import Chunks
from rnncc.ir.ops.control import Scan, Yield
from rnncc.ir.ops.source import Param
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of, dtype_of


def run(
    program: Program,
    inputs: Mapping[str, Array],
    real: type[np.floating[Any]] = np.float32,
    sizes: Mapping[str, int] | None = None,
) -> dict[str, Array]:
    """Evaluate a net.

    Args:
        inputs: an array for each input, and for each parameter that the program holds none of;
            texts as `rnncc_runtime.Model` takes them.
        real: the float type to compute in; float64 for finite differences.
        sizes: values of symbols that no array's shape shows.
    Returns:
        output name -> array.
    Raises:
        LimitError: a loop takes more iterations than its limit.
        CompileError: the sizes make that of a shape negative, or reach out of a tensor.
        ValueError: an array has another shape than the others tell.
    """
    symbols = dict(sizes or {})
    texts = Texts(_words(program))
    arrays = {**program.arrays, **texts.coded(inputs)}
    types = {**program.net.inputs, **{name: op.y for name, op in program.params.items()}}
    for name, value in types.items():
        for dim, size in zip(dims_of(value), np.shape(arrays[name]), strict=True):
            unknown = dim.symbols - symbols.keys()
            if len(unknown) == 1:
                symbol = next(iter(unknown))
                value = Size.parse(str(dim)).solve(symbol, size, symbols)
                symbols |= {} if value is None else {symbol: value}
    check_bounds(bounds_of(program.net, program.bounds), symbols)
    context = Context(symbols, real)
    cast = {n: _cast(context, types[n], a) for n, a in arrays.items() if n in types}
    args = [cast[name] for name in program.net.inputs]
    with np.errstate(all="ignore"):
        values = _run_block(context, cast, program.net.body.block, args)
    outputs = dict(zip(program.net.outputs, values, strict=True))
    return texts.decoded(cut(outputs, program.counts))


def _words(program: Program) -> Words:
    """The texts that a program knows, and which of its inputs and outputs hold such; none of a
    part of one, which takes and gives their numbers."""
    if not program.texts:
        return Words((), (), ())
    groups = program.net.inputs, program.net.outputs
    names = ([name for name, value in g.items() if dtype_of(value) == "text"] for g in groups)
    return Words(program.texts, *names)


def _cast(context: Context, value: SSAValue, array: Array) -> Array:
    expected = context.shape(dims_of(value))
    if np.shape(array) != expected:
        raise ValueError(f"array of shape {np.shape(array)}, expected {expected}")
    return np.asarray(array, context.numpy_type(dtype_of(value)))


def _run_block(
    context: Context, params: Mapping[str, Array], block: Block, args: Sequence[Array]
) -> list[Array]:
    env: dict[SSAValue, Array] = dict(zip(block.args, args, strict=True))
    for op in block.ops:
        match op:
            case Yield():
                return [env[v] for v in op.values]
            case Param():
                env[op.y] = params[op.param_name.data]
            case Scan():
                operands = ([env[v] for v in group] for group in (op.consts, op.inits, op.xs))
                results = _run_scan(context, params, op, *operands)
                env.update(zip((*op.finals, *op.ys), results, strict=True))
            case Chunks():
                env.update(zip(op.results, _run_chunks(context, params, op, env), strict=True))
            case RnnOp():
                env[op.y] = op.evaluate(context, *(env[v] for v in op.operands))
            case _:
                raise AssertionError(f"{op.name} has no meaning here")
    raise AssertionError("block has no yield")


def _run_scan(
    context: Context,
    params: Mapping[str, Array],
    op: Scan,
    consts: list[Array],
    carry: list[Array],
    xs: list[Array],
) -> list[Array]:
    steps = range(op.steps.evaluate(context.sizes))
    ys = [np.zeros(context.shape(dims_of(y)), context.numpy_type(dtype_of(y))) for y in op.ys]
    if op.gate is not None:
        for y in (y for y in ys if y.dtype.kind == "f"):
            y[...] = np.nan  # rows of steps that do not run
    for t in reversed(steps) if op.reverse else steps:
        args = [*consts, *carry, *(x[t] for x in xs)]
        if op.gate is not None and not args[op.gate.data]:
            continue
        out = _run_block(context, params, op.body.block, args)
        carry, rows = out[: len(carry)], out[len(carry) :]
        for y, row in zip(ys, rows, strict=True):
            y[t] = row
    if op.is_limited and carry[op.groups[1].index(op.open)]:
        raise LimitError(len(steps))
    return [*carry, *ys]


def _run_chunks(
    context: Context, params: Mapping[str, Array], op: Chunks, env: Mapping[SSAValue, Array]
) -> list[Array]:
    consts, carry, xs, marks = ([env[v] for v in g] for g in (op.consts, op.inits, op.xs, op.marks))
    outputs = (*op.ys, *op.marked)
    results = [
        np.zeros(context.shape(dims_of(y)), context.numpy_type(dtype_of(y))) for y in outputs
    ]
    steps, chunk = op.steps.evaluate(context.sizes), op.chunk.data
    order = range(-(-steps // chunk))
    for number in reversed(order) if op.reverse else order:
        run = slice(number * chunk, min(steps, (number + 1) * chunk))
        inside = Context({**context.sizes, op.extent.data: run.stop - run.start}, context.real)
        args = [*consts, *carry, *(x[run] for x in xs), *(mark[number] for mark in marks)]
        out = _run_block(inside, params, op.body.block, args)
        carry, parts = out[: len(carry)], out[len(carry) :]
        for i, (result, part) in enumerate(zip(results, parts, strict=True)):
            result[run if i < len(op.ys) else number] = part
    if any(carry[i] for i in get_ints(op.limits)):
        raise LimitError(steps)
    return [*carry, *results]
