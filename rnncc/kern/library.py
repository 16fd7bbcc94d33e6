"""What becomes one library: planned kernel programs that share one block of packed weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np

from rnncc.ir.attributes import dim_attr, get_dim
from rnncc.ir.dims import Dim, product, used_symbols
from rnncc.ir.program import Counts
from rnncc.kern.access import buffer_dtype
from rnncc.kern.dialect import Buffer
from rnncc.kern.largest import Largest
from rnncc.kern.moves import Pack
from rnncc.kern.program import KernelProgram, Port
from rnncc.kern.size_limits import power_bounds
from rnncc.kern.streaming import Streaming
from rnncc.kern.training import Initial, Training
from rnncc.sizes import TIME

WEIGHT_LINE = 64
"""Packed weights start at multiples of this many bytes."""

Array = np.ndarray[Any, Any]


@dataclass
class Library:
    """The programs of one model, by what they are for.

    `run` alone; `init` and `step`, where the net can stream; or `forward` and `backward`, with
    `pack` where parameters are packed for several calls.

    Attributes:
        name: a C identifier, the prefix of every exported symbol.
        programs: planned; their own names differ.
        training: how `forward` and `backward` work together.
        streaming: how `init` and `step` work together.
        refusal: why the net cannot stream, where it cannot.
        shared: whether several threads may compute one call of `run` together.
        bounds: formulas of a whole sequence's sizes that must not be negative.
        step_bounds: those of a piece's, with T as the piece's length, besides those without T.
        counts: output -> the output that tells how many of its rows count, and their axis.
        texts: see `rnncc.ir.program.Program`.
        flushes: whether denormals are flushed during a call.
        max_steps: the most steps of a call, if there is such a limit.
        weights: bytes of the block that all programs read; known once it is linked.
    """

    name: str
    source: str
    programs: dict[str, KernelProgram]
    training: Training | None = None
    streaming: Streaming | None = None
    refusal: str = ""
    shared: bool = False
    bounds: tuple[Dim, ...] = ()
    step_bounds: tuple[Dim, ...] = ()
    counts: Counts = field(default_factory=Counts)
    texts: tuple[str, ...] = ()
    flushes: bool = False
    max_steps: int | None = None
    weights: int = field(default=0, init=False)

    def link(self) -> Library:
        """Have all programs take the same sizes and read one block of weights; the library.

        Changes the programs: the offsets of their weights, and their symbols.
        """
        symbols = self.symbols
        for program in self.programs.values():
            program.symbols = symbols
        _place_all_weights([self])
        return self

    def __str__(self) -> str:
        return "\n".join(map(str, self.programs.values()))

    @staticmethod
    def of(program: KernelProgram, refusal: str = "") -> Library:
        """The linked library of a program for inference that does whole sequences alone."""
        return Library(program.name, program.source, {"run": program}, refusal=refusal).link()

    @property
    def initial(self) -> list[Initial]:
        """The parameters that the caller holds."""
        return [] if self.training is None else self.training.initial

    @property
    def prepacks(self) -> bool:
        """Whether a function of its own packs the parameters."""
        return self.training is not None and self.training.packed is not None

    @property
    def ports(self) -> tuple[list[Port], list[Port]]:
        """Inputs and outputs of the model, in the order of the structs."""
        first = self.streaming or self.training or next(iter(self.programs.values()))
        return first.inputs, first.outputs

    @property
    def parameters(self) -> list[Port]:
        """What is packed in."""
        ports = [port for program in self.programs.values() for port in program.parameters]
        return list({port.name: port for port in ports}.values())

    @property
    def precision(self) -> str:
        """Of the weights of products: fp32 where none are of less."""
        programs = self.programs.values()
        dtypes = {b.dtype for program in programs for b in params_of(program)}
        packed = {op.out for p in programs for op in p.func.walk() if isinstance(op, Pack)}
        dtypes |= {buffer_dtype(out) for out in packed}
        return "int8" if dtypes & {"i8", "u8"} else "bf16" if "bf16" in dtypes else "fp32"

    @property
    def workspace(self) -> Largest:
        """Bytes of the workspace that do for every function."""
        if self.streaming is not None:
            return self.streaming.workspace(self.programs["init"], self.programs["step"])
        return Largest(f for p in self.programs.values() for f in p.workspace.formulas)

    @property
    def stream_workspace(self) -> Largest:
        """Bytes of the workspace that do for a stream, where there is one."""
        assert self.streaming is not None
        return self.streaming.stream_workspace(self.programs["init"], self.programs["step"])

    @property
    def symbols(self) -> list[str]:
        """The sizes that every function takes: T, N, then the others."""
        return list(dict.fromkeys(s for p in self.programs.values() for s in p.symbols))

    @property
    def open_symbols(self) -> list[str]:
        """The symbols whose values a call decides: those that the inputs' shapes have."""
        return used_symbols(self.symbols, (dim for port in self.ports[0] for dim in port.dims))

    @property
    def whole_bounds(self) -> tuple[Dim, ...]:
        """What must not be negative in a call for a whole sequence."""
        return (*self.bounds, *self._most_steps, *self._limits)

    @property
    def untimed_bounds(self) -> tuple[Dim, ...]:
        """The bounds that hold without regard to time, as of a state."""
        bounds = (*self.bounds, *self._limits)
        return tuple(formula for formula in bounds if TIME not in formula.symbols)

    @property
    def piece_bounds(self) -> tuple[Dim, ...]:
        """Those of a call for a piece of a sequence."""
        timed = (formula for formula in self._limits if TIME in formula.symbols)
        return (*self.untimed_bounds, *self.step_bounds, *self._most_steps, *timed)

    @property
    def _limits(self) -> tuple[Dim, ...]:
        """Those that keep bytes and numbers of elements within 64 bits."""
        formulas = [product(port.dims) for ports in self.ports for port in ports]
        formulas += [*self.workspace.formulas, *self.bounds]
        if self.training is not None:
            formulas.append(self.training.tape)
        if self.streaming is not None:
            formulas.append(self.streaming.bytes)
        return power_bounds(formulas)

    @property
    def _most_steps(self) -> tuple[Dim, ...]:
        return () if self.max_steps is None else (self.max_steps - Dim.of(TIME),)

    def weights_block(self) -> Array:
        """The packed parameters as one block of bytes, at a multiple of 64."""
        room = np.zeros(self.weights + WEIGHT_LINE, np.uint8)
        start = -room.ctypes.data % WEIGHT_LINE
        block = room[start : start + self.weights]
        for program in self.programs.values():
            for buffer in params_of(program):
                assert buffer.offset is not None
                raw = program.arrays[buffer.label.data].view(np.uint8)
                at = int(get_dim(buffer.offset))
                block[at : at + len(raw)] = raw
        for weight in self.initial:
            block[weight.offset :][: weight.array.nbytes] = weight.array.reshape(-1).view(np.uint8)
        return block


def place_weights(programs: Sequence[KernelProgram]) -> int:
    """Lay packed weights out one after another; what an earlier program has too, once.

    Equal ones of one program stay apart: code that reads one address thrice is slower (GRU: 35 %).

    Returns:
        The bytes of all; each buffer's `offset` is set.
    """
    end, places = 0, dict[tuple[str, bytes], int]()
    for program in programs:
        own = dict[tuple[str, bytes], int]()
        for buffer in params_of(program):
            # With one program nothing is shared, and large weights take a while to hash.
            key = _key(program, buffer) if len(programs) > 1 else None
            if key is not None and key in places:
                buffer.offset = dim_attr(places[key])
                continue
            start = _line(end)
            buffer.offset, end = dim_attr(start), start + int(buffer.bytes)
            if key is not None:
                own[key] = start
        places |= own
    return end


def share_weights(libraries: Sequence[Library]) -> Array:
    """One block for the weights of several libraries of the same net; what is equal, once."""
    _place_all_weights(libraries)
    # Where only other libraries have weights a block is zero.
    return np.bitwise_or.reduce([library.weights_block() for library in libraries])


def _place_all_weights(libraries: Sequence[Library]) -> None:
    """Packed weights first, then the parameters that the caller holds."""
    end = place_weights([p for library in libraries for p in library.programs.values()])
    for same in zip(*(library.initial for library in libraries), strict=True):
        start = _line(end)
        end = start + same[0].array.nbytes
        for weight in same:
            weight.offset = start
    for library in libraries:
        library.weights = end


def params_of(program: KernelProgram) -> list[Buffer]:
    """The buffers that the packed weights hold."""
    return [buffer for buffer in program.buffers if buffer.role.data == "param"]


def _line(end: int) -> int:
    return -(-end // WEIGHT_LINE) * WEIGHT_LINE


def _key(program: KernelProgram, buffer: Buffer) -> tuple[str, bytes]:
    """What equal weights have in common."""
    return buffer.dtype, blake2b(program.arrays[buffer.label.data].tobytes()).digest()
