"""A library's device code alone, under the emulator: the host's part is played by this file.

It does what `entry_points` states, step after step, as the host's functions of a library do.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from rnncc.codegen.nvptx.device import DeviceCode, emit_device
from rnncc.codegen.nvptx.limits import SYNC_BYTES, Sync
from rnncc.driver import compiling
from rnncc.ir.types import NUMPY
from rnncc.kern.entry_points import entry_points
from rnncc.kern.entry_steps import (
    Call,
    Copy,
    Default,
    EntryPoint,
    Field,
    Keep,
    Place,
    Seal,
    Source,
    Stored,
)
from rnncc.kern.library import Library
from rnncc.kern.program import Port
from rnncc.options import Options
from tests.golden import Arrays
from tests.gpu import emulated, libcuda
from tests.gpu.emulated import Change, EmulatedTarget

ROOM = 227 << 10
"""Of shared memory, on most chips."""
SEAL = 0x1234567812345671
Sizes = Mapping[str, int]
Memory = dict[str, int]
"""Device pointers by block; `STRUCT.i` for those of a struct."""


class Refused(Exception):
    """What device code has left in `status`."""

    def __init__(self, code: int) -> None:
        super().__init__(f"status {code}")
        self.code = code


class DeviceNet:
    """A library's kernels.

    Args:
        threads: of a block.
        blocks: at most so many.
        room: bytes of shared memory, at most, that a block gets.
    """

    def __init__(
        self,
        library: Library,
        threads: int = 256,
        blocks: int = 3,
        room: int = ROOM,
        change: Change | None = None,
    ) -> None:
        self.library, self.blocks, self.room = library, blocks, room
        self.cuda = libcuda.emulator()
        self.target = EmulatedTarget(threads=threads, change=change)
        self.code: DeviceCode = emit_device(library, self.target)
        [image] = self.target.images(self.code.text, self.code.linked)
        self._image = image.data
        self._entries = {entry.name: entry for entry in entry_points(library)}

    def run(self, inputs: Arrays, sizes: Sizes) -> Arrays:
        """The outputs of a whole sequence."""
        with self._session(sizes) as session:
            sources, targets = self.library.ports
            session.give("inputs", sources, inputs)
            session.room("outputs", targets)
            session.call("run")
            return session.taken("outputs", targets)

    def train(
        self,
        inputs: Arrays,
        parameters: Arrays,
        grads: Arrays,
        sizes: Sizes,
        seal: int | None = None,
    ) -> tuple[Arrays, Arrays]:
        """Outputs of forward and gradients of backward; `seal`: lies on the tape in between."""
        training = self.library.training
        assert training is not None
        with self._session(sizes) as session:
            session.give("inputs", training.inputs, inputs)
            session.give("parameters", training.parameters, parameters)
            session.give("output_grads", training.output_grads, grads)
            session.room("outputs", training.outputs)
            session.room("grads", training.grads)
            session.block("tape", training.tape.evaluate(session.sizes))
            session.call("forward")
            if seal is not None:
                self.cuda.store(session.pointers["tape"], seal)
            session.call("backward")
            return session.taken("outputs", training.outputs), session.taken(
                "grads", training.grads
            )

    @contextmanager
    def stream(self, inputs: Arrays, sizes: Sizes) -> Generator[Callable[[Arrays, int], Arrays]]:
        """A function from the inputs of a few steps, and how many they are, to outputs."""
        streaming = self.library.streaming
        assert streaming is not None
        starts = {n: a for n, a in inputs.items() if n in streaming.defaults}
        with self._session({**sizes, "T": 0}) as session:
            session.give("inputs", streaming.inputs, starts)
            session.block("state", streaming.bytes.evaluate(session.sizes))
            session.call("state_init")

            def step(part: Arrays, steps: int) -> Arrays:
                session.sizes["T"] = steps
                timed = {n: a for n, a in part.items() if n not in streaming.defaults}
                session.give("inputs", streaming.inputs, timed)
                session.room("outputs", streaming.outputs)
                session.call("step")
                return session.taken("outputs", streaming.outputs)

            yield step

    def _session(self, sizes: Sizes) -> _Session:
        return _Session(self, dict.fromkeys(self.library.symbols, 1) | dict(sizes))

    def entry(self, name: str) -> EntryPoint:
        return self._entries[name]

    @property
    def image(self) -> bytes:
        return self._image


class _Session:
    """Memory of a few calls, at the same sizes."""

    def __init__(self, net: DeviceNet, sizes: dict[str, int]) -> None:
        self.net, self.sizes = net, sizes
        self.cuda = libcuda.emulator()
        self.pointers: Memory = {}
        self._held = list[int]()
        self._context = self.cuda.context()

    def __enter__(self) -> _Session:
        settings = self.cuda.configured
        self._context.__enter__()
        self.cuda.configure(**{**settings, "sms": self.net.blocks})
        self.module = self.cuda.module(self.net.image)
        weights = self.net.library.weights_block()
        self.pointers["weights"] = self._hold(self.cuda.upload(_some(weights)))
        return self

    def __exit__(self, *raised: Any) -> None:
        self.cuda.library.emu_reset()
        self.cuda.release(*self._held)
        self.cuda.unload(self.module)
        self._context.__exit__(*raised)

    # Memory

    def _hold(self, place: int) -> int:
        self._held.append(place)
        return place

    def block(self, name: str, size: int) -> None:
        self.pointers[name] = self._hold(self.cuda.allocate(max(size, 1)))

    def give(self, struct: str, ports: list[Port], arrays: Arrays) -> None:
        for i, port in enumerate(ports):
            array = arrays.get(port.name)
            place = 0 if array is None else self._hold(self.cuda.upload(_some(array)))
            self.pointers[f"{struct}.{i}"] = place

    def room(self, struct: str, ports: list[Port]) -> None:
        for i, port in enumerate(ports):
            self.block(f"{struct}.{i}", port.bytes.evaluate(self.sizes))

    def taken(self, struct: str, ports: list[Port]) -> Arrays:
        made: Arrays = {}
        for i, port in enumerate(ports):
            shape = tuple(d.evaluate(self.sizes) for d in port.dims)
            empty = np.empty(shape, NUMPY[port.dtype])
            place = self.pointers[f"{struct}.{i}"]
            made[port.name] = self.cuda.download(place, empty) if empty.size else empty
        return made

    # Calls

    def call(self, name: str) -> None:
        """Do what an entry point states."""
        self.block("workspace", self.net.library.workspace.evaluate(self.sizes) + SYNC_BYTES)
        self.block("status", 4)
        self.cuda.call("cuMemsetD32Async", *_words(self.pointers["workspace"], 0, SYNC_BYTES // 4))
        self.cuda.call("cuMemsetD32Async", *_words(self.pointers["status"], 0, 1))
        for step in self.net.entry(name).steps:
            match step:
                case Call():
                    self._launch(step)
                case Copy():
                    size = step.bytes.evaluate(self.sizes)
                    self.cuda.copy(self._source(step.target), self._place(step.source), size)
                case Keep():
                    self.cuda.store(self._place(step.place), self._source(step.pointer))
                case Seal(act="open" | "use_up"):
                    self.cuda.store(self.pointers["tape"], 0)
                case _:
                    pass
        status = self.cuda.download(self.pointers["status"], np.empty(1, np.int32))
        if status[0]:
            raise Refused(int(status[0]))

    def _launch(self, step: Call) -> None:
        kernel = self.net.code.kernels[step.program]
        sync = self.pointers["workspace"]
        self.cuda.call("cuMemsetD32Async", *_words(sync, 0, Sync.FAILED))
        seal = self.pointers.get("tape", 0)
        own = [self.pointers["weights"], self._place(step.workspace), sync]
        own += [self.pointers["status"], seal, SEAL]
        ports = [self._source(s) for s in (*step.inputs, *step.outputs)]
        sizes = [self.sizes[s] for s in self.net.library.symbols]
        points = kernel.points.evaluate(self.sizes)
        blocks = min(self.net.blocks, max(1, -(-points // kernel.per_block)))
        shape = blocks, kernel.threads
        shared = min(kernel.shared, self.net.room)
        self.cuda.launch(self.module, kernel.symbol, [*own, *ports, *sizes], shape, shared)

    def _place(self, place: Place) -> int:
        skipped = SYNC_BYTES if place.block == "workspace" else 0
        return self.pointers[place.block] + skipped + place.offset.evaluate(self.sizes)

    def _source(self, source: Source) -> int:
        match source:
            case Field():
                return self.pointers[f"{source.struct}.{source.number}"]
            case Place():
                return self._place(source)
            case Stored():
                return self._place(source.place)
            case Default():
                return self._source(source.field) or self._place(source.fallback)
            case None:
                return 0


def _words(place: int, value: int, count: int) -> tuple[Any, ...]:
    c = libcuda.ctypes
    return c.c_void_p(place), c.c_uint(value), c.c_size_t(count), None


def _some(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array's bytes, or one byte of none: no allocation is empty."""
    return array if array.size else np.zeros(1, np.uint8)


def library_of(net: Any, init: Any = None, **options: Any) -> Library:
    """A net's planned kernels, as they lie for a GPU."""
    emulated.register()
    chosen = Options.of(net, {"target": emulated.NAME, "name": "net", **options})
    return compiling.build_library(net, init, chosen)
