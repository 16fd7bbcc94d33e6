"""A model as it is loaded into a process, and its bytes, from which it is loaded again."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from rnncc_runtime.memory import Memory

Array = np.ndarray[Any, Any]
_LENGTHS = struct.Struct("<QQQ")


@dataclass(frozen=True)
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

    def to_bytes(self) -> bytes:
        """Lengths, texts, code, weights."""
        text = json.dumps([dict(self.metadata), dict(self.symbols)]).encode()
        weights = self.weights.tobytes()
        lengths = _LENGTHS.pack(len(text), len(self.code), len(weights))
        return b"".join((lengths, text, self.code, weights))

    @staticmethod
    def from_bytes(data: bytes) -> Image:
        """The opposite of `to_bytes`.

        Raises:
            ValueError: the bytes are no image.
        """
        if len(data) < _LENGTHS.size:
            raise ValueError("too short")
        text, code, weights = _LENGTHS.unpack_from(data)
        starts = _LENGTHS.size, _LENGTHS.size + text, _LENGTHS.size + text + code
        if len(data) != starts[2] + weights:
            raise ValueError("of another length")
        metadata, symbols = json.loads(data[starts[0] : starts[1]])
        block = Memory(weights).bytes
        block[:] = np.frombuffer(data, np.uint8, weights, starts[2])
        return Image(metadata, symbols, data[starts[1] : starts[2]], block)
