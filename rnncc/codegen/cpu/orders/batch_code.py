"""A run of kernels row by row of their first axis (`planning/batch_runs.py`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from xdsl.ir import Operation, SSAValue

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.llvm.values import I64, Pointer
from rnncc.planning.batch_runs import BatchRun

ROW = "batch row"
"""The symbol of the row that a kernel computes: no name of a size has a space."""


def segments(
    ops: Sequence[Operation], runs: Iterable[BatchRun]
) -> Iterator[tuple[Sequence[Operation], BatchRun | None]]:
    """Ops in order: those of a run together, and those between."""
    places = {op: number for number, op in enumerate(ops)}
    done = 0
    for run in sorted(runs, key=lambda run: places[run.ops[0]]):
        first = places[run.ops[0]]
        if done < first:
            yield ops[done:first], None
        yield run.ops, run
        done = first + len(run.ops)
    if done < len(ops):
        yield ops[done:], None


def of_one_row(
    emit: CpuEmit, run: BatchRun, op: Operation, pointers: Mapping[SSAValue, Pointer]
) -> dict[SSAValue, Pointer]:
    """Where a row has the operands of a kernel, and of its neighbours, which may be one with it."""
    here = dict[SSAValue, Pointer]()
    for kernel in (op, op.prev_op, op.next_op):
        if kernel is None or kernel not in run.ops:
            continue
        for value in kernel.operands:
            stride = run.strides.get(value, 0)
            if stride:
                ahead = emit.b.mul(emit.symbols[ROW], I64(stride))
                here[value] = replace(emit.at(pointers[value], ahead), ring=None)
            else:
                here[value] = pointers[value]
    return here
