"""The walk from `rnn` to `kern`: places of values, and the blocks that are being filled."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TypeGuard

from xdsl.builder import Builder as OpBuilder
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from rnncc.codegen.target import Target
from rnncc.ir.active_rows import Needed, active_rows, row_masks
from rnncc.ir.dims import Dim, product
from rnncc.ir.naming import name_of
from rnncc.ir.ops.chunks import Chunks
from rnncc.ir.ops.control import Net, Scan, Yield
from rnncc.ir.ops.linear import Accumulating, Matmul
from rnncc.ir.ops.shape import Shift
from rnncc.ir.ops.source import Constant, Param
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of, dtype_of
from rnncc.kern import dialect as kern
from rnncc.kern.access import Access
from rnncc.kern.dialect import Buffer
from rnncc.kern.program import KernelProgram, Port
from rnncc.lowering import compute, moves, rows, sums
from rnncc.lowering.active_rows import Ahead
from rnncc.lowering.anchors import is_product
from rnncc.lowering.chunks import emit_chunks
from rnncc.lowering.groups import schedule
from rnncc.lowering.items import Group, Item
from rnncc.lowering.loops import emit_scan
from rnncc.lowering.maps import AxisIndex, IndexMap, Placed, in_its_order, is_view, view_placed
from rnncc.lowering.region import Region
from rnncc.lowering.weights import WeightTable

EMITTERS = {**moves.EMITTERS, **sums.EMITTERS}
"""Of the ops that stand alone, loops aside."""


class Lowering:
    """The state of the walk: places of values, and the blocks that are being filled.

    Attributes:
        places: value -> where it is.
        outer: a loop body's argument -> the outer value it stands for, and the row's index if it
            is a row of a sequence.
        absent: inputs that may be absent, and are zeros then.
        segments: a body's argument -> the sequence that it is part of, and its first row.
        bounds: the number of steps of a run -> the most that it can be.
        needed: values of which only some rows are read.
        masks: names in loops for what tells rows apart.
        lists: those of a mask's rows, and for which steps ahead.
        max_steps: the most steps of a call, if that is known.
    """

    def __init__(self, program: Program, result: KernelProgram, target: Target) -> None:
        self.program, self.result, self.target = program, result, target
        self.places: dict[SSAValue, Placed] = {}
        self.outer: dict[SSAValue, tuple[SSAValue, Dim | None]] = {}
        self.absent: set[SSAValue] = set()
        self.segments: dict[SSAValue, tuple[SSAValue, Dim]] = {}
        self.bounds: dict[str, Dim | int] = {}
        self.needed: Needed = {}
        self.masks: set[SSAValue] = set()
        self.lists: dict[tuple[SSAValue, Ahead | None], SSAValue] = {}
        self.depths: dict[Block, int] = {}
        self.builders: list[OpBuilder] = []
        self.output_of: dict[SSAValue, Placed] = {}
        self._buffers: list[Buffer] = []
        self._indices = 0
        self._labels: dict[str, int] = {}
        self.weights = WeightTable(self)
        self.max_steps: int | None = None

    def run(self, net: Net) -> kern.Func:
        entry = Block()
        self.builders.append(OpBuilder(InsertPoint.at_end(entry)))
        for port, value in zip(self.result.inputs, net.inputs.values(), strict=False):
            self.places[value] = self._declare_port(port, "input")
            if port.name in self.program.zeros:
                self.absent.add(value)
            if port.optional:
                self._keep_default(port, self.places[value])
        live_out: list[Item] = []
        for port, value in zip(self.result.outputs, net.outputs.values(), strict=True):
            place = self._declare_port(port, "output")
            # An output that is a reshape has the elements of what that reads, in their order: no
            # copy is needed.
            value = in_its_order(value)
            dest = Placed.densely(place.buffer, dims_of(value))
            if not self.direct(value, dest) and not rows.direct(self, value, dest):
                live_out.append(Item(value, dest))
        self.lower_block(net.body.block, live_out)
        self.builder.insert(Yield([]))
        first = entry.first_op
        assert first is not None
        entry.insert_ops_before(self._buffers, first)
        return kern.Func(self.result.name, self.result.symbols, entry)

    def _keep_default(self, port: Port, place: Placed) -> None:
        """Make the library hold what an absent input is taken to be."""
        default = self.declare(f"{port.name}.default", "param", port.dtype, port.dims)
        self.weights.keep(default.buffer, self.program.arrays[port.name])
        buffers = place.buffer.owner, default.buffer.owner
        assert isinstance(buffers[0], Buffer) and isinstance(buffers[1], Buffer)
        buffers[0].properties["default"] = buffers[1].label

    def direct(self, value: SSAValue, dest: Placed) -> bool:
        """Make the op of a value put it straight into a place not of another; whether it can.

        A sum that goes on where another ends, which nothing else reads, goes on in place.
        """
        op = value.owner
        alone = isinstance(op, Operation) and type(op) in EMITTERS and not self._is_product(op)
        sequence = isinstance(op, Scan) and value in op.ys
        once = sequence and isinstance(op.parent_op(), Net | Chunks)
        # An op has one place: a second output of one value is a copy of the first.
        if not (alone or once or isinstance(op, Chunks)) or value in self.output_of:
            return False
        self.output_of[value] = dest
        while isinstance(op, Accumulating) and op.init.has_one_use():
            before = op.init.owner
            apart = not isinstance(before, Accumulating) or before.parent is not op.parent
            if apart or op.init in self.output_of:
                break
            self.output_of[op.init] = dest
            op = before
        return True

    @property
    def builder(self) -> OpBuilder:
        return self.builders[-1]

    # Buffers

    def declare(self, label: str, role: str, dtype: str, dims: Sequence[Dim]) -> Placed:
        """A new buffer at the start of the function, dense in the given shape.

        Ports keep their names, even where an output is called as an input is.
        """
        unique = label if role in ("input", "output") else self._fresh_label(label)
        self._labels.setdefault(unique, 1)
        op = Buffer(unique, role, dtype, product(dims).substitute(self.bounds))
        self._buffers.append(op)
        return Placed.densely(op.y, dims)

    def _declare_port(self, port: Port, role: str) -> Placed:
        """The buffer of an input or output."""
        place = self.declare(port.name, role, port.dtype, port.dims)
        if port.kind in ("state", "next"):
            self._buffers[-1].of_state = UnitAttr()
        return place

    def _fresh_label(self, label: str) -> str:
        """A label that no buffer has; one with a number behind it may be a parameter's name."""
        unique, count = label, self._labels.get(label, 0)
        while unique in self._labels:
            unique = f"{label}.{count}"
            count += 1
        self._labels[label] = max(count, 1)
        return unique

    def scratch(self, value: SSAValue, dims: Sequence[Dim] | None = None) -> Placed:
        """A scratch buffer for a value."""
        shape = dims or dims_of(value)
        place = self.declare(name_of(value), "scratch", dtype_of(value), shape)
        if isinstance(value.owner, Operation):
            self._buffers[-1].location = value.owner.location
        return place

    def fresh_index(self) -> str:
        """A new loop index; `t` first, then `t1`, ..."""
        self._indices += 1
        reserved = set(self.result.symbols)
        name = "t" if self._indices == 1 else f"t{self._indices - 1}"
        while name in reserved:
            name = f"_{name}"
        return name

    @contextmanager
    def at(self, block: Block) -> Generator[None]:
        """Emit into a block that is being filled, whichever is filled inside of it."""
        depth = self.depths[block]
        inner = self.builders[depth + 1 :]
        del self.builders[depth + 1 :]
        yield
        self.builders += inner

    # Places of values

    def resolve(self, value: SSAValue, index: IndexMap) -> tuple[SSAValue, IndexMap]:
        """A loop body's argument as the outer value it stands for."""
        while value in self.outer or value in self.segments:
            if value in self.segments:
                value, first = self.segments[value]
                index = (index[0].shifted(first), *index[1:])
                continue
            outer, row = self.outer[value]
            # Such a row has a pointer of its own, which no index of the sequence leads to.
            if row is not None and rows.are_apart(self, outer):
                break
            value = outer
            if row is not None:
                index = (AxisIndex(row), *index)
        return value, index

    def find(self, value: SSAValue) -> Placed | None:
        """The place of a value that has one."""
        if value not in self.places and isinstance(op := value.owner, Param):
            self.places[value] = self.weights.param(op)
        return self.places.get(value)

    def place(self, value: SSAValue) -> Placed:
        """The place of any value; computed now where it has none."""
        chain = [value]
        while (below := self._below(chain[-1])) is not None:
            chain.append(below)
        placed = self._first_place(chain.pop())
        for above in reversed(chain):
            placed = self._place_above(above, placed)
        return placed

    def _below(self, value: SSAValue) -> SSAValue | None:
        """The value in whose place one without a place of its own may be."""
        if self.find(value) is not None:
            return None
        if value in self.outer:
            outer, row = self.outer[value]
            return None if row is not None and rows.are_apart(self, outer) else outer
        if value in self.segments:
            return self.segments[value][0]
        return value.owner.x if is_view(value.owner) else None

    def _first_place(self, value: SSAValue) -> Placed:
        """The place of what is in no other's."""
        if (placed := self.find(value)) is not None:
            return placed
        if value not in self.outer:
            return self.copy(value)
        outer, row = self.outer[value]
        assert row is not None
        self.places[value] = rows.place(self, value, outer, row)
        return self.places[value]

    def _place_above(self, value: SSAValue, below: Placed) -> Placed:
        """The place of a value, given that of the value below."""
        access, op = below.access, value.owner
        if value in self.outer:
            _, row = self.outer[value]
            if row is None:
                return below
            offset = access.offset + access.strides[0] * row
            return Placed(below.buffer, Access(offset, access.strides[1:]))
        if value in self.segments:
            first = self.segments[value][1]
            return Placed(below.buffer, access.shifted(access.strides[0] * first))
        assert is_view(op)
        return view_placed(op, below) or self.copy(value)

    def copy(self, value: SSAValue) -> Placed:
        """A dense copy of a value, made where the value is defined."""
        op = value.owner
        if isinstance(op, Constant):
            self.places[value] = self.weights.constant(op)
            return self.places[value]
        if isinstance(op, Shift):
            self.places[value] = rows.copy_shift(self, op)
            return self.places[value]
        dest = self.scratch(value)
        source = value
        if is_view(op) and view_placed(op, Placed.densely(dest.buffer, dims_of(op.x))):
            source = op.x
        block = op if isinstance(op, Block) else op.parent
        assert block is not None
        dense = Placed.densely(dest.buffer, dims_of(source))
        # Where the value is defined: its reader may be inside a loop.
        with self.at(block):
            self.emit_group(Group(0, dims_of(source), [Item(source, dense)]))
        self.places[value] = dest
        return dest

    def dense(self, value: SSAValue) -> Placed:
        """The place of a value, row-major without gaps."""
        placed = self.place(value)
        if placed.is_dense(dims_of(value)):
            return placed
        dest = self.scratch(value)
        self.emit_map([(value, dest)], dims_of(value))
        return dest

    def pointer(self, value: SSAValue) -> SSAValue:
        """A dense value as a buffer that starts at its first element."""
        placed = self.dense(value)
        if placed.access.offset == 0:
            return placed.buffer
        return self.builder.insert(kern.Row(placed.buffer, placed.access.offset, Dim.of(1))).y

    # Kernels

    def lower_block(self, block: Block, live_out: list[Item]) -> None:
        """Emit a block's work into the current builder."""
        self.depths[block] = len(self.builders) - 1
        scan = block.parent_op()
        masks = row_masks(scan) if isinstance(scan, Scan) else []
        self.masks.update(masks)
        self.needed |= active_rows(block, masks)
        stored = [*block.args, *(op.y for op in block.ops if isinstance(op, Param))]
        dear = self.target.waits_are_dear
        plan = schedule(block, live_out, stored, self._is_product, dear)
        for step in plan.steps:
            match step:
                case Group():
                    self.emit_group(step)
                case Scan():
                    emit_scan(self, step, plan.chunked.get(step, []))
                case Chunks():
                    emit_chunks(self, step)
                case _:
                    EMITTERS[type(step)](self, step)

    def _is_product(self, op: Operation) -> TypeGuard[Matmul]:
        """Whether `kern.gemm` computes an op: of integers with weights that it holds packed."""
        if not is_product(op) or dtype_of(op.a) != "i8":
            return is_product(op) and not self.weights.serve_once(op)
        return self.target.byte_products and self.weights.are_known(op.b)

    def emit_group(self, group: Group) -> None:
        """One kernel for a group's values."""
        outs = [(item.value, self._dest(item)) for item in group.items]
        compute.emit(self, group.product, outs, group.dims)
        # The first of a value's places is where it is read, so it is noted last.
        for value, dest in reversed(outs):
            if isinstance(value.owner, Block):
                continue  # an argument stays where it comes from
            # So do known weights, of which an output is a copy: products hold them packed.
            if not (_is_output(dest) and self.weights.are_known(value)):
                self.places[value] = dest

    def _dest(self, item: Item) -> Placed:
        """The place of a value that a group computes."""
        if item.part is not None:
            return moves.part(self, *item.part)
        return item.dest or self.scratch(item.value)

    def emit_map(self, outs: Sequence[tuple[SSAValue, Placed]], dims: Sequence[Dim]) -> None:
        """An elementwise kernel, of all rows."""
        compute.emit_map(self, outs, dims)

    def region(self, rank: int, product: tuple[Matmul, IndexMap] | None = None) -> Region:
        return Region(rank, self.resolve, self.find, self.place, product)

    def alone(self, value: SSAValue) -> Placed:
        """The place for the result of an op that stands alone."""
        self.places[value] = self.output_of.get(value) or self.scratch(value)
        return self.places[value]


def _is_output(place: Placed) -> bool:
    buffer = place.buffer.owner
    return isinstance(buffer, Buffer) and buffer.role.data == "output"
