# pyright: basic, reportMissingImports=false
"""What users' code decides by open sizes while it is exported, written down as guards.

PyTorch takes no open size for 0 or 1: it answers `x.shape[0] > 1` with yes and notes nothing. And
it notes questions of its own of which either answer is right: how results lie in memory, whether a
size is 1 where tensors are broadcast. Here users' questions are noted whatever they are, and of
PyTorch's those that its operators ask, such as into how many parts `chunk` cuts a tensor.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from itertools import product
from types import FrameType
from typing import Any

import sympy
from torch import _refs
from torch._dynamo.source import ConstantSource
from torch._dynamo.variables.tensor import SymNodeVariable
from torch.export import ExportedProgram
from torch.export.exported_program import _get_shape_env
from torch.fx.experimental import symbolic_shapes
from torch.fx.experimental.sym_node import SymNode

from rnncc.frontends.torch.node_context import PYTORCH
from rnncc.frontends.torch.patches import ThreadStack
from rnncc.frontends.torch.readings import is_users

_ASKING = (PYTORCH + "__init__.py", PYTORCH + "fx/experimental/")
"""Where the code lies by which a size is asked, whoever asks."""
_GUARDING = PYTORCH + "_dynamo/guards.py"
_BRANCHING = SymNodeVariable.evaluate_expr.__code__
"""Where TorchDynamo asks: of what its code was made for, and where users' code decides."""
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


@dataclass
class _Questions:
    """What was asked of sizes, as what is known by the answers.

    Attributes:
        users: by users' code.
        operators: by operators of PyTorch's.
        dynamo: by TorchDynamo, which takes sizes for 2 or more in the parts that it reads.
        small: whether users' code decided there by whether sizes are 0 or 1.
    """

    users: dict[Any, None] = field(default_factory=dict)
    operators: dict[Any, None] = field(default_factory=dict)
    dynamo: dict[Any, None] = field(default_factory=dict)
    small: bool = False

    def note(self, test: Any, answer: Any) -> None:
        """Note a question where it was asked."""
        frame = sys._getframe(2)
        while frame.f_back is not None and _is_between(frame):
            frame = frame.f_back
        code, file = frame.f_code, frame.f_code.co_filename
        fact = _FACTS.get(answer, sympy.Eq)(test, answer)
        if code is _BRANCHING:
            self.small |= not _holds_for_small(fact)
        elif file == _GUARDING:
            (self.dynamo if _is_idle(fact) else self.users)[fact] = None
        elif is_users(file):
            self.users[fact] = None
        elif not file.startswith(_SHAPES) and code not in _RESHAPES:
            self.operators[fact] = None

    def facts(self, guards: Collection[Any]) -> dict[Any, None]:
        """What a program takes for granted; PyTorch's guards are those that tell something."""
        operators = {fact: None for fact in self.operators if fact in guards and not _is_idle(fact)}
        return {**self.users, **operators, **(self.dynamo if self.small else {})}


def _is_between(frame: FrameType) -> bool:
    """Whether it is code by which a size is asked, whoever asks; TorchDynamo writes some."""
    file, caller = frame.f_code.co_filename, frame.f_back
    written = file == "<string>" and caller and caller.f_code.co_filename == _GUARDING
    return bool(written or file.startswith(_ASKING))


def _is_idle(fact: Any) -> bool:
    """Whether it says of a size that it is not 0, or neither 0 nor 1."""
    match fact:
        case sympy.Ne(args=(_, limit)):
            return limit in (0, 1)
        case sympy.Ge(args=(_, limit)):
            return limit == 2
        case sympy.Gt(args=(_, limit)):
            return limit == 1
        case _:
            return False


def _holds_for_small(fact: Any) -> bool:
    symbols = list(fact.free_symbols)
    each = (dict(zip(symbols, s, strict=True)) for s in product((0, 1), repeat=len(symbols)))
    return all(fact.subs(sizes) == sympy.true for sizes in each)


_open = ThreadStack[_Questions]()


def _deciding(theirs: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(theirs)
    def evaluate(self: Any, test: Any, *args: Any, **kwargs: Any) -> Any:
        answer = theirs(self, test, *args, **kwargs)
        if _open.stack and (answer in _FACTS or answer.is_number):
            _open.stack[-1].note(test, answer)
        return answer

    return evaluate


def _comparing(theirs: Callable[..., Any], relation: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(theirs)
    def compare(self: Any, other: Any) -> Any:
        result = theirs(self, other)
        if _open.stack and result.expr in _FACTS:  # PyTorch's symbols are 1 or more
            test = relation(_from_zero(self.expr), _from_zero(other.expr))
            _open.stack[-1].note(test, result.expr)
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
    _open.stack.append(_Questions())
    try:
        yield programs
    finally:
        questions = _open.stack.pop()
    for program in programs:
        _write_guards(program, questions)


def _write_guards(program: ExportedProgram, questions: _Questions) -> None:
    shapes: Any = _get_shape_env(program.graph_module)
    if shapes is None or not hasattr(program, "_guards_code"):
        return
    known = {}
    for symbol, sources in shapes.var_to_sources.items():
        if not any(isinstance(source, ConstantSource) for source in sources):
            known |= {symbol: sources, _natural(symbol): sources}
    printer = symbolic_shapes.ShapeGuardPythonPrinter(known, lambda source: source.name, known)
    texts = {
        printer.doprint(fact): None
        for fact in questions.facts({guard.expr for guard in shapes.guards})
        if fact.free_symbols and fact.free_symbols <= known.keys()
    }
    program._guards_code = [text for text in texts if "L['self']" not in text]
