# pyright: basic, reportMissingImports=false
"""Reading a cell as a graph, with guards.

TorchDynamo reads the cell's Python once. It finds every tensor that the cell reads and hands them
over at each call, and it notices when something else that the cell depends on has changed; then it
reads again.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch._dynamo
from torch._dynamo.exc import FailOnRecompileLimitHit, TorchDynamoException
from torch.utils import _pytree as pytree

from rnncc.errors import CompileError, Location
from rnncc.frontends.torch.site import LINE
from rnncc.frontends.torch.watch import watching
from rnncc.torch.captured import Reading, captured, readings, row, state
from rnncc.torch.versions import compile_often

_RAISED = re.compile(r"raised exception (.+)")
_GOT = re.compile(r"got (\w+\(.+\))")
_HOOKS: list[dict[int, Any]] = [
    getattr(torch.nn.modules.module, f"_global_{kind}_hooks")
    for kind in ("forward", "forward_pre", "backward", "backward_pre")
]
"""Hooks of all modules, of which Dynamo notices no change."""
_readers: WeakKeyDictionary[Any, dict[Any, Callable[..., Any]]] = WeakKeyDictionary()
_lock = threading.Lock()


def read(
    cell: Callable[..., Any], rows: Any, states: Any, reading: Reading, is_open: bool
) -> tuple[Any, Any]:
    """What the cell returns for rows and states, with results of `reading.run` as its tensors.

    Args:
        is_open: whether stand-ins leave sizes open; others never meet what was read so.

    Raises:
        CompileError: the cell cannot be read.
    """
    readings.stack.append(reading)
    try:
        with watching(guarded=True):
            try:
                return _reader(cell, is_open)(cell, rows, states)
            except FailOnRecompileLimitHit:  # most of what was read may long be of no use
                return _reader(cell, is_open, anew=True)(cell, rows, states)
    except TorchDynamoException as error:
        text = str(error)
        raise CompileError(_where(cell, text), _reason(text)) from error
    finally:
        readings.stack.pop()


def _row_or_none(x: Any) -> Any:
    return None if x is None else row(x)


def _step(cell: Callable[..., Any], rows: Any, states: Any) -> tuple[Any, Any]:
    y, new = cell(rows, states)
    return pytree.tree_map(_row_or_none, y), pytree.tree_map(state, new)


def _reader(cell: Callable[..., Any], is_open: bool, anew: bool = False) -> Callable[..., Any]:
    """`_step` with guards of its own for each cell."""
    key = is_open, tuple(number for hooks in _HOOKS for number in hooks)
    with _lock:
        known = _readers.setdefault(code_of(cell), {})
        if anew or key not in known:
            own = FunctionType(_step.__code__.replace(co_name=_name(cell)), globals())
            known[key] = compile_often(own, captured)
        return known[key]


def code_of(cell: Any) -> Any:
    """What cells that are alike have in common."""
    function = getattr(cell, "__func__", cell)
    return getattr(function, "__code__", type(cell))


def _name(cell: Any) -> str:
    return getattr(cell, "__qualname__", None) or type(cell).__qualname__


def _where(cell: Any, text: str) -> Location:
    """The user's line in Dynamo's message, or the cell's name."""
    lines = [(file, line) for file, line in LINE.findall(text) if file != __file__]
    return Location(":".join(lines[-1]) if lines else "", _name(cell))


def _reason(text: str) -> str:
    """What Dynamo's message says is wrong, without its advice."""
    for pattern in (_RAISED, _GOT):
        if found := pattern.search(text):
            return found.group(1)
    head, _, rest = text.partition("\n")
    explained = rest.strip().split("\n")[0]
    return f"{head}: {explained.removeprefix('Explanation: ')}" if explained else head
