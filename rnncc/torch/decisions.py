# pyright: basic, reportMissingImports=false
"""What users' code decides by open sizes while it is exported, written down as guards.

PyTorch takes no open size for 0 or 1: it answers `x.shape[0] > 1` with yes and notes nothing. And
it notes questions of its own of which either answer is right: how results lie in memory, whether a
size is 1 where tensors are broadcast. Here users' questions are noted whatever they are, and of
PyTorch's those that its operators ask, such as into how many parts `chunk` cuts a tensor.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import sympy
from torch import _refs
from torch._dynamo.source import ConstantSource
from torch.export import ExportedProgram
from torch.export.exported_program import _get_shape_env
from torch.fx.experimental import symbolic_shapes
from torch.fx.experimental.sym_node import SymNode

from rnncc.frontends.torch.readings import PYTORCH, is_users

_ASKING = (PYTORCH + "__init__.py", PYTORCH + "fx/experimental/")
"""Where the code lies by which a size is asked, whoever asks."""
_SHAPES = tuple(PYTORCH + name for name in ("_prims/", "_prims_common/", "_subclasses/"))
_RESHAPES = [f.__code__ for name, f in vars(_refs).items() if name.startswith("_reshape_view_")]
"""Where PyTorch finds out what results are like: its files, and functions of other files."""
_FACTS: Any = {sympy.true: lambda test, _: test, sympy.false: lambda test, _: sympy.Not(test)}
"""What an answer says; one that is a number, that it is this number."""
_RELATIONS = {
    "_eq": sympy.Eq,
    "_ne": sympy.Ne,
    "_lt": sympy.Lt,
    "_le": sympy.Le,
    "_gt": sympy.Gt,
    "_ge": sympy.Ge,
}
"""Methods of PyTorch's that compare sizes."""


class _Own(threading.local):
    def __init__(self) -> None:
        self.facts: list[dict[Any, bool]] = []


_own = _Own()


def _note(test: Any, answer: Any) -> None:
    """Note what is known by an answer, and whether users' code asks."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_ASKING):
        frame = frame.f_back
    file = frame.f_code.co_filename
    if not file.startswith(_SHAPES) and frame.f_code not in _RESHAPES:
        fact = _FACTS.get(answer, sympy.Eq)(test, answer)
        facts = _own.facts[-1]
        facts[fact] = facts.get(fact, False) or is_users(file)


def _deciding(theirs: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(theirs)
    def evaluate(self: Any, test: Any, *args: Any, **kwargs: Any) -> Any:
        answer = theirs(self, test, *args, **kwargs)
        if _own.facts and (answer in _FACTS or answer.is_number):
            _note(test, answer)
        return answer

    return evaluate


def _comparing(theirs: Callable[..., Any], relation: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(theirs)
    def compare(self: Any, other: Any) -> Any:
        result = theirs(self, other)
        if _own.facts and result.expr in _FACTS:  # PyTorch's symbols are 1 or more
            test = relation(_from_zero(self.expr), _from_zero(other.expr))
            _note(test, result.expr)
        return result

    return compare


def _from_zero(expression: Any) -> Any:
    """The same of sizes that may be 0."""
    return expression.xreplace({s: _natural(s) for s in expression.free_symbols})


def _natural(symbol: Any) -> Any:
    return sympy.Symbol(symbol.name, integer=True, nonnegative=True)


symbolic_shapes.ShapeEnv.evaluate_expr = _deciding(symbolic_shapes.ShapeEnv.evaluate_expr)
for _name, _relation in _RELATIONS.items():
    setattr(SymNode, _name, _comparing(getattr(SymNode, _name), _relation))


@contextmanager
def noting_decisions() -> Generator[list[ExportedProgram]]:
    """While it lasts, what users' code asks of sizes is noted: guards of the programs put here."""
    programs = list[ExportedProgram]()
    _own.facts.append({})
    try:
        yield programs
    finally:
        facts = _own.facts.pop()
    for program in programs:
        _write_guards(program, facts)


def _write_guards(program: ExportedProgram, facts: dict[Any, bool]) -> None:
    shapes: Any = _get_shape_env(program.graph_module)
    if shapes is None or not hasattr(program, "_guards_code"):
        return
    guards = {guard.expr for guard in shapes.guards}
    needed = [
        fact
        for fact, of_users in facts.items()
        if of_users or (fact in guards and not _is_idle(fact))
    ]
    known = {}
    for symbol, sources in shapes.var_to_sources.items():
        if not any(isinstance(source, ConstantSource) for source in sources):
            known |= {symbol: sources, _natural(symbol): sources}
    printer = symbolic_shapes.ShapeGuardPythonPrinter(known, lambda source: source.name, known)
    texts = {
        printer.doprint(fact): None
        for fact in needed
        if fact.free_symbols and fact.free_symbols <= known.keys()
    }
    program._guards_code = [text for text in texts if "L['self']" not in text]


def _is_idle(guard: Any) -> bool:
    """Whether it says of a size that it is not 0, or neither 0 nor 1."""
    match guard:
        case sympy.Ne(args=(_, limit)):
            return limit in (0, 1)
        case sympy.Ge(args=(_, limit)):
            return limit == 2
        case sympy.Gt(args=(_, limit)):
            return limit == 1
        case _:
            return False
