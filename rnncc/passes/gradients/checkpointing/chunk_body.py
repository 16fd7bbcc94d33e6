"""Time cut into runs: a cluster of ops becomes the body of a `rnn.chunks`.

What a loop hands from step to step, a sum gathers, or a shifted sequence looks back on, the runs
hand on in their carry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import BoolAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.ops.base import Sized
from rnncc.ir.ops.chunks import Chunks
from rnncc.ir.ops.control import Scan, Yield
from rnncc.ir.ops.linear import OrderedSum
from rnncc.ir.ops.shape import Reshape, Shift
from rnncc.ir.types import dims_of, dtype_of, tensor
from rnncc.passes.gradients.checkpointing.time_local import is_timed, rows_a_step
from rnncc.records import record


@record
class Cut:
    """How time is cut: `length` steps into runs of `chunk`; the symbol `extent` is one run's."""

    length: Dim
    chunk: int
    extent: str

    @property
    def names(self) -> dict[str, Dim]:
        """What symbols of the length are in a run."""
        return dict.fromkeys(self.length.symbols, Dim.of(self.extent))

    def inside(self, dims: Sequence[Dim]) -> list[Dim]:
        """A shape as it is in a run."""
        return [d.substitute(self.names) for d in dims]


@dataclass
class Hand:
    """One loop-carried value of the runs: its op, its start, and its names within a run."""

    op: Operation
    init: SSAValue
    arg: SSAValue
    next: SSAValue
    final: SSAValue | None = None


@dataclass
class Body:
    """The body of a chunked loop in the making.

    Attributes:
        inner: a value outside -> its form in a run.
        consts, segments: values outside -> the body's argument.
        hands: the carry.
        ops: those of the cluster, as they are in the body.
        limited: the names in the body of carried gates that must be false in the end.
    """

    cut: Cut
    block: Block = field(default_factory=Block)
    inner: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    consts: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    segments: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    hands: list[Hand] = field(default_factory=list[Hand])
    ops: list[Operation] = field(default_factory=list[Operation])
    limited: list[SSAValue] = field(default_factory=list[SSAValue])

    def add(self, ops: Sequence[Operation]) -> list[Hand]:
        """Append a cluster's ops, in order; what they hand on."""
        first = len(self.hands)
        for op in ops:
            match op:
                case Scan():
                    self._add_scan(op)
                case OrderedSum():
                    init = self._carried(op.init)
                    clone = self._clone(op, [init, *(self._rows(v) for v in op.operands[1:])])
                    self.hands.append(Hand(op, op.init, init, clone.results[0], op.y))
                case Shift():
                    self._add_shift(op)
                case _:
                    self._clone(op, [self._operand(op, v) for v in op.operands])
        return self.hands[first:]

    def _operand(self, op: Operation, value: SSAValue) -> SSAValue:
        return self._rows(value) if is_timed(value, self.cut.length) else self.const(value)

    def const(self, value: SSAValue) -> SSAValue:
        """A value that every run sees whole."""
        if value not in self.consts:
            self.consts[value] = self._argument(value.type)
        return self.consts[value]

    def _rows(self, value: SSAValue) -> SSAValue:
        """A run's rows of a timed value."""
        if value not in self.inner:
            dims, outer = dims_of(value), value
            # One segment serves all shapes under which a sequence is read.
            while isinstance(outer.owner, Reshape) and is_timed(outer.owner.x, self.cut.length):
                outer = outer.owner.x
            # segments have an axis for time alone: rows of T·N are cut where a step begins
            steps = by_step(outer, self.cut.length)
            outer = outer if steps == dims_of(outer) else _after(outer).reshape(outer, steps)
            type_ = tensor(self.cut.inside(dims_of(outer)), dtype_of(value))
            if outer not in self.segments:
                self.segments[outer] = self._argument(type_)
            b = Builder(self.block)
            self.inner[value] = b.reshape(self.segments[outer], self.cut.inside(dims))
        return self.inner[value]

    def steps(self, value: SSAValue) -> SSAValue:
        """A run of a timed value, step by step."""
        dims = by_step(value, self.cut.length)
        return Builder(self.block).reshape(self.inner[value], self.cut.inside(dims))

    def _carried(self, init: SSAValue) -> SSAValue:
        return self._argument(init.type)

    def _argument(self, type_: Attribute) -> SSAValue:
        return self.block.insert_arg(type_, len(self.block.args))

    def _clone(self, op: Operation, operands: Sequence[SSAValue]) -> Operation:
        clone = type(op).create(
            operands=operands,
            result_types=[self._type(result) for result in op.results],
            properties=op.substituted(self.cut.names) if isinstance(op, Sized) else op.properties,
            # In a loop's body T stays the whole length: attention in a step, say, goes over all of
            # it.
            regions=[region.clone() for region in op.regions],
        )
        clone.location = op.location
        self.block.add_op(clone)
        self.ops.append(clone)
        for old, new in zip(op.results, clone.results, strict=True):
            new.name_hint = old.name_hint
            if is_timed(old, self.cut.length):
                self.inner[old] = new
        return clone

    def _type(self, value: SSAValue) -> Attribute:
        if not is_timed(value, self.cut.length):
            return value.type
        return tensor(self.cut.inside(dims_of(value)), dtype_of(value))

    def _add_scan(self, op: Scan) -> None:
        carry = [self._carried(init) for init in op.inits]
        consts = [self.const(v) for v in op.consts]
        clone = self._clone(op, [*consts, *carry, *(self._rows(x) for x in op.xs)])
        assert isinstance(clone, Scan)
        if op.is_limited:  # a run ends before the loop does: the chunked loop checks the last one
            clone.properties["limited"] = BoolAttr.from_bool(False)
            self.limited.append(carry[op.groups[1].index(op.open)])
        parts = zip(op.inits, carry, clone.finals, op.finals, strict=True)
        self.hands += [Hand(op, *part) for part in parts]

    def _add_shift(self, op: Shift) -> None:
        """The row before a run is what a loop hands on there, or is handed on for it alone."""
        rows = self._rows(op.x)
        hand = self._state_of(op, rows) or self._last_row(op, rows)
        self._clone(op, [rows, hand.arg])

    def _state_of(self, op: Shift, rows: SSAValue) -> Hand | None:
        scan = rows.owner
        if not isinstance(scan, Scan):
            return None
        row = scan.row_of(rows)
        states = dict(zip(scan.finals, scan.yields[0], strict=True))
        for hand in self.hands:
            # The row before is the state that the loop begins its run with, which one carry serves.
            if hand.init is op.init and states.get(hand.next) is row:  # type: ignore[arg-type]
                return hand
        return None

    def _last_row(self, op: Shift, rows: SSAValue) -> Hand:
        b = Builder(self.block)
        # Backwards the run before is behind this one in time: it looks back on the first row.
        start = Dim.of(0) if op.reverse else Dim.of(self.cut.extent) - 1
        last = b.reshape(b.slice(rows, 0, start, Dim.of(1)), dims_of(op.init))
        self.hands.append(Hand(op, op.init, self._carried(op.init), last))
        return self.hands[-1]


def by_step(value: SSAValue, length: Dim) -> tuple[Dim, ...]:
    """The shape of a timed value with an axis for time alone."""
    rows, dims = rows_a_step(value, length), dims_of(value)
    assert rows is not None
    return dims if rows == 1 else (length, rows, *dims[1:])


def _after(value: SSAValue) -> Builder:
    """A builder behind where a value is made."""
    owner = value.owner
    following = owner.first_op if isinstance(owner, Block) else owner.next_op
    assert following is not None
    return Builder.before(following)


def finish(
    body: Body,
    ys: Sequence[SSAValue],
    marks: Mapping[SSAValue, SSAValue],
    marked: Sequence[SSAValue],
    reverse: bool,
) -> Chunks:
    """The loop, not yet in a block.

    Args:
        ys: values outside, of which the body makes a run each.
        marks: sequences outside, a row a run -> the body's argument.
        marked: values of the body of which each run leaves one.
    """
    yielded = [*(h.next for h in body.hands), *map(body.steps, ys), *marked]
    body.block.add_op(Yield(yielded))
    limits = [i for i, hand in enumerate(body.hands) if hand.arg in body.limited]
    args = [
        *body.consts.values(),
        *(hand.arg for hand in body.hands),
        *body.segments.values(),
        *marks.values(),
    ]
    # Arguments were added as they were met; the op wants them group by group.
    block = Block(arg_types=[arg.type for arg in args])
    for op in list(body.block.ops):
        op.detach()
        block.add_op(op)
    for old, new in zip(args, block.args, strict=True):
        old.replace_all_uses_with(new)
    outer = (list(body.consts), [h.init for h in body.hands], list(body.segments), list(marks))
    cut = body.cut
    return Chunks(outer, block, cut.length, cut.chunk, cut.extent, reverse, len(marked), limits)
