"""Ways to compile and to call a model that change no bit: threads, pieces of a sequence, other rows
of the batch, settings.

Vectors of other CPUs change what rounding changes, which is compared anyway.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from rnncc_runtime import Model, Pool, TrainableModel
from rnncc_runtime.arrays import cut
from xdsl.ir import SSAValue

from rnncc.ir.attributes import get_ints
from rnncc.ir.interpreter import run
from rnncc.ir.ops.linear import Reduce
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of
from rnncc.sizes import BATCH, TIME
from tests.fuzz.arrays import SIZES
from tests.golden import Arrays, take_rows
from tests.passes.streams import in_chunks
from tests.teams import insistent

OPTIONS: list[dict[str, Any]] = [
    *[{}] * 9,
    *[{"threads": True}] * 2,
    {"max_steps": max(SIZES)},
    {"max_steps": max(SIZES), "threads": True},
    {"tuning": {"vectors": 2, "chains": 16}},
]
"""One of which each model is compiled with."""
if llvm.get_host_cpu_features().get("avx2"):
    OPTIONS += [{"cpu": "x86-64-v2"}, {"cpu": "x86-64-v3"}]
    OPTIONS += [{"cpu": "x86-64-v3", "threads": True}]
THREADS = 3


def draw_options(rng: random.Random, program: Program) -> dict[str, Any]:
    """Options for a model."""
    options = rng.choice(OPTIONS)
    timed = any(TIME in d.symbols for v in program.net.inputs.values() for d in dims_of(v))
    return options if timed or "max_steps" not in options else {}


def difference(
    model: Model, program: Program, inputs: Arrays, sizes: Mapping[str, int], want: Arrays
) -> str | None:
    """How a call of several threads, in pieces or of one row gives other bits than the whole."""
    counted = cut({**want}, program.counts)
    calls = ((way, got, counted) for way, got in _calls(model, program, inputs, sizes))
    for way, got, whole in chain(calls, _rows(model, program, inputs, sizes, want)):
        for name, array in whole.items():
            if got[name].shape != array.shape or _bits(got[name]) != _bits(array):
                return f"{way}: {name}:\n{got[name]}\nin one call\n{array}"
    return None


def training_difference(
    model: TrainableModel, inputs: Arrays, outer: Arrays, outputs: Arrays, grads: Arrays
) -> str | None:
    """How several threads give other outputs or gradients than one."""
    if model._functions.get("threads") is None:
        return None
    with Pool(THREADS) as pool:
        several = insistent(model)
        made, tape = several.forward(inputs, pool=pool)
        made_grads = several.backward(tape, outer, pool=pool)
    for want, found in ((outputs, made), (grads, made_grads)):
        for name, array in want.items():
            if _bits(found[name]) != _bits(array):
                return f"threads: {name}:\n{found[name]}\nof one\n{array}"
    return None


def _bits(array: np.ndarray[Any, Any]) -> bytes:
    """Bytes; NaN of any sign are the same."""
    floats = array.dtype.kind == "f"
    return (np.where(np.isnan(array), np.nan, array) if floats else array).tobytes()


def _calls(
    model: Model, program: Program, inputs: Arrays, sizes: Mapping[str, int]
) -> Iterator[tuple[str, Arrays]]:
    if model._functions.get("threads") is not None:
        with Pool(THREADS) as pool:
            yield "threads", insistent(model).run(inputs, pool=pool)
    streams = "refused" not in model.metadata.get("stream", {"refused": ""})
    if streams and TIME in sizes and sizes.keys() <= {TIME, BATCH}:  # starts show no others
        starts = {name: inputs[name] for name in model.metadata["stream"]["starts"]}
        stream = model.stream(sizes.get(BATCH), starts)
        whole = sizes[TIME]
        pieces = [1, 0, whole // 2, whole - 1 - whole // 2] if whole else [0]

        def step(part: Arrays, steps: int) -> Arrays:
            return {name: np.array(a) for name, a in stream.step(part).items()}

        yield f"pieces of {pieces}", in_chunks(program, step, inputs, pieces)


def _rows(
    model: Model, program: Program, inputs: Arrays, sizes: Mapping[str, int], want: Arrays
) -> Iterator[tuple[str, Arrays, Arrays]]:
    """Calls with one row of the batch, and its part of the whole call's results.

    Only of a model whose rows do not depend on each other, by the interpreter's word, and in which
    none is reduced with others: ranges by which a batch is quantised may happen to make no
    difference but to the last bit.
    """
    net, rows = program.net, sizes.get(BATCH, 0)
    axes = [_batch_axes(value) for value in net.outputs.values()]
    if rows < 2 or axes.count(1) < len(axes) or None in map(_batch_axes, net.inputs.values()):
        return
    if any(isinstance(op, Reduce) and _joins_rows(op) for op in program.module.walk()):
        return
    several = _exact(program, inputs, sizes)
    for row in sorted({0, rows // 2, rows - 1}):
        given = take_rows(net.inputs, inputs, row, 1)
        one = _exact(program, given, {**sizes, BATCH: 1})
        if several is None or one is None:
            return
        for name, array in take_rows(net.outputs, several, row, 1).items():
            if not (
                np.allclose(one[name], array, 1e-9, 0, equal_nan=True) and _signs(one[name], array)
            ):
                return
        yield f"row {row} alone", model.run(given), take_rows(net.outputs, want, row, 1)


def _signs(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    """Whether zeros have the same signs: of nothing but zeros a sum tells by these what it adds."""
    zeros = (one == 0) & (other == 0)
    return one.dtype.kind != "f" or bool(np.all((np.signbit(one) == np.signbit(other)) | ~zeros))


def _joins_rows(op: Reduce) -> bool:
    return any(BATCH in dims_of(op.x)[axis].symbols for axis in get_ints(op.axes))


def _batch_axes(value: SSAValue) -> int | None:
    """How many axes are the batch's; None where they are several, or part of another size."""
    sizes = [d for d in dims_of(value) if BATCH in d.symbols]
    return len(sizes) if len(sizes) < 2 and all(d.is_symbol for d in sizes) else None


def _exact(program: Program, inputs: Arrays, sizes: Mapping[str, int]) -> Arrays | None:
    """The interpreter's results in float64; None where an index lies outside of its axis."""
    try:
        with np.errstate(all="ignore"):
            return run(program, inputs, np.float64, sizes)
    except ValueError:
        return None
