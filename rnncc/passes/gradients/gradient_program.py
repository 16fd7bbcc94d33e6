"""The gradients of a net as a net of their own, which can be differentiated again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from xdsl.ir import Operation

from rnncc.errors import CompileError
from rnncc.ir.builder import Builder
from rnncc.ir.ops.elementwise import StopGradient
from rnncc.ir.ops.gradients import WithGradient
from rnncc.ir.program import Program
from rnncc.ir.types import FLOATS, dtype_of
from rnncc.passes.cleanup.simplify import Simplify
from rnncc.passes.gradients.differentiate import with_gradients
from rnncc.passes.loops.sink import Sink


def gradient_program(
    program: Program,
    outputs: Sequence[str],
    of: Sequence[str],
    prefix: str,
    once: bool = False,
) -> Program:
    """A net that computes gradients beside its outputs; `differentiate` of it gives second ones.

    What acts on gradients still does: stops, and gradients of users.

    Before:

        v1 = stop_gradient(x)
        v2 = mul(x, v1)
        return v2

    After:

        v1 = stop_gradient(x)
        v2 = mul(x, v1)
        v3 = mul(grad_y, v1)
        return v2, v3

    Args:
        outputs: outputs with an outside gradient, each of which adds an input: `prefix`, its name.
        of: inputs and parameters whose gradient is asked for, each of which adds such an output.
        once: whether nobody differentiates the result.

    Raises:
        CompileError: the net has a user's gradient, of which the gradient is not known.
    """
    if not once:
        check_users_gradients(program)
    result = with_gradients(program, outputs, of, {name: prefix + name for name in (*outputs, *of)})
    # A weight's gradient leaves its loop as one sum, whose own gradient is two products of all
    # rows, not two in each step.
    for step in (Simplify(), Sink(), Simplify()):
        step.rewrite(result.net)
    return result


def check_users_gradients(program: Program) -> None:
    """Refuse users' gradients of which no gradients are known.

    What a Function's forward computes depends on constants, for all that it knows. And one that is
    not linear makes of two gradients other ones than of their sum: second derivatives may reach
    it by several ways, of which only some lead through the net.

    Raises:
        CompileError: there is such a gradient.
    """
    for op in program.net.walk():
        if not isinstance(op, WithGradient):
            continue
        if not op.splits:
            _refuse(op, "is not linear in the gradient", "a loop in Python has them")
        if any(map(_stops, _leading_to(op))):
            reason = "reads more than the gradient and inputs saved by ctx.save_for_backward"
            _refuse(op, reason, "save inputs, and have backward compute what it needs of them")


def _refuse(op: WithGradient, reason: str, hint: str) -> NoReturn:
    what = f"no second derivatives: a torch.autograd.Function's backward {reason}"
    raise CompileError(Builder.before(op).loc, what, hint)


def _leading_to(op: WithGradient) -> list[Operation]:
    """The ops that compute what a user's gradient reads of its inputs, and those of its body.

    What stands before the inputs is no part of it: there, a stop is the net's own.
    """
    inputs, leading = set(op.inputs), dict.fromkeys(op.body.block.ops)
    work = [v for v in op.reads if dtype_of(v) in FLOATS and v is not op.x]
    while work:
        value = work.pop()
        maker = value.owner
        if value not in inputs and isinstance(maker, Operation) and maker not in leading:
            leading[maker] = None
            work += maker.operands
    return list(leading)


def _stops(op: Operation) -> bool:
    """Whether an op, or one inside of it, lets no gradient pass."""
    return any(isinstance(inner, StopGradient) for inner in op.walk())
