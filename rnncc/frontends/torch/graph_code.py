# pyright: basic, reportMissingImports=false
"""Graphs of PyTorch whose Python code is written when they are called.

PyTorch writes and compiles it whenever a graph is made or changed, for 30 us a node each time:
`torch.export` does so half a dozen times, and `run_decompositions` a dozen. Most graphs here are
read and never called; of a few PyTorch reads the names of arguments from the code.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from torch.fx import GraphModule

_write: Any = GraphModule.recompile
_lock = threading.Lock()


class _Blocks(threading.local):
    """In how many blocks a thread is; on the class, how many there are in all threads."""

    here = 0
    anywhere = 0


_blocks = _Blocks()


@contextmanager
def written_when_called() -> Generator[None]:
    """Until the end of the block this thread's graphs get their code when they are called."""
    _enter(1)
    try:
        yield
    finally:
        _enter(-1)


def _enter(number: int) -> None:
    patched: Any = GraphModule
    with _lock:
        _blocks.here += number
        _Blocks.anywhere += number
        patched.recompile = _write_later if _Blocks.anywhere else _write


def _write_later(module: Any) -> Any:
    """`GraphModule.recompile`, which other threads may call as well."""
    if not _blocks.here:
        return _write(module)
    codegen = module.graph._codegen
    if hasattr(codegen, "pytree_info"):
        module._in_spec, module._out_spec = codegen.pytree_info[1:3]
    type(module).forward = _later
    return None


class _Later:
    """In the place of a graph's `forward`: writes it where that is read, to be called or not."""

    def __get__(self, module: Any, kind: Any) -> Any:
        if module is None:
            return self
        _write(module)
        return module.forward


_later = _Later()
