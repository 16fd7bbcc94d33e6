"""`kern.gemm`: register tiles of rows times packed units, with the body as their epilogue.

Every sum over k starts at zero and takes its terms in order, whatever the tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from llvmlite import ir

from rnncc.codegen.cpu.active_rows import RowList
from rnncc.codegen.cpu.emit import CpuEmit, Part, chosen_part
from rnncc.codegen.cpu.gemm.converted_rows import TILE_ROWS
from rnncc.codegen.cpu.gemm.epilogue import Epilogue
from rnncc.codegen.cpu.gemm.kinds import terms_of
from rnncc.codegen.cpu.gemm.matrix_tiles import EXACT
from rnncc.codegen.cpu.gemm.packed_words import Width
from rnncc.codegen.cpu.gemm.panels import Panel, Panels
from rnncc.codegen.cpu.gemm.row_axes import RowAxes, indices_apart
from rnncc.codegen.cpu.gemm.sizes import GemmSizes
from rnncc.codegen.cpu.gemm.sums import Sums
from rnncc.codegen.cpu.gemm.terms import LeftOperand
from rnncc.codegen.cpu.moves import PanelCopy
from rnncc.codegen.llvm.nest import indexed_axes, make_nest
from rnncc.codegen.llvm.values import I64, Pointer, Value
from rnncc.errors import CompileError
from rnncc.ir.dims import Dim
from rnncc.ir.types import FLOATS
from rnncc.kern.access import Access, get_access
from rnncc.kern.kernels import Gemm

EVEN = 4
"""Blocks of rows that are converted at a time are as large as each other, and a multiple of it."""


def emit_gemm(
    emit: CpuEmit,
    op: Gemm,
    a: Pointer,
    weights: list[Pointer],
    ins: list[Pointer],
    outs: list[Pointer],
    rows: Pointer | None = None,
    sizes: GemmSizes | None = None,
    late: PanelCopy | None = None,
) -> None:
    """Write the loops of a product.

    Args:
        weights: packed, then room and scales if there are any.
        rows: the list of those that are computed.
        sizes: named ones, of a product with fp32 weights that stands for others; its own.
        late: what packs a panel before it is read, once; left out, weights have been packed.
    """
    if a.dtype not in (*FLOATS, "i8"):
        raise CompileError(str(op.location), f"a product of {a.dtype} is not supported")
    _GemmCode(emit, op, a, weights, [*ins, *outs], rows, sizes, late).run()


class _GemmCode:
    def __init__(
        self,
        emit: CpuEmit,
        op: Gemm,
        a: Pointer,
        weights: list[Pointer],
        pointers: list[Pointer],
        listed: Pointer | None,
        sizes: GemmSizes | None,
        late: PanelCopy | None,
    ) -> None:
        self.emit, self.op, self.late = emit, op, late
        self.lanes, self.slots, self.panel = emit.target.lanes, op.slots.data, op.panel.data
        offset, strides, k_steps = _split(op)
        both = (*op.in_accesses, *op.out_accesses)
        rows = [Access(x.offset, x.strides[:-1]) for x in both]
        # Windows that are copied row by row need no loops of their own, wherever they lie.
        apart = op.k_sizes is not None and len(weights) > 1 and listed is None
        read = (Dim.of(0),) * len(strides) if apart else strides
        nest = make_nest(op.dims[:-1], [Access(offset, read), *rows], self._row_axes())
        steps = strides if apart else nest.accesses[0].strides
        *k_outer, k_step = [emit.dim(step) for step in k_steps]
        left = LeftOperand(
            emit.at(a, emit.dim(offset)),
            steps,
            k_step,
            partial(self._apart, nest.axes) if apart else self._indices,
            list(zip(map(int, op.k_dims), k_outer, strict=False)),
        )
        self.terms = terms = terms_of(emit, op, left, weights)
        # Rows of windows are not turned: neighbours along the last axis share what they read.
        height = 1 if op.k_sizes is not None or terms.one_by_one else terms.height
        self.rows = RowAxes(emit, nest.dims, RowList.of(emit, op, nest.dims, listed), height)
        unit_bytes = terms.words * terms.bytes
        self.sizes = sizes or GemmSizes.of(emit.target, op, unit_bytes, terms.chains)
        if sizes is not None:
            terms.count = emit.dim(sizes.depth)
        self.full = emit.dim(self.sizes.full)
        self.whole = Width(I64(self.panel), self.panel // self.lanes, I64(terms.stripe))
        width = emit.dim(self.sizes.width)
        self.rest = Width(width, self.sizes.vectors, emit.b.mul(width, I64(self.slots)))
        self.sums = Sums(emit, terms, self.panel, self.sizes.farther)
        self.first: Value = I64(0)
        self.panels = Panels(
            emit,
            terms,
            self.sums,
            Epilogue(emit, op, pointers, nest),
            self.slots,
            self.whole,
            self.sizes.far and late is None,
            self._row,
            lambda outer, row: self._indices(outer, emit.b.add(self.first, row)),
        )

    def _row_axes(self) -> list[int]:
        return [axis for axis in indexed_axes(self.op) if axis < len(self.op.dims) - 1]

    def _indices(self, outer: list[Value], number: Value) -> list[Value]:
        return self.rows.indices(outer, number)

    def _apart(self, axes: Sequence[int], outer: list[Value], number: Value) -> list[Value]:
        return indices_apart(self.emit, self.op.dims[:-1], axes, self._indices(outer, number))

    def run(self) -> None:
        self.rows.nest(self._rows)

    def _rows(self, outer: list[Value]) -> None:
        """All panels for the rows along the innermost axis."""
        emit, count = self.emit, self.rows.count
        if not self.terms.most_rows:
            self._active_rows(outer, count)
            return
        b, most = emit.b, I64(self.terms.most_rows)

        def block(first: Value, size: Value) -> None:
            self.first = first
            self.terms.prepare(outer, first, size)
            self._active_rows(outer, size)

        if self.terms.one_by_one:
            emit.loop(count, lambda i, carried: block(i, I64(1)) or [])
            return
        if isinstance(count, ir.Constant) and count.constant <= self.terms.most_rows:
            block(I64(0), count)
            return
        blocks = emit.parts(count, most)

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            # 64 rows are 32 and 32, not 60 and 4: each block reads all weights (bf16 LSTM H = 1024,
            # B = 64: 289 to 249 ms, with blocks twice as large).
            least = EVEN if self.terms.tiles is None else TILE_ROWS
            even = b.mul(emit.parts(count, b.mul(blocks, I64(least))), I64(least))
            first = b.mul(i, even)
            rest = b.sub(count, first)
            block(first, b.select(b.icmp_signed("<", rest, even), rest, even))
            return []

        emit.loop(blocks, iteration)

    def _active_rows(self, outer: list[Value], count: Value) -> None:
        """All panels for rows from the first one of a block on."""
        emit = self.emit
        if self.terms.tiles is not None and self.terms.weights.dtype != EXACT:
            self._tiles(outer, count)
            return
        if self.terms.one_by_one:
            emit.loop(count, lambda i, carried: self._single_row(outer, i) or [])
            return
        if isinstance(count, ir.Constant):
            if count.constant == 1:
                self._single_row(outer, I64(0))
            elif count.constant:
                self._tiles(outer, count)
            return
        with emit.b.if_else(emit.b.icmp_signed("==", count, I64(1))) as (single, several):
            with single:
                self._single_row(outer, I64(0))
            with several:
                self._tiles(outer, count)

    def _single_row(self, outer: list[Value], number: Value) -> None:
        """One row: several panels side by side, for independent chains of sums."""
        emit, together, full = self.emit, self.sizes.together, self.sizes.full
        iterations, left = emit.divided(full, together)
        several = together > 1 and (not full.is_static or int(full) % together > 0)
        ends = several or self.rest.vectors > 0
        part, place = self._packing_part(iterations, ends, together)

        def row(numbers: list[Value], width: Width) -> None:
            offsets = self.sums.units(width, self.slots)
            places = self._packed(numbers, place, width)
            (sums,) = self.sums.of([self._row(outer, number)], places, width, offsets)
            self.panels.finish(outer, number, numbers, width, lambda p, n: sums[p][n])

        def panels(first: Value, count: int) -> None:
            row([emit.b.add(first, I64(i)) for i in range(count)], self.whole)

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            panels(emit.b.mul(i, I64(together)), together)
            return []

        def single(i: Value, carried: list[Value]) -> list[Value]:
            panels(emit.b.add(emit.b.sub(self.full, left), i), 1)
            return []

        def last() -> None:
            if not full.is_static and together > 1:
                emit.loop(left, single)
            elif full.is_static and int(full) % together:
                panels(emit.b.sub(self.full, left), int(full) % together)
            if self.rest.vectors:
                row([self.full], self.rest)

        emit.shared(iterations, iteration, self.sizes.far, last if ends else None, part)

    def _tiles(self, outer: list[Value], count: Value) -> None:
        """Many rows: a panel at a time."""
        full, rest = self.full, self.rest
        panels = self.emit.b.add(full, I64(int(rest.vectors > 0)))
        of_rows, of_panels = self._parts(count, panels)
        place = I64(0) if of_panels is None else of_panels[0]

        def panel(number: Value, width: Width) -> None:
            (at,) = self._packed([number], place, width)
            self.panels.panel(outer, of_rows, Panel(number, at), width)

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            panel(i, self.whole)
            return []

        def last() -> None:
            panel(full, rest)

        end = last if rest.vectors else None
        self.emit.shared(full, iteration, self.sizes.far, end, of_panels)

    def _parts(self, count: Value, panels: Value) -> tuple[Part, Part | None]:
        """This thread's rows and panels: a part of those that are shared more evenly."""
        team, b = self.emit.team, self.emit.b
        if team is None:
            return (I64(0), count), None
        if self.late is not None:
            return (I64(0), count), team.share(panels)
        height, all_panels = self.terms.height, (I64(0), panels)
        tiles = self.emit.parts(count, I64(height))
        by_rows, by_panels = (self.emit.parts(x, team.parts) for x in (tiles, panels))
        # The largest part decides when all are done: rows x panels of it, either way cut.
        fewer = b.icmp_signed("<", b.mul(by_rows, panels), b.mul(by_panels, tiles))
        of_rows, of_panels = team.share(count, height), team.share(panels)
        return (
            chosen_part(b, fewer, of_rows, (I64(0), count)),
            chosen_part(b, fewer, all_panels, of_panels),
        )

    def _packing_part(self, groups: Value, ends: bool, together: int) -> tuple[Part | None, Value]:
        """This thread's part of groups of panels that are packed now, and the panel in whose place
        all of them are, group by group.

        Args:
            ends: whether something less than a group follows.
        """
        if self.late is None or self.emit.team is None:
            return None, I64(0)
        part = self.emit.team.share(self.emit.b.add(groups, I64(int(ends))))
        return part, self.emit.b.mul(part[0], I64(together))

    def _packed(self, numbers: list[Value], place: Value, width: Width) -> list[Value]:
        """The numbers of the panels in whose places some panels stand, side by side from a place
        on where they are packed now."""
        if self.late is None:
            return numbers
        assert isinstance(width.units, ir.Constant)
        places = [self.emit.b.add(place, I64(i)) for i in range(len(numbers))]
        for number, at in zip(numbers, places, strict=True):
            self.late.copy(number, at, width.units.constant, I64(0), self.op.depth.data)
        return places

    def _row(self, outer: list[Value], number: Value) -> Pointer:
        """A row of the left operand."""
        return self.terms.row(outer, self.first, number)


def _split(op: Gemm) -> tuple[Dim, tuple[Dim, ...], tuple[Dim, ...]]:
    """The offset of the left operand, and its strides along rows and along k."""
    access, rows = get_access(op.a_access), len(op.dims) - 1
    return access.offset, access.strides[:rows], access.strides[rows:]
