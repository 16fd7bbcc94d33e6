"""What the passes on the `rnn` dialect share: walking blocks, replacing ops, taking scans apart."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.ops.control import Net, Scan, Yield
from rnncc.ir.types import dims_of
from rnncc.records import record

if TYPE_CHECKING:
    from xdsl.context import Context


@record
class NetPass(ABC):
    """A pass over one net; `universe.py` makes passes of xDSL of these."""

    name: ClassVar[str]

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for net in op.ops:
            if isinstance(net, Net):
                self.rewrite(net)

    @abstractmethod
    def rewrite(self, net: Net) -> bool:
        """Change the net in place; whether anything changed."""


def blocks_of(block: Block) -> Iterator[Block]:
    """The bodies of the scans in a block, innermost first, then the block."""
    for op in list(block.ops):
        if isinstance(op, Scan):
            yield from blocks_of(op.body.block)
    yield block


def scans_of(block: Block) -> Iterator[Scan]:
    """The scans in a block and in their bodies, innermost first; each may be replaced."""
    for op in list(block.ops):
        if isinstance(op, Scan):
            yield from scans_of(op.body.block)
            yield op


def replace(op: Operation, values: Sequence[SSAValue]) -> None:
    """Put values in the place of an op's results and erase it."""
    for old, new in zip(op.results, values, strict=True):
        old.replace_all_uses_with(new)
    op.detach()
    op.erase()


def run_all(steps: Iterable[bool]) -> bool:
    """Run every step; whether any changed something."""
    return any(list(steps))


def is_used(value: SSAValue) -> bool:
    """Whether anything reads a value."""
    return value.first_use is not None


def dce(block: Block) -> bool:
    """Erase the ops of a block that nobody uses, last ones first; every op is pure."""
    changed = False
    for op in reversed(list(block.ops)):
        if not isinstance(op, Yield) and not any(is_used(result) for result in op.results):
            op.detach()
            op.erase()
            changed = True
    return changed


@dataclass(eq=False)
class Const:
    """A value that every step sees, and the body's name for it."""

    outer: SSAValue
    arg: SSAValue


@dataclass(eq=False)
class LoopSequence:
    """A sequence that the loop reads, and the body's name for one row."""

    outer: SSAValue
    arg: SSAValue


@dataclass(eq=False)
class Carry:
    """A value handed from step to step; `final` is the result of the scan taken apart, if any."""

    init: SSAValue
    arg: SSAValue
    next: SSAValue
    final: SSAValue | None = None


@dataclass(eq=False)
class Yielded:
    """A row that the loop yields; `result` is the result of the scan taken apart, if any."""

    row: SSAValue
    result: SSAValue | None = None


Final = Callable[[Scan, int, SSAValue], SSAValue]


class Loop:
    """A scan taken apart into its groups; edit them, then `rebuild`.

    Whatever is removed from a group must be without uses, in the body and outside. `gate` is a
    name of the body that stands in one of the groups.
    """

    def __init__(self, scan: Scan) -> None:
        self.scan = scan
        self.body = scan.body.block
        self.gate, self.limited = scan.open, scan.is_limited
        const_args, carry_args, row_args = scan.groups
        carry, rows = scan.yields
        pairs = zip(scan.consts, const_args, strict=True)
        self.consts = [Const(outer, arg) for outer, arg in pairs]
        parts = zip(scan.inits, carry_args, carry, scan.finals, strict=True)
        self.carries = [Carry(*part) for part in parts]
        self.xs = [LoopSequence(outer, arg) for outer, arg in zip(scan.xs, row_args, strict=True)]
        self.ys = [Yielded(row, result) for row, result in zip(rows, scan.ys, strict=True)]

    @property
    def steps(self) -> Dim:
        return self.scan.steps

    @property
    def first(self) -> Operation:
        """The body's first op, to insert in front of."""
        first = self.body.first_op
        assert first is not None
        return first

    @property
    def yields(self) -> Operation:
        """The body's last op, to insert in front of."""
        last = self.body.last_op
        assert last is not None
        return last

    def add_const(self, outer: SSAValue) -> SSAValue:
        """Hand one more value in; the body's name for it."""
        for const in self.consts:
            if const.outer is outer:
                return const.arg
        self.consts.append(Const(outer, self.add_arg(outer.type)))
        return self.consts[-1].arg

    def add_arg(self, type_: Attribute) -> SSAValue:
        """A name of the body that the caller puts into a group."""
        return self.body.insert_arg(type_, len(self.body.args))

    def swap(self, old: SSAValue, new: SSAValue) -> None:
        """Replace a value of the body in the body and in the groups."""
        if new is old:
            return
        old.replace_all_uses_with(new)
        self.gate = new if self.gate is old else self.gate
        for carry in self.carries:
            carry.next = new if carry.next is old else carry.next
        for output in self.ys:
            output.row = new if output.row is old else output.row

    def drop_unused(self) -> bool:
        """Drop consts and sequences that the body does not read; whether there were any."""
        before = len(self.consts) + len(self.xs)
        self.consts = [c for c in self.consts if is_used(c.arg) or c.arg is self.gate]
        self.xs = [x for x in self.xs if is_used(x.arg) or x.arg is self.gate]
        return before != len(self.consts) + len(self.xs)

    def rebuild(self) -> Scan:
        """The scan of the groups as they are now, in the place of the old one.

        A result whose shape is now another is reshaped for those who use it.
        """
        args = [part.arg for part in (*self.consts, *self.carries, *self.xs)]
        block = Block(arg_types=[arg.type for arg in args])
        yields = Yield([*(c.next for c in self.carries), *(y.row for y in self.ys)])
        for op in list(self.body.ops):
            op.detach()
            if not isinstance(op, Yield):
                block.add_op(op)
            else:
                op.erase()
        block.add_op(yields)
        for old, new in zip(args, block.args, strict=True):
            old.replace_all_uses_with(new)
        gate = None if self.gate is None else block.args[args.index(self.gate)]
        scan = Scan(
            [c.outer for c in self.consts],
            [c.init for c in self.carries],
            [x.outer for x in self.xs],
            block,
            self.steps,
            bool(self.scan.reverse),
            gate,
            self.limited,
        )
        scan.location = self.scan.location
        self._put(scan)
        return scan

    def exchange(self, new: Mapping[int, Carry], final: Final) -> Scan:
        """Rebuild with other carries in the place of some: their number -> what is carried instead.

        Args:
            final: given the new scan, a number and the last of what is carried instead, the last
                of what was carried before.
        """
        kept = len(self.carries)
        for number, carry in new.items():
            # Handed on as it is, it is dead, and goes in the second rebuild.
            self.carries[number].next = self.carries[number].arg
            self.carries.append(carry)
        scan = self.rebuild()
        for number, last in zip(new, scan.finals[kept:], strict=True):
            if is_used(scan.finals[number]):
                scan.finals[number].replace_all_uses_with(final(scan, number, last))
        loop = Loop(scan)
        dce(loop.body)
        loop.carries = [carry for i, carry in enumerate(loop.carries) if i not in new]
        return loop.rebuild()

    def _put(self, scan: Scan) -> None:
        old = self.scan
        assert old.parent is not None
        old.parent.insert_op_before(scan, old)
        b = Builder.before(old)
        results = [*(c.final for c in self.carries), *(y.result for y in self.ys)]
        for before, after in zip(results, scan.results, strict=True):
            if before is not None:
                before.replace_all_uses_with(b.reshape(after, dims_of(before)))
        old.detach()
        old.erase()
