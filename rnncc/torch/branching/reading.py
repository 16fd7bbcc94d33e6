# pyright: basic, reportMissingImports=false
"""Reading code that branches on a tensor's value: where it stops the reading, the function that
asks is written anew (`rewriting.py`), and read again.

Such a function keeps its new code: what TorchDynamo knows of it would else no longer hold.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from inspect import getattr_static
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch
from torch._dynamo.exc import FailOnRecompileLimitHit
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from rnncc.errors import CompileError
from rnncc.frontends.torch.node_context import BRANCH, OF_FLAG
from rnncc.frontends.torch.readings import is_users, readings
from rnncc.records import record
from rnncc.torch.branching.rewriting import Asked, codes_in, with_branches
from rnncc.torch.branching.syntax import OWN, Unwritable
from rnncc.torch.objects.kept import what_is_within
from rnncc.torch.objects.places import is_plain
from rnncc.torch.objects.walk import is_users_class

_MOST_OBJECTS = 100_000
"""That are looked through for a function."""
_lock = threading.Lock()


@record
class _Rewritten:
    """New code of a function.

    Attributes:
        code: itself.
        old: what it was written from.
        asked: what asks in it.
        counts: whether a loop over numbers counts in it.
        unrolls: whether none may.
    """

    code: CodeType
    old: CodeType
    asked: list[Asked]
    counts: bool
    unrolls: bool


_known: dict[int, _Rewritten] = {}
"""By the id of new code, in the order of their numbers."""


def reading_branches(root: Any, read: Callable[[], Any]) -> Any:
    """What `read` returns, which may read branches on tensors' values now.

    Args:
        root: what is read: a cell, or a module.
    """
    tried = Counter[Any]()
    while True:
        before, readings.branches = readings.branches, True
        readings.asked = readings.taken = None
        outer, readings.written = readings.written, set()
        refusals = [reading.refusal for reading in readings.stack]
        try:
            return read()
        except FailOnRecompileLimitHit:
            raise
        except Exception as error:
            asked, reason = _asked(error), ""
            if asked is not None:
                place = asked.code.co_filename, asked.span
                tried[place] += 1
                reason = _rewrite(asked, tried[place], root)
            if (asked is None or reason) and _unroll(root):
                tried.clear()
            elif asked is None:
                raise
            elif reason:
                _say_why(error, reason)
                raise
            for reading, refusal in zip(readings.stack, refusals, strict=True):
                reading.refusal = refusal
        finally:
            readings.branches = before
            readings.written |= outer


def _say_why(error: Exception, reason: str) -> None:
    """Let an error also say why code was not written anew."""
    if not isinstance(error, CompileError):
        error.add_note(reason)
    elif error.what == BRANCH:
        raise CompileError(error.location, f"{BRANCH}: {reason}", error.hint) from error


def _asked(error: BaseException) -> Asked | None:
    """What made an error, if that is the question whether a tensor is true."""
    if readings.asked is not None:
        return Asked(*readings.asked)
    causes, cause = list[BaseException](), error
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    question = None
    guards = (cause for cause in causes if isinstance(cause, GuardOnDataDependentSymNode))
    guard = next(guards, None)
    step, of_number = guard and guard.__traceback__, not OF_FLAG.search(str(guard))
    while step is not None:
        code = step.tb_frame.f_code
        if is_users(code.co_filename):
            span: Any = list(code.co_positions())[step.tb_lasti // 2]
            question = Asked(code, span, of_number)
        step = step.tb_next
    return question


def _rewrite(asked: Asked, attempt: int, root: Any) -> str | None:
    """Let functions have new code: at first that which asks, then those that it is defined in;
    else why none can."""
    if None in asked.span or attempt > 2:
        return "what asks is no `if`"
    with _lock:
        functions = list(_functions(root, asked.code))
        inner = min((_depth(f.__code__, asked.code) for f in functions), default=0)
        if attempt == 1:
            functions = [f for f in functions if _depth(f.__code__, asked.code) == inner]
        done, reason = dict[int, CodeType](), "the function is not found"
        for code in {id(f.__code__): f.__code__ for f in functions}.values():
            try:
                done[id(code)] = _new(code, asked)
            except Unwritable as error:
                reason = str(error)
        for function in functions:
            function.__code__ = done.get(id(function.__code__), function.__code__)
        return None if done or _is_written(asked.code, root) else reason


def _is_written(code: CodeType, root: Any) -> bool:
    """Whether another thread has written new code of a function meanwhile."""
    new = [x.code for x in list(_known.values()) if any(c is code for c in codes_in(x.old))]
    return any(True for one in new for _ in _functions(root, one))


def _functions(root: Any, code: CodeType) -> Iterator[FunctionType]:
    """The users' functions that have some code, or something with it within: those that the root
    leads to, and that which has its name."""
    outermost = code.co_qualname.partition(".<locals>")[0]
    files = (m for m in list(sys.modules.values()) if _file_of(m) == code.co_filename)
    seen, waiting = dict[int, Any](), [root, *(_named(file, outermost) for file in files)]
    while waiting and len(seen) < _MOST_OBJECTS:
        x = waiting.pop()
        if id(x) in seen or is_plain(x) or isinstance(x, (ModuleType, torch.Tensor)):
            continue
        seen[id(x)] = x
        if isinstance(x, FunctionType):
            if _is_around(x, code):
                yield x
            waiting.append(getattr(x, "__wrapped__", None))
        elif isinstance(x, (staticmethod, classmethod)):
            waiting.append(x.__func__)
        elif isinstance(x, property):
            waiting += [x.fget, x.fset]
        elif isinstance(x, type):
            waiting += [value for value in x.__dict__.values() if not is_plain(value)]
            continue
        waiting += [kind for kind in type(x).__mro__ if is_users_class(kind)]
        waiting += what_is_within(x)


def _file_of(module: Any) -> Any:
    """Where a module comes from; one that imports itself when it is first asked is not asked."""
    return getattr(module, "__dict__", {}).get("__file__")


def _named(module: Any, name: str) -> Any:
    """What a module has under a name with dots."""
    for part in name.split("."):
        module = getattr_static(module, part, None)
    return module


def _is_around(x: Any, code: CodeType) -> bool:
    """Whether it is a user's function that has some code, or a function with it within."""
    if type(x) is not FunctionType or x.__code__.co_filename != code.co_filename:
        return False
    return not x.__name__.startswith(OWN) and any(c is code for c in codes_in(x.__code__))


def _depth(outer: CodeType, code: CodeType) -> int:
    """How many of a user's functions are between code and what is around it."""
    if outer is code:
        return 0
    inner = (c for c in outer.co_consts if isinstance(c, CodeType))
    part = next(c for c in inner if any(x is code for x in codes_in(c)))
    return _depth(part, code) + (not part.co_name.startswith(OWN))


def _new(code: CodeType, asked: Asked) -> CodeType:
    known = _known.get(id(code), _Rewritten(code, code, [], False, False))
    return _written(known.old, [*known.asked, asked], known.unrolls)


def _written(old: CodeType, asked: list[Asked], unrolls: bool) -> CodeType:
    code, counts = with_branches(old, asked, len(_known), unrolls)
    _known[id(code)] = _Rewritten(code, old, asked, counts, unrolls)
    return code


def _unroll(root: Any) -> bool:
    """Let loops over numbers that count, in what was read, be read iteration by iteration: they may
    want numbers where tensors count (`self.layers[i]`). Whether there are any."""
    with _lock:
        known, functions = list(_known.values()), list[FunctionType]()
        for one in [known[number] for number in sorted(readings.written)]:
            own = [f for f in _functions(root, one.code) if one.counts and f.__code__ is one.code]
            if own:
                code = _written(one.old, one.asked, unrolls=True)
                for function in own:
                    function.__code__ = code
            functions += own
        return bool(functions)
