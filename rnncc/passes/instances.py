"""Many instances of a net in one: some inputs get a further axis in front, and so do the outputs.

What is the same for all instances is computed once. An op does them all at once where it has a rule
for that (`batch`), else one after another; a loop over time takes all of them through each step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from xdsl.ir import Block, Operation, SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.ops.base import RnnOp
from rnncc.ir.ops.control import Scan, Yield, row_type, terminator
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of, dtype_of
from rnncc.passes.cleanup.simplify import Simplify

Known = dict[SSAValue, SSAValue]


def instances(program: Program, of: Collection[str], size: str) -> Program:
    """The net over a batch of instances.

    Before:

        for t in 0..T, h from h:
            v1 = mul(h[t-1], x[t])
            h[t] = v1
        return h[T-1]

    After:

        v1 = broadcast(h, dims=[I, N], axes=[1])
        v2 = transpose(x, perm=[1, 0, 2])
        for t in 0..T, v1 from v1:
            v3 = mul(v1[t-1], v2[t])
            v1[t] = v3
        return v1[T-1]

    Args:
        of: the inputs that differ between instances.
        size: a symbol that the net does not have, the number of instances: the first size of these
            inputs, and of all outputs.
    """
    net, b = program.net, Builder.net(program.name)
    known, many = Known(), _Instances(Dim.of(size))
    for name, value in net.inputs.items():
        front = [many.size] if name in of else []
        known[value] = b.input(name, [*front, *dims_of(value)], dtype_of(value))
        if name in of:
            many.differ.add(known[value])
    many.emit(b, net.body.block, known)
    outputs = {name: many.whole(b, known[value]) for name, value in net.outputs.items()}
    result = b.finish(outputs, program.arrays, program.source)
    Simplify().rewrite(result.net)
    return result


class _Instances:
    """Emits blocks again; `differ` holds the new values that differ between instances."""

    def __init__(self, size: Dim) -> None:
        self.size, self.differ = size, set[SSAValue]()

    def whole(self, b: Builder, value: SSAValue) -> SSAValue:
        """A value for all instances, the same for each where it does not differ."""
        if value in self.differ:
            return value
        dims = dims_of(value)
        return self._found(b.broadcast(value, [self.size, *dims], range(1, 1 + len(dims))))

    def _found(self, value: SSAValue) -> SSAValue:
        self.differ.add(value)
        return value

    def emit(self, b: Builder, block: Block, known: Known) -> None:
        """Append a block's ops; `known` has its arguments, and gets its values."""
        for op in block.ops:
            b.loc = Builder.before(op).loc
            if isinstance(op, Yield):
                return
            if self.differ.isdisjoint(known[x] for x in op.operands):
                b.copy(op, known)
            elif isinstance(op, Scan) and self._gate_is_shared(op, known):
                self._emit_scan(b, op, known)
            elif isinstance(op, RnnOp) and self._emit_at_once(b, op, known):
                pass
            else:
                self._emit_one_by_one(b, op, known)

    def _emit_at_once(self, b: Builder, op: RnnOp, known: Known) -> bool:
        """By the op's rule for batches, if it has one for these operands or for all of them."""
        operands = [known[x] for x in op.operands]
        differ = [x in self.differ for x in operands]
        # a product with a shared left operand, for one, has a rule only where both are batched
        takes = op.batched_operands(differ) or op.batched_operands([True] * len(differ))
        if takes is None:
            return False
        batched = [self.whole(b, x) if take else x for x, take in zip(operands, takes, strict=True)]
        known[op.y] = self._found(op.batch(b, batched, self.size))
        return True

    def _emit_one_by_one(self, b: Builder, op: Operation, known: Known) -> None:
        """A loop over the instances, whose body is the op."""
        operands = list(dict.fromkeys(known[x] for x in op.operands))
        xs = [x for x in operands if x in self.differ]
        consts = [x for x in operands if x not in self.differ]

        def body(
            inner: Builder, ks: list[SSAValue], _: list[SSAValue], rows: list[SSAValue]
        ) -> tuple[list[SSAValue], list[SSAValue]]:
            inner_of = dict(zip([*consts, *xs], [*ks, *rows], strict=True))
            inside = {x: inner_of[known[x]] for x in op.operands}
            inner.copy(op, inside)
            return [], [inside[y] for y in op.results]

        _, ys = b.scan(consts, [], xs, body)
        known |= {y: self._found(new) for y, new in zip(op.results, ys, strict=True)}

    def _gate_is_shared(self, op: Scan, known: Known) -> bool:
        """Whether all instances take the same steps."""
        # Where instances end a loop at different steps, no step is one for all: each runs the loop
        # by itself.
        return op.open is None or op.open not in self._varying(op, known)

    def _varying(self, scan: Scan, known: Known) -> set[SSAValue]:
        """The values of a body that differ between instances."""
        block, (_, carry, _) = scan.body.block, scan.groups
        varying, before = set[SSAValue](), -1
        for arg, x in zip(block.args, scan.operands, strict=True):
            if known[x] in self.differ:
                varying.add(arg)
        while before < len(varying):
            before = len(varying)
            _spread(block.ops, varying)
            # From its second step on a carry differs where its next value does; it is then
            # broadcast at the start.
            pairs = zip(carry, scan.yields[0], strict=True)
            varying.update([arg for arg, after in pairs if after in varying])
        return varying

    def _emit_scan(self, b: Builder, scan: Scan, known: Known) -> None:
        """The same loop, with the instances' axis behind that of time in its sequences."""
        varying, inner = self._varying(scan, known), Builder(Block(), b.loc)
        inside, kinds = Known(), [arg in varying for arg in (*scan.groups[1], *scan.yields[1])]

        def enter(
            args: Sequence[SSAValue], sources: Sequence[SSAValue], rows: bool
        ) -> list[SSAValue]:
            entered = list[SSAValue]()
            for arg, x in zip(args, sources, strict=True):
                value = self.whole(b, known[x]) if arg in varying else known[x]
                entered.append(_swapped(b, value) if arg in varying and rows else value)
                type_ = row_type(entered[-1]) if rows else entered[-1].type
                inside[arg] = inner.block.insert_arg(type_, len(inner.block.args))
            self.differ.update([inside[arg] for arg in args if arg in varying])
            return entered

        consts, carry, rows = scan.groups
        outer = enter(consts, scan.consts, False), enter(carry, scan.inits, False)
        xs = enter(rows, scan.xs, True)
        self.emit(inner, scan.body.block, inside)
        after = [inside[value] for value in terminator(scan.body.block)]
        pairs = zip(after, kinds, strict=True)
        results = [self.whole(inner, value) if differs else value for value, differs in pairs]
        gate = None if scan.gate is None else scan.gate.data
        finals, ys = b.scan_of(
            *outer, xs, inner, results, scan.steps, bool(scan.reverse), gate, scan.is_limited
        )
        for old, value, differs in zip(scan.results, [*finals, *ys], kinds, strict=True):
            known[old] = value
            if differs:
                known[old] = self._found(_swapped(b, value) if old in scan.ys else value)


def _swapped(b: Builder, x: SSAValue) -> SSAValue:
    """With the first two axes swapped."""
    return b.transpose(x, [1, 0, *range(2, len(dims_of(x)))])


def _spread(ops: Iterable[Operation], varying: set[SSAValue]) -> None:
    """Add what depends on varying values; of a loop everything, if anything in it does."""
    for op in ops:
        if not varying.isdisjoint(op.operands):
            varying.update(op.results)
