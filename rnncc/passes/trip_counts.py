"""Names the known trip counts of loops, so that 128 steps differ from a width of 128.

In: a net as imported. `name_trip_counts` puts a symbol in the number's place, so that the passes of
training treat such a loop as one over time, checkpoints included; `restore_trip_counts` puts the
number back.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter

from rnncc.ir.attributes import dim_attr
from rnncc.ir.dims import Dim
from rnncc.ir.ops.base import Sized
from rnncc.ir.ops.control import Scan
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of, dtype_of, tensor


def name_trip_counts(program: Program) -> dict[str, int]:
    """Name those of the net's own loops that read and make no sequence: name -> number.

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
        if not isinstance(op, Scan) or op.xs or op.ys:
            continue  # the new name would have to spread to all that has the sequences' size
        # One step is a conditional, or nothing to cut.
        if op.steps.is_static and int(op.steps) > 1:
            name = _free(program, names)
            names[name] = int(op.steps)
            op.properties["length"] = dim_attr(Dim.of(name))
    return names


def restore_trip_counts(program: Program, names: Mapping[str, int]) -> Program:
    """A copy with numbers in the place of names; the program itself where there are none."""
    if not names:
        return program
    result = program.copy()
    for op in result.module.walk():
        _number(op, names)
    return result


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
