"""Machine code, every block of its memory flush against pages that nobody may touch."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from rnncc_runtime import Model, ModelError
from rnncc_runtime.memory import ALIGNMENT

from tests.codegen.guarded import Guards, address, guards, table
from tests.golden import Arrays

WORKSPACE = 1 << 28
"""Bytes of what one call may take."""


def call_guarded(model: Model, draws: Sequence[Arrays]) -> list[Arrays | None] | None:
    """The outputs of calls with inputs of the same shapes, None of those refused with a code.

    Each call runs twice, with unmapped pages behind its blocks and in front of them. None in place
    of a list: the sizes are refused, or too large.
    """
    try:
        sizes = model._sizes(list(draws[0].values()), [None] * len(model.outputs))
    except ModelError:
        return None
    count = sum(int(np.prod(shape, dtype=object)) for shape in sizes.outputs)
    if max(sizes.workspace, count * 4) > WORKSPACE:
        return None
    like = draws[0]
    with _blocks(model, like, sizes, True) as behind, _blocks(model, like, sizes, False) as ahead:
        return [_same(behind.call(inputs), ahead.call(inputs)) for inputs in draws]


def _same(one: Arrays | None, other: Arrays | None) -> Arrays | None:
    if (one is None) != (other is None):
        raise AssertionError("one of two runs was refused")
    if one is not None and other is not None and _bits(one) != _bits(other):
        raise AssertionError("two runs differ in bits")
    return one


def _bits(arrays: Arrays) -> list[bytes]:
    return [array.tobytes() for array in arrays.values()]


class _Blocks:
    """The blocks of calls of one model with the same sizes."""

    def __init__(self, model: Model, like: Arrays, sizes: Any, memory: Guards) -> None:
        self._inputs = {name: memory.array(np.ascontiguousarray(a)) for name, a in like.items()}
        self._outputs = {
            name: memory.array(np.empty(shape, spec.dtype))
            for (name, spec), shape in zip(model.outputs.items(), sizes.outputs, strict=True)
        }
        room = -(-sizes.workspace // ALIGNMENT) * ALIGNMENT
        self._workspace = memory.array(np.empty(room, np.uint8))
        self._tables = table(self._inputs.values()), table(self._outputs.values())
        self._arguments = *self._tables, address(self._workspace), *sizes.symbols
        self._run = model._functions["run"]

    def call(self, inputs: Arrays) -> Arrays | None:
        """Outputs and workspace hold what no code may count on before the call."""
        for name, array in inputs.items():
            self._inputs[name][...] = array
        for array in self._outputs.values():
            array[...] = 77
        self._workspace[...] = 0xFF
        if self._run(*self._arguments):
            return None
        return {name: np.array(array) for name, array in self._outputs.items()}


@contextmanager
def _blocks(model: Model, like: Arrays, sizes: Any, end: bool) -> Generator[_Blocks]:
    with guards(end) as memory:
        yield _Blocks(model, like, sizes, memory)
