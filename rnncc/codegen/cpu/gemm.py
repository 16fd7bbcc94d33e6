"""`kern.gemm`: register tiles of rows times packed units, with the body as their epilogue.

Every sum over k starts at zero and takes its terms in order, whatever the tile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir
from xdsl.ir import SSAValue

from rnncc.codegen.cpu.nest import indexed_axes, make_nest
from rnncc.codegen.cpu.region import RegionCode
from rnncc.codegen.emit import I64, SUMS, Emit, Pointer, Value
from rnncc.errors import CompileError
from rnncc.ir.access import Access, get_access
from rnncc.ir.dims import Dim
from rnncc.ir.kernels import Gemm

FLOAT_BYTES = 4
NEAR_BYTES = 16 * 1024
"""Of a panel of weights that several tiles of rows read: half of the smallest first-level cache."""
CHAINS = 8
"""Independent sums that keep the multiply-add units busy when there is one row."""


def emit_gemm(
    emit: Emit, op: Gemm, a: Pointer, weights: Pointer, ins: list[Pointer], outs: list[Pointer]
) -> None:
    """Write the loops of a product."""
    if a.dtype != "f32":
        raise CompileError(str(op.location), f"a product of {a.dtype} is not supported")
    _GemmCode(emit, op, a, weights, [*ins, *outs]).run()


class _GemmCode:
    def __init__(
        self, emit: Emit, op: Gemm, a: Pointer, weights: Pointer, pointers: list[Pointer]
    ) -> None:
        self.emit, self.op, self.weights = emit, op, weights
        self.lanes, self.slots = emit.target.lanes, op.slots.data
        self.depth, self.panel = op.depth.data, op.panel.data
        accesses = [*op.in_accesses, *op.out_accesses]
        offset, strides = _split(op)
        rows = [Access(x.offset, x.strides[:-1]) for x in accesses]
        nest = make_nest(op.dims[:-1], [Access(offset, strides[:-1]), *rows], self._row_axes())
        self.row_dims, self.row_axes = list(nest.dims), list(nest.axes)
        self.a = emit.at(a, emit.dim(offset))
        self.a_steps, self.k_step = nest.accesses[0].strides, emit.dim(strides[-1])
        self.bases = [
            emit.at(p, emit.dim(x.offset)) for p, x in zip(pointers, accesses, strict=True)
        ]
        self.row_steps = [x.strides for x in nest.accesses[1:]]
        self.unit_steps = [x.strides[-1] for x in accesses]
        self.arguments: Sequence[SSAValue] = op.body.block.args
        self.inputs = self.arguments[self.slots :]
        varying = set(self.arguments[: self.slots])
        varying |= {v for v, s in zip(self.inputs, self.unit_steps, strict=False) if s != 0}
        self.code = RegionCode(emit, op.body.block, varying, len(op.dims) - 1)

    def _row_axes(self) -> list[int]:
        return [axis for axis in indexed_axes(self.op) if axis < len(self.op.dims) - 1]

    def run(self) -> None:
        emit = self.emit
        counts = [emit.dim(d) for d in self.row_dims[:-1]]
        emit.nest(counts, self._rows)

    def _rows(self, outer: list[Value]) -> None:
        """All panels for the rows along the last row axis."""
        emit = self.emit
        count = emit.dim(self.row_dims[-1]) if self.row_dims else I64(1)
        if isinstance(count, ir.Constant):
            if count.constant == 1:
                self._single_row(outer)
            else:
                self._tiles(outer, count)
            return
        with emit.b.if_else(emit.b.icmp_signed("==", count, I64(1))) as (single, several):
            with single:
                self._single_row(outer)
            with several:
                self._tiles(outer, count)

    def _single_row(self, outer: list[Value]) -> None:
        """One row: several panels side by side, for independent chains of sums."""
        emit = self.emit
        full, width = divmod(self.op.units, self.panel)
        vectors = self.slots * -(-self.panel // self.lanes)
        together = min(max(1, CHAINS // vectors), max(full, 1))

        def panels(first: Value, count: int) -> None:
            numbers = [emit.b.add(first, I64(i)) for i in range(count)]
            self._tile(outer, I64(0), 1, numbers, self.panel)

        def turn(i: Value, carried: list[Value]) -> list[Value]:
            panels(emit.b.mul(i, I64(together)), together)
            return []

        emit.shared(I64(full // together), turn)
        with emit.alone():
            if full % together:
                panels(I64(full - full % together), full % together)
            if width:
                self._tile(outer, I64(0), 1, [I64(full)], width)

    def _tiles(self, outer: list[Value], count: Value) -> None:
        """Many rows: a panel at a time, in tiles of rows, then in smaller ones."""
        emit = self.emit
        full, width = divmod(self.op.units, self.panel)

        def turn(i: Value, carried: list[Value]) -> list[Value]:
            self._panel(outer, count, i, self.panel)
            return []

        emit.shared(I64(full), turn)
        if width:
            with emit.alone():
                self._panel(outer, count, I64(full), width)

    def _panel(self, outer: list[Value], count: Value, panel: Value, width: int) -> None:
        """All rows: at once, or where the panel is too large to stay near, in groups of rows."""
        if self.depth * self.slots * width * FLOAT_BYTES <= NEAR_BYTES:
            self._cut(
                I64(0), count, width, lambda row, rows: self._tile(outer, row, rows, [panel], width)
            )
            return
        b = self.emit.b
        most = I64(SUMS // self._vectors(width))

        def turn(i: Value, carried: list[Value]) -> list[Value]:
            start = b.mul(i, most)
            rest = b.sub(count, start)
            size = b.select(b.icmp_signed("<", rest, most), rest, most)
            self._group(outer, start, size, panel, width)
            return []

        self.emit.loop(b.sdiv(b.add(count, b.sub(most, I64(1))), most), turn)

    def _group(
        self, outer: list[Value], start: Value, count: Value, panel: Value, width: int
    ) -> None:
        """Some rows: a run of k at a time, which stays near, while the sums wait on the stack."""
        emit, b, stack, vectors = self.emit, self.emit.b, self.emit.stack, self._vectors(width)
        runs = -(-self.depth * self.slots * width * FLOAT_BYTES // NEAR_BYTES)
        run = -(-self.depth // runs)

        def clear(i: Value, carried: list[Value]) -> list[Value]:
            emit.store(emit.vector.splat(0.0), self._on_stack(stack, i), self.lanes)
            return []

        def turn(i: Value, carried: list[Value]) -> list[Value]:
            first = b.mul(i, I64(run))
            rest = b.sub(I64(self.depth), first)
            size = b.select(b.icmp_signed("<", rest, I64(run)), rest, I64(run))

            def tile(row: Value, rows: int) -> None:
                here = self._on_stack(stack, b.mul(row, I64(vectors)))
                known = [
                    emit.load(self._on_stack(here, I64(n)), self.lanes)
                    for n in range(rows * vectors)
                ]
                lefts = b.add(start, row)
                sums = self._sums(outer, lefts, rows, [panel], width, (first, size, known))
                for n, value in enumerate(v for of_row in sums for v in of_row[0]):
                    emit.store(value, self._on_stack(here, I64(n)), self.lanes)

            self._cut(I64(0), count, width, tile)
            return []

        emit.loop(b.mul(count, I64(vectors)), clear)
        emit.loop(I64(runs), turn)
        self._epilogues(outer, start, count, panel, width)

    def _vectors(self, width: int) -> int:
        """Vectors of sums that a row of a panel takes."""
        return self.slots * -(-width // self.lanes)

    def _cut(
        self, start: Value, count: Value, width: int, tile: Callable[[Value, int], None]
    ) -> None:
        """Cut rows into tiles: as many large ones as fit, then smaller ones."""
        emit, done = self.emit, start

        def column(rows: int, first: Value, tiles: Value) -> None:
            def turn(i: Value, carried: list[Value]) -> list[Value]:
                tile(emit.b.add(first, emit.b.mul(i, I64(rows))), rows)
                return []

            emit.loop(tiles, turn)

        for rows in _tile_sizes(emit.target.tile_rows, self.slots, width, self.lanes):
            tiles = self._tile_count(emit.b.sub(count, done), rows)
            column(rows, done, tiles)
            done = emit.b.add(done, emit.b.mul(tiles, I64(rows)))

    def _tile_count(self, rest: Value, rows: int) -> Value:
        """As many tiles as fit; one fewer where that leaves two pairs rather than a single row."""
        b = self.emit.b
        if rows >= 3:
            single = b.icmp_signed("==", b.srem(rest, I64(rows)), I64(1))
            enough = b.icmp_signed(">", rest, I64(rows))
            spared = b.select(b.and_(single, enough), I64(rows + 1), I64(0))
            rest = b.sub(rest, spared)
        return b.sdiv(rest, I64(rows))

    def _tile(
        self, outer: list[Value], row: Value, rows: int, panels: list[Value], width: int
    ) -> None:
        """Sums of `rows` rows and all units of some panels, then the epilogue."""
        sums = self._sums(outer, row, rows, panels, width)
        vectors = -(-width // self.lanes)
        if rows == 1:
            pointers, scalars, by_axis = self._row_state(outer, row)
            for p, panel in enumerate(panels):
                for j in range(vectors):
                    slots = [sums[0][p][s * vectors + j] for s in range(self.slots)]
                    self._epilogue(pointers, scalars, by_axis, panel, j, width, slots)
            return
        stack = self.emit.stack
        flat = [v for of_row in sums for v in of_row[0]]
        for i, value in enumerate(flat):
            self.emit.store(value, self._on_stack(stack, I64(i)), self.lanes)
        self._epilogues(outer, row, I64(rows), panels[0], width)

    def _epilogues(
        self, outer: list[Value], row: Value, rows: Value, panel: Value, width: int
    ) -> None:
        """The epilogue of rows whose sums are on the stack."""
        stack, vectors = self.emit.stack, -(-width // self.lanes)

        def turn(r: Value, carried: list[Value]) -> list[Value]:
            here = self.emit.b.mul(r, I64(self.slots * vectors))
            pointers, scalars, by_axis = self._row_state(outer, self.emit.b.add(row, r))
            for j in range(vectors):
                slots = [self._saved(stack, here, s * vectors + j) for s in range(self.slots)]
                self._epilogue(pointers, scalars, by_axis, panel, j, width, slots)
            return []

        self.emit.loop(rows, turn)

    def _sums(
        self,
        outer: list[Value],
        row: Value,
        rows: int,
        panels: list[Value],
        width: int,
        part: tuple[Value, Value, list[Value]] | None = None,
    ) -> list[list[list[Value]]]:
        """sums[row][panel][slot · vectors + j] over all k, or over a part of them.

        `part`: the first k, how many, and the sums so far.
        """
        emit, b = self.emit, self.emit.b
        lefts = [self._left(outer, b.add(row, I64(r))) for r in range(rows)]
        block = self.slots * width
        rights = [
            emit.at(self.weights, b.mul(p, I64(self.depth * self.slots * self.panel)))
            for p in panels
        ]
        vectors = -(-width // self.lanes)
        offsets = [s * width + j * self.lanes for s in range(self.slots) for j in range(vectors)]
        zero = emit.vector.splat(0.0)

        start, count, known = part or (I64(0), I64(self.depth), None)

        def turn(i: Value, carried: list[Value]) -> list[Value]:
            k = b.add(start, i)
            at_k = b.mul(k, self.k_step)
            wide = [emit.splat(emit.load(emit.at(left, at_k)), self.lanes) for left in lefts]
            sums = list(carried)
            for p, right in enumerate(rights):
                here = emit.at(right, b.mul(k, I64(block)))
                for i, offset in enumerate(offsets):
                    weight = emit.load(emit.at(here, I64(offset)), self.lanes)
                    for r in range(rows):
                        n = (r * len(rights) + p) * len(offsets) + i
                        sums[n] = emit.vector.fma(b, wide[r], weight, sums[n])
            return sums

        before = known or [zero] * (rows * len(rights) * len(offsets))
        flat = emit.loop(count, turn, before)
        n = len(offsets)
        return [
            [flat[(r * len(rights) + p) * n :][:n] for p in range(len(rights))] for r in range(rows)
        ]

    def _left(self, outer: list[Value], row: Value) -> Pointer:
        """A row of the left operand."""
        return self._along(self.a, self.a_steps, outer, row)

    def _along(
        self, pointer: Pointer, steps: Sequence[Dim], outer: list[Value], row: Value
    ) -> Pointer:
        for index, step in zip([*outer, row], steps, strict=False):
            if step != 0:
                pointer = self.emit.at(pointer, self.emit.b.mul(index, self.emit.dim(step)))
        return pointer

    def _row_state(
        self, outer: list[Value], row: Value
    ) -> tuple[list[Pointer], dict[SSAValue, Value], dict[int, Value]]:
        """What the epilogue needs once a row."""
        emit = self.emit
        pointers = [
            self._along(p, steps, outer, row)
            for p, steps in zip(self.bases, self.row_steps, strict=True)
        ]
        by_axis = dict(zip(self.row_axes, [*outer, row], strict=False))
        known: dict[SSAValue, Value] = {
            v: emit.load(p)
            for v, p in zip(self.inputs, pointers, strict=False)
            if v not in self.code.varying
        }
        scalars = self.code.invariants(known, lambda axis: by_axis.get(axis, I64(0)))
        return pointers, scalars, by_axis

    def _epilogue(
        self,
        pointers: list[Pointer],
        scalars: dict[SSAValue, Value],
        by_axis: dict[int, Value],
        panel: Value,
        vector: int,
        width: int,
        slots: list[Value],
    ) -> None:
        """The body on one vector of units; beyond the panel's width nothing is read or written."""
        emit, b = self.emit, self.emit.b
        unit = b.add(b.mul(panel, I64(self.panel)), I64(vector * self.lanes))
        inside = min(self.lanes, width - vector * self.lanes)
        known = dict(zip(self.arguments, slots, strict=False))
        for v, pointer, step in zip(self.inputs, pointers, self.unit_steps, strict=False):
            if v in self.code.varying:
                known[v] = self._load(pointer, unit, step, inside)

        def index(axis: int) -> Value:
            return emit.splat(by_axis.get(axis, I64(0)), self.lanes)

        values = self.code.vectors(scalars, known, index, self.lanes)
        count = len(self.inputs)
        for value, pointer, step in zip(
            values, pointers[count:], self.unit_steps[count:], strict=True
        ):
            self._store(value, pointer, unit, step, inside)

    def _load(self, pointer: Pointer, unit: Value, step: Dim, inside: int) -> Value:
        emit, b = self.emit, self.emit.b
        mask = None if inside == self.lanes else emit.first_lanes(inside, self.lanes)
        if step == 1:
            return emit.load(emit.at(pointer, unit), self.lanes, mask)
        stride = emit.dim(step)
        lanes: Value = None
        for lane in range(inside):
            at = b.mul(b.add(unit, I64(lane)), stride)
            value = emit.load(emit.at(pointer, at))
            if lanes is None:
                lanes = ir.Constant(ir.VectorType(value.type, self.lanes), None)
            lanes = b.insert_element(lanes, value, I64(lane))
        return lanes

    def _store(self, value: Value, pointer: Pointer, unit: Value, step: Dim, inside: int) -> None:
        emit, b = self.emit, self.emit.b
        mask = None if inside == self.lanes else emit.first_lanes(inside, self.lanes)
        if step == 1:
            emit.store(value, emit.at(pointer, unit), self.lanes, mask)
            return
        stride = emit.dim(step)
        for lane in range(inside):
            at = b.mul(b.add(unit, I64(lane)), stride)
            emit.store(b.extract_element(value, I64(lane)), emit.at(pointer, at))

    def _on_stack(self, stack: Pointer, number: Value) -> Pointer:
        return self.emit.at(stack, self.emit.b.mul(number, I64(self.lanes)))

    def _saved(self, stack: Pointer, row: Value, number: int) -> Value:
        at = self._on_stack(stack, self.emit.b.add(row, I64(number)))
        return self.emit.load(at, self.lanes)


def _split(op: Gemm) -> tuple[Dim, tuple[Dim, ...]]:
    """The offset and the strides (rows, then k) of the left operand."""

    access = get_access(op.a_access)
    return access.offset, access.strides


def _tile_sizes(rows: int, slots: int, width: int, lanes: int) -> list[int]:
    """Rows of the tiles for a panel, largest first, ending in 1: 6, 3, 2, 1 at most."""
    vectors = slots * -(-width // lanes)
    most = max(1, rows * 4 // max(vectors, 4))
    return [most, *(size for size in (3, 2, 1) if size < most)]
