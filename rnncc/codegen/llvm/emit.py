"""Writing LLVM IR: sizes as values, counted loops, pointers to buffers, typed vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import reduce
from typing import Any, Self, cast

from llvmlite import ir

from rnncc.codegen.llvm.builder import FoldingBuilder, written_once
from rnncc.codegen.llvm.double_math import math_of
from rnncc.codegen.llvm.machine import Machine
from rnncc.codegen.llvm.math import MathEmitter
from rnncc.codegen.llvm.sizes import SizeEmit, is_zero
from rnncc.codegen.llvm.text_builder import spread, undefined
from rnncc.codegen.llvm.values import (
    I1,
    I32,
    I64,
    MEMORY,
    POINTER,
    VALUE,
    Pointer,
    Value,
    align_of,
    declared,
    selection,
    vector_type,
)
from rnncc.codegen.llvm.vector import Real, Splat, Vector, VectorEmitter
from rnncc.ir.dims import Dim
from rnncc.ir.types import FLOATS
from rnncc.platforms import pointer_bytes

Body = Callable[[Value, list[Value]], Sequence[Value]]


class Emit(SizeEmit):
    """One function being written, for one machine."""

    def __init__(self, module: ir.Module, target: Machine, builder: ir.IRBuilder) -> None:
        super().__init__(target, builder)
        self.module = module
        self._math = dict[tuple[int, Real], MathEmitter]()
        self.element: Real = "f32"
        """The type of the elements that fill a whole vector."""

    @property
    def converts_halves(self) -> bool:
        """Whether the machine has instructions from and to float16."""
        return False

    @classmethod
    def begin(cls, function: ir.Function, target: Machine, symbols: Sequence[str]) -> Self:
        """Start a function whose last arguments are the sizes of these symbols."""
        emit = cls(function.module, target, FoldingBuilder(function.append_basic_block("entry")))
        sizes = function.args[len(function.args) - len(symbols) :]
        emit.symbols = dict(zip(symbols, sizes, strict=True))
        return emit

    def room(self, type_: ir.Type, align: int) -> Value:
        """Room on the stack, for the whole call."""
        # In a loop each iteration would take more of the stack.
        with self.b.goto_entry_block():
            room = cast(Value, self.b.alloca(type_))
        room.align = align
        room.type = POINTER  # llvmlite would make it a typed pointer
        return room

    @property
    def vector(self) -> MathEmitter:
        """Functions on whole vectors."""
        return self.math(self.target.lanes, self.element)

    def math(self, lanes: int, dtype: Real = "f32") -> MathEmitter:
        """Functions on one float of a type, or on a vector of them."""
        key = lanes, dtype
        if key not in self._math:
            machine = self.target
            vector = Vector(lanes, machine.fma, dtype, machine.scales, machine.rounds)
            self._math[key] = math_of(self.module, vector)
        return self._math[key]

    def function(self, name: str, xs: Sequence[Value], lanes: int, dtype: Real) -> Value:
        """A function of `MathEmitter` on values: in place, or where code is to be small and it is
        more than arithmetic by a call."""
        math = self.math(lanes, dtype)
        if not self.target.compact or hasattr(VectorEmitter, name):
            return math.function(name)(self.b, *xs)

        def write(b: FoldingBuilder, function: ir.Function) -> None:
            b.ret(math.function(name)(b, *function.args))

        type_ = ir.FunctionType(math.type, [math.type] * len(xs))
        function = written_once(self.module, f"{name}_{lanes}{dtype}", type_, write)
        return self.b.call(function, xs)

    # Loops

    def loop(
        self,
        count: Value,
        body: Body,
        carried: Sequence[Value] = (),
        goes_on: Callable[[], Value] | None = None,
        often: int = 0,
    ) -> list[Value]:
        """`body(i, carried) -> carried` for i from 0 below `count`; returns the last carried.

        Args:
            goes_on: after each iteration, whether there may be another.
            often: iterations, about, for LLVM, which takes all loops for equally long otherwise.
        """
        runs = isinstance(count, ir.Constant)
        if runs and count.constant < 2:
            return list(body(I64(0), list(carried))) if count.constant == 1 else list(carried)
        b, entry, native = self.b, self.b.block, self.native
        head, done = b.append_basic_block("loop"), b.append_basic_block("done")
        # Calls whose sizes do not fit are refused before (`bad_size`).
        count = count if native == I64 else b.trunc(count, native)
        if runs:
            b.branch(head)
        else:
            b.cbranch(b.icmp_signed(">", count, native(0)), head, done)
        b.position_at_end(head)
        index = b.phi(native)
        index.add_incoming(native(0), entry)
        values = [self._phi(v, entry) for v in carried]
        new = body(index if native == I64 else b.zext(index, I64), list(values))
        following = b.add(index, native(1))
        index.add_incoming(following, b.block)
        for phi, value in zip(values, new, strict=True):
            phi.add_incoming(value, b.block)
        last = b.block
        another = b.icmp_signed("<", following, count)
        if goes_on is not None:
            another = b.and_(another, goes_on())
        branch: Any = b.cbranch(another, head, done)  # its type stubs lack set_weights
        if often > 1:
            branch.set_weights([often - 1, 1])
        b.position_at_end(done)
        if runs:
            return list(new)
        results = [self._phi(v, entry) for v in carried]
        for phi, value in zip(results, new, strict=True):
            phi.add_incoming(value, last)
        return results

    def _phi(self, value: Value, block: ir.Block) -> Value:
        phi = self.b.phi(value.type)
        phi.add_incoming(value, block)
        return phi

    def nest(
        self,
        counts: Sequence[Value],
        body: Callable[[list[Value]], None],
        outermost: Callable[[Value, Body], object] | None = None,
    ) -> None:
        """Nested loops; `body` gets all indices. `outermost`: writes that loop, if not `loop`."""

        if any(is_zero(count) for count in counts):
            return  # LLVM would keep the loops around one that never runs

        def level(depth: int, indices: list[Value]) -> None:
            if depth == len(counts):
                body(indices)
                return

            def iteration(i: Value, carried: list[Value]) -> list[Value]:
                level(depth + 1, [*indices, i])
                return []

            loop = self.loop if depth or outermost is None else outermost
            loop(counts[depth], iteration)

        level(0, [])

    def in_vectors(
        self, count: Value, lanes: int, body: Callable[[Value, Value | None], None]
    ) -> None:
        """`body(start, mask)` for every `lanes` of `count` elements; a rest is masked."""
        b = self.b

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            body(b.mul(i, I64(lanes)), None)
            return []

        if isinstance(count, ir.Constant):
            full, rest = divmod(cast(int, count.constant), lanes)
            self.loop(I64(full), iteration)
            if rest:
                body(I64(full * lanes), self.first_lanes(rest, lanes))
            return
        full = self.quotient(count, I64(lanes))
        self.loop(full, iteration)
        if lanes > 1:
            start = b.mul(full, I64(lanes))
            rest = b.sub(count, start)
            with self.when(b.icmp_signed(">", rest, I64(0))):
                body(start, self.first_lanes(rest, lanes))

    def when(self, condition: Value) -> AbstractContextManager[Any]:
        """Code that runs only where the condition holds."""
        return self.b.if_then(condition)

    def fail_if(self, condition: Value, code: int) -> None:
        """End the call with an error code where the condition holds."""
        with self.when(condition):
            self.b.ret(I32(code))

    # Tables of pointers

    @property
    def pointer_bytes(self) -> int:
        """Of an address."""
        return pointer_bytes(self.target.triple)

    def all_absent(self, absent: Sequence[Value | None]) -> Value | None:
        """Whether all outputs are absent; None if there are none, or one is never absent."""
        flags = [value for value in absent if value is not None]
        return reduce(self.b.and_, flags) if flags and len(flags) == len(absent) else None

    def is_null(self, pointer: Value) -> Value:
        return self.b.icmp_unsigned("==", pointer, ir.Constant(POINTER, None))

    def field(self, struct: Value, number: int) -> Value:
        """One pointer of a struct or a table."""
        at = self.b.gep(struct, [I64(number)], source_etype=POINTER)
        return self.b.load(at, typ=POINTER, align=self.pointer_bytes)

    def slots(self, count: int) -> Value:
        """Room for so many pointers on the stack."""
        return self.room(ir.ArrayType(POINTER, max(count, 1)), self.pointer_bytes)

    def table(self, pointers: Sequence[Value]) -> Value:
        """A table of pointers on the stack."""
        table = self.slots(len(pointers))
        for number, pointer in enumerate(pointers):
            at = self.b.gep(table, [I64(number)], source_etype=POINTER)
            self.b.store(pointer, at, align=self.pointer_bytes)
        return table

    # Memory

    def at(self, pointer: Pointer, elements: Value) -> Pointer:
        """The buffer from an element on."""
        if is_zero(elements):
            return pointer
        base = self.b.gep(pointer.base, [elements], source_etype=MEMORY[pointer.dtype])
        return replace(pointer, base=base)

    def along(self, pointer: Pointer, steps: Sequence[Dim], indices: Sequence[Value]) -> Pointer:
        """A pointer at some indices of its axes."""
        for index, step in zip(indices, steps, strict=False):
            if step != 0:
                pointer = self.at(pointer, self.b.mul(index, self.dim(step)))
        return replace(pointer, ring=None)

    def row(self, pointer: Pointer, index: Value, stride: Value) -> Pointer:
        """A row of a sequence, in its ring where the buffer keeps one."""
        if pointer.ring is not None:
            # The rows of a ring are a power of two.
            kept = self.b.and_(index, I64(pointer.ring - 1))
            absent = pointer.absent
            # The caller's memory has all rows.
            index = kept if absent is None else self.b.select(absent, kept, index)
        return replace(self.at(pointer, self.b.mul(index, stride)), ring=None)

    def load(self, pointer: Pointer, lanes: int = 1, mask: Value | None = None) -> Value:
        """One element, or `lanes` neighbours; masked-off lanes are zero and not read."""
        type_ = vector_type(MEMORY[pointer.dtype], lanes)
        if mask is None:
            value = self.b.load(pointer.base, typ=type_, align=align_of(pointer.dtype))
        else:
            zero = ir.Constant(type_, None)
            value = self.masked("load", type_, pointer, mask, zero)
        if pointer.dtype == "i1":
            return self.b.icmp_unsigned("!=", value, ir.Constant(type_, None))
        return value

    def load_number(self, pointer: Pointer) -> Value:
        """An element of i32 or i64 as i64, such as a row's number."""
        number = self.load(pointer)
        return number if pointer.dtype == "i64" else self.b.sext(number, I64)

    def spaced(self, pointer: Pointer, step: int, lanes: int, mask: Value | None = None) -> Value:
        """As `load`, of elements that are `step` apart: as many vectors, of which some lanes are
        read."""
        if step == 1 or lanes == 1:
            return self.load(pointer, lanes, mask)
        b, flags = self.b, ir.VectorType(I1, lanes)
        enabled: Value = ir.Constant(flags, [1] * lanes) if mask is None else mask
        gathered: Value = ir.Constant(vector_type(VALUE[pointer.dtype], lanes), None)
        for first in range(0, lanes * step, lanes):
            inside = {i: i * step - first for i in range(lanes) if 0 <= i * step - first < lanes}
            lane_of = {place: i for i, place in inside.items()}
            read = [lane_of.get(place, lanes) for place in range(lanes)]
            part_read = b.shuffle_vector(enabled, ir.Constant(flags, None), selection(*read))
            part = self.load(self.at(pointer, I64(first)), lanes, part_read)
            chosen = [lanes + inside[i] if i in inside else i for i in range(lanes)]
            gathered = b.shuffle_vector(gathered, part, selection(*chosen))
        return gathered

    def store(
        self, value: Value, pointer: Pointer, lanes: int = 1, mask: Value | None = None
    ) -> None:
        """The opposite of `load`; masked-off lanes are not written."""
        type_ = vector_type(MEMORY[pointer.dtype], lanes)
        if pointer.dtype == "i1":
            value = self.b.zext(value, type_)
        if mask is None:
            self.b.store(value, pointer.base, align=align_of(pointer.dtype))
        else:
            mask = mask if pointer.dtype in (*FLOATS, "i64") else self._unknown(mask)
            self.masked("store", type_, pointer, mask, value)

    def _unknown(self, mask: Value) -> Value:
        """A mask of which LLVM cannot know that one lane alone is on.

        With AVX-512 its code generator would write such a lane of a truncated vector by a store of
        the element before it was truncated, which reaches beyond it.
        """
        kind = ir.FunctionType(I32, [I32])
        one = self.b.call(ir.InlineAsm(kind, "", "=r,0"), [I32(1)])
        on = self.splat(self.b.icmp_unsigned("!=", one, I32(0)), mask.type.count)
        return self.b.and_(mask, on)

    def masked(
        self, kind: str, type_: ir.Type, pointer: Pointer, mask: Value, value: Value
    ) -> Value:
        """A masked load or store intrinsic."""
        element = pointer.dtype if pointer.dtype in FLOATS else str(MEMORY[pointer.dtype])
        name = f"llvm.masked.{kind}.v{mask.type.count}{element}.p0"
        align = I32(align_of(pointer.dtype))
        if kind == "load":
            function = declared(self.module, name, type_, [POINTER, I32, mask.type, type_])
            return self.b.call(function, [pointer.base, align, mask, value])
        function = declared(self.module, name, ir.VoidType(), [type_, POINTER, I32, mask.type])
        return self.b.call(function, [value, pointer.base, align, mask])

    # Vectors

    def splat(self, value: Value, lanes: int) -> Value:
        """A scalar in every lane."""
        if lanes == 1:
            return value
        if isinstance(value, ir.Constant):
            return Splat(ir.VectorType(value.type, lanes), value)
        return spread(self.b, value, lanes)

    def lane_numbers(self, start: Value, lanes: int) -> Value:
        """start, start + 1, ... in the lanes."""
        if lanes == 1:
            return start
        numbers = ir.Constant(ir.VectorType(I64, lanes), list(range(lanes)))
        return self.b.add(self.splat(start, lanes), numbers)

    def first_of(self, vector: Value, lanes: int) -> Value:
        """The first so many lanes of a vector."""
        if lanes == 1 or vector.type.count == lanes:
            return vector
        return self.b.shuffle_vector(vector, undefined(vector.type), selection(*range(lanes)))

    def mask(self, count: int | Value, lanes: int) -> Value | None:
        """A mask of the first `count` lanes; None where these are known to be all."""
        if isinstance(count, int) and count >= lanes:
            return None
        return self.first_lanes(count, lanes)

    def first_lanes(self, count: int | Value, lanes: int) -> Value:
        """A mask of the first `count` lanes."""
        if isinstance(count, int):
            return ir.Constant(ir.VectorType(I1, lanes), [int(i < count) for i in range(lanes)])
        numbers = ir.Constant(ir.VectorType(I64, lanes), list(range(lanes)))
        return self.b.icmp_signed("<", numbers, self.splat(count, lanes))
