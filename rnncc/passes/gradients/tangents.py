"""Forward mode: a net becomes one that also computes the tangents of its outputs.

Each op's rule is its `jvp`. A loop carries the tangents of what it carries.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue

from rnncc.errors import CompileError
from rnncc.ir.builder import Builder
from rnncc.ir.ops.base import RnnOp
from rnncc.ir.ops.control import Scan, Yield
from rnncc.ir.ops.gradients import WithGradient
from rnncc.ir.program import Program
from rnncc.ir.rewriting import Carry, Loop, LoopSequence, Yielded
from rnncc.ir.types import FLOATS, dtype_of
from rnncc.passes.cleanup.dce import Dce
from rnncc.passes.gradients.activity import dependent_values
from rnncc.passes.gradients.vjp_of_region import vjp_of_region

Found = dict[SSAValue, SSAValue]


def tangents(program: Program, of: Sequence[str], prefix: str) -> Program:
    """A net that computes tangents beside its outputs: Σ ∂y/∂x · x' over some inputs x.

    Before:

        for t in 0..T, h from h:
            v1 = mul(h[t-1], x[t])
            h[t] = v1
        return h[T-1]

    After:

        for t in 0..T, h from h, c from 0:
            v1 = mul(h[t-1], x[t])
            v2 = mul(c[t-1], x[t])
            v3 = mul(t:x[t], h[t-1])
            v4 = add(v2, v3)
            h[t] = v1
            c[t] = v4
        return h[T-1], c[T-1]

    Args:
        of: inputs that have tangents, each of which adds an input: `prefix`, its name. Each output
            of floats adds one too, of zeros where it depends on none of them.

    Raises:
        CompileError: a gradient of a user's own is not linear, so that it has no opposite.
    """
    result = program.copy()
    net, block = result.net, result.net.body.block
    inputs = {name: net.inputs[name] for name in of}
    known = Found()
    for x in inputs.values():
        known[x] = block.insert_arg(x.type, len(block.args))
    _Forward(dependent_values(block.ops, inputs.values()), known).run(block)
    end = block.last_op
    assert isinstance(end, Yield)
    floats = {name: y for name, y in net.outputs.items() if dtype_of(y) in FLOATS}
    added = {prefix + name: _or_zeros(end, known, y) for name, y in floats.items()}
    net.give({**net.outputs, **added})
    net.name_added(prefix + name for name in inputs)
    Dce().rewrite(net)
    return result


class _Forward:
    """Adds the tangents of a block's values behind them; `known` has all that there are."""

    def __init__(self, dependent: set[SSAValue], known: Found) -> None:
        self._dependent, self._known = dependent, known

    def run(self, block: Block) -> None:
        for op in list(block.ops):
            after = op.next_op
            if isinstance(op, Scan):
                self._through_scan(op)
            elif isinstance(op, RnnOp) and after is not None:
                tangent = self._of(Builder.before(after), op)
                if tangent is not None:
                    self._known[op.y] = tangent

    def _of(self, b: Builder, op: RnnOp) -> SSAValue | None:
        able = set(op.differentiable)
        incoming = [self._known.get(x) if x in able else None for x in op.operands]
        if dtype_of(op.y) not in FLOATS or all(tangent is None for tangent in incoming):
            return None
        b.loc = Builder.before(op).loc
        return _of_user(b, op, incoming) if isinstance(op, WithGradient) else op.jvp(b, incoming)

    def _through_scan(self, scan: Scan) -> None:
        """A loop takes tangents beside its operands, and gives them beside its results."""
        known, body = self._known, scan.body.block
        first = body.first_op
        assert first is not None
        stand_ins = dict[SSAValue, SSAValue]()
        for arg in body.args:  # stand-ins, until the loops within are done and this one is rebuilt
            if arg in self._dependent:
                known[arg] = stand_ins[arg] = Builder.before(first).full_like(arg, 0.0)
        self.run(body)
        loop = Loop(scan)
        inside = {old: self._enter(loop, arg, old) for arg, old in stand_ins.items()}

        def tangent(value: SSAValue) -> SSAValue:
            known_tangent = _or_zeros(loop.yields, known, value)
            return inside.get(known_tangent, known_tangent)

        carried = [i for i, carry in enumerate(loop.carries) if carry.arg in stand_ins]
        # A list of its own: the loop appends to `loop.carries`.
        for carry in [loop.carries[i] for i in carried]:
            init = _or_zeros(scan, known, carry.init)
            arg = inside[stand_ins[carry.arg]]
            loop.carries.append(Carry(init, arg, tangent(carry.next)))
        yielded = [i for i, y in enumerate(loop.ys) if y.row in known]
        loop.ys += [Yielded(tangent(loop.ys[i].row)) for i in yielded]
        scan = loop.rebuild()
        for results, numbers in ((scan.finals, carried), (scan.ys, yielded)):
            new = results[len(results) - len(numbers) :]
            known |= {results[i]: tangent for i, tangent in zip(numbers, new, strict=True)}

    def _enter(self, loop: Loop, arg: SSAValue, stand_in: SSAValue) -> SSAValue:
        """The tangent of an argument of a loop's body as another one; of carries it is to come."""
        fixed = {const.arg: const.outer for const in loop.consts}
        rows = {x.arg: x.outer for x in loop.xs}
        new = loop.add_const(self._known[fixed[arg]]) if arg in fixed else loop.add_arg(arg.type)
        if arg in rows:
            loop.xs.append(LoopSequence(self._known[rows[arg]], new))
        loop.swap(stand_in, new)
        return new


def _of_user(b: Builder, op: WithGradient, incoming: Sequence[SSAValue | None]) -> SSAValue:
    """The tangent by a user's gradient, which is linear: forward mode is its transpose.

    Raises:
        CompileError: it is not linear.
    """
    if not op.splits:
        what = "forward mode: a torch.autograd.Function's backward is not linear in the gradient"
        raise CompileError(b.loc, what)
    dy = b.full_like(op.y, 0.0)
    grads = b.inline(op.body.block, [dy, *op.known_reads])
    pairs = zip(grads, incoming[1 : 1 + len(grads)], strict=True)
    seeds = [(grad, tangent) for grad, tangent in pairs if tangent is not None]
    [transposed] = vjp_of_region(b, seeds, [dy], [dy, *op.known_reads])
    return transposed


def _or_zeros(before: Operation, known: Found, value: SSAValue) -> SSAValue:
    """The tangent of a value, made of zeros in front of an op where there is none."""
    tangent = known.get(value)
    return Builder.before(before).full_like(value, 0.0) if tangent is None else tangent
