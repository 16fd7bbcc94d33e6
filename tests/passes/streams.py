"""Sequences in chunks, through the two programs of a net, by the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, BoolAttr, StringAttr

from rnncc.ir.interpreter import run
from rnncc.ir.ops.base import Array
from rnncc.ir.ops.control import Scan
from rnncc.ir.program import Program
from rnncc.passes.cleanup.simplify import Simplify
from rnncc.passes.gradients.strip_stop_gradient import StripStopGradient
from rnncc.passes.streams.causality import time_axis
from rnncc.passes.streams.streaming import NotCausal, Streamed, split_stream
from tests.golden import CASES, Arrays

Step = Callable[[Arrays, int], Arrays]
REFUSED = {
    "lstm_bidirectional": "reverse_segments along time",
    "lstm_unrolled": "their number is fixed",
}
STREAMED = [case for case in CASES if case.name not in REFUSED]


def split(program: Program) -> Streamed:
    """A program in two, both checked."""
    StripStopGradient().rewrite(program.net)
    Simplify().rewrite(program.net)
    streamed = split_stream(program)
    streamed.init.module.verify()
    streamed.step.module.verify()
    return streamed


def streamable(program: Program) -> Program | None:
    """A random program with those of its loops' results as outputs that can stream, if any can."""
    for op in program.net.walk():
        if isinstance(op, Scan):
            op.properties["reverse"] = BoolAttr.from_bool(False)
    ops = list(program.net.body.block.ops)
    results = [(i, j) for i, op in enumerate(ops) for j in range(len(op.results))]
    loops = [(i, j) for i, j in results if isinstance(ops[i], Scan)]
    fitting = [place for place in loops if _can_stream(_showing(program, [place]))]
    return _showing(program, fitting) if fitting else None


def _showing(program: Program, places: Sequence[tuple[int, int]]) -> Program:
    """The program with other outputs: (number of the op, of its result)."""
    made = program.copy()
    *ops, last = made.net.body.block.ops
    last.operands = [ops[i].results[j] for i, j in places]
    names = [StringAttr(f"y{i}") for i in range(len(places))]
    made.net.properties["output_names"] = ArrayAttr(names)
    return made


def _can_stream(program: Program) -> bool:
    try:
        return bool(split(program).state)
    except NotCausal:
        return False


def interpreted(streamed: Streamed, inputs: Arrays, sizes: Mapping[str, int]) -> Step:
    """A stream that starts with what `inputs` has of `init`: (inputs of a step, T) -> outputs."""
    init, step = streamed.init, streamed.step
    given = {n: inputs[n] for n in (*init.net.inputs, *init.params) if n in inputs}
    state = run(init, given, np.float64, sizes)

    def advance(part: Arrays, steps: int) -> Arrays:
        outputs = run(step, {**part, **state}, np.float64, {**sizes, "T": steps})
        for kept in streamed.state:
            if kept.next is not None:
                state[kept.name] = outputs.pop(kept.next)
        return outputs

    return advance


def in_chunks(program: Program, step: Step, inputs: Arrays, chunks: Sequence[int]) -> Arrays:
    """What a stream gives for a sequence cut into chunks, put together again."""
    axes = {name: time_axis(value) for name, value in program.net.inputs.items()}
    timed = {name: axis for name, axis in axes.items() if axis is not None and name in inputs}
    steps, at, parts = sum(chunks), 0, list[Arrays]()
    for chunk in chunks:
        part = {n: _steps(inputs[n], axis, steps, at, chunk) for n, axis in timed.items()}
        parts.append(step(part, chunk))
        at += chunk
    result: Arrays = {}
    for name, value in program.net.outputs.items():
        axis, pieces = time_axis(value), [part[name] for part in parts]
        result[name] = pieces[-1] if axis is None else np.concatenate(pieces, axis)
    return result


def _steps(array: Array, axis: int, steps: int, at: int, count: int) -> Array:
    rows = array.shape[axis] // max(steps, 1)
    return np.ascontiguousarray(np.take(array, range(at * rows, (at + count) * rows), axis))
