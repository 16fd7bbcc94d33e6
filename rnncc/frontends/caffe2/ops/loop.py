"""While: a net that runs again and again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from rnncc.frontends.caffe2.blobs import Blob
from rnncc.frontends.caffe2.control import Control, forget, read_outside, scopes_of
from rnncc.frontends.caffe2.operator import ANY, Emitter, Operator
from rnncc.frontends.caffe2.recurrent import names_written, needed_net, read_net
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.frontends.caffe2.solve import walk
from rnncc.frontends.caffe2.trip_count import (
    CountedLoop,
    Loops,
    TripCount,
    count_iterations,
)
from rnncc.ir.builder import Builder, Values
from rnncc.ir.dims import Dim
from rnncc.ir.gates import DEFAULT_LIMIT, NESTED_LIMIT, Branch, repeat

if TYPE_CHECKING:
    from rnncc.frontends.caffe2.graph import Resolver, Scope


@dataclass
class Carried:
    """A blob that the loop writes: its versions.

    Attributes:
        y: after the loop.
        outer: before the loop.
        entry: where the condition net begins; it stands for `outer` or for `end`.
        start: where the body begins; None where nothing has written it then.
        end: where the body ends.
        is_gate: whether it is the condition.
        live: whether an iteration reads what the iteration before wrote, or something behind the
        loop does.
    """

    y: Blob
    outer: Blob | None
    entry: Blob | None
    start: Blob | None
    end: Blob
    is_gate: bool = False
    live: bool = False

    @property
    def begins(self) -> tuple[Blob, Blob] | None:
        """`outer` and `entry`, where anything reads what was before the loop."""
        if self.outer is None or self.entry is None or not (self.live or self.is_gate):
            return None
        read = self.start is self.entry or self.entry.uses > 0
        return (self.outer, self.entry) if read else None

    @property
    def versions(self) -> list[Blob]:
        """Those that matter, which have one shape."""
        start = () if self.start is None else (self.start,)
        return [self.y, self.end, *((*start, *(self.begins or ())) if self.live else ())]

    def mark(self) -> bool:
        """Count uses of the versions where one of them is used; whether that is new."""
        used = any(blob.uses for blob in (self.y, self.entry, self.start) if blob is not None)
        new, self.live = used and not self.live, used
        for blob in self.versions[1:] if new else ():
            blob.uses += 1
        return new


class While(Control):
    """Run `cond_net`, if there is one; while the first input, one bool, holds, run `loop_net` and
    `cond_net` again. What they write keeps its shape and type.

    The number of iterations is found at import where integers and bools of the net and its
    parameters decide it; otherwise there are at most `max_iterations`, 100,000 where that is not
    given.

    Refused: a condition that is not one bool, or that nothing inside writes; a blob whose shape or
    type an iteration changes; training where the number of iterations has no bound.
    """

    inputs = (1, ANY)
    outputs = (0, ANY)

    def resolve(self, maker: Resolver, scope: Scope) -> None:
        loop_net, cond_net = needed_net(self, "loop_net"), read_net(self, "cond_net")
        nets = [loop_net] if cond_net is None else [cond_net, loop_net]
        names = dict.fromkeys(n for net in nets for n in names_written(self, net))
        spaces = scopes_of(scope)
        forget(spaces)
        inner = dict(scope)
        entries = {n: Blob(n) for n in names if n in scope and not scope[n].opaque}
        inner.update(entries)
        self.before = list[Operator]()
        if cond_net is not None:
            self.before = self.operators_inside(maker, cond_net, inner, "condition op")
        starts = dict(inner)
        self.body = self.operators_inside(maker, loop_net, inner, "body op")
        forget(spaces)
        self.inside = [*self.before, *self.body]
        self.weigh(self.body, self.before)
        self._check_condition(names, starts)
        self.iterations = self._count(maker.loops, scope, entries, inner)
        self.limit = self._limit(maker.loops)
        self._count_levels(maker.loops)
        self.carried = self._carry(maker, names, scope, entries, starts, inner)
        self.ys = self.declared(maker, scope, f"is written by nothing in {self.text}")

    def _check_condition(self, names: dict[str, None], starts: Scope) -> None:
        name = self.op.input[0]
        if name not in names:
            raise self.error(f'writes its condition "{name}" nowhere: it would never end')
        self.gate = starts[name]
        self.check_condition(self.gate)

    def _count(self, loops: Loops, scope: Scope, entries: Scope, ends: Scope) -> TripCount | None:
        back = {entry: ends[name] for name, entry in entries.items()}
        start = {entry: scope[name].known for name, entry in entries.items()}
        return count_iterations(CountedLoop(self.before, self.body, self.gate, back), start, loops)

    def _limit(self, loops: Loops) -> int:
        limit, known = loops.max_iterations, self.iterations
        if known is not None and (known.exact or limit is None):
            return known.most
        if known is not None and limit is not None:
            return min(known.most, limit)
        if loops.training and limit is None:
            what = "may take any number of iterations, and training keeps values of each"
            raise self.error(what, "give the most that there can be: --max-iterations")
        return DEFAULT_LIMIT if limit is None else limit

    def _count_levels(self, loops: Loops) -> None:
        """How deep loops without a bound are nested here."""
        self.around = self.levels = 0
        if self.iterations is None and loops.max_iterations is None:
            inner = [op for op in walk(self.inside) if isinstance(op, While) and op.levels]
            self.levels = 1 + max((op.levels for op in inner), default=0)
            for op in inner:
                op.around += 1

    def _kept_limit(self) -> int:
        """The limit; smaller where the iterations of loops in loops are kept for a gradient."""
        if not self.has_gradient or self.around + self.levels < 2:
            return self.limit
        if self.around + self.levels > 2:
            what = "is nested with others, and gradients need each iteration's values"
            raise self.error(what, "give the most iterations that there can be: --max-iterations")
        # Values are kept for each iteration of both loops: for the product of their limits.
        return NESTED_LIMIT

    def _carry(
        self,
        maker: Resolver,
        names: dict[str, None],
        scope: Scope,
        entries: Scope,
        starts: Scope,
        ends: Scope,
    ) -> list[Carried]:
        """The blobs that the loop writes; what may hold nothing behind it is marked."""
        written = [n for n in names if n in ends and ends[n] is not scope.get(n)]
        carried = [self._carry_one(n, maker, scope, entries, starts, ends[n]) for n in written]
        return [c for c in carried if c is not None]

    def _carry_one(
        self,
        name: str,
        maker: Resolver,
        scope: Scope,
        entries: Scope,
        starts: Scope,
        end: Blob,
    ) -> Carried | None:
        """A blob that the loop writes; None where it holds nothing, or may hold nothing, behind."""
        iterations = self.iterations if self.is_counted else None
        runs = iterations is not None and iterations.most > 0
        entry, outer = entries.get(name), scope.get(name)
        start = None if starts.get(name) is outer else starts.get(name)
        if outer is None and end is maker.absent(name):
            return None
        if start is None and outer is None and not runs:
            outer = maker.absent(name)
            start = entry = None if outer is None else Blob(name)
        if end.opaque or (start is None and not runs):
            why = f"holds nothing unless the loop_net of {self.text} runs"
            scope[name] = Blob(name, opaque=True, lacks=end.lacks if end.opaque else why)
            return None
        known = None if iterations is None or entry is None else iterations.last.get(start or end)
        scope[name] = y = Blob(name, shared=end.shared, known=known)
        begin, is_gate = outer if entry else None, name == self.op.input[0]
        carried = Carried(y, begin, entry, start, end, is_gate)
        if is_gate:
            self._count_reads(carried, outer)
        return carried

    def _count_reads(self, gate: Carried, outer: Blob | None) -> None:
        """The loop itself reads its condition, as it begins and after each iteration."""
        gate.end.uses += 1
        self.gate.uses += self.gate is not gate.entry
        for blob in gate.begins or ():
            blob.uses += blob is outer

    def mark(self) -> bool:
        return sum(c.mark() for c in self.carried) > 0

    def nested(self) -> Sequence[Operator]:
        """In the order of the arguments."""
        names = [arg.name for arg in self.op.arg if arg.name in ("cond_net", "loop_net")]
        return self.inside if names[0] == "cond_net" else [*self.body, *self.before]

    @property
    def is_counted(self) -> bool:
        """Whether it is known how often it runs."""
        return self.iterations is not None and self.iterations.exact

    def captured(self) -> Sequence[Blob]:
        inits = [c.begins[0] for c in self.carried if c.begins is not None]
        return list(dict.fromkeys([*inits, *self._consts()]))

    def _consts(self) -> list[Blob]:
        """What every iteration reads of the net around."""
        own = {blob for c in self.carried for blob in (c.entry, c.start)}
        return [x for x in read_outside(self.inside) if x not in own]

    def produced(self) -> Sequence[Blob]:
        return [c.y for c in self.carried if c.live or c.is_gate or c.y.uses]

    def infer(self, s: Shapes) -> None:
        self.expect_condition(s, self.gate)
        self.expect_condition(s, self.xs[0])
        for c in self.carried:
            how = f'"{c.y.name}" does not keep its shape and type'
            self.agree(s, how, c.versions)

    def assume(self, s: Shapes, level: int) -> None:
        if level == 3:
            self.assume_condition(s, self.gate)
            self.assume_condition(s, self.xs[0])

    def build(self, e: Emitter) -> None:
        for c in self.carried:
            if c.begins is not None:
                outer, entry = c.begins
                e.values[entry] = e[outer]
        for op in self.before:
            e.build(op)
        live = [c for c in self.carried if c.live and not c.is_gate]
        consts = [x for x in self._consts() if x.value is None]
        inits = [self._first(e, c) for c in live]
        gate = e.b.reshape(e[self.gate], ())

        def body(inner: Builder, values: list[SSAValue], carry: list[SSAValue]) -> list[SSAValue]:
            step = Emitter(inner, e.shapes, dict(zip(consts, values, strict=True)))
            step.values[self.gate] = inner.reshape(carry[0], e.dims(self.gate))
            starts = zip(live, carry[1:], strict=True)
            step.values |= {c.start: value for c, value in starts if c.start is not None}
            self._build_iteration(step)
            ends = [step[c.end if c.start is None else c.start] for c in live]
            return [inner.reshape(step[self.gate], ()), *ends]

        finals = self._loop(e.b, [e[x] for x in consts], [gate, *inits], body)
        for c in self.carried:
            if c.is_gate:
                e[c.y] = e.b.reshape(finals[0], e.dims(c.y))
        for c, final in zip(live, finals[1:], strict=True):
            e[c.y] = final

    def _first(self, e: Emitter, c: Carried) -> SSAValue:
        """What a blob is as the first iteration begins."""
        return e.b.fill(0, e.dims(c.y), c.y.dtype or "f32") if c.start is None else e[c.start]

    def _build_iteration(self, step: Emitter) -> None:
        """The body, then the condition for the next iteration."""
        for op in self.body:
            step.build(op)
        ends = [(c.entry, c.end) for c in self.carried if c.entry is not None]
        values = {entry: step[end] for entry, end in ends if end in step.values}
        step.values |= values
        for op in self.before:
            step.build(op)

    def _loop(
        self, b: Builder, consts: list[SSAValue], inits: list[SSAValue], body: Branch
    ) -> list[SSAValue]:
        """The loop; a plain scan where the number of iterations is known."""
        if self.limit == 0:
            return inits
        if not self.is_counted:
            proven = self.iterations is not None and self.limit == self.iterations.most
            return repeat(b, consts, inits, body, self._kept_limit(), limited=not proven)

        def step(
            inner: Builder, values: list[SSAValue], carry: list[SSAValue], rows: list[SSAValue]
        ) -> tuple[Values, Values]:
            return body(inner, values, carry), []

        return b.scan(consts, inits, [], step, length=Dim.of(self.limit))[0]


OPERATORS: dict[str, type[Operator]] = {"While": While}
