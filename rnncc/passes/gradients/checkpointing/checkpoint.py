"""Checkpoints along time for a net that is split in two halves.

In: the halves of training after their passes, and the steps of a run. Out: halves that leave on
the tape, instead of a value for every step, the carry of every so many steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import Block, Operation, SSAValue

from rnncc.ir.dims import Dim
from rnncc.ir.ops.base import Elementwise, Source
from rnncc.ir.ops.chunks import Chunks
from rnncc.ir.ops.control import Net, Scan, Yield
from rnncc.ir.ops.shape import Broadcast, Concat, Reshape, Slice, Transpose
from rnncc.ir.order import post_order
from rnncc.ir.ports import Role, labelled
from rnncc.ir.types import dims_of
from rnncc.passes.cleanup.cse import cse
from rnncc.passes.cleanup.dce import Dce
from rnncc.passes.cleanup.simplify_scans import drop_dead
from rnncc.passes.gradients.checkpointing.chunk_body import Cut
from rnncc.passes.gradients.checkpointing.strip_mine_time import strip_mine_loops, strip_mine_time
from rnncc.passes.gradients.split_phases import (
    Phases,
    make_backward,
    make_forward,
    phases_of,
    saved_role,
)
from rnncc.passes.gradients.step_pairs import late_ops

VIEWS = (Reshape, Transpose, Broadcast, Slice, Concat)


def checkpoint(phases: Phases, chunks: Sequence[int]) -> Phases | None:
    """The halves with checkpoints, as copies.

    Before:

        forward(x, h):
            for t in 0..T, h from h:
                v1 = mul(h[t-1], x[t])
                h[t] = v1
                v2[t] = v1
            return y=h[T-1], saved:mul=v2
        backward(x, h, grad:y, saved:mul):
            v1 = shift(saved:mul, h)
            for t in reversed 0..T, c from grad:y:
                v2 = mul(c[t+1], x[t])
                v3 = mul(c[t+1], v1[t])
                c[t] = v2
                v4[t] = v3
            return grad:x=v4

    After:

        forward(x, h):
            for r in 0..T/16 runs of E1, h from h:
                for t in 0..E1, c from h[r-1]:
                    v1 = mul(c[t-1], x[r][t])
                    c[t] = v1
                    v2[t] = v1
                h[r] = c[E1-1]
                v3[r] = h[r-1]
            return y=h[T/16-1], saved:state=v3
        backward(x, h, grad:y, saved:state):
            for r in reversed 0..T/16 runs of E1, c from grad:y:
                for t in 0..E1, d from saved:state[r]:
                    v1 = mul(d[t-1], x[r][t])
                    d[t] = v1
                    v2[t] = v1
                v3 = shift(v2, saved:state[r])
                for t in reversed 0..E1, e from c[r+1]:
                    v4 = mul(e[t+1], x[r][t])
                    v5 = mul(e[t+1], v3[t])
                    e[t] = v4
                    v6[t] = v5
                c[r] = e[0]
                v7[r] = v6
            return grad:x=v7

    Args:
        chunks: the steps between checkpoints on the tape; then of those that backward makes
            within such a run, each a divisor of the one before.

    Returns:
        None where no loop can be cut.
    """
    both = _Joined(phases)
    is_cut = False
    for length in both.cut_lengths:
        # The two directions of a layer are loops of one length; no run of steps serves both.
        for reverse in (False, True):
            while both.cut(length, chunks, reverse):  # a cluster at a time: each changes the block
                is_cut = True
    if not is_cut:
        return None
    phases_after = both.split()
    _drop_unread(phases_after.backward.net)
    return phases_after


def _drop_unread(net: Net) -> None:
    """Runs that backward makes again give what its gradients read, not all that forward's gave."""
    for op in reversed([op for op in net.walk() if isinstance(op, Chunks)]):  # innermost first
        drop_dead(op.body.block)


class _Joined:
    """Both halves as one net.

    Attributes:
        again: ops of backward that depend on no outside gradient.
        cut_lengths: what loops run over.
    """

    def __init__(self, phases: Phases) -> None:
        self.program = phases.forward.copy()
        self.net, self.block = self.program.net, self.program.net.body.block
        back = phases.backward.copy()
        inputs, forward_outputs = self.net.inputs, self.net.outputs
        outputs = self.net.outputs_of(None)
        end = self.block.last_op
        assert isinstance(end, Yield)
        roles, grads = back.net.input_roles, back.net.inputs_of("grad")
        for name, arg in back.net.inputs.items():
            if name in grads:
                outer: SSAValue = self.block.insert_arg(arg.type, len(self.block.args))
            elif name in roles:
                outer = forward_outputs[roles[name].of if roles[name].kind == "kept" else name]
            else:
                outer = inputs[name]
            arg.replace_all_uses_with(outer)
        outputs |= back.net.outputs
        *moved, back_end = back.net.body.block.ops
        for op in moved:
            op.detach()
            self.block.insert_op_before(op, end)
        back_end.detach()
        back_end.erase()
        self.net.give(outputs, back.net.output_roles)
        self.net.name_added(grads, roles)
        cse(self.block, (Source, *VIEWS))  # no more: what backward repeats is to stay its own
        Dce().rewrite(self.net)
        late = late_ops(self.net)
        self._symbols = 0
        self.cut_lengths = self.lengths()
        self.again = {op for op in moved if op.parent is not None and op not in late}

    def cut(self, length: Dim, chunks: Sequence[int], reverse: bool) -> bool:
        """Cut some loops of one length and direction; whether there were any."""
        cut = Cut(length, chunks[0], self._symbol())
        runs = strip_mine_time(self.block, *self._phases(), cut, reverse)
        if runs is None:
            return False
        # Forward has the shorter runs too, without marks of their own: else its buffers would be
        # longer than those of backward.
        if len(chunks) > 1:
            inner = Cut(Dim.of(cut.extent), chunks[-1], self._symbol())
            strip_mine_loops(runs.forward.body.block, inner, reverse)
        for chunk in chunks[1:]:
            cut = Cut(Dim.of(cut.extent), chunk, self._symbol())
            block = runs.backward.body.block
            # Runs within runs: backward makes checkpoints of a run again, closer to each other, so
            # that less is kept at a time.
            runs = strip_mine_time(block, runs.early, runs.late, cut, reverse) or runs
        return True

    def lengths(self) -> list[Dim]:
        """The symbols that loops run over."""
        steps = [op.steps for op in self.block.ops if isinstance(op, Scan)]
        # A run's shapes have E where these have T: T + 1 steps would become E + 1, not a part of T
        # + 1.
        return list(dict.fromkeys(d for d in steps if d.is_symbol))

    def _symbol(self) -> str:
        """A name that nothing has."""
        self._symbols += 1
        name = f"E{self._symbols}"
        while name in self.program.symbols:
            name = f"_{name}"
        return name

    def _phases(self) -> tuple[list[Operation], list[Operation]]:
        """The ops that do not wait for an outside gradient, and those that do."""
        late = late_ops(self.net)
        ops = [op for op in self.block.ops if not isinstance(op, Yield)]
        return [op for op in ops if op not in late], [op for op in ops if op in late]

    def split(self) -> Phases:
        """The halves again; between them is what backward needs and cannot recompute cheaply."""
        crossing, roles = _Border(self).crossing()
        clones = dict[SSAValue, SSAValue]()
        module = self.program.module.clone(clones)
        backward = replace(self.program, module=module, arrays=dict(self.program.arrays))
        make_backward(backward, {name: clones[v] for name, v in crossing.items()}, roles)
        make_forward(self.program, crossing, roles)
        return phases_of(self.program, backward, roles)


class _Border:
    """What goes from forward to backward."""

    def __init__(self, both: _Joined) -> None:
        self.both = both
        self.late = late_ops(both.net)
        self.outputs: dict[SSAValue, str] = {}
        for name, value in both.net.outputs_of(None).items():
            # Backward may as well read the output's elements under this shape.
            while isinstance(value.owner, Reshape):
                value = value.owner.x
            self.outputs.setdefault(value, name)
        self._cheap: dict[SSAValue, bool] = {}

    def crossing(self) -> tuple[dict[str, SSAValue], dict[str, Role]]:
        """What backward takes, by its ports, and their roles."""
        net, values = self.both.net, self._needed()
        reserved = {*net.inputs, *net.outputs, *self.both.program.params}
        roles = labelled(map(self._role, values), reserved)
        return dict(zip(roles, values, strict=True)), roles

    def _role(self, value: SSAValue) -> Role:
        output = self.outputs.get(value)
        return saved_role(value) if output is None else Role("kept", output)

    def _needed(self) -> list[SSAValue]:
        """What forward computes of what the gradients need, in the order of the search."""
        crossing, seen = list[SSAValue](), set[SSAValue]()
        for grad in self.both.net.outputs_of("grad").values():
            work = [grad]
            while work:
                value = work.pop()
                op = value.owner
                if value in seen or isinstance(op, Block):
                    continue
                seen.add(value)
                # Backward computes these itself, so that their operands are asked for in their
                # place.
                if op in self.late or op in self.both.again or self._is_cheap(value):
                    work += op.operands
                else:
                    crossing.append(value)
        return crossing

    def _is_cheap(self, value: SSAValue) -> bool:
        """Whether a value is views, fills and arithmetic on what the caller gives."""
        for inner in () if value in self._cheap else post_order(value, self._makers):
            is_free = isinstance(inner.owner, Block | Source)
            makers = [self._cheap[v] for v in self._read(inner)]
            # Without makers it is computed from what is not cheap: a product, say, or a loop.
            self._cheap[inner] = is_free or (bool(makers) and all(makers))
        return self._cheap[value]

    def _makers(self, value: SSAValue) -> list[SSAValue]:
        return [v for v in self._read(value) if v not in self._cheap]

    def _read(self, value: SSAValue) -> list[SSAValue]:
        """A value's operands, if it may be cheap to compute again."""
        op = value.owner
        if isinstance(op, Block) or not isinstance(op, (Elementwise, *VIEWS)):
            return []
        # Rows for all steps would be what checkpoints are to save, however cheap each row is.
        return [] if self._is_long(value) and not isinstance(op, Reshape) else list(op.operands)

    def _is_long(self, value: SSAValue) -> bool:
        """Whether a value has rows for steps."""
        return any(d.symbols & n.symbols for d in dims_of(value) for n in self.both.cut_lengths)
