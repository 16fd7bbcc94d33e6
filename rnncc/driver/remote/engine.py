"""As `program.mjs`, where there is the package `wasmtime` in place of node.

python -m rnncc.driver.remote.engine MODULE FUNCTIONS < request > response
"""

from __future__ import annotations

import json
import struct
import sys
from importlib import import_module
from typing import Any

FENCE, EMPTY, BESIDE, PAGE = 64, b"\xa5", b"\x5a", 65536


class Engine:
    """An instance of a module, and the request that it serves."""

    def __init__(self, module: str, functions: list[tuple[str, bool]], request: bytes) -> None:
        runtime: Any = import_module("wasmtime")
        self.store = runtime.Store()
        compiled = runtime.Module.from_file(self.store.engine, module)
        self.exports = runtime.Instance(self.store, compiled, []).exports(self.store)
        self.memory = self.exports["memory"]
        self.end: int = self.exports["__heap_base"].value(self.store)
        self.wide: bool = self.memory.type(self.store).is_64
        self.functions, self.request, self.place = functions, request, 0
        self.blocks = list[tuple[int, int]]()

    def serve(self) -> bytes:
        """All commands; what they answer."""
        answer = b""
        while command := self._number():
            match command:
                case 1:
                    self._make(self._take(self._number()))
                case 2:
                    self._make(EMPTY * self._number())
                case 3:
                    table = [self._at(index) for index in self._numbers()]
                    kind = "Q" if self.wide else "I"
                    self._make(struct.pack(f"<{max(len(table), 1)}{kind}", *(table or [0])))
                case 4:
                    answer += struct.pack("<q", self._call())
                case _:
                    answer += self._read(*self.blocks[self._number()])
        overrun = sum(self._read(at + size, FENCE) != BESIDE * FENCE for at, size in self.blocks)
        return answer + struct.pack("<q", overrun)

    def _number(self) -> int:
        return struct.unpack("<q", self._take(8))[0]

    def _numbers(self) -> list[int]:
        return [self._number() for _ in range(self._number())]

    def _take(self, size: int) -> bytes:
        self.place += size
        return self.request[self.place - size : self.place]

    def _at(self, index: int) -> int:
        return 0 if index < 0 else self.blocks[index][0]

    def _make(self, content: bytes) -> None:
        at = -(-self.end // 64) * 64
        self.end = at + len(content) + FENCE
        missing = self.end - self.memory.data_len(self.store)
        if missing > 0:
            self.memory.grow(self.store, -(-missing // PAGE))
        self.memory.write(self.store, content + BESIDE * FENCE, at)
        self.blocks.append((at, len(content)))

    def _read(self, at: int, size: int) -> bytes:
        return bytes(self.memory.read(self.store, at, at + size))

    def _call(self) -> int:
        name, tells_bytes = self.functions[self._number()]
        pointers = [self._at(index) for index in self._numbers()]
        result = self.exports[name](self.store, *pointers, *self._numbers())
        is_narrow = tells_bytes and not self.wide
        return result & 0xFFFFFFFF if is_narrow and result != -1 else result


if __name__ == "__main__":
    engine = Engine(sys.argv[1], json.loads(sys.argv[2]), sys.stdin.buffer.read())
    sys.stdout.buffer.write(engine.serve())
