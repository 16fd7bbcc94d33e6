"""A sequence that comes piece by piece: a state is kept from one call to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from ctypes import addressof, c_void_p
from functools import wraps
from math import prod
from operator import methodcaller
from typing import Any, TypeVar, cast

import numpy as np

from rnncc_runtime import saved
from rnncc_runtime.arrays import (
    Array,
    Place,
    Specs,
    TensorSpec,
    address,
    check_inputs,
    check_mapping,
    check_outputs,
)
from rnncc_runtime.compiled import (
    Arrays,
    Compiled,
    Shape,
    Shapeds,
    check_format,
    given_shapes,
    remember,
    shape_of,
)
from rnncc_runtime.errors import ArrayError, StreamError
from rnncc_runtime.memory import Block, Memory
from rnncc_runtime.prepared import ArraySlot, Prepared, slots_of
from rnncc_runtime.sizes import BATCH, TIME, Size, as_size, solve
from rnncc_runtime.stream_sizes import (
    STEPS,
    KnownShape,
    checksum_of,
    known_shapes_of,
    leads_with_time,
    sizes_of_call,
)
from rnncc_runtime.texts import Texts, restored_texts, saved_texts

_F = TypeVar("_F", bound=Callable[..., Any])


def alone(method: _F) -> _F:
    """A method that raises `StreamError` while another thread computes with the stream."""

    @wraps(method)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self._busy:
            raise self._in_use()
        self._busy = True
        try:
            return method(self, *args, **kwargs)
        finally:
            self._busy = False

    return cast(_F, wrapper)


def _symbols_in(specs: Iterable[TensorSpec]) -> set[str]:
    """The symbols of all sizes of arrays."""
    return {symbol for spec in specs for size in spec.sizes for symbol in size.symbols}


class Stream(Compiled):
    """A model and the state of a batch of sequences; `Model.stream` makes it.

    It belongs to one thread at a time: a call while another one is under way is a `StreamError`.
    Any number of streams may share a model. Copies and pickles take the model and the state along.

    Attributes:
        starts: what `reset` takes: the inputs without an axis of time.
        inputs: what `step` takes: those with one.
        outputs: what `step` gives.

    Raises:
        StreamError: the net cannot be computed as time goes on.
    """

    def __init__(
        self,
        metadata: Mapping[str, Any],
        functions: Mapping[str, Callable[..., int]],
        batch: int | None = None,
        inputs: Mapping[str, object] | None = None,
        keep: object = None,
    ) -> None:
        check_format(metadata)
        kept = metadata.get("stream", {"refused": "it has no step"})
        if "refused" in kept:
            raise StreamError(f"{metadata['name']} takes whole sequences only: {kept['refused']}")
        super().__init__(metadata, functions, keep)
        specs = self.inputs
        self._defaults: dict[str, int | None] = kept["starts"]
        self.starts = {name: spec for name, spec in specs.items() if name in self._defaults}
        self.inputs = {name: spec for name, spec in specs.items() if name not in self._defaults}
        self._slots = [(TensorSpec.read(s), Size.parse(s["offset"])) for s in kept["slots"]]
        self._keeps_texts = any(spec.is_text for spec, _ in self._slots)
        self._layout = checksum_of(metadata)
        self._kept_symbols = [s for s in self._symbols if s != TIME]
        self._begun_with = _symbols_in([*self.starts.values(), *(s for s, _ in self._slots)])
        (self._rows,) = self._begun_with if len(self._begun_with) == 1 else [BATCH]
        self._shown = _symbols_in(self.inputs.values()) - {TIME}
        self._given: dict[str, object] | None = None  # waits for sizes that the first step shows
        self._batch = None if batch is None else as_size(batch, "batch")
        self._step, self._order = functions["step"], list(specs)
        ports = [*self.inputs.values(), *self.outputs.values()]
        self._timed = TIME in _symbols_in(ports)
        self._single = all(map(leads_with_time, ports))
        self._state, self._workspace = self._memory(0), self._memory(0)
        self._sizes: dict[str, int] | None = None
        self._busy = False  # no thread gives way between a look at it and the next statement
        self._known: dict[tuple[Shape | None, ...], Prepared] = {}
        self._last: Prepared | None = None
        self.reset(inputs)

    @alone
    def reset(self, inputs: Mapping[str, object] | None = None) -> None:
        """Begin new sequences.

        Args:
            inputs: by name, such as initial states, lengths, or an encoder's outputs. Initial
                states that are left out are zeros, lengths have no end. The batch is that of
                `Model.stream`, else that of these arrays; without any, that of the next step, which
                also tells other sizes: the sequences begin with it then, from copies of these.

        What is refused leaves the sequences where they are.

        Raises:
            ArrayError: an array is missing, unknown, or of a wrong dtype or shape.
            RunError: the code refused the sizes.
        """
        texts = None if self._words is None else Texts(self._words)
        if texts is not None and inputs is not None:
            inputs = texts.coded(inputs)
        before = self._sizes, self._given
        self._sizes = self._given = None
        self._forget()
        if inputs is not None or self._batch is not None:
            try:
                self._start({} if inputs is None else inputs, [])
            except BaseException:
                self._sizes, self._given = before  # or the next step would begin with zeros
                raise
        self._texts = texts if self._keeps_texts else None

    def step(
        self, inputs: Mapping[str, object], out: Mapping[str, Array] | None = None
    ) -> dict[str, Array]:
        """Compute the next steps.

        Args:
            inputs: every input with an axis of time, by name: any number of steps, even none. One
                step may come without its axis of time; the outputs then have none either.
            out: as for `Model.run`.

        Returns:
            The outputs by name; what has no axis of time is of the last step so far.

        Raises:
            ArrayError: an array is missing, unknown, of a wrong dtype or shape, or not writeable.
            RunError: the code refused the sizes.
            StreamError: another thread computes with this stream.
        """
        if self._busy:
            raise self._in_use()
        self._busy = True
        try:
            if self._words is None:
                return self._compute_step(inputs, out)
            texts = self._texts or Texts(self._words)
            outputs = self._compute_step(texts.coded(inputs), out)
            return texts.decoded(outputs) if out is None else outputs
        finally:
            self._busy = False

    def _compute_step(
        self, inputs: Mapping[str, object], out: Mapping[str, Array] | None
    ) -> dict[str, Array]:
        """As `step`, with numbers for texts."""
        last = self._last
        taken = None if last is None else last.take(inputs, out)
        if last is not None and taken is not None:
            outputs, _held = taken
            self._run(last.arguments)
            return outputs
        arguments = check_inputs(inputs, self.inputs)
        results = None if out is None else check_outputs(out, self.outputs)
        call = self._prepared(arguments, results)
        outputs, _held = call.place(arguments, results, out)
        self._last = call
        self._run(call.arguments)
        return outputs

    def __reduce__(self) -> tuple[Any, ...]:
        state = None if self._sizes is None else self.state
        kept = self._batch, state, self._given, saved_texts(self._texts)
        return methodcaller("stream"), (self._keep,), kept

    def __setstate__(self, kept: tuple[int | None, bytes | None, Any, bytes]) -> None:
        self._batch, state, self._given, texts = kept
        self._texts = restored_texts(texts, self._texts)
        if state is not None:
            self.state = state

    def _run(self, arguments: tuple[int, ...]) -> None:
        if code := self._step(*arguments):
            sizes = arguments[-len(self._symbols) :]
            self._refuse(code, dict(zip(self._symbols, sizes, strict=True)))

    def _in_use(self) -> StreamError:
        return StreamError(f"{self.name}: another thread computes with this stream")

    @property
    @alone
    def state(self) -> bytes:
        """All that the next step depends on. Set it to go on from there, in any stream of the net.

        Raises:
            StreamError: there is none yet. As it is set: the bytes are damaged, or of another
                model or batch.
        """
        if self._sizes is None:
            raise StreamError(f"{self.name}: no state yet, as nothing has told the batch")
        places = self._places(self._sizes)
        content = self._content(self._state)
        values = b"".join(content[at : at + count].tobytes() for at, count in places)
        values += saved_texts(self._texts)
        return saved.pack(self._layout, list(self._sizes.values()), values)

    @state.setter
    @alone
    def state(self, content: bytes) -> None:
        numbers, values = saved.unpack(content, self._layout, len(self._kept_symbols))
        sizes = dict(zip(self._kept_symbols, numbers, strict=True))
        rows = self._rows
        if self._batch not in (None, sizes.get(rows, self._batch)):
            problem = f"a state of {rows} = {sizes[rows]} for a stream of {rows} = {self._batch}"
            raise StreamError(f"{self.name}: {problem}")
        places = self._places(sizes)
        size = sum(count for _, count in places)
        if size > len(values):  # known before anything is allocated
            raise StreamError(f"{self.name}: the state is damaged: its sizes are those of another")
        texts = restored_texts(values[size:], self._texts)
        state, at = self._allocate(sizes), 0
        restored = np.zeros(state.size, np.uint8)
        for start, count in places:
            if not 0 <= start <= state.size - count:
                raise StreamError(f"{self.name}: the state is damaged: a value lies outside")
            restored[start : start + count] = np.frombuffer(values, np.uint8, count, at)
            at += count
        self._fill(state, restored)
        self._adopt(state, sizes)
        self._texts = texts

    def _places(self, sizes: Mapping[str, int]) -> list[Place]:
        """Where each value of the state begins in it, and its bytes."""
        return [
            (at.evaluate(sizes), spec.dtype.itemsize * prod(s.evaluate(sizes) for s in spec.sizes))
            for spec, at in self._slots
        ]

    # The beginning of a sequence

    def _start(self, inputs: Mapping[str, object], more: Sequence[KnownShape]) -> None:
        """Make the first state. `more`: further arrays that tell sizes."""
        absent = self._check_names(inputs)
        specs = {name: spec for name, spec in self.starts.items() if name in inputs}
        arrays = dict(zip(specs, self._checked(inputs, specs), strict=True))
        known_shapes = [(n, specs[n].sizes, a.shape) for n, a in arrays.items() if a is not None]
        if self._batch is not None:
            known_shapes.append(("the stream", (Size.parse(self._rows),), (self._batch,)))
        if not more and not self._shown <= solve(known_shapes, []).keys():
            self._given = deepcopy(dict(inputs))
            return
        needed = [s for s in self._kept_symbols if s in self._begun_with]
        values = solve([*known_shapes, *more], needed)
        sizes = {symbol: values.get(symbol, 1) for symbol in self._kept_symbols}
        state = self._allocate(sizes)
        for name in absent:
            spec = self.starts[name]
            shape = [size.evaluate(values) for size in spec.sizes]
            arrays[name] = np.full(shape, self._defaults[name], spec.dtype)
        self._initialise(state, sizes, [arrays.get(name) for name in self._order])
        self._adopt(state, sizes)

    def _check_names(self, inputs: Mapping[str, object]) -> list[str]:
        """The names of the inputs that defaults stand for."""
        check_mapping(inputs, "a stream's first inputs", self.starts)
        unknown = [str(name) for name in inputs if name not in self.starts]
        absent = [n for n, s in self.starts.items() if n not in inputs and not s.optional]
        missing = [name for name in absent if self._defaults[name] is None]
        parts = [f"missing: {', '.join(missing)}"] if missing else []
        parts += [f"unknown: {', '.join(unknown)}"] if unknown else []
        if parts:
            known = ", ".join(self.starts) or "none"
            raise ArrayError(f"a stream's beginning: {'; '.join(parts)} (it takes: {known})")
        return absent

    def _allocate(self, sizes: Mapping[str, int]) -> Block:
        return self._memory(self._bytes("state_bytes", sizes))

    def _adopt(self, state: Block, sizes: dict[str, int]) -> None:
        self._state, self._sizes, self._given = state, sizes, None
        self._forget()

    def _forget(self) -> None:
        """No call knows a state or a workspace that there is no more."""
        self._known.clear()
        self._last = None

    def _initialise(self, state: Block, sizes: Mapping[str, int], arrays: Arrays) -> None:
        places, _held = self._pointers(arrays)
        table = (c_void_p * max(len(arrays), 1))(*places)
        self._reserve(self._ordered(sizes, 0))
        begin = self._functions["state_init"]
        blocks = addressof(table), state.address, self._workspace.address
        if code := begin(*blocks, *sizes.values()):
            self._refuse(code, sizes)

    # Where state and workspace lie

    def _memory(self, size: int) -> Block:
        return Memory(size)

    def _checked(self, inputs: Mapping[str, object], specs: Specs) -> Arrays:
        return check_inputs(inputs, specs)

    def _pointers(self, arrays: Arrays) -> tuple[list[int], object]:
        """Where the code finds arrays, and what must live until it has read them."""
        return [address(array) for array in arrays], arrays

    def _content(self, state: Any) -> Array:
        return state.bytes

    def _fill(self, state: Any, content: Array) -> None:
        state.bytes[:] = content

    # The sizes of a step

    def _prepared(self, arguments: Shapeds, results: Shapeds | None) -> Prepared:
        """A step on arrays of these shapes, remembered. `results`: None if they are to be made."""
        arrays = arguments if results is None else [*arguments, *results]
        key = given_shapes(arrays)
        return self._known.get(key) or remember(self._known, key, self._prepare(arguments, results))

    def _prepare(self, arguments: Shapeds, results: Shapeds | None) -> Prepared:
        single = self._single and any(
            array is not None and len(array.shape) == len(spec.sizes) - 1
            for spec, array in zip(self.inputs.values(), arguments, strict=True)
        )
        absent: Shapeds = [None] * len(self.outputs)
        known_shapes = known_shapes_of("", self.inputs, arguments, single)
        known_shapes += known_shapes_of("output ", self.outputs, results or absent, single)
        if single or not self._timed:
            known_shapes += [("the step", (STEPS,), (1,))]
        if self._sizes is None:
            self._start(self._given or {}, known_shapes)
        assert self._sizes is not None
        fixed = [("the stream", (Size.parse(s),), (n,)) for s, n in self._sizes.items()]
        values = solve([*fixed, *known_shapes], [TIME])
        symbols = self._ordered(self._sizes, values[TIME])
        inputs = [
            ArraySlot(name, self._order.index(name), spec.dtype, array.shape)
            for (name, spec), array in zip(self.inputs.items(), arguments, strict=True)
            if array is not None
        ]
        requested = [True] * len(absent) if results is None else [a is not None for a in results]
        named = zip(self.outputs.items(), requested, strict=True)
        shapes = [
            shape_of(name, sizes_of_call(spec, single), symbols) if asked else None
            for (name, spec), asked in named
        ]
        self._reserve(symbols)
        memory = self._state.address, self._workspace.address
        lengths = len(self._order), len(self.outputs)
        return Prepared(
            inputs, slots_of(self.outputs, shapes), lengths, [*memory, *symbols.values()]
        )

    def _reserve(self, symbols: Mapping[str, int]) -> None:
        """Make the workspace large enough."""
        size = self._bytes("workspace_bytes", symbols)
        if self._workspace.size < size:
            self._workspace = self._memory(size)
            self._forget()

    def _ordered(self, sizes: Mapping[str, int], steps: int) -> dict[str, int]:
        """The sizes of the state and T, in the order in which functions take them."""
        return {s: steps if s == TIME else sizes[s] for s in self._symbols}
