"""Loop fission: a loop over several layers becomes one loop a layer, with more work in bulk."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, SSAValue

from rnncc.ir.ops.control import Net, Scan, Yield
from rnncc.ir.ops.linear import Matmul
from rnncc.ir.rewriting import NetPass, run_all, scans_of
from rnncc.passes.dependence import Kind, kinds_of
from rnncc.records import record


@record
class SplitScans(NetPass):
    """Loop fission: one loop a layer, where that lets a product be done in bulk.

    Layer 1 of a stacked net reads layer 0's state, and layer 0 nothing of layer 1's.
    The carries that depend on each other form a layer (a strongly connected component); a row of
    ys is a layer without a carry. A layer with a product of earlier layers' values and a const
    moves to a later loop, which reads those values as xs: there `hoist` does the product for all
    steps at once. Loops in which no product would be won stay whole.

    Before:

        for t in 0..T, h from h, g from g:
            v1 = add(x[t], h[t-1])
            v2 = matmul(v1, w)
            v3 = add(v2, g[t-1])
            h[t] = v1
            g[t] = v3
        return g[T-1]

    After:

        for t in 0..T, h from h:
            v1 = add(x[t], h[t-1])
            h[t] = v1
            v2[t] = v1
        for t in 0..T, g from g:
            v3 = matmul(v2[t], w)
            v4 = add(v3, g[t-1])
            g[t] = v4
        return g[T-1]
    """

    name = "rnn-split-scans"

    def rewrite(self, net: Net) -> bool:
        return run_all(_split(scan) for scan in scans_of(net.body.block))


def _split(scan: Scan) -> bool:
    if scan.gate is not None:
        return False  # each part would have to know when the others end
    plan = _Plan(scan)
    if max([*plan.carry_stage, *plan.row_stage], default=0) == 0:
        return False
    plan.place()
    sequences: dict[SSAValue, SSAValue] = {}
    for stage in plan.stages:
        _build_stage(plan, stage, sequences)
    scan.detach()
    scan.erase()
    return True


@dataclass
class _Stage:
    """One of the loops: its carries and ys by position, its ops, and what it hands on."""

    carries: list[int]
    rows: list[int]
    ops: set[Operation] = field(default_factory=set[Operation])
    reads: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])
    makes: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])


class _Plan:
    """Which stage each carry, row and op of a body belongs to."""

    def __init__(self, scan: Scan) -> None:
        self.scan = scan
        self.kinds = kinds_of(scan)
        self.carry_args = list(scan.groups[1])
        self.nexts, self.rows = scan.yields
        self._depends = self._dependences()
        self._reach = dict[int, set[int]]()
        self.carry_stage = [0] * len(self.nexts)
        self.row_stage = [0] * len(self.rows)
        cones = [_cone(value) for value in (*self.nexts, *self.rows)]
        self._won = [self._won_products(cone, cones) for cone in cones]
        while self._raise_stages():
            pass

    def _dependences(self) -> dict[SSAValue, frozenset[int]]:
        """The carries that each value of the body is computed from in the same step."""
        depends = {arg: frozenset[int]() for arg in self.scan.body.block.args}
        depends |= {arg: frozenset([i]) for i, arg in enumerate(self.carry_args)}
        for op in self.scan.body.block.ops:
            union = frozenset[int]().union(*(depends[v] for v in op.operands))
            depends |= dict.fromkeys(op.results, union)
        return depends

    def _reachable(self, start: int) -> set[int]:
        """The carries that a carry depends on in any number of steps, itself included."""
        if start not in self._reach:
            reached, work = {start}, [start]
            while work:
                new = self._depends[self.nexts[work.pop()]] - reached
                reached |= new
                work += new
            self._reach[start] = reached
        return self._reach[start]

    def _won_products(
        self, cone: set[Operation], cones: list[set[Operation]]
    ) -> list[frozenset[int]]:
        """The carries behind each product that a later loop could do in bulk.

        It cannot where a layer that the product depends on needs the product itself.
        """
        won: list[frozenset[int]] = []
        for op in cone:
            if not isinstance(op, Matmul) or self.kinds[op.b] != Kind.CONST:
                continue
            earlier = self._depends[op.a]
            needed_by = [i for i in range(len(self.nexts)) if op in cones[i]]
            within = set[int]().union(*(self._reachable(i) for i in earlier))
            # Without carries behind it, `hoist` takes the product out of the loop as it is.
            if earlier and not within.intersection(needed_by):
                won.append(earlier)
        return won

    def _raise_stages(self) -> bool:
        """Put carries and rows behind what they read; whether any moved."""
        before = [*self.carry_stage, *self.row_stage]
        for i, value in enumerate((*self.nexts, *self.rows)):
            stages = [self.carry_stage[j] for j in self._depends[value]]
            # A product is done between two loops: its operand is a sequence only behind the first.
            stages += [1 + max(self.carry_stage[j] for j in won) for won in self._won[i]]
            group, at = self._slot(i)
            group[at] = max([group[at], *stages])
        return before != [*self.carry_stage, *self.row_stage]

    def _slot(self, i: int) -> tuple[list[int], int]:
        n = len(self.nexts)
        return (self.carry_stage, i) if i < n else (self.row_stage, i - n)

    def place(self) -> None:
        """Make the stages, the last one first: what it reads of earlier ones they hand on."""
        count = 1 + max([*self.carry_stage, *self.row_stage])
        self.stages = [
            _Stage(
                [i for i, at in enumerate(self.carry_stage) if at == stage],
                [i for i, at in enumerate(self.row_stage) if at == stage],
            )
            for stage in range(count)
        ]
        home = self._homes()
        for number in reversed(range(count)):
            stage = self.stages[number]
            work = [self.nexts[i] for i in stage.carries] + [self.rows[i] for i in stage.rows]
            work += stage.makes
            while work:
                value = work.pop()
                earlier = home.get(value, number)
                if earlier < number:
                    stage.reads[value] = self.stages[earlier].makes[value] = None
                elif isinstance(value.owner, Operation) and value.owner not in stage.ops:
                    stage.ops.add(value.owner)
                    work += value.owner.operands

    def _homes(self) -> dict[SSAValue, int]:
        """The stage that computes each value of kind STEP: that of its first reader."""
        home = dict(zip(self.carry_args, self.carry_stage, strict=True))
        stage_of: dict[Operation, int] = {}
        yields, ends = self.scan.body.block.last_op, [*self.carry_stage, *self.row_stage]
        for op in reversed(list(self.scan.body.block.ops)):
            reads = [use for result in op.results for use in result.uses]
            at = [ends[u.index] if u.operation is yields else stage_of[u.operation] for u in reads]
            # The first stage that reads a value computes it and hands it on; later ones read that.
            stage_of[op] = min(at, default=0)
            # What rows and consts alone decide is computed again in each loop that reads it, from
            # where `hoist` takes it out.
            if all(self.kinds[result] == Kind.STEP for result in op.results):
                home |= dict.fromkeys(op.results, stage_of[op])
        return home


def _cone(value: SSAValue) -> set[Operation]:
    """The ops that a value is computed by."""
    cone, work = set[Operation](), [value.owner]
    while work:
        op = work.pop()
        if isinstance(op, Operation) and op not in cone:
            cone.add(op)
            work += [x.owner for x in op.operands]
    return cone


def _build_stage(plan: _Plan, stage: _Stage, sequences: dict[SSAValue, SSAValue]) -> None:
    """Insert one stage's scan in front of the old one and take over that one's results."""
    old = plan.scan
    consts, carry, rows = old.groups
    args = [*consts, *(carry[i] for i in stage.carries), *rows, *stage.reads]
    block = Block(arg_types=[arg.type for arg in args])
    env: dict[SSAValue, SSAValue] = dict(zip(args, block.args, strict=True))
    for op in old.body.block.ops:
        if op in stage.ops:
            block.add_op(op.clone(env))
    values = [plan.nexts[i] for i in stage.carries] + [plan.rows[i] for i in stage.rows]
    block.add_op(Yield([env[value] for value in (*values, *stage.makes)]))
    inits = [old.inits[i] for i in stage.carries]
    # All that the old loop read: what this stage does not is dropped by `simplify`.
    xs = [*old.xs, *(sequences[value] for value in stage.reads)]
    scan = Scan(list(old.consts), inits, xs, block, old.steps, bool(old.reverse))
    scan.location = old.location
    assert old.parent is not None
    old.parent.insert_op_before(scan, old)
    results = [old.finals[i] for i in stage.carries] + [old.ys[i] for i in stage.rows]
    for before, after in zip(results, scan.results, strict=False):
        before.replace_all_uses_with(after)
    sequences |= dict(zip(stage.makes, scan.results[len(results) :], strict=True))
