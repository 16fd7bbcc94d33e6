"""If: of two nets, one runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from rnncc.frontends.caffe2.blobs import Blob
from rnncc.frontends.caffe2.control import Control, forget, read_outside, scopes_of
from rnncc.frontends.caffe2.operator import ANY, Emitter, Operator
from rnncc.frontends.caffe2.recurrent import needed_net, read_net
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.builder import Builder
from rnncc.ir.gates import when

if TYPE_CHECKING:
    from rnncc.frontends.caffe2.graph import Resolver, Scope

NETS = (("then_net", "then op"), ("else_net", "else op"))


@dataclass
class MergedBlob:
    """A blob that a branch writes.

    Attributes:
        y: what it is afterwards.
        earlier: what it was before.
        ends: what it is after each branch; None where that does not write it.
        live: whether anything needs y.
    """

    y: Blob
    earlier: Blob | None
    ends: Sequence[Blob | None]
    live: bool = False

    @property
    def kept(self) -> Blob | None:
        """What it was before, where a branch leaves it so."""
        return self.earlier if None in self.ends else None

    @property
    def versions(self) -> list[Blob]:
        """Everything that y may be."""
        return [blob for blob in (*self.ends, self.kept) if blob is not None]


class If(Control):
    """Run `then_net` if the first input, one bool, holds, else `else_net`, if there is one. What
    the one that runs does not write stays as it was; where nothing wrote it before and something
    reads it behind, it is an input of the model.

    Refused: a condition that is not one bool; branches that leave a blob in several shapes or
    types; reading, within a Do or a step, what only the other branch has written.
    """

    inputs = (1, ANY)
    outputs = (0, ANY)

    def resolve(self, maker: Resolver, scope: Scope) -> None:
        self.condition = self.xs[0]
        self.check_condition(self.condition)
        self.condition.uses += 1
        outcome = self.condition.known
        self.taken = None if outcome is None else int(not outcome[1])
        self.branches = list[Sequence[Operator]]()
        spaces = scopes_of(scope)
        before = [space.state for space in spaces]
        states, changes = [before], list[dict[str, Blob]]()
        for name, word in NETS:
            net = needed_net(self, name) if name == "then_net" else read_net(self, name)
            for space, state in zip(spaces, before, strict=True):
                space.restore(state)
            inner = dict(scope)
            ops = [] if net is None else self.operators_inside(maker, net, inner, word)
            self.branches.append(ops)
            states.append([space.state for space in spaces])
            changes.append({n: b for n, b in inner.items() if scope.get(n) is not b})
        self.inside = [op for branch in self.branches for op in branch]
        self.weigh(self.inside)
        self.merged = list[MergedBlob]()
        if self.taken is not None:
            scope.update(changes[self.taken])
            for space, state in zip(spaces, states[1 + self.taken], strict=True):
                space.restore(state)
        else:
            forget(
                s for s, *known in zip(spaces, *states, strict=True) if known[1:] != [known[0]] * 2
            )
            self._merge(maker, scope, changes)
        self.ys = self.declared(maker, scope, f"is written by neither branch of {self.text}")

    def _merge(self, maker: Resolver, scope: Scope, changes: Sequence[Scope]) -> None:
        for name in dict.fromkeys([*changes[0], *changes[1]]):
            earlier, ends = scope.get(name), [change.get(name) for change in changes]
            if earlier is None:
                absent = maker.absent(name)
                ends = [None if end is absent else end for end in ends]
                earlier = absent if None in ends else None
            if ends == [None, None]:
                continue
            merged = MergedBlob(Blob(name), earlier, ends)
            self._lack(merged)
            merged.y.shared = any(blob.shared for blob in merged.versions)
            if not merged.y.opaque:
                self.merged.append(merged)
            scope[name] = merged.y

    def _lack(self, merged: MergedBlob) -> None:
        """Mark what may hold nothing."""
        if len(merged.versions) < 2:
            which = NETS[merged.ends[0] is None][0]
            merged.y.lacks = f"holds nothing unless the {which} of {self.text} runs"
        empty = next((blob for blob in merged.versions if blob.opaque), None)
        merged.y.lacks = merged.y.lacks if empty is None else empty.lacks
        merged.y.opaque = len(merged.versions) < 2 or empty is not None

    def mark(self) -> bool:
        new = [merged for merged in self.merged if merged.y.uses and not merged.live]
        for merged in new:
            merged.live = True
            for blob in merged.versions:
                blob.uses += 1
        return bool(new)

    def nested(self) -> Sequence[Operator]:
        """In the order of the arguments."""
        names = [arg.name for arg in self.op.arg if arg.name in ("then_net", "else_net")]
        ordered = self.branches if names[0] == "then_net" else self.branches[::-1]
        return [op for branch in ordered for op in branch]

    def captured(self) -> Sequence[Blob]:
        if self.taken is not None:
            return read_outside(self.branches[self.taken])
        read = [x for branch in self.branches for x in read_outside(branch)]
        starts = [merged.kept for merged in self.merged if merged.live and merged.kept is not None]
        return list(dict.fromkeys([self.condition, *read, *starts]))

    def produced(self) -> Sequence[Blob]:
        if self.taken is not None:
            return [y for op in self.branches[self.taken] for y in op.produced()]
        return [merged.y for merged in self.merged if merged.y.uses]

    def infer(self, s: Shapes) -> None:
        self.expect_condition(s, self.condition)
        for merged in self.merged:
            how = f'"{merged.y.name}" differs between the branches'
            self.agree(s, how, [merged.y, *merged.versions])

    def assume(self, s: Shapes, level: int) -> None:
        if level == 3:
            self.assume_condition(s, self.condition)

    def build(self, e: Emitter) -> None:
        if self.taken is not None:
            for op in self.branches[self.taken]:
                e.build(op)
            return
        gate = e.b.reshape(e[self.condition], ())
        live = [merged for merged in self.merged if merged.live]
        for merged in live:
            start = None if merged.kept is None else e[merged.kept]
            if start is None:
                start = e.b.fill(0, e.dims(merged.y), merged.y.dtype or "f32")
            e.values[merged.y] = start
        for index, ops in enumerate(self.branches):
            mine = [merged for merged in live if merged.ends[index] is not None]
            if mine:
                self._build_branch(e, gate, index, ops, mine)
            gate = e.b.logical_not(gate) if index == 0 and self.branches[1] else gate

    def _build_branch(
        self,
        e: Emitter,
        gate: SSAValue,
        index: int,
        ops: Sequence[Operator],
        live: list[MergedBlob],
    ) -> None:
        before = {merged.kept for merged in live}
        consts = [x for x in read_outside(ops) if x.value is None and x not in before]

        def body(inner: Builder, inputs: list[SSAValue], carry: list[SSAValue]) -> list[SSAValue]:
            values = dict(zip(consts, inputs, strict=True))
            starts = zip(live, carry, strict=True)
            values |= {merged.kept: v for merged, v in starts if merged.kept is not None}
            step = Emitter(inner, e.shapes, values)
            for op in ops:
                step.build(op)
            ends = [merged.ends[index] for merged in live]
            return [step[end] for end in ends if end is not None]

        captured, inits = [e[x] for x in consts], [e[merged.y] for merged in live]
        finals = when(e.b, gate, captured, inits, body)
        for merged, final in zip(live, finals, strict=True):
            e.values.pop(merged.y)
            e[merged.y] = final


OPERATORS: dict[str, type[Operator]] = {"If": If}
