"""A compiled model: checks the caller's arrays, finds the sizes, calls the code."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rnncc_runtime.arrays import (
    Array,
    check_inputs,
    check_outputs,
    counts_in,
    cut,
    read_specs,
)
from rnncc_runtime.compiled import (
    Compiled,
    Origin,
    Shape,
    Shapeds,
    given_shapes,
    remember,
    shapes_of,
)
from rnncc_runtime.memory import Memory
from rnncc_runtime.pool import Parallel
from rnncc_runtime.prepared import Prepared, Taken, slots_of
from rnncc_runtime.sizes import parse_largest
from rnncc_runtime.stream import Stream
from rnncc_runtime.texts import Texts


@dataclass(frozen=True)
class _Sizes:
    """What follows from the shapes of a call's arrays."""

    symbols: Shape
    outputs: list[Shape]
    workspace: int


_Call = tuple[Prepared, Shape]
"""A call on arrays of certain shapes, and the sizes that the code takes."""


class _Frame(threading.local):
    """What one thread needs for its calls: a workspace that only grows, and those that it made.

    Attributes:
        known: calls by whether they make their outputs, and by the shapes of all arrays.
        last: the last one, which the next one is likely to be as.
    """

    def __init__(self) -> None:
        self.workspace = Memory(0)
        self.known: dict[tuple[bool | Shape | None, ...], _Call] = {}
        self.last: _Call | None = None


class Model(Compiled):
    """A model for inference: `Compiled` with `run` and `stream`.

    Safe to share: every thread that calls `run` has a workspace of its own. Copies and pickles take
    the code along.

    Attributes:
        parameters: name -> `TensorSpec`, of those packed inside.
    """

    def __init__(
        self,
        metadata: Mapping[str, Any],
        functions: Mapping[str, Callable[..., int]],
        keep: object = None,
        origin: Origin | None = None,
    ) -> None:
        super().__init__(metadata, functions, keep, origin)
        self.parameters = read_specs(metadata["parameters"])
        self._counts = counts_in(metadata)
        self._frame = _Frame()
        self._known: dict[tuple[Shape | None, ...], _Sizes] = {}
        sizes = parse_largest(str(metadata["workspace"]))
        used = set[str]().union(*(size.symbols for size in sizes))
        for spec in (*self.inputs.values(), *self.outputs.values()):
            used = used.union(*(size.symbols for size in spec.sizes))
        self._needed = tuple(symbol for symbol in self._symbols if symbol in used)

    def run(
        self,
        inputs: Mapping[str, object],
        out: Mapping[str, Array] | None = None,
        pool: Parallel | None = None,
    ) -> dict[str, Array]:
        """Compute the outputs.

        Args:
            inputs: every input by its name, optional ones if wanted: an array, or what
                `np.asarray` makes one of, with exactly the dtype of its spec. What is not
                contiguous is copied. Texts are arrays of str, or of their numbers.
            out: arrays to write into, contiguous and apart from the inputs; only these outputs
                are computed, texts as their numbers. Without it, every output is computed into a
                new array, without the rows that do not count where the run decides how many there
                are.
            pool: threads that compute the call together, as many of them as are worth it, if the
                model was compiled with `threads`: a `Pool`, or another `Parallel`. The results have
                the same bits.

        Returns:
            The outputs by name.

        Raises:
            ArrayError: an array is missing, unknown, of a wrong dtype or shape, or not writeable.
            RunError: the code refused the values, such as a sequence length beyond T.
        """
        if self._words is not None:
            texts = Texts(self._words)
            outputs = self._run(texts.coded(inputs), out, pool)
            return texts.decoded(outputs) if out is None else outputs
        return self._run(inputs, out, pool)

    def _run(
        self, inputs: Mapping[str, object], out: Mapping[str, Array] | None, pool: Parallel | None
    ) -> dict[str, Array]:
        """As `run`, with numbers for texts."""
        last = self._frame.last
        taken = None if last is None else last[0].take(inputs, out)
        if last is None or taken is None:
            last, taken = self._anew(inputs, out)
        call, symbols = last
        outputs, _held = taken
        self._compute("run", call.arguments, symbols, pool)
        return cut(outputs, self._counts) if out is None else outputs

    def run_at(self, arrays: Shapeds, places: Sequence[int], pool: Parallel | None = None) -> None:
        """`run` on memory that is no NumPy arrays, of whose shapes and addresses alone it is told.

        Args:
            arrays: what has the shapes: every input in order, then every output.
            places: where each lies. Nothing else is checked: it must be of its spec's dtype,
                contiguous and aligned, and outputs must be apart from all others.
            pool: as for `run`.

        Raises:
            ArrayError: a shape is wrong.
            RunError: the code refused the values.
        """
        frame, key = self._frame, (False, *given_shapes(arrays))
        call = frame.known.get(key)
        if call is None:
            groups = arrays[: len(self.inputs)], arrays[len(self.inputs) :]
            call = remember(frame.known, key, self._prepare(*groups, False))
        prepared, symbols = call
        prepared.point(places)
        self._compute("run", prepared.arguments, symbols, pool)

    def stream(
        self, batch: int | None = None, inputs: Mapping[str, object] | None = None
    ) -> Stream:
        """Begin a sequence that comes piece by piece; cut anywhere, it gives the bits of `run`.

        Args:
            batch: N, or the one open size of the states; without it, what `inputs` or the first
                step shows.
            inputs: what the sequence begins with, as for `Stream.reset`.

        Raises:
            StreamError: the net cannot be computed as time goes on; the message says why.
            ArrayError, RunError: as `Stream.reset` does.
        """
        return Stream(self.metadata, self._functions, batch, inputs, keep=self)

    def _anew(
        self, inputs: Mapping[str, object], out: Mapping[str, Array] | None
    ) -> tuple[_Call, Taken]:
        """A call on arrays that are not as those of the call before."""
        arguments = check_inputs(inputs, self.inputs)
        results = check_outputs({} if out is None else out, self.outputs)
        frame, key = self._frame, (out is None, *given_shapes([*arguments, *results]))
        call = frame.known.get(key)
        if call is None:
            call = remember(frame.known, key, self._prepare(arguments, results, out is None))
        taken = call[0].place(arguments, None if out is None else results, out)
        frame.last = call
        return call, taken

    def _prepare(self, arguments: Shapeds, results: Shapeds, makes: bool) -> _Call:
        """A call on arrays of these shapes; it `makes` outputs if none is given."""
        sizes, frame = self._sizes(arguments, results), self._frame
        if frame.workspace.size < sizes.workspace:
            frame.known.clear()  # they know where the workspace is
            frame.last = None
            frame.workspace = Memory(sizes.workspace)
        outputs = sizes.outputs if makes else given_shapes(results)
        slots = slots_of(self.inputs, given_shapes(arguments)), slots_of(self.outputs, outputs)
        lengths = len(arguments), len(results)
        return Prepared(*slots, lengths, [frame.workspace.address]), sizes.symbols

    def _sizes(self, arguments: Shapeds, results: Shapeds) -> _Sizes:
        """The sizes of a call, remembered by the shapes of its arrays."""
        key = given_shapes([*arguments, *results])
        known = self._known.get(key)
        return known or remember(self._known, key, self._find_sizes(arguments, results))

    def _find_sizes(self, arguments: Shapeds, results: Shapeds) -> _Sizes:
        symbols = self._solved(arguments, results, self._needed)
        workspace = self._bytes("workspace_bytes", symbols)
        return _Sizes(tuple(symbols.values()), shapes_of(self.outputs, symbols), workspace)

    def __str__(self) -> str:
        groups = ("inputs", self.inputs), ("outputs", self.outputs), ("packed", self.parameters)
        lines = [f"{self.name} (workspace: {self.metadata['workspace']} bytes)"]
        for title, specs in groups:
            lines += [f"{title}:", *(f"  {spec}" for spec in specs.values())] if specs else []
        return "\n".join(lines)
