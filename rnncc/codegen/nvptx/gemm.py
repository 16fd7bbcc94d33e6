"""`kern.gemm`: a thread has the sums of all slots of one unit and row, k from 0 up.

Neighbouring threads have neighbouring units of a panel, so that they read weights side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import nullcontext
from typing import Protocol

from llvmlite import ir
from xdsl.ir import SSAValue

from rnncc.codegen.llvm.values import FLOAT, I32, I64, Pointer, Value
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.codegen.nvptx.rows import KernelRows, begins, unit_steps, values_of
from rnncc.ir.dims import Dim
from rnncc.kern.access import Access, get_access
from rnncc.kern.kernels import Gemm
from rnncc.kern.packing import GROUP


class DeviceWeights:
    """Packed weights of a product in device memory.

    Attributes:
        group: how many k of a unit lie side by side; `words`: how many such groups.
    """

    def __init__(self, emit: GpuEmit, op: Gemm, packed: Pointer) -> None:
        self.emit, self.op, self.packed = emit, op, packed
        self.group = GROUP[packed.dtype]
        self.words = -(-op.depth.data // self.group)

    def place(self, unit: Value) -> tuple[Value, Value]:
        """Where a unit's weights begin, and from one slot's to the next one's, in elements."""
        b, panel = self.emit.b, self.op.panel.data
        number = b.sdiv(unit, I64(panel))
        start = b.mul(number, I64(panel))
        width: Value = I64(panel)
        rest = self.op.units % panel
        if rest:
            # The last panel is narrower, and its slots are nearer to each other.
            last = b.icmp_signed("==", number, I64(self.op.units // panel))
            width = b.select(last, I64(rest), width)
        first = b.mul(start, I64(self.words * self.group * self.op.slots.data))
        own = b.mul(b.sub(unit, start), I64(self.group))
        return b.add(first, own), b.mul(width, I64(self.group))

    def load(self, element: Value) -> Value:
        """One of them as a float."""
        emit = self.emit
        value = emit.load(emit.at(self.packed, element))
        if self.packed.dtype == "f32":
            return value
        return emit.b.bitcast(emit.b.shl(emit.b.zext(value, I32), I32(16)), FLOAT)


class Finish(Protocol):
    """Computes the body on sums, and stores its results where a condition holds.

    `first` gets them before that.
    """

    def __call__(
        self,
        condition: Value | None,
        sums: list[Value],
        first: Callable[[list[Value]], None] = ...,
    ) -> None: ...


class Product:
    """What a product reads and writes, by row and unit.

    Attributes:
        posted: the results that other blocks wait for.
    """

    def __init__(
        self,
        emit: GpuEmit,
        op: Gemm,
        a: Pointer,
        weights: Pointer,
        ins: list[Pointer],
        outs: list[Pointer],
        listed: Pointer | None,
    ) -> None:
        self.emit, self.op, self.weights = emit, op, DeviceWeights(emit, op, weights)
        self.slots, self.depth, self.units = op.slots.data, op.depth.data, op.units
        left, axes = get_access(op.a_access), len(op.k_dims)
        self._k_steps = left.strides[-axes:]
        # All units of a row read the same of a: no step along their axis.
        over_rows = Access(left.offset, (*left.strides[:-axes], Dim.of(0)))
        accesses = [over_rows, *op.in_accesses, *op.out_accesses]
        self.pointers = begins(emit, [a, *ins, *outs], accesses)
        self.steps = unit_steps(accesses)
        self.rows = KernelRows(emit, op, accesses, len(op.dims) - 1, listed)
        self.posted: Collection[int] = ()

    @property
    def is_dense(self) -> bool:
        """Whether fours of k lie side by side, each at a multiple of 16 bytes if the first does."""
        *others, k = get_access(self.op.a_access).strides
        whole = all(factor % 4 == 0 for step in others for _, factor in step.terms)
        return k == 1 and whole and int(self.op.k_dims[-1]) % 4 == 0

    @property
    def is_one_run(self) -> bool:
        """Whether the k of a row lie along one axis: it is no window."""
        return len(self._k_steps) == 1

    def along_k(self, row: Pointer, k: Value) -> Pointer:
        """Where the k-th value of a row is."""
        sizes: list[Value] = [I64(int(size)) for size in self.op.k_dims]
        return self.emit.along(row, self._k_steps, self.emit.unravel(k, sizes))

    def aligned(self, *pointers: Pointer) -> Value:
        """Whether the first row, or whatever else is given, lies at a multiple of 16 bytes."""
        return self.emit.aligned(*(pointers or self.pointers[:1]))

    def write(self) -> None:
        """One unit and row a thread."""
        emit = self.emit
        total = emit.b.mul(self.rows.count, I64(self.units))

        def point(number: Value) -> None:
            row, unit = emit.unravel(number, [self.rows.count, I64(self.units)])
            indices = self.rows.indices(row)
            here = self.rows.at(self.pointers, indices)
            self.loaded(indices, here, unit)(None, self._sums(here[0], unit))

        emit.for_each(total, point)

    def loaded(self, indices: list[Value], here: list[Pointer], unit: Value) -> Finish:
        """Read the inputs of a unit and row, whose pointers are `here`."""
        emit, block = self.emit, self.op.body.block
        count = len(self.op.ins)
        _, *others = (
            emit.along(p, [step], [unit]) for p, step in zip(here, self.steps, strict=True)
        )
        # Read now, while sums are still to be computed: loads take hundreds of cycles, and nothing
        # waits for them yet.
        inputs = [emit.load(p) for p in others[:count]]
        by_axis = {**self.rows.by_axis(indices), len(self.op.dims) - 1: unit}
        posted = self.posted

        def finish(
            condition: Value | None,
            sums: list[Value],
            first: Callable[[list[Value]], None] = lambda _: None,
        ) -> None:
            known: dict[SSAValue, Value] = dict(zip(block.args, [*sums, *inputs], strict=True))
            values = values_of(emit, block, known, by_axis)
            first(values)
            with nullcontext() if condition is None else emit.when(condition):
                emit.put(values, others[count:], posted)

        return finish

    def _sums(self, row: Pointer, unit: Value) -> list[Value]:
        """One chain of fused multiply-adds a slot."""
        emit, b = self.emit, self.emit.b
        first, step = self.weights.place(unit)
        group = self.weights.group
        zero = ir.Constant(FLOAT, 0.0)

        def iteration(word: Value, sums: list[Value]) -> list[Value]:
            at = b.add(first, b.mul(word, b.mul(step, I64(self.slots))))
            for i in range(group):
                k = b.add(b.mul(word, I64(group)), I64(i))
                value = self._left(row, k)
                for slot in range(self.slots):
                    here = b.add(at, b.add(b.mul(I64(slot), step), I64(i)))
                    sums[slot] = emit.math(1).fma(b, value, self.weights.load(here), sums[slot])
            return sums

        return emit.loop(I64(self.weights.words), iteration, [zero] * self.slots)

    def _left(self, row: Pointer, k: Value) -> Value:
        """A row's value; zero behind the last one, where a group is not full."""
        emit, b = self.emit, self.emit.b
        inside = self.depth % self.weights.group == 0
        # A group that is not full reads a k that exists, and takes zero for it: memory behind the
        # row need not be the caller's.
        at = k if inside else b.select(b.icmp_signed("<", k, I64(self.depth)), k, I64(0))
        value = emit.load(self.along_k(row, at))
        # A product that has room for rounded rows has them everywhere: plain code must have the
        # bits of tiles.
        if row.dtype == "bf16":
            value = b.bitcast(b.shl(b.zext(value, I32), I32(16)), FLOAT)
        elif self.op.room is not None:
            value = self._rounded(value)
        if inside:
            return value
        return b.select(b.icmp_signed("<", k, I64(self.depth)), value, ir.Constant(FLOAT, 0.0))

    def _rounded(self, value: Value) -> Value:
        """The nearest bf16, as a float."""
        b = self.emit.b
        return b.bitcast(self.emit.gpu.halves(ir.Constant(FLOAT, 0.0), value), FLOAT)
