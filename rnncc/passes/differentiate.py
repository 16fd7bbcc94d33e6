"""Differentiation: a net becomes one that also computes gradients, by reverse mode.

Into `differentiate` goes a program, out comes another: the same outputs and, given an outside
gradient of some outputs, the gradients of the inputs and parameters asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from rnncc.errors import CompileError
from rnncc.ir.builder import Builder
from rnncc.ir.ops.control import Net, Yield
from rnncc.ir.ops.gradients import WithGradient
from rnncc.ir.ops.source import Param
from rnncc.ir.program import Program
from rnncc.ir.rewriting import Loop, replace, scans_of
from rnncc.ir.types import FLOATS, dims_of, dtype_of
from rnncc.passes.activity import active_values
from rnncc.passes.backprop import Backprop
from rnncc.passes.canonicalize import Canonicalize
from rnncc.passes.dce import Dce
from rnncc.passes.strip_stop_gradient import StripStopGradient

PREFIX = "grad:"


def differentiate(program: Program, wanted: Sequence[str], of: Sequence[str]) -> Program:
    """A new program that computes gradients beside the original outputs.

    dL/dx of each x in `of`, where L has the gradient `grad:OUTPUT`, an added input, with respect
    to each output of `wanted`, and 0 with respect to the others.

    Args:
        wanted: outputs with an outside gradient.
        of: inputs and parameters whose gradient is asked for; each adds an output `grad:NAME`,
            zeros where no output of `wanted` depends on it.
    """
    made = with_gradients(program, wanted, of, PREFIX)
    joined = any(isinstance(op, WithGradient) for op in made.net.walk())
    StripStopGradient().rewrite(made.net)
    if joined:  # values that have a gradient in common are one to it, and parts of that else
        Canonicalize().rewrite(made.net)
    Dce().rewrite(made.net)
    return made


def with_gradients(
    program: Program, wanted: Sequence[str], of: Sequence[str], prefix: str
) -> Program:
    """The same, where what acts on gradients still does: stops, and gradients of users."""
    made = program.copy()
    _lift_params(made.net)
    asked = {name: _sources(made, name, prefix) for name in of}
    given = {name: _output(made, name, prefix) for name in wanted}
    block = made.net.body.block
    end = block.last_op
    assert isinstance(end, Yield)
    values = [value for group in asked.values() for value in group]
    backprop = Backprop(Builder.before(end), active_values(block.ops, values, given.values()))
    for output in given.values():
        backprop.add(output, block.insert_arg(output.type, len(block.args)))
    backprop.run(block.ops)
    grads = [_total(Builder.before(end), backprop, group) for group in asked.values()]
    names = [prefix + name for name in asked]
    made.net.give({**made.net.outputs, **dict(zip(names, grads, strict=True))})
    made.net.name_added(prefix + name for name in given)
    return made


def _lift_params(net: Net) -> None:
    """Make parameters that a body names consts of its scan."""
    for scan in scans_of(net.body.block):
        named = [op for op in scan.body.block.ops if isinstance(op, Param)]
        if not named:
            continue
        loop = Loop(scan)
        for op in named:
            outer = Builder.before(scan).param(op.param_name.data, dims_of(op.y), dtype_of(op.y))
            replace(op, [loop.add_const(outer)])
        loop.rebuild()


def _sources(program: Program, name: str, prefix: str) -> list[SSAValue]:
    """The values of an input or of a parameter, which several ops may name."""
    found = [v for n, v in program.net.inputs.items() if n == name]
    for op in program.net.body.block.ops:
        if isinstance(op, Param) and op.param_name.data == name:
            found.append(op.y)
    if not found:
        raise CompileError(program.source, f"no input or parameter {name!r} to differentiate by")
    return [_checked(program, name, value, prefix) for value in found]


def _output(program: Program, name: str, prefix: str) -> SSAValue:
    if name not in program.net.outputs:
        known = ", ".join(program.net.outputs)
        raise CompileError(
            program.source, f"no output {name!r} to differentiate; there are {known}"
        )
    return _checked(program, name, program.net.outputs[name], prefix)


def _checked(program: Program, name: str, value: SSAValue, prefix: str) -> SSAValue:
    if dtype_of(value) not in FLOATS:
        raise CompileError(
            program.source, f"{name!r} is {dtype_of(value)}: only floats have gradients"
        )
    if prefix + name in (*program.net.inputs, *program.net.outputs):
        raise CompileError(program.source, f"the name {prefix + name!r} is taken")
    return value


def _total(b: Builder, backprop: Backprop, group: list[SSAValue]) -> SSAValue:
    first, *others = [backprop.take_or_zeros(value) for value in group]
    for other in others:
        first = b.add(first, other)
    return first
