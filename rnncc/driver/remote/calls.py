"""The functions of a library elsewhere, as `rnncc_runtime` calls functions: by addresses of here.

In: a library's metadata, and something that answers requests (`program.c.j2` says of what form).
Out: functions that send along what their pointers lead to, and bring back what was written.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from ctypes import c_char, c_void_p, memmove
from dataclasses import dataclass, field
from math import prod
from typing import Any

from rnncc_runtime.arrays import Specs, read_specs
from rnncc_runtime.signatures import PACKED, pointers_of, symbols_of

from rnncc.errors import CompileError
from rnncc.sizes import TIME

Answer = Callable[[bytes], bytes]
"""A request to its response; raises `CompileError` where the program fails."""

GROUPS = {"parameters": "trained"}
"""Parameters that are tables -> the metadata's key, where that differs."""
SIZES = {name: f"{name}_bytes" for name in ("workspace", "tape", "state", PACKED)}
"""Parameters that are memory -> the function that tells its size."""
_WRITTEN = {"init_parameters": ("parameters",), "pack_parameters": (PACKED,)}
"""What a function writes that the caller sees; of others `_RESULTS`."""
_RESULTS = ("outputs", "grads", "state")


def exported(metadata: Mapping[str, Any]) -> list[str]:
    """The functions that can be called, in the order of their numbers."""
    return [*metadata["functions"], *metadata["sizes"]]


@dataclass
class _Request:
    """Commands as they are collected.

    Attributes:
        blocks: how many there are.
        results: how many calls.
        fetched: of each block that is to come back, where its bytes go and how many they are.
    """

    content: bytearray = field(default_factory=bytearray)
    blocks: int = 0
    results: int = 0
    fetched: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    def numbers(self, *values: int) -> None:
        self.content += struct.pack(f"<{len(values)}q", *values)

    def block(self, size: int, address: int | None = None) -> int:
        """Memory, with what lies at an address of here."""
        self.numbers(2 if address is None else 1, size)
        if address is not None and size:
            self.content += bytes((c_char * size).from_address(address))
        return self._new_block()

    def table(self, blocks: Sequence[int]) -> int:
        self.numbers(3, len(blocks), *blocks)
        return self._new_block()

    def call(self, function: int, blocks: Sequence[int], sizes: Sequence[int]) -> None:
        self.numbers(4, function, len(blocks), *blocks, len(sizes), *sizes)
        self.results += 1

    def fetch(self, block: int, address: int, size: int) -> None:
        self.numbers(5, block)
        self.fetched.append((address, size))

    def _new_block(self) -> int:
        self.blocks += 1
        return self.blocks - 1


class RemoteFunctions:
    """The functions of a library that runs elsewhere, each call in a process of its own.

    Args:
        metadata: the library's.
        answer: runs the program that serves it.
    """

    def __init__(self, metadata: Mapping[str, Any], answer: Answer) -> None:
        self.metadata, self.answer = metadata, answer
        self.names = exported(metadata)
        tables = ("inputs", "parameters", "outputs", "output_grads", "grads")
        keys = {name: GROUPS.get(name, name) for name in tables}
        self.specs: dict[str, Specs] = {
            name: read_specs(metadata[key]) for name, key in keys.items() if key in metadata
        }

    def functions(self) -> dict[str, Callable[..., int]]:
        """By name, as `rnncc_runtime.Model` takes them."""

        def bound(name: str) -> Callable[..., int]:
            return lambda *arguments: self._call(name, arguments)

        return {name: bound(name) for name in self.names}

    def _call(self, name: str, arguments: Sequence[int]) -> int:
        pointers = pointers_of(self.metadata, name)
        places = dict(zip(pointers, arguments, strict=False))
        symbols = symbols_of(self.metadata["symbols"], name)
        sizes = dict(zip(symbols, arguments[len(pointers) :], strict=True))
        request, handles = _Request(), dict[str, int]()
        for pointer, address in places.items():
            handles[pointer] = self._pass(request, pointer, address, sizes, name)
        if name == "backward":  # a tape holds addresses of the process that wrote it
            self._forward(request, handles, sizes)
        number = self.names.index(name)
        request.call(number, list(handles.values()), list(sizes.values()))
        for pointer, address in places.items():
            if pointer in _WRITTEN.get(name, _RESULTS):
                self._fetch(request, pointer, address, handles[pointer], sizes)
        return self._exchange(request)

    def _forward(
        self, request: _Request, handles: Mapping[str, int], sizes: Mapping[str, int]
    ) -> None:
        blocks = [request.block(self._bytes(spec, sizes)) for spec in self._specs("outputs")]
        tables = {**handles, "outputs": request.table(blocks)}
        number = self.names.index("forward")
        taken = pointers_of(self.metadata, "forward")
        request.call(number, [tables[p] for p in taken], list(sizes.values()))

    def _specs(self, group: str) -> list[Any]:
        return list(self.specs[group].values())

    def _pass(
        self, request: _Request, pointer: str, address: int, sizes: Mapping[str, int], name: str
    ) -> int:
        """The block of a pointer."""
        written = pointer in _WRITTEN.get(name, _RESULTS)
        if pointer in SIZES:
            # Those that a function does not take are 0 for its workspace.
            all_sizes = {**dict.fromkeys(self.metadata["symbols"], 0), **sizes}
            size = self._size(SIZES[pointer], all_sizes)
            filled = pointer in ("state", PACKED) and (name == "step" or not written)
            return request.block(size, address if filled else None)
        blocks = list[int]()
        for spec, at in zip(self._specs(pointer), self._table(pointer, address), strict=True):
            if not at or (TIME not in sizes and self._timed(spec)):
                blocks.append(-1)
            else:
                blocks.append(request.block(self._bytes(spec, sizes), None if written else at))
        return request.table(blocks)

    def _fetch(
        self, request: _Request, pointer: str, address: int, block: int, sizes: Mapping[str, int]
    ) -> None:
        """Ask for what a call has written to a block, or to those of a table, made just before."""
        if pointer in SIZES:
            request.fetch(block, address, self._size(SIZES[pointer], sizes))
            return
        table = self._table(pointer, address)
        present = [pair for pair in zip(self._specs(pointer), table, strict=True) if pair[1]]
        for number, (spec, at) in enumerate(present, block - len(present)):
            request.fetch(number, at, self._bytes(spec, sizes))

    def _table(self, pointer: str, address: int) -> list[int]:
        """The addresses in a table of pointers of here."""
        table = (c_void_p * len(self.specs[pointer])).from_address(address)
        return [at or 0 for at in table]

    @staticmethod
    def _timed(spec: Any) -> bool:
        return any(TIME in size.symbols for size in spec.sizes)

    @staticmethod
    def _bytes(spec: Any, sizes: Mapping[str, int]) -> int:
        return prod(size.evaluate(sizes) for size in spec.sizes) * spec.dtype.itemsize

    def _size(self, function: str, sizes: Mapping[str, int]) -> int:
        """What the library says of its own memory, asked in a call of its own."""
        symbols = symbols_of(self.metadata["symbols"], function)
        return self._call(function, [sizes[symbol] for symbol in symbols])

    def _exchange(self, request: _Request) -> int:
        """The last call's result."""
        request.numbers(0)
        response = self.answer(bytes(request.content))
        sizes = [8] * request.results + [size for _, size in request.fetched] + [8]
        if len(response) != sum(sizes):
            what = f"answered {len(response)} bytes in place of {sum(sizes)}"
            raise CompileError("", f"{self.metadata['name']} {what}")
        results = struct.unpack_from(f"<{request.results}q", response)
        if request.fetched and any(results):
            return next(code for code in results if code)
        [overrun] = struct.unpack_from("<q", response, len(response) - 8)
        if overrun:
            what = f"{self.metadata['name']} wrote past the end of {overrun} blocks of memory"
            raise CompileError("", what)
        at = 8 * request.results
        for address, size in request.fetched:
            memmove(address, response[at : at + size], size)
            at += size
        return results[-1]
