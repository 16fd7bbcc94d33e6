"""Differentiation: a net becomes one that also computes gradients, by reverse mode.

Into `differentiate` goes a program, out comes another: the same outputs and, given an outside
gradient of some outputs, the gradients of the inputs and parameters asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import SSAValue

from rnncc.errors import CompileError
from rnncc.ir.builder import Builder
from rnncc.ir.ops.control import Net, Yield
from rnncc.ir.ops.gradients import WithGradient
from rnncc.ir.ops.source import Param
from rnncc.ir.ports import Role, labelled
from rnncc.ir.program import Program
from rnncc.ir.rewriting import Loop, replace, scans_of
from rnncc.ir.types import FLOATS, dims_of, dtype_of
from rnncc.passes.cleanup.canonicalize import Canonicalize
from rnncc.passes.cleanup.dce import Dce
from rnncc.passes.gradients.activity import active_values
from rnncc.passes.gradients.backprop import Backprop
from rnncc.passes.gradients.strip_stop_gradient import StripStopGradient


def differentiate(program: Program, outputs: Sequence[str], of: Sequence[str]) -> Program:
    """A new program that computes gradients beside the original outputs.

    dL/dx of each x in `of`, where L has an added input of kind `grad` as its gradient with respect
    to each output of `outputs`, and 0 with respect to the others. The added ports are labelled
    `grad:NAME` where the net has no such name (`rnncc.ir.ports`).

    Before:

        for t in 0..T, h from h:
            v1 = mul(h[t-1], x[t])
            h[t] = v1
        return h[T-1]

    After:

        for t in 0..T, h from h:
            v1 = mul(h[t-1], x[t])
            h[t] = v1
            v2[t] = v1
        v3 = shift(v2, h)
        for t in reversed 0..T, c from grad:y:
            v4 = mul(c[t+1], x[t])
            v5 = mul(c[t+1], v3[t])
            c[t] = v4
            v6[t] = v5
        return h[T-1], v6

    Args:
        outputs: outputs with an outside gradient.
        of: inputs and parameters whose gradient is asked for; each adds an output of kind `grad`,
            zeros where no output of `outputs` depends on it.
    """
    net = program.net
    reserved = {*net.inputs, *net.outputs, *program.params}
    roles = labelled([Role("grad", name) for name in dict.fromkeys([*outputs, *of])], reserved)
    result = with_gradients(program, outputs, of, {role.of: name for name, role in roles.items()})
    result.net.give(result.net.outputs, roles)
    result.net.name_added([], roles)
    joined = any(isinstance(op, WithGradient) for op in result.net.walk())
    StripStopGradient().rewrite(result.net)
    if joined:  # values with one gradient in common were concatenated for it; undo that elsewhere
        Canonicalize().rewrite(result.net)
    Dce().rewrite(result.net)
    return result


def with_gradients(
    program: Program, outputs: Sequence[str], of: Sequence[str], label_of: Mapping[str, str]
) -> Program:
    """The same, where what acts on gradients still does: stops, and gradients of users.

    Args:
        label_of: the names of the added ports, by what they are the gradients of.
    """
    result = program.copy()
    net = result.net
    _lift_params(net)
    sources = {label_of[name]: _sources(result, name) for name in of}
    targets = {label_of[name]: _output(result, name) for name in outputs}
    if clashes := [name for name in (*sources, *targets) if name in {**net.inputs, **net.outputs}]:
        raise CompileError(program.source, f"the name {clashes[0]!r} is taken")
    block = net.body.block
    end = block.last_op
    assert isinstance(end, Yield)
    values = [value for group in sources.values() for value in group]
    backprop = Backprop(Builder.before(end), active_values(block.ops, values, targets.values()))
    for output in targets.values():
        backprop.add(output, block.insert_arg(output.type, len(block.args)))
    backprop.run(block.ops)
    grads = [_total(Builder.before(end), backprop, group) for group in sources.values()]
    net.give({**net.outputs, **dict(zip(sources, grads, strict=True))})
    net.name_added(targets)
    return result


def _lift_params(net: Net) -> None:
    """Make parameters that a body names consts of its scan."""
    for scan in scans_of(net.body.block):
        # The backward loop adds up the gradients of consts, which a `param` within is not.
        named = [op for op in scan.body.block.ops if isinstance(op, Param)]
        if not named:
            continue
        loop = Loop(scan)
        for op in named:
            outer = Builder.before(scan).param(op.param_name.data, dims_of(op.y), dtype_of(op.y))
            replace(op, [loop.add_const(outer)])
        loop.rebuild()


def _sources(program: Program, name: str) -> list[SSAValue]:
    """The values of an input or of a parameter, which several ops may name."""
    values = [v for n, v in program.net.inputs.items() if n == name]
    for op in program.net.body.block.ops:
        if isinstance(op, Param) and op.param_name.data == name:
            values.append(op.y)
    if not values:
        raise CompileError(program.source, f"no input or parameter {name!r} to differentiate by")
    return [_checked(program, name, value) for value in values]


def _output(program: Program, name: str) -> SSAValue:
    if name not in program.net.outputs:
        names = ", ".join(program.net.outputs)
        raise CompileError(
            program.source, f"no output {name!r} to differentiate; there are {names}"
        )
    return _checked(program, name, program.net.outputs[name])


def _checked(program: Program, name: str, value: SSAValue) -> SSAValue:
    if dtype_of(value) not in FLOATS:
        raise CompileError(
            program.source, f"{name!r} is {dtype_of(value)}: only floats have gradients"
        )
    return value


def _total(b: Builder, backprop: Backprop, group: list[SSAValue]) -> SSAValue:
    first, *others = [backprop.take_or_zeros(value) for value in group]
    for other in others:
        first = b.add(first, other)
    return first
