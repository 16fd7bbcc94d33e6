"""Names the known trip counts of loops, so that 128 steps differ from a width of 128.

In: a net as imported. `name_trip_counts` puts a symbol in the number's place, so that the passes of
training treat such a loop as one over time, checkpoints included; `restore_trip_counts` puts the
number back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from rnncc.ir.attributes import dim_attr, dims_attr
from rnncc.ir.dims import Dim
from rnncc.ir.ops.base import Sized
from rnncc.ir.ops.control import Scan
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of, dtype_of, tensor
from rnncc.passes.streams.time_axes import time_axes


def name_trip_counts(
    program: Program, is_cut: Callable[[Scan], bool] = lambda _: False
) -> dict[str, int]:
    """Name those of the net's own loops: name -> number.

    A loop that reads or makes sequences is named where `is_cut` asks for it and the name can stand
    in all that has the sequences' rows.

    Before:

        for t in 0..10, h from h:
            v1 = tanh(h[t-1])
            h[t] = v1
        return h[10-1]

    After:

        for t in 0..K, h from h:
            v1 = tanh(h[t-1])
            h[t] = v1
        return h[K-1]
    """
    names = dict[str, int]()
    for op in program.net.body.block.ops:
        # One step is a conditional, or nothing to cut.
        if not isinstance(op, Scan) or not op.steps.is_static or int(op.steps) <= 1:
            continue
        name, number = _free(program, names), int(op.steps)
        if not op.xs and not op.ys:
            op.properties["length"] = dim_attr(Dim.of(name))
        elif not is_cut(op) or not _name_sequences(program, number, name):
            continue
        names[name] = number
    return names


def _name_sequences(program: Program, number: int, name: str) -> bool:
    """Name the time of all loops of so many steps, and of all sequences; whether that is possible.

    A size that means two things, 128 steps and 128 units, may be known as time in one operand of an
    op and not in the other: what does not verify stays numbers.
    """
    length, named = Dim.of(number), Dim.of(name)
    axes = time_axes(program.net, length)
    if axes is None:
        return False
    for value, axis in axes:
        dims = list(dims_of(value))
        many = dims[axis].divide(length)
        assert many is not None
        dims[axis] = many * named
        Rewriter.replace_value_with_new_type(value, tensor(dims, dtype_of(value)))
    for op in program.net.body.block.ops:
        if isinstance(op, Scan) and op.steps == length:
            op.properties["length"] = dim_attr(named)
        elif "dims" in op.properties:  # the shape of the result
            op.properties["dims"] = dims_attr(dims_of(op.results[0]))
    try:
        program.module.verify()
    except VerifyException:
        _restore(program, {name: number})
        return False
    return True


def restore_trip_counts(program: Program, names: Mapping[str, int]) -> Program:
    """A copy with numbers in the place of names; the program itself where there are none."""
    if not names:
        return program
    result = program.copy()
    _restore(result, names)
    return result


def _restore(program: Program, names: Mapping[str, int]) -> None:
    for op in program.module.walk():
        _number(op, names)


def _number(op: Operation, names: Mapping[str, int]) -> None:
    if isinstance(op, Sized):
        op.properties = op.substituted(names)
    for region in op.regions:
        for arg in list(region.block.args):
            _retype(arg, names)
    for result in list(op.results):
        _retype(result, names)


def _retype(value: SSAValue[Attribute], names: Mapping[str, int]) -> None:
    dims = dims_of(value)
    if any(d.symbols & names.keys() for d in dims):
        type_ = tensor([d.substitute(names) for d in dims], dtype_of(value))
        Rewriter.replace_value_with_new_type(value, type_)


def _free(program: Program, names: Mapping[str, int]) -> str:
    """K, K2, K3, ...: the first that no size has."""
    reserved, number = {*program.symbols, *names}, 1
    while (name := "K" if number == 1 else f"K{number}") in reserved:
        number += 1
    return name
