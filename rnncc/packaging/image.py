"""A model as it is loaded into a process, and its bytes, from which it is loaded again."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Mapping
from struct import error
from typing import Any

import numpy as np
from rnncc_runtime import ModelError
from rnncc_runtime.compiled import Compiled
from rnncc_runtime.memory import Memory

from rnncc.packaging.elf import Elf
from rnncc.records import record

Array = np.ndarray[Any, Any]
_LENGTHS = struct.Struct("<QQQ")
_BROKEN = ValueError, TypeError, AttributeError, LookupError, RecursionError
"""What JSON of another structure leads to, or of one too deep."""
_EMPTY = (0, 8)
"""Kinds of sections of ELF that take nothing of the file."""


@record
class Image:
    """Object code whose functions take the weights first.

    Attributes:
        metadata: what `NAME_metadata` tells (docs/abi.md).
        symbols: exported function, without the model's name -> its symbol in the code.
        code: a relocatable object without the weights.
        weights: uint8, at a multiple of 64.
    """

    metadata: Mapping[str, Any]
    symbols: Mapping[str, str]
    code: bytes
    weights: Array

    def parts(self) -> list[bytes | memoryview]:
        """Lengths, texts, code, weights; the weights are not copied."""
        text = json.dumps([dict(self.metadata), dict(self.symbols)]).encode()
        lengths = _LENGTHS.pack(len(text), len(self.code), self.weights.nbytes)
        return [lengths, text, self.code, self.weights.data]

    def to_bytes(self) -> bytes:
        """The parts in one."""
        return b"".join(self.parts())

    @staticmethod
    def from_bytes(data: bytes) -> Image:
        """The opposite of `to_bytes`.

        Raises:
            ImageError: the bytes are no image.
        """
        if len(data) < _LENGTHS.size:
            raise ImageError("too short")
        text, code, weights = _LENGTHS.unpack_from(data)
        starts = _LENGTHS.size, _LENGTHS.size + text, _LENGTHS.size + text + code
        if len(data) != starts[2] + weights:
            raise ImageError("of another length")
        try:
            metadata, symbols = json.loads(data[starts[0] : starts[1]])
            needed = {*metadata["functions"], *metadata["sizes"]}
            if not symbols.keys() >= needed | ({"cuda_image"} if "device" in metadata else set()):
                raise ValueError("a function has no symbol")
            _check_object(data[starts[1] : starts[2]], set(symbols.values()))
            Compiled(metadata, {})  # reads the names and shapes of arrays
        except (*_BROKEN, ModelError, error) as why:
            raise ImageError(str(why)) from why
        block = Memory(weights).bytes
        block[:] = np.frombuffer(data, np.uint8, weights, starts[2])
        return Image(metadata, symbols, data[starts[1] : starts[2]], block)


class ImageError(Exception):
    """Bytes that are no image."""


def _check_object(code: bytes, names: set[str]) -> None:
    """Raise `ValueError` unless code has the structure that LLVM expects, which checks nothing."""
    if sys.platform != "linux":
        return  # objects are of another format
    elf = Elf(code)
    for section in elf.sections:
        if section.kind not in _EMPTY and section.offset + section.size > len(code):
            raise ValueError("a section is cut off")
    if not names <= {symbol.name for symbol in elf.symbols if symbol.is_defined}:
        raise ValueError("a function is missing")
