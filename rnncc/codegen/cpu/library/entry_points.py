"""The exported functions as LLVM IR: the table of `rnncc.kern.entry_points`, step by step.

Each takes the packed weights as a first pointer, fills the programs' tables of pointers, and calls
them. In a library for threads, a function that does not take a part calls as the only thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from llvmlite import ir

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.library.tape_seal import TapeSeal
from rnncc.codegen.cpu.machine.core import Core
from rnncc.codegen.cpu.sizes import bad_size
from rnncc.codegen.cpu.threads import Team, alone
from rnncc.codegen.llvm.values import I8, I32, I64, POINTER, Value, declared
from rnncc.ir.dims import Dim
from rnncc.kern.entry_steps import (
    Call,
    CheckSizes,
    Copy,
    Default,
    EntryPoint,
    Field,
    Keep,
    Locate,
    NotNull,
    Place,
    Seal,
    Source,
    Step,
    Stored,
)
from rnncc.kern.library import Library
from rnncc.kern.signatures import BAD_SIZE, NULL_POINTER, OK, PART
from rnncc.sizes import BATCH, TIME

_NULL = ir.Constant(POINTER, None)


def emit_entry_point(
    module: ir.Module,
    library: Library,
    entry: EntryPoint,
    calls: Mapping[str, ir.Function],
    target: Core,
    single: ir.Function | None = None,
) -> ir.Function:
    """Add a function that computes.

    Args:
        calls: the programs.
        single: does one step of one sequence, if there is a program for that alone.
    """
    writer = _FunctionWriter(module, library, entry, calls, target)
    if single is not None:
        writer.write_single(single)
    writer.write(entry.steps)
    return writer.function


class LlvmEntryWriter:
    """A function that does what an entry point states, and pointers as its steps name them.

    Args:
        blocks: names of the pointers that it takes, in front of the sizes.
    """

    def __init__(
        self,
        module: ir.Module,
        name: str,
        entry: EntryPoint,
        blocks: Sequence[str],
        target: Core,
    ) -> None:
        self.module, self.entry = module, entry
        types = [POINTER] * len(blocks) + [I64] * len(entry.symbols)
        self.function = ir.Function(module, ir.FunctionType(I32, types), name)
        pointers = self.function.args[: len(blocks)]
        self.blocks: dict[str, Value] = dict(zip(blocks, pointers, strict=True))
        self.emit = CpuEmit.begin(self.function, target, entry.symbols)
        self.emit.symbols = {TIME: I64(0), **self.emit.symbols}

    def pointer(self, source: Source) -> Value:
        """Where something lies."""
        match source:
            case None:
                return _NULL
            case Field(struct, number):
                return self.emit.field(self.blocks[struct], number)
            case Default(field, fallback):
                argument = self.pointer(field)
                return self.emit.b.select(
                    self.emit.is_null(argument), self.pointer(fallback), argument
                )
            case Stored(place):
                return self.stored(self.pointer(place))
            case Place():
                return self.place(source)

    def stored(self, at: Value) -> Value:
        """A pointer that lies somewhere."""
        return self.emit.b.load(at, typ=POINTER, align=self.emit.pointer_bytes)

    def place(self, place: Place) -> Value:
        """A place in a block."""
        offset = self.emit.dim(place.offset)
        return self.emit.b.gep(self.blocks[place.block], [offset], source_etype=I8)

    def refuse_null(self, pointer: Value) -> Value:
        """The pointer, which must not be NULL."""
        self.emit.fail_if(self.emit.is_null(pointer), NULL_POINTER)
        return pointer


class _FunctionWriter(LlvmEntryWriter):
    """Writes one function, step after step."""

    def __init__(
        self,
        module: ir.Module,
        library: Library,
        entry: EntryPoint,
        calls: Mapping[str, ir.Function],
        target: Core,
    ) -> None:
        self.library, self.calls = library, calls
        end = "entry" if library.training is not None else "given"
        name = f"{library.name}_{entry.name}_{end}"
        super().__init__(module, name, entry, ("weights", *entry.parameters), target)
        if library.training is None:
            self.function.attributes.add("nounwind")
        self.places = dict[Place, Value]()
        self.code: Value = I32(OK)
        self._part: Value | None = self.blocks.get(PART)
        self._seal: TapeSeal | None = None

    def write(self, steps: Sequence[Step], single: ir.Function | None = None) -> None:
        """All steps, then the return; `single` in place of the program `step`."""
        # Those of `write_single` are values of its branch, which do not reach code behind it.
        self.places.clear()
        for step in steps:
            match step:
                case CheckSizes(bounds):
                    self.emit.fail_if(bad_size(self.emit, bounds), BAD_SIZE)
                case NotNull(block):
                    self.refuse_null(self.blocks[block])
                    if block == PART:
                        self._check_part()
                case Locate(places):
                    self.places |= {place: self.pointer(place) for place in places}
                case Call():
                    self._call(step, single)
                case Copy():
                    self._copy(step)
                case Keep(pointer, place):
                    kept = self.refuse_null(self.pointer(pointer))
                    with self.emit.alone():
                        self.emit.b.store(kept, self.pointer(place), align=self.emit.pointer_bytes)
                case Seal(act):
                    self._seal_tape(act)
        self.emit.b.ret(self.code)

    def write_single(self, single: ir.Function) -> None:
        """All steps for one step of one sequence, where the sizes are those."""
        ones = {s: I64(1) for s in (TIME, BATCH) if s in self.library.symbols}
        b, symbols = self.emit.b, self.emit.symbols
        are_one = (b.icmp_signed("==", symbols[symbol], I64(1)) for symbol in ones)
        with self.emit.when(reduce(b.and_, are_one)), self.emit.symbols_set(ones):
            self.write(self.entry.steps, single)

    def _check_part(self) -> None:
        """Refuse a thread that is none of the team, whose share would be none of the arrays'."""
        team = Team(self.module, self.emit.b, self.blocks[PART])
        self.emit.fail_if(self.emit.b.not_(team.is_member), BAD_SIZE)
        uncounted = self.emit.b.and_(team.several, self.emit.is_null(team.counter))
        self.emit.fail_if(uncounted, NULL_POINTER)

    def _call(self, call: Call, single: ir.Function | None) -> None:
        b = self.emit.b
        tables = [self._table(sources) for sources in (call.inputs, call.outputs)]
        arguments = [self.blocks["weights"], *tables, self.pointer(call.workspace)]
        function = self.calls[call.program] if single is None else single
        if self.library.shared and single is None:
            self._part = self._part or alone(self.emit)
            arguments.append(self._part)
        # A program whose function takes no sizes has none in it.
        sizes = [self.emit.symbols.get(symbol, I64(0)) for symbol in self.library.symbols]
        code = b.call(function, [*arguments, *sizes])
        if not call.stops:
            self.code = code
            return
        with self.emit.when(b.icmp_signed("!=", code, I32(OK))):
            b.ret(code)

    def _table(self, sources: Sequence[Source]) -> Value:
        """A program's table of pointers: fields of a struct in their order are one already."""
        match sources:
            case [Field(struct, first), *_] if list(sources) == [
                Field(struct, first + i) for i in range(len(sources))
            ]:
                start = [I64(first)]
                return self.emit.b.gep(self.blocks[struct], start, source_etype=POINTER)
            case _:
                return self.emit.table([self.pointer(source) for source in sources])

    def place(self, place: Place) -> Value:
        if place in self.places or place.offset == 0:
            return self.places.get(place, self.blocks[place.block])
        return super().place(place)

    def _copy(self, copy: Copy) -> None:
        target = self.pointer(copy.target)
        if copy.lines:
            self._copy_lines(self.pointer(copy.source), target, copy.bytes)
            return
        self.refuse_null(target)
        kind = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, I64, ir.IntType(1)])
        function = declared(self.module, "llvm.memcpy.p0.p0.i64", kind.return_type, kind.args)
        self.emit.b.call(
            function, [target, self.pointer(copy.source), I64(int(copy.bytes)), ir.IntType(1)(0)]
        )

    def _copy_lines(self, source: Value, target: Value, size: Dim) -> None:
        assert self.library.streaming is not None
        emit, b, length = self.emit, self.emit.b, self.library.streaming.line
        words = ir.VectorType(I32, length // 4)

        def line(i: Value, carried: list[Value]) -> list[Value]:
            offset = b.mul(i, I64(length))
            from_, to = (b.gep(block, [offset], source_etype=I8) for block in (source, target))
            b.store(b.load(from_, typ=words, align=4), to, align=4)
            return []

        emit.loop(emit.quotient(emit.dim(size), I64(length)), line)

    def _seal_tape(self, act: str) -> None:
        if self._seal is None:
            if PART in self.blocks:
                self.emit.team = Team(self.module, self.emit.b, self.blocks[PART])
            sizes = [self.emit.symbols[symbol] for symbol in self.entry.symbols]
            self._seal = TapeSeal(self.emit, self.library.name, self.blocks["tape"], sizes)
        match act:
            case "open":
                self._seal.open()
            case "check":
                self._seal.check()
            case "close":
                self._seal.close(self.code)
            case _:
                self._seal.break_unless_refused(self.code)
