"""Which values of a block get a buffer, and which of them one kernel computes together.

In: a block of `rnn` ops and the values wanted of it. Out: a `Schedule`: level by level, the ops
that stand alone (products, reductions, scans, ...), then groups of elementwise values.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeGuard

from xdsl.ir import Block, Operation, SSAValue

from rnncc.ir.dims import Dim
from rnncc.ir.ops.base import Cost, Elementwise, cost_of
from rnncc.ir.ops.control import Scan, Yield
from rnncc.ir.ops.linear import Matmul, Reduce
from rnncc.ir.ops.shape import Broadcast, Concat, Shift, Slice, Transpose, squeezed
from rnncc.ir.types import dims_of
from rnncc.lowering.anchors import (
    addressed,
    is_anchor,
    is_lazy,
    is_turned_later,
    read_each_step,
    turns_bytes,
)
from rnncc.lowering.items import MOST_RESULTS, Group, Item, Schedule, in_parts
from rnncc.lowering.maps import base_of, is_unit_reshape, is_view

DEPTH = 48
"""Longest chain of elementwise ops computed without a buffer in between."""
REPEATED = 48
"""Additions of a chain that kernels but the first may repeat, each from its start."""
MOST_FUNCTIONS, MOST_OTHERS = 128, 512
"""Functions (exp, tanh, ...) and other operations of one kernel; LLVM's time grows with the square
of its code.

A value that is stored for the next kernel and loaded there costs nothing beside so many.
"""

Kind = tuple[int, tuple[Dim, ...]]
"""What values of one kernel have in common: their level, and their shape."""
Terminal = SSAValue | Operation
"""Who reads a value in the end: a value with a buffer, or an op that stands alone."""


def schedule(
    block: Block,
    live_out: Sequence[Item],
    known: Iterable[SSAValue],
    is_product: Callable[[Operation], TypeGuard[Matmul]],
    waits_are_dear: bool,
) -> Schedule:
    """Group a block's work.

    Before:

        v1 = exp(x)
        v2 = matmul(v1, w)
        v3 = broadcast(bias, dims=[N, 4], axes=[1])
        v4 = add(v2, v3)
        v5 = relu(v4)
        return v5

    After:

        scratch y.exp: 3*N
        scratch packed: 20
        map i in N, j in 3: y.exp = exp(x)
        pack packed = w
        gemm i in N, j in 4: y = relu(y.exp·packed + bias[j])

    Args:
        known: values that have a place already: arguments, parameters.
        is_product: whether `kern.gemm` computes an op.
        waits_are_dear: a product's kernel stores what of its columns is part of a concat, which
            on CPUs another kernel copies as fast.
    """
    return _Scheduler(block, live_out, known, is_product, waits_are_dear).run()


class _Scheduler:
    def __init__(
        self,
        block: Block,
        live_out: Sequence[Item],
        known: Iterable[SSAValue],
        is_product: Callable[[Operation], TypeGuard[Matmul]],
        waits_are_dear: bool,
    ) -> None:
        self._is_product, self._waits_are_dear = is_product, waits_are_dear
        self.ops = [op for op in block.ops if op.results]  # a loop without results does nothing
        self.wanted = live_out
        self.known = set(known)
        self.roots: dict[SSAValue, None] = dict.fromkeys(item.value for item in live_out)
        self.parts: dict[SSAValue, list[Item]] = defaultdict(list)
        self.levels: dict[SSAValue, int] = {}
        self.filled: dict[SSAValue, int] = {}  # the last level at which a buffer that it reads is
        self.readers: dict[SSAValue, dict[Terminal, bool]] = {}

    def run(self) -> Schedule:
        self._force_roots()
        self._measure()
        # A value that gets a buffer ends the expressions that it was part of; that changes levels
        # and readers of those above, of which some may have to get one in turn.
        while new := list(self._joining_values()) or list(self._costly_values()):
            self.roots.update(dict.fromkeys(new))
            self._measure()
        groups = self._group()
        chunked = self._chunked(groups)
        inside = {id(group) for several in chunked.values() for group in several}
        return Schedule(self._order([g for g in groups if id(g) not in inside]), chunked)

    def _force_roots(self) -> None:
        """Operands that kernels address, and every so many ops of a long elementwise chain."""
        depth: dict[SSAValue, int] = defaultdict(int)
        bases: dict[SSAValue, SSAValue] = {}  # of views alone
        for op in self.ops:
            if is_view(op):
                # A view has no buffer of its own: what addresses it needs one for what it is a view
                # of.
                bases[op.y] = op.x if turns_bytes(op.x) else bases.get(op.x, op.x)
            for item in self._parts(op):
                self.parts[item.value].append(item)
                self.roots[item.value] = None
            if isinstance(op, Reduce) and not dims_of(op.y) and _has_readers(op.x):
                self.roots[op.x] = None  # nothing else is fused with a pass over all elements
            places = [v if turns_bytes(v) else bases.get(v, v) for v in addressed(op)]
            read = (bases.get(value, value) for value in read_each_step(op))
            roots = [base for base in places if is_lazy(base.owner) or turns_bytes(base)]
            # As an expression, what loops read would be computed again in each iteration.
            roots += [base for base in read if isinstance(base.owner, Elementwise)]
            if isinstance(op, Transpose) and is_turned_later(op):
                roots.append(op.x)
            self.roots |= dict.fromkeys(roots)
            if isinstance(op, Elementwise):
                depth[op.y] = 1 + max(depth[v] for v in op.operands)
                if depth[op.y] > DEPTH:
                    self.roots[op.y], depth[op.y] = None, 0
            elif is_view(op):
                depth[op.results[0]] = depth[op.operands[0]]

    def _parts(self, op: Operation) -> Iterator[Item]:
        """The operands of a concatenation that kernels may write straight to their places."""
        if isinstance(op, Concat):
            for start, value in op.parts:
                if isinstance(value.owner, Elementwise) or self._are_columns(value.owner):
                    yield Item(value, part=(op, start))

    def _are_columns(self, op: Operation | Block) -> bool:
        """Whether an op takes columns of a product, that are in registers of its kernel."""
        if not self._waits_are_dear or not isinstance(op, Slice):
            return False
        return isinstance(op.x.owner, Operation) and self._is_product(op.x.owner)

    def _measure(self) -> None:
        """Levels, forwards; final readers, backwards."""
        self.levels, self.filled = {}, {}
        taken = Counter[tuple[str, Kind]]()
        for op in self.ops:
            level = max((self.level(v) for v in op.operands), default=0)
            # A level is what one kernel can do at each point by itself. An anchor's result, or
            # other points of a buffer, exist only once a kernel before has ended.
            if is_anchor(op) or self._moves_buffered(op, level):
                level += 1
            level = self._with_room(taken, level, op)
            for result in op.results:
                self.levels[result] = level
                if result in self.roots and is_lazy(op):
                    self.filled[result] = level
                elif not is_anchor(op):
                    buffers = (self.filled[v] for v in op.operands if v in self.filled)
                    self.filled[result] = max(buffers, default=-1)
        self.readers = {}
        for op in reversed(self.ops):
            for result in op.results:
                self.readers[result] = self._final_readers(result)

    def _with_room(self, taken: Counter[tuple[str, Kind]], level: int, op: Operation) -> int:
        """The first level from one on whose kernel of an op's shape is not full."""
        most = dict[str, int]()
        if cost_of(op) == Cost.FUNCTION:
            most["functions"] = MOST_FUNCTIONS
        elif isinstance(op, Elementwise):
            most["others"] = MOST_OTHERS
        if op.results[0] in self.roots and not is_anchor(op):
            most["results"] = MOST_RESULTS
        dims = squeezed(dims_of(op.results[0])) if most else ()
        while any(taken[what, (level, dims)] >= count for what, count in most.items()):
            level += 1
        taken.update((what, (level, dims)) for what in most)
        return level

    def level(self, value: SSAValue) -> int:
        return self.levels.get(value, 0)

    def _moves_buffered(self, op: Operation, level: int) -> bool:
        """Whether an op reads other points of a buffer that a kernel of this block and level fills,
        by itself or in an expression."""
        if isinstance(op, Shift):
            return any(isinstance(base_of(v).owner, Elementwise) for v in op.operands)
        if not is_view(op) or is_unit_reshape(op):
            return False
        return self.filled.get(op.x, -1) >= level

    def _final_readers(self, value: SSAValue) -> dict[Terminal, bool]:
        """Final reader -> whether it reads each element many times (through a broadcast)."""
        readers: dict[Terminal, bool] = {}
        if value in self.roots:
            readers[value] = False
        for use in value.uses:
            op = use.operation
            if isinstance(op, Yield):
                continue
            if is_anchor(op) or isinstance(op, Shift):  # which reads other rows than its own
                readers[op] = readers.get(op, False)
            elif op.results[0] in self.roots:
                readers[op.results[0]] = readers.get(op.results[0], False) or isinstance(
                    op, Broadcast
                )
            else:
                for reader, repeated in self.readers[op.results[0]].items():
                    repeated = repeated or isinstance(op, Broadcast)
                    readers[reader] = readers.get(reader, False) or repeated
        return readers

    def _joining_values(self) -> Iterator[SSAValue]:
        """Arithmetic that a later level reads, where it takes fewer buffers than what it joins.

        A cell state that the next step reads is one, not the gates of which it is made.
        """
        for op in self.ops:
            value = op.results[0]
            plain = isinstance(op, Elementwise) and op.COST == Cost.ARITHMETIC
            inside = plain and value not in self.roots
            if inside and self._is_used_late(value) and len(self._joined(op)) > 1:
                yield value

    def _joined(self, op: Operation) -> set[SSAValue]:
        """Functions of the same level and shape that later ones read through arithmetic alone."""
        functions, seen, key = set[SSAValue](), set[SSAValue](), self._key(op.results[0])
        queue = list(op.operands)
        while queue:
            value = queue.pop()
            if value in seen or value in self.roots or self.level(value) != key[0]:
                continue
            seen.add(value)
            if cost_of(value.owner) != Cost.ARITHMETIC:
                # What is broadcast is smaller than what it is joined into.
                same = self._key(value) == key and not self._is_used_late(value)
                functions |= {value} if same else set()
            elif isinstance(value.owner, Elementwise) or is_view(value.owner):
                queue += value.owner.operands
        return functions

    def _is_used_late(self, value: SSAValue) -> bool:
        """Whether an op of a later level reads it."""
        users = [use.operation for use in value.uses]
        return any(self.level(u.results[0]) > self.level(value) for u in users if u.results)

    def _costly_values(self) -> Iterator[SSAValue]:
        """Values not to be computed twice, nor to be carried across levels as expressions.

        Of arithmetic, the ends of long chains: states to which iterations add again and again.
        """
        lengths = defaultdict[SSAValue, int](int)
        for op in self.ops:
            value = op.results[0]
            if is_view(op):
                lengths[value] = lengths[op.operands[0]]
            if not isinstance(op, Elementwise) or value in self.roots:
                continue
            lengths[value] = 1 + max(lengths[operand] for operand in op.operands)
            readers = self.readers[value]
            others = len({self._key(r) if isinstance(r, SSAValue) else r for r in readers}) - 1
            if op.COST == Cost.ARITHMETIC:
                costly = others * lengths[value] > REPEATED
            else:
                # In one group each element is computed once, whoever reads it; two groups, a later
                # level or a broadcast would compute exp, tanh and such again.
                costly = others > 0 or any(readers.values()) or self._is_read_late(value)
            if costly:
                lengths[value] = 0
                yield value

    def _is_read_late(self, value: SSAValue) -> bool:
        level, readers = self.level(value), self.readers[value]
        return any(isinstance(r, SSAValue) and self.level(r) != level for r in readers)

    def _key(self, root: SSAValue) -> Kind:
        return self.level(root), squeezed(dims_of(root))

    def _group(self) -> list[Group]:
        groups: dict[object, Group] = {}
        dests: dict[SSAValue, list[Item]] = defaultdict(list)
        for item in self.wanted:
            dests[item.value].append(item)
        products: dict[SSAValue, Matmul] = {op.y: op for op in self.ops if self._is_product(op)}
        for value in self._in_order([*self.roots, *products]):
            # Its sums are read from registers by the group that it is fused with: no buffer.
            if value in products and value not in self.roots and self._fusable(value):
                continue
            alone = value in products and not self._fusable(value)
            key = value if alone else self._key(value)
            group = groups.setdefault(key, Group(self.level(value), dims_of(value)))
            group.items += [*dests[value], *self.parts[value]] or [Item(value)]
            if alone:
                group.product, group.alone = products[value], True
        for value, op in products.items():
            if self._fusable(value):
                self._fuse(op, groups[self._reader_key(value)], groups)
        return [part for group in groups.values() for part in in_parts(group) if part.items]

    def _reader_key(self, product: SSAValue) -> object:
        """The key of the one group that reads a product."""
        reader = next(iter(self.readers[product]))
        assert isinstance(reader, SSAValue)
        return self._key(reader)

    def _in_order(self, values: Iterable[SSAValue]) -> list[SSAValue]:
        place: dict[SSAValue, int] = {v: i for i, op in enumerate(self.ops) for v in op.results}
        return sorted(dict.fromkeys(values), key=lambda v: place.get(v, -1))

    def _fusable(self, value: SSAValue) -> bool:
        """Whether all that reads a product is one group of its own level."""
        readers = self.readers[value]
        if not readers or not all(isinstance(r, SSAValue) for r in readers):
            return False
        keys = {self._key(r) for r in readers if isinstance(r, SSAValue)}
        # Its sums are in registers of one kernel: another one, or one of a later level, has to load
        # them.
        return len(keys) == 1 and next(iter(keys))[0] == self.level(value)

    def _fuse(self, op: Matmul, group: Group, groups: dict[object, Group]) -> None:
        """Give a group its product; the first takes the place, others stand alone before it."""
        if group.product is None and _epilogue_fits(op, group):
            group.product = op
            return
        own = [item for item in group.items if item.value == op.y]
        group.items = [item for item in group.items if item.value != op.y]
        # A kernel has the registers of one product; the second one stores its result, which the
        # group reads like any other buffer.
        groups[op.y] = Group(group.level, dims_of(op.y), own or [Item(op.y)], op, alone=True)

    def _chunked(self, groups: list[Group]) -> dict[Scan, list[Group]]:
        """Groups that only feed a scan's sequences, row by row of time."""
        chunked: dict[Scan, list[Group]] = defaultdict(list)
        for group in groups:
            values = {item.value for item in group.items}
            users = {use.operation for value in values for use in value.uses}
            scan = next(iter(users)) if len(users) == 1 else None
            if not isinstance(scan, Scan) or any(i.dest or i.part for i in group.items):
                continue
            # The gate ends the inner loop alone: chunks of steps that do not run would be computed
            # all the same.
            if scan.gate is not None:
                continue
            # A constant or a first state is read as a whole, before the first chunk is there.
            only = {*scan.consts, *scan.inits}
            shapes = [group.dims, *(dims_of(item.value) for item in group.items)]
            timed = scan.steps != 1 and all(dims[:1] == (scan.steps,) for dims in shapes)
            if timed and only.isdisjoint(values):
                chunked[scan].append(group)
        return chunked

    def _order(self, groups: list[Group]) -> list[Operation | Group]:
        anchors = [op for op in self.ops if is_anchor(op) and not self._is_product(op)]
        steps: list[tuple[int, int, Operation | Group]] = []
        steps += [(self.level(op.results[0]), 0, op) for op in anchors]
        # Of a level, loops and products come first: groups may read what they leave.
        steps += [(group.level, 1 if group.alone else 2, group) for group in groups]
        return [step for _, _, step in sorted(steps, key=lambda s: s[:2])]


def _has_readers(value: SSAValue) -> bool:
    """Whether several ops read an elementwise value."""
    return isinstance(value.owner, Elementwise) and not value.has_one_use()


def _epilogue_fits(op: Matmul, group: Group) -> bool:
    """The group's points are rows of the product times units."""
    rows, units = dims_of(op.y)[:-1], group.dims[-1:]
    same_rows = squeezed(group.dims[:-1]) == squeezed(rows)
    return bool(units) and units[0].is_static and same_rows
