"""The target `emulated`: the device code of `nvptx` as host code, with functions of the emulator.

Everything but these few functions is the LLVM IR that a GPU gets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from llvmlite import ir

from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.codegen.cpu.target import CpuTarget
from rnncc.codegen.llvm.builder import FoldingBuilder
from rnncc.codegen.llvm.values import FLOAT, I8, I16, I32, I64, POINTER, Value
from rnncc.codegen.nvptx import target as nvptx
from rnncc.codegen.nvptx.primitives import PARAMETERS, VOID, GiveUp, Primitives
from rnncc.codegen.nvptx.ptx import ChipImage, DeviceMachine
from rnncc.codegen.nvptx.target import NvptxTarget
from rnncc.codegen.targets import NVPTX, TARGETS, TargetRow
from rnncc.records import record
from tests.gpu.images import image_of

NAME = "emulated"
Change = Callable[[str], str]


class EmulatedPrimitives(Primitives):
    """Those of one kernel, `void NAME(void **params)`."""

    def __init__(self, module: ir.Module, name: str, ports: int, sizes: int) -> None:
        types = [*PARAMETERS, *[POINTER] * ports, *[I64] * sizes]
        self.module = module
        self.function = ir.Function(module, ir.FunctionType(VOID, [POINTER]), name)
        self.b = FoldingBuilder(self.function.append_basic_block("entry"))
        self._given = [self._parameter(i, type_) for i, type_ in enumerate(types)]
        count = ir.GlobalVariable(module, I32, f"{name}.params")
        count.initializer, count.global_constant = I32(len(types)), True

    def _parameter(self, number: int, type_: ir.Type) -> Value:
        at = self.b.gep(self.function.args[0], [I64(number)], source_etype=POINTER)
        place = self.b.load(at, typ=POINTER, align=8)
        return self.b.load(place, typ=type_, align=8)

    @property
    def arguments(self) -> Sequence[Value]:
        return self._given

    @property
    def thread(self) -> Value:
        return self._call("emu_thread", I32)

    @property
    def block(self) -> Value:
        return self._call("emu_block", I32)

    @property
    def blocks(self) -> Value:
        return self._call("emu_blocks", I32)

    def shared(self) -> Value:
        return self._call("emu_shared", POINTER)

    def shared_four(self, place: Value, offset: int) -> Value:
        at = self.b.gep(place, [I64(offset)], source_etype=I8)
        return self.b.load(at, typ=ir.VectorType(FLOAT, 4), align=16)

    def shared_bytes(self) -> Value:
        return self._call("emu_shared_bytes", I32)

    def in_global(self, pointer: Value) -> Value:
        return pointer

    def hidden(self, number: int) -> Value:
        return I64(number)

    def not_unrolled(self) -> None:
        pass

    def block_wait(self) -> None:
        self._call("emu_block_wait", VOID)

    def grid_wait(self, counter: Value, goal: Value, give_up: GiveUp) -> None:
        self._call("emu_grid_wait", VOID, [counter, goal])

    def fetch_ahead(self, place: Value) -> None:
        pass

    def post(self, place: Value, value: Value, mark: Value) -> None:
        self._call("emu_post", VOID, [place, value, mark])

    def two_words(self, place: Value) -> list[Value]:
        second = self.b.gep(place, [I64(1)], source_etype=I64)
        return [self._call("emu_look", I64, [p]) for p in (place, second)]

    def _post_word(self, place: Value, word: Value) -> None:
        self._call("emu_post_word", VOID, [place, word])

    def four_words(self, place: Value) -> list[Value]:
        places = [self.b.gep(place, [I64(i)], source_etype=I32) for i in range(4)]
        return [self._call("emu_look_word", I32, [p]) for p in places]

    def pause(self, looks: Value, give_up: GiveUp) -> None:
        self._call("emu_poll", VOID)

    def end(self) -> None:
        self._call("emu_end", VOID)

    def shuffle_down(self, value: Value, by: int) -> Value:
        word = value if value.type == I32 else self.b.bitcast(value, I32)
        other = self._call("emu_shuffle_down", I32, [word, I32(by)])
        return other if value.type == I32 else self.b.bitcast(other, value.type)

    def ballot(self, flag: Value) -> Value:
        return self._call("emu_ballot", I32, [self.b.zext(flag, I32)])

    def copy_ahead(self, target: Value, source: Value, size: Value) -> None:
        """At once: the latest that a copy may begin is not seen."""
        for i in range(8):
            place = self.b.gep(target, [I64(i)], source_etype=I16)
            inside = self.b.icmp_unsigned("<", I32(2 * i), size)
            with self.b.if_else(inside) as (some, none):
                with some:
                    half = self.b.gep(source, [I64(i)], source_etype=I16)
                    self.b.store(self.b.load(half, typ=I16, align=2), place, align=2)
                with none:
                    self.b.store(I16(0), place, align=2)

    def end_copies(self) -> None:
        pass

    def await_copies(self, groups: int) -> None:
        pass

    def halves(self, low: Value, high: Value) -> Value:
        return self._call("emu_halves", I32, [low, high])

    def matrices(self, row: Value, count: int, turned: bool = False) -> list[Value]:
        room = self._room(count)
        self._call("emu_matrices", VOID, [row, room, I32(count), I32(int(turned))])
        return self._words(room, range(count), I32)

    def multiply(self, a: Sequence[Value], b: Sequence[Value], c: Sequence[Value]) -> list[Value]:
        room = self._room(10)
        for i, word in enumerate([*a, *b, *c]):
            self.b.store(word, self._word(room, i), align=4)
        self._call("emu_multiply", VOID, [room])
        return self._words(room, range(6, 10), c[0].type)

    def _room(self, words: int) -> Value:
        """Words on the stack."""
        with self.b.goto_entry_block():
            room: Any = self.b.alloca(ir.ArrayType(I32, words))
        room.type = POINTER
        return room

    def _word(self, room: Value, number: int) -> Value:
        return self.b.gep(room, [I64(number)], source_etype=I32)

    def _words(self, room: Value, numbers: range, type_: ir.Type) -> list[Value]:
        return [self.b.load(self._word(room, i), typ=type_, align=4) for i in numbers]


@record
class HostMachine(DeviceMachine):
    """This machine's CPU, one value at a time."""

    host: CpuTarget = field(default_factory=resolve_target)

    @property
    def features(self) -> str:
        return self.host.features


def _machine() -> HostMachine:
    host = resolve_target()
    return HostMachine(host.cpu, host.triple, host)


@record
class EmulatedTarget(NvptxTarget):
    """A GPU made of this machine.

    Attributes:
        change: of the device code's text, before it is compiled; for code with mistakes.
    """

    host: CpuTarget = field(default_factory=resolve_target)
    machine: DeviceMachine = field(default_factory=_machine)
    change: Change | None = None

    def primitives(self, module: ir.Module, name: str, ports: int, sizes: int) -> Primitives:
        return EmulatedPrimitives(module, name, ports, sizes)

    def finished(self, text: str) -> str:
        return self.change(text) if self.change else text

    def images(self, text: str, linked: Sequence[str]) -> list[ChipImage]:
        return [ChipImage("ptx", image_of(text, linked))]


def resolve(triple: str | None, cpu: str | None, knobs: Mapping[str, int]) -> EmulatedTarget:
    """The target; as knob `threads`, of a block."""
    return EmulatedTarget(threads=knobs.get("threads", 256))


def load(code: bytes) -> Any:
    """The host's part in this process."""
    return nvptx.load(code)


def register() -> None:
    """Make `--target emulated` known in this process."""
    TARGETS[NAME] = TargetRow("tests.gpu.emulated", NVPTX.products, NVPTX.by_default, ("threads",))
