"""Whether a net can be computed as time goes on: no value needs a later step than its own.

In: a net. Out: for each of its values whether it is fixed, a sequence, or of the last step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum

from xdsl.ir import Operation, SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.ops.base import RnnOp, Sized
from rnncc.ir.ops.control import Net, Scan, Yield
from rnncc.ir.ops.shape import Reshape
from rnncc.ir.ops.source import Iota
from rnncc.ir.types import dims_of, shape_text
from rnncc.sizes import TIME

_STEPS = Dim.of(TIME)


class Availability(IntEnum):
    """When a value is known; what is computed of several values has the largest."""

    FIXED = 0  # before the first step
    SEQUENCE = 1  # row by row: a row reads no later one
    LAST = 2  # after each step, anew


class NotCausal(Exception):
    """Says in a few words what a net needs of later steps."""


def availability_of(net: Net) -> dict[SSAValue, Availability]:
    """The availability of every value of a net's block.

    Raises:
        NotCausal: something reads a later step, or the number of steps is fixed or read.
    """
    available: dict[SSAValue, Availability] = {}
    for name, value in net.inputs.items():
        timed = _time_axis(dims_of(value), f"input {name}") is not None
        available[value] = Availability.SEQUENCE if timed else Availability.FIXED
    for op in net.body.block.ops:
        try:
            if isinstance(op, Scan) and op.steps == _STEPS:
                available |= _scan(op, available)
            elif not isinstance(op, Yield):
                available |= dict.fromkeys(
                    op.results, _availability(op, [available[v] for v in op.operands])
                )
        except NotCausal as reason:
            place = str(Builder.before(op).loc)
            raise NotCausal(f"{place}: {reason}" if place else str(reason)) from None
    if not any(TIME in dim.symbols for op in net.body.block.ops for dim in _formulas(op)):
        raise NotCausal(_fixed(net))
    return available


def _fixed(net: Net) -> str:
    """Why a net has no steps: what might be their number has another name, or there is none."""
    loops = [op.steps for op in net.body.block.ops if isinstance(op, Scan)]
    names = sorted({name for steps in loops for name in steps.symbols} - {TIME})
    if names:
        stated = f'--shape INPUT={TIME},N,... or shapes={{"INPUT": ("{TIME}", "N", ...)}}'
        return f"its steps are named {names[0]}, and time is {TIME}: {stated}"
    return f"nothing in it takes {TIME} steps: their number is fixed"


def time_axis(value: SSAValue) -> int | None:
    """The axis along which the steps follow each other, T or T times something long."""
    return _time_axis(dims_of(value), "a value")


def _time_axis(dims: Sequence[Dim], what: str) -> int | None:
    axes = [axis for axis, dim in enumerate(dims) if TIME in dim.symbols]
    if not axes:
        return None
    rows = dims[axes[0]].divide(_STEPS)
    # T + 1 and T·T have no fixed number of rows a step.
    if len(axes) > 1 or rows is None or TIME in rows.symbols:
        raise NotCausal(f"{what} of shape {shape_text(dims)} has no single axis of time")
    return axes[0]


def _scan(op: Scan, available: dict[SSAValue, Availability]) -> dict[SSAValue, Availability]:
    """A loop over time: sequences in, sequences and the last state out."""
    if op.reverse:
        raise NotCausal("a loop goes backwards in time")
    # In a stream T is the length of one call: x / T, say, would differ between one call of 10 steps
    # and two of 5.
    if any(TIME in dim.symbols for inner in op.body.walk() for dim in _formulas(inner)):
        raise NotCausal("a step needs to know the number of steps")
    if any(available[v] == Availability.SEQUENCE for v in (*op.consts, *op.inits)):
        raise NotCausal("a step reads the whole sequence")
    if any(available[v] == Availability.LAST for v in (*op.consts, *op.inits)):
        raise NotCausal("a loop over time starts from what another one ends with")
    results: dict[SSAValue, Availability] = {}
    results.update(dict.fromkeys(op.finals, Availability.LAST))
    results.update(dict.fromkeys(op.ys, Availability.SEQUENCE))
    return results


def _availability(op: Operation, available: Sequence[Availability]) -> Availability:
    """The availability of an op that is no loop over time."""
    most = max(available, default=Availability.FIXED)
    axes = [_time_axis(dims_of(result), "a result") for result in op.results]
    if all(axis is None for axis in axes):
        if Availability.SEQUENCE in available:
            raise NotCausal(f"{_name(op)} over all time steps")
        if any(TIME in dim.symbols for inner in op.walk() for dim in _formulas(inner)):
            raise NotCausal("the number of steps is read")
        return most
    # A loop over another axis, with time inside its rows: its body would have to be cut, too.
    if not isinstance(op, RnnOp):
        raise NotCausal(f"{_name(op)} along time")
    if Availability.LAST in available:
        raise NotCausal("every step reads what is known after the last one")
    _check_rows(op)
    return Availability.SEQUENCE


def _check_rows(op: RnnOp) -> None:
    """Refuse an op that mixes rows, though its result has an axis of time."""
    axis = time_axis(op.y)
    assert axis is not None
    if isinstance(op, Iota):
        return  # whose numbers of steps go on from one call to the next
    axes = op.operand_axes(axis)
    sources = zip(op.operands, axes, strict=True) if axes is not None else ()
    if axes is None or any(time_axis(v) != source for v, source in sources):
        if isinstance(op, Reshape):
            before, after = (shape_text(dims_of(v)) for v in (op.x, op.y))
            raise NotCausal(f"a reshape from {before} to {after} tears the steps apart")
        raise NotCausal(f"{_name(op)} along time")
    if any(TIME in size.symbols for size in op.sizes):
        raise NotCausal("the number of steps is read")


def _formulas(op: Operation) -> Iterator[Dim]:
    """The sizes that an op depends on or shows."""
    for result in op.results:
        yield from dims_of(result)
    if isinstance(op, Sized):
        yield from op.sizes


def _name(op: Operation) -> str:
    return op.name.removeprefix("rnn.")
