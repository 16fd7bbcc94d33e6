"""A call made again and again: what was checked once is only compared, and nothing is allocated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import addressof, c_void_p
from dataclasses import dataclass
from math import prod
from typing import Any

from numpy import dtype, ndarray

from rnncc_runtime.arrays import Array, Specs, address, check_apart, pointer
from rnncc_runtime.memory import new_array

Arrays = list[Any]
Taken = tuple[dict[str, Array], Arrays]
"""A call's outputs by name, and all its arrays, to be held while the code runs."""


@dataclass(frozen=True)
class ArraySlot:
    """An array of a call: its place in a table of pointers, and what it must be."""

    name: str
    index: int
    dtype: dtype[Any]
    shape: tuple[int, ...]


class Prepared:
    """All that a call on arrays of certain shapes needs, but for where these lie.

    Args:
        inputs, outputs: those given, in order.
        lengths: of the tables of inputs and of outputs; what is not given is NULL.
        more: what the code takes after them.

    Attributes:
        arguments: of the code.
        outputs: the slots that are written.
    """

    def __init__(
        self,
        inputs: Sequence[ArraySlot],
        outputs: Sequence[ArraySlot],
        lengths: tuple[int, int],
        more: Sequence[int],
    ) -> None:
        sources, targets = ((c_void_p * max(length, 1))() for length in lengths)
        self.arguments = addressof(sources), addressof(targets), *more
        self._tables = [sources] * len(inputs) + [targets] * len(outputs)
        self._slots, self.outputs = [*inputs, *outputs], list(outputs)
        self._sizes = [prod(slot.shape) * slot.dtype.itemsize for slot in self._slots]
        self._inputs, self._all = len(inputs), lengths[1]
        self._kinds = [(False, slot.name, slot.dtype, slot.shape) for slot in inputs]
        self._kinds += [(True, slot.name, slot.dtype, slot.shape) for slot in outputs]
        self._places: list[int] = []
        self._keep = sources, targets  # even if nothing lies in one of them

    def take(self, inputs: Mapping[str, object], out: Mapping[str, Array] | None) -> Taken | None:
        """Point to arrays that have the right names, dtypes and shapes; None for any other.

        Where they lie is asked each time: NumPy can move an array's memory. Without `out` all
        outputs are new arrays.

        Raises:
            ArrayError: an output shares memory with another array.
        """
        arrays: Arrays = []
        places: list[int] = []
        try:  # only what is contiguous, writeable and not empty gives a pointer
            if len(inputs) != self._inputs:
                return None
            if len(self.outputs) != (self._all if out is None else len(out)):
                return None
            outputs = self.make() if out is None else dict(out)
            for written, name, kind, shape in self._kinds:
                array: Any = outputs[name] if written else inputs[name]
                if (
                    type(array) is not ndarray
                    or (array.dtype is not kind and array.dtype != kind)
                    or array.shape != shape
                ):
                    return None
                places.append(addressof(pointer(array)))
                arrays.append(array)
        except (KeyError, TypeError, ValueError, MemoryError):
            return None
        if places != self._places:
            for array in arrays[: self._inputs] if out is None else arrays:
                if not array.flags.aligned:
                    return None
            if out is not None:  # new arrays share memory with none
                self.check(places)
            self.point(places)
        return outputs, arrays

    def place(
        self, arguments: Arrays, results: Arrays | None, out: Mapping[str, Array] | None
    ) -> Taken:
        """Point to arrays that were checked already, in order, None for what is not there.

        Args:
            results: those of `out`; None for new ones.

        Raises:
            ArrayError: as `take` does.
        """
        outputs = self.make() if out is None else dict(out)
        written = list(outputs.values()) if results is None else results
        arrays = [array for array in (*arguments, *written) if array is not None]
        places = [address(array) for array in arrays]
        if results is not None:
            self.check(places)
        self.point(places)
        return outputs, arrays

    def make(self) -> dict[str, Array]:
        """New arrays for the outputs, by name."""
        return {slot.name: new_array(slot.shape, slot.dtype) for slot in self.outputs}

    def check(self, places: list[int]) -> None:
        """Raise `ArrayError` if an output shares memory with another array."""
        spans = list(zip(places, self._sizes, strict=True))
        check_apart([slot.name for slot in self._slots], spans, self._inputs)

    def point(self, places: Sequence[int]) -> None:
        """Where the arrays begin, inputs first."""
        self._places = []  # what an exception leaves half done is not taken for what was
        for table, slot, place in zip(self._tables, self._slots, places, strict=True):
            table[slot.index] = place
        self._places = list(places)


def slots_of(specs: Specs, shapes: Sequence[tuple[int, ...] | None]) -> list[ArraySlot]:
    """The slots of arrays of these shapes; None for one that is not there."""
    return [
        ArraySlot(name, index, spec.dtype, shape)
        for index, ((name, spec), shape) in enumerate(zip(specs.items(), shapes, strict=True))
        if shape is not None
    ]
