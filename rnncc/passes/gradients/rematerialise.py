"""Store or recompute: which forward values the backward pass keeps, and which it computes again.

In: a net with its gradients (`differentiate`) and a rule. Out: a `Recomputation`, a minimum cut
between bytes kept and work repeated; `split_phases` carries it out.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass, field
from math import inf

from xdsl.ir import Block, Operation, SSAValue

from rnncc.errors import CompileError
from rnncc.ir.dims import Dim, product
from rnncc.ir.ops.base import RnnOp, cost_of
from rnncc.ir.ops.control import Scan
from rnncc.ir.ops.linear import Matmul
from rnncc.ir.ops.shape import Reshape
from rnncc.ir.ops.source import Param
from rnncc.ir.program import Program
from rnncc.ir.recompute import RULES
from rnncc.ir.types import ITEM_BYTES, dims_of, dtype_of
from rnncc.passes.gradients.min_cut import sink_side
from rnncc.passes.gradients.step_pairs import Pair, late_ops, pairs_of
from rnncc.records import record

ARITHMETIC, FUNCTION = 0.25, 2.0
"""Work for one element, in bytes kept: a float, 4 bytes, is worth 16 sums or 2 functions."""
TRIFLE = 1e-6
"""Factor on work under the rule `all`, where bytes matter first and work only breaks ties."""
VIEW = 1.01
"""Factor on a view's bytes: its operand, which serves other readers too, wins ties."""
REFERENCE = 64
"""The value of every symbol when bytes are weighed against work: only ratios matter."""


@record
class AllSteps:
    """A value of a loop's body, for all steps."""

    scan: Scan
    row: SSAValue


Node = SSAValue | AllSteps
"""A value of the net's block, one of a loop's body at some step, or one for all steps."""


@dataclass
class Recomputation:
    """What backward reads and what it computes again.

    Attributes:
        pairs: the loops it is about.
        saved: values that forward leaves on the tape.
        kept: values that an output of the net holds -> that output.
        repeated: values that backward computes again -> the work, as bytes.
    """

    pairs: list[Pair]
    saved: dict[Node, None] = field(default_factory=dict[Node, None])
    kept: dict[Node, str] = field(default_factory=dict[Node, str])
    repeated: dict[Node, float] = field(default_factory=dict[Node, float])

    def stores(self, row: SSAValue, scan: Scan) -> bool:
        """Whether a value of a loop's body is there for all steps."""
        key = AllSteps(scan, row)
        return key in self.kept or key in self.saved


def rematerialise(program: Program, rule: str | Collection[str] = "auto") -> Recomputation:
    """Choose for a net with its gradients, before other passes change it.

    Before:

        v1 = matmul(x, w)
        v2 = tanh(v1)
        v3 = mul(v2, v2)
        v4 = sin(v3)
        v5 = cos(v3)
        v6 = mul(grad:y, v5)
        v7 = mul(v6, v2)
        v8 = mul(v6, v2)
        v9 = add(v7, v8)
        v10 = mul(v2, v2)
        v11 = sub(1, v10)
        v12 = mul(v9, v11)
        v13 = matmul(v12, w, transpose_b=true)
        return v4, v13

    After:

        save v2
        compute again v5
        compute again v3
        compute again v11
        compute again v10

    Args:
        rule: `none` repeats nothing but views and fills; `all` whatever can be, products too, so
            that the fewest bytes are kept; `auto` where it is cheaper than keeping, never a
            product; or the names of the values to repeat, and no others.

    Raises:
        CompileError: a named value cannot be computed again, or there is none of that name.
    """
    graph = _Graph(program, rule)
    graph.solve()
    return graph.choice


@dataclass
class _Costs:
    """The costs of one node: to keep it, and to compute it again from `operands`."""

    keep: float
    repeat: float
    operands: list[Node]


class _Graph:
    def __init__(self, program: Program, rule: str | Collection[str]) -> None:
        self.program, self.rule = program, rule
        self.net = program.net
        self.choice = Recomputation(pairs_of(self.net))
        self.late = late_ops(self.net)
        self.args: dict[SSAValue, Node] = {}
        self.after: dict[SSAValue, tuple[AllSteps, SSAValue]] = {}
        self.scans: dict[Block, Scan] = {}
        for pair in self.choice.pairs:
            self._add_links(pair.forward)
        self.outputs = self._outputs()
        self.costs: dict[Node, _Costs] = {}
        self.required = list(dict.fromkeys(self._required()))
        self._measure()

    def _add_links(self, scan: Scan) -> None:
        """What a body's arguments stand for."""
        consts, carry, rows = scan.groups
        self.scans[scan.body.block] = scan
        for arg, outer in (*zip(consts, scan.consts), *zip(rows, scan.xs)):  # noqa: B905
            self.args[arg] = self._top(outer)
        parts = zip(carry, scan.inits, scan.yields[0], strict=True)
        if not scan.skips:  # else rows of steps that did not run hold no state
            self.after |= {arg: (AllSteps(scan, new), init) for arg, init, new in parts}

    def _top(self, value: SSAValue) -> Node:
        """A value of the net's block; a loop's ys are known by the rows that they hold."""
        op = value.owner
        return AllSteps(op, op.row_of(value)) if isinstance(op, Scan) and value in op.ys else value

    def _outputs(self) -> dict[Node, str]:
        outputs: dict[Node, str] = {}
        for name, value in self.net.outputs_of(None).items():
            while isinstance(value.owner, Reshape):
                value = value.owner.x
            # Forward cannot leave what waits for an outside gradient; inputs stay the caller's.
            early = not isinstance(value.owner, Block) and value.owner not in self.late
            if early:
                outputs.setdefault(self._top(value), name)
        return outputs

    def _required(self) -> Iterator[Node]:
        """What the backward ops read of the forward ones."""
        rows = {pair.backward: pair for pair in self.choice.pairs}
        for op in self.net.body.block.ops:
            if op not in self.late:
                continue
            values = list(op.operands)
            if isinstance(op, Scan) and op in rows:
                values = [*op.consts, *op.inits]
                for arg, x in zip(op.groups[2], op.xs, strict=True):
                    # What the forward body computes step by step, the backward one may compute
                    # again; any other sequence is read as it is.
                    row = rows[op].rows.get(arg)
                    if row is None:
                        values.append(x)
                    else:
                        yield row
            yield from (self._top(v) for v in values if v.owner not in self.late)

    def _measure(self) -> None:
        """The costs of all that is asked for and what it can be made of."""
        work = list(self.required)
        while work:
            node = work.pop()
            if node not in self.costs:
                self.costs[node] = self._cost(node)
                work += self.costs[node].operands

    def _cost(self, node: Node) -> _Costs:
        if isinstance(node, AllSteps):
            size = _elements(node.row, node.scan.steps) * ITEM_BYTES[dtype_of(node.row)]
            # All rows of a loop: to have them again is to run the loop again, which only
            # checkpoints do.
            return _Costs(0 if node in self.outputs else size, inf, [])
        if node in self.args:  # it is what it stands for
            return _Costs(inf, 0, [self.args[node]])
        if node in self.after:  # the states after each step, shifted
            rows, init = self.after[node]
            # A state before a step is the one after the step before: keeping it too would store it
            # twice.
            return _Costs(inf, 0, [rows, self._top(init)])
        op, scan = node.owner, self._loop_of(node)
        if isinstance(op, Block) and scan is not None:  # a carry, where steps may be skipped
            return _Costs(_elements(node, scan.steps) * ITEM_BYTES[dtype_of(node)], inf, [])
        if isinstance(op, Block | Param):  # the caller's, who keeps it until backward
            return _Costs(0, inf, [])
        if scan is None:
            steps, at_hand = Dim.of(1), node in self.outputs
            operands = [self._top(v) for v in op.operands]
        else:
            steps, at_hand = scan.steps, AllSteps(scan, node) in self.outputs
            operands = list[Node](op.operands)
        keep = 0 if at_hand else _elements(node, steps) * ITEM_BYTES[dtype_of(node)]
        work = _work(op, steps)
        return self._ruled(node, op, _Costs(keep * (VIEW if work == 0 else 1), work, operands))

    def _loop_of(self, value: SSAValue) -> Scan | None:
        """The loop that a value is computed in."""
        owner = value.owner
        block = owner if isinstance(owner, Block) else owner.parent
        return None if block is None else self.scans.get(block)

    def _ruled(self, node: SSAValue, op: Operation, costs: _Costs) -> _Costs:
        """The costs under the rule."""
        hint = node.name_hint
        named = self.rule not in RULES and hint is not None and hint in self.rule
        if named and costs.repeat == inf:
            what = f"{node.name_hint!r}, of {op.name}, cannot be computed again"
            raise CompileError(self.program.source, what)
        if named:
            # What a user names is computed again whatever that costs.
            costs.keep = inf
            return costs
        if costs.repeat in (0, inf):
            return costs
        if self.rule == "auto":
            # A product is most of a step's work: repeating it is for those who ask for memory by
            # name or by `all`.
            costs.repeat = inf if isinstance(op, Matmul) else costs.repeat
        elif self.rule == "all":
            # Not 0: of two choices of as many bytes the one with less work is to be taken.
            costs.repeat *= TRIFLE
        else:
            costs.repeat = inf
        return costs

    def solve(self) -> None:
        """Cut; a value that is kept for all steps is then free to be read row by row.

        Costs depend on the cut in this alone, and only fall, so that the loop ends.
        """
        while True:
            stored, repeated = self._demanded(self._cut())
            rows = [n.row for n in stored if isinstance(n, AllSteps)]
            shared = [v for v in rows if v in self.costs and self.costs[v].keep > 0]
            if not shared:
                break
            for value in shared:
                self.costs[value].keep = 0
        for node in stored:
            scan = self._loop_of(node) if isinstance(node, SSAValue) else None
            form = AllSteps(scan, node) if scan and isinstance(node, SSAValue) else node
            if form in self.outputs:
                self.choice.kept[form] = self.outputs[form]
            elif isinstance(form, AllSteps) or self.costs[node].keep > 0:
                self.choice.saved[form] = None
        self.choice.repeated = {n: self.costs[n].repeat for n in repeated if n not in self.args}

    def _cut(self) -> set[Node]:
        """The nodes on the side of the backward pass: to be computed there, if asked for."""
        edges = dict[tuple[Hashable, Hashable], float]()
        for node, costs in self.costs.items():
            # two vertices a node: a cut between them keeps the value, a cut from the store pays for
            # the work; operands must be available where the work is done
            available, computed = (node, "available"), (node, "computed")
            _connect(edges, "store", computed, costs.repeat)
            _connect(edges, computed, available, costs.keep)
            for operand in costs.operands:
                _connect(edges, (operand, "available"), computed, inf)
        for node in self.required:
            _connect(edges, (node, "available"), "backward", inf)
        side = sink_side(edges, "store", "backward")
        return {node for node in self.costs if (node, "computed") in side}

    def _demanded(self, computed: set[Node]) -> tuple[list[Node], list[Node]]:
        """What is read as it is, and what is computed again, by need."""
        stored, repeated = dict[Node, None](), dict[Node, None]()
        work = list(reversed(self.required))
        while work:
            node = work.pop()
            if node in stored or node in repeated:
                continue
            if node in computed:
                repeated[node] = None
                work += self.costs[node].operands
            else:
                stored[node] = None
        return list(stored), list(repeated)


def _connect(
    edges: dict[tuple[Hashable, Hashable], float], a: Hashable, b: Hashable, capacity: float
) -> None:
    """Add an edge; an infinite one replaces another, as it must never be cut."""
    if capacity == inf or (a, b) not in edges:
        edges[a, b] = capacity


def _elements(value: SSAValue, steps: Dim) -> float:
    return _number(product(dims_of(value)) * steps)


def _number(count: Dim) -> float:
    return count.evaluate(dict.fromkeys(count.symbols, REFERENCE))


def _work(op: Operation, steps: Dim) -> float:
    """The work of computing an op's result once a step; infinite where it cannot be repeated."""
    elements = op.work() if isinstance(op, RnnOp) else None
    if elements is None:
        return inf
    return _number(elements * steps) * (FUNCTION if cost_of(op) else ARITHMETIC)
