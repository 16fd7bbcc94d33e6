"""The exported functions of a library that can stream: `run`, `step`, `state_init`.

They make the tables of pointers that the programs `init` and `step` take, and call them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from llvmlite import ir

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.sizes import bad_size
from rnncc.codegen.cpu.target import CpuTarget
from rnncc.codegen.cpu.team import alone
from rnncc.codegen.llvm.emit import BAD_SIZE, I8, I32, I64, NULL_POINTER, OK, POINTER, Value
from rnncc.ir.dims import Dim
from rnncc.ir.kern import Buffer
from rnncc.ir.kernel_program import KernelProgram
from rnncc.ir.library import Library
from rnncc.ir.ops.base import get_dim
from rnncc.ir.streaming import LINE, StateSlot, Streaming

TIME, BATCH = "T", "N"
POINTERS = {"run": 3, "step": 4, "state_init": 3}
"""Exported functions that compute -> how many pointers they take in front of the sizes."""

_NULL = ir.Constant(POINTER, None)
_WORDS = ir.VectorType(I32, LINE // 4)

Find = Callable[[str], Value]


def emit_streaming(
    module: ir.Module,
    library: Library,
    calls: dict[str, ir.Function],
    target: CpuTarget,
    single: ir.Function | None = None,
) -> dict[str, ir.Function]:
    """Add the functions that compute; each takes the weights first. By exported name.

    Args:
        single: does one step of one sequence, if there is a program for that alone.
    """
    glue = _Glue(module, library, calls, target)
    made = {"run": glue.run(), "step": glue.step(single), "state_init": glue.state_init()}
    return made | ({"run_part": glue.run(team=True)} if library.shared else {})


class _Glue:
    """Writes one function after another; `emit` is of the one being written."""

    emit: CpuEmit
    part: Sequence[Value] = ()

    def __init__(
        self, module: ir.Module, library: Library, calls: dict[str, ir.Function], target: CpuTarget
    ) -> None:
        assert library.streaming is not None
        self.module, self.library, self.calls, self.target = module, library, calls, target
        self.streaming: Streaming = library.streaming
        self.init, self.often = library.programs["init"], library.programs["step"]

    def run(self, team: bool = False) -> ir.Function:
        """The whole sequence: a state that lives in the workspace, then all steps."""
        name, pointers = ("run_part", 4) if team else ("run", 3)
        function, (weights, inputs, outputs, workspace, *part) = self._begin(name, pointers)
        self._refuse_null(part)
        self.part = part or self.part
        streaming = self.streaming
        self._refuse_null([inputs, outputs, *([workspace] if streaming.made else [])])
        made = {slot.port.name: slot for slot in streaming.made}
        places = dict(zip(made, self._places(streaming.made, workspace), strict=True))
        rest = self._at(workspace, streaming.run_area)
        if made:
            table = self._table(self.init, self._input_of(inputs))
            firsts = self.emit.table([places.get(port.name, _NULL) for port in self.init.outputs])
            self._try(self.calls["init"], [weights, table, firsts, rest, *self.part])
        given = {slot.port.name: slot for slot in streaming.slots if slot.given is not None}
        find = self._input_of(inputs)

        def source(name: str) -> Value:
            if name in given:
                return self._given(given[name], weights, find)
            return places[name] if name in places else find(name)

        self._steps(weights, source, self._output_of(outputs, {}), rest)
        return function

    def step(self, single: ir.Function | None) -> ir.Function:
        """A few steps: the next state takes the old one's place, by way of the workspace or not."""
        function, pointers = self._begin("step", 4, checked=False)
        if single is not None:
            ones = {s: I64(1) for s in (TIME, BATCH) if s in self.library.symbols}
            sizes = [self.emit.symbols[symbol] for symbol in ones]
            all_ones = reduce(self.emit.b.and_, map(self._is_one, sizes))
            with self.emit.when(all_ones), self.emit.symbols_set(ones):
                self._go_on(pointers, single)
        self._go_on(pointers)
        return function

    def _go_on(self, pointers: Sequence[Value], single: ir.Function | None = None) -> None:
        weights, inputs, outputs, state, workspace = pointers
        streaming = self.streaming
        self._check_sizes(self.library.untimed_bounds(TIME))
        needed = [
            *([state] if streaming.slots else []),
            *([workspace] if streaming.copied else []),
        ]
        self._refuse_null([inputs, outputs, *needed])
        names = [slot.port.name for slot in streaming.slots]
        places = dict(zip(names, self._places(streaming.slots, state), strict=True))
        written = {slot.next: places[slot.port.name] for slot in streaming.slots if slot.in_place}
        nexts = self._places(streaming.copied, workspace)
        written |= {slot.next: at for slot, at in zip(streaming.copied, nexts, strict=True)}
        find = self._input_of(inputs)
        rest = self._at(workspace, streaming.step_area)
        self._steps(
            weights,
            lambda name: places[name] if name in places else find(name),
            self._output_of(outputs, written),
            rest,
            (lambda: self._copy(workspace, state)) if streaming.copied else None,
            single,
        )

    def state_init(self) -> ir.Function:
        """The state before the first step."""
        function, (weights, inputs, state, workspace) = self._begin("state_init", 3, timed=False)
        self._refuse_null([inputs, *([state] if self.streaming.slots else [])])
        names = [slot.port.name for slot in self.streaming.slots]
        places = dict(zip(names, self._places(self.streaming.slots, state), strict=True))
        table = self._table(self.init, self._input_of(inputs))
        firsts = self.emit.table([places[port.name] for port in self.init.outputs])
        self._try(self.calls["init"], [weights, table, firsts, workspace, *self.part])
        self.emit.b.ret(I32(OK))
        return function

    def _steps(
        self,
        weights: Value,
        source: Find,
        result: Find,
        workspace: Value,
        after: Callable[[], None] | None = None,
        single: ir.Function | None = None,
    ) -> None:
        table = self._table(self.often, source)
        results = self.emit.table([result(port.name) for port in self.often.outputs])
        arguments = [weights, table, results, workspace]
        if single is None:
            self._try(self.calls["step"], [*arguments, *self.part])
        else:
            self._try(single, arguments)
        if after is not None:
            after()
        self.emit.b.ret(I32(OK))

    # Parts of a function

    def _begin(
        self, name: str, pointers: int, timed: bool = True, checked: bool = True
    ) -> tuple[ir.Function, list[Value]]:
        """A function that has checked its sizes, if asked; its pointers, the weights first."""
        symbols = [s for s in self.library.symbols if timed or s != TIME]
        signature = ir.FunctionType(I32, [POINTER] * (1 + pointers) + [I64] * len(symbols))
        function = ir.Function(self.module, signature, f"{self.library.name}_{name}_given")
        function.attributes.add("nounwind")
        self.emit = CpuEmit.begin(function, self.target, symbols)
        self.emit.symbols = {TIME: I64(0), **self.emit.symbols}
        if checked:
            whole = name.startswith("run")
            untimed = self.library.untimed_bounds(TIME)
            self._check_sizes(self.library.bounds if whole else untimed)
        self.part = [alone(self.emit)] if self.library.shared else []
        return function, list(function.args[: 1 + pointers])

    def _check_sizes(self, bounds: Sequence[Dim]) -> None:
        self.emit.fail_if(bad_size(self.emit, bounds), BAD_SIZE)

    def _refuse_null(self, pointers: Sequence[Value]) -> None:
        for pointer in pointers:
            self.emit.fail_if(self.emit.is_null(pointer), NULL_POINTER)

    def _try(self, program: ir.Function, arguments: Sequence[Value]) -> None:
        """Call a program; what it refuses, the function refuses."""
        sizes = [self.emit.symbols[symbol] for symbol in self.library.symbols]
        code = self.emit.b.call(program, [*arguments, *sizes])
        with self.emit.when(self.emit.b.icmp_signed("!=", code, I32(OK))):
            self.emit.b.ret(code)

    def _is_one(self, size: Value) -> Value:
        return self.emit.b.icmp_signed("==", size, I64(1))

    def _places(self, slots: Sequence[StateSlot], block: Value) -> list[Value]:
        """Where values lie in a block that holds these slots alone, one after another."""
        end, places = Dim.of(0), list[Value]()
        for slot in slots:
            places.append(self._at(block, end))
            end = end + slot.bytes
        return places

    def _at(self, block: Value, offset: Dim) -> Value:
        if offset == 0:
            return block
        return self.emit.b.gep(block, [self.emit.dim(offset)], source_etype=I8)

    def _input_of(self, struct: Value) -> Find:
        """The caller's pointer to an input of the model."""
        numbers = {port.name: i for i, port in enumerate(self.streaming.inputs)}
        return lambda name: self.emit.field(struct, numbers[name])

    def _output_of(self, struct: Value, written: dict[str | None, Value]) -> Find:
        """Where an output of the steps goes; a next state that nobody wants nowhere."""
        numbers = {port.name: i for i, port in enumerate(self.streaming.outputs)}

        def find(name: str) -> Value:
            if name in numbers:
                return self.emit.field(struct, numbers[name])
            return written.get(name, _NULL)

        return find

    def _given(self, slot: StateSlot, weights: Value, find: Find) -> Value:
        """An input where the caller has it, else where the library has its default."""
        assert slot.given is not None
        place = find(slot.given)
        inputs = [b for b in self.init.buffers if b.role.data == "input"]
        default = next(b.default for b in inputs if b.label.data == slot.given)
        if default is None:
            return place
        held = next(b for b in self.init.buffers if b.label == default)
        return self.emit.b.select(self.emit.is_null(place), self._at(weights, _offset(held)), place)

    def _table(self, program: KernelProgram, find: Find) -> Value:
        return self.emit.table([find(port.name) for port in program.inputs])

    def _copy(self, source: Value, target: Value) -> None:
        """Put the next state where the old one was: the first slots, whole lines."""
        emit, b = self.emit, self.emit.b
        size = sum((slot.bytes for slot in self.streaming.copied), Dim.of(0))

        def line(i: Value, carried: list[Value]) -> list[Value]:
            offset = b.mul(i, I64(LINE))
            from_, to = (b.gep(block, [offset], source_etype=I8) for block in (source, target))
            b.store(b.load(from_, typ=_WORDS, align=4), to, align=4)
            return []

        emit.loop(b.sdiv(emit.dim(size), I64(LINE)), line)


def _offset(buffer: Buffer) -> Dim:
    assert buffer.offset is not None
    return get_dim(buffer.offset)
