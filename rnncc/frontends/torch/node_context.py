# pyright: basic, reportMissingImports=false
"""Where one aten operator is translated: the builder, the operator's result, refusals."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from inspect import signature
from pathlib import Path
from traceback import extract_tb
from typing import Any, NoReturn

import torch
from torch.fx import Node
from xdsl.ir import SSAValue

from rnncc.errors import CompileError, Location
from rnncc.frontends.torch.randomness import Random
from rnncc.frontends.torch.types import ORDER, element_type, type_name
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.types import FLOATS, dims_of, dtype_of

Value = SSAValue
Number = float | int | bool
Operand = SSAValue | Number | Dim
"""A tensor, a number, or a size."""
Dims = tuple[Dim, ...]
LINE = re.compile(r'File "([^"]+)", line (\d+), in ')
"""A line of a traceback: the file and the number."""
PYTORCH = str(Path(torch.__file__).parent) + "/"
RNNCC = str(Path(__file__).parents[2]) + "/"
_NOT_USERS = (PYTORCH, RNNCC, "<eval_with_key>")
_STANDARD = sysconfig.get_path("stdlib") + "/"
_PACKAGES = str(Path(torch.__file__).parents[1]) + "/"
_CALLED = ("<", PYTORCH, RNNCC, *(_PACKAGES + name for name in ("sympy/", "mpmath/", "numpy/")))
"""What may be within a call of PyTorch's or ours that goes wrong."""
_RAISED = re.compile(r"raised exception (.+)")
_BUILTIN = re.compile(r"know how to trace [a-z ]*`(?:<unknown module>\.)?([^`]+?)\.?`")
"""What TorchDynamo says of a function that has no code in Python."""
_GOT = re.compile(r"got (\w+\(.+\))")


class NodeContext:
    """What a translation needs besides its operands.

    Args:
        b: appends ops.
        node: the operator's node; its meta has the result as a fake tensor.
        size: a size of a fake tensor as a `Dim`.
        random: where random numbers come from.
    """

    def __init__(self, b: Builder, node: Node, size: Callable[[Any], Dim], random: Random) -> None:
        self.b, self.node, self.size, self.random = b, node, size, random
        b.loc = location(node)

    @property
    def dims(self) -> Dims:
        """The result's shape; the first one's, of several."""
        return self.shape(self._result)

    @property
    def dtype(self) -> str:
        """The element type of the result, or of its parts; the first one's, of several."""
        return element_type(self._result.dtype, self.b.loc)

    @property
    def is_complex(self) -> bool:
        """Whether the result is complex; the first one, of several."""
        val = self.node.meta.get("val")  # a check has no result
        first = val[0] if isinstance(val, (tuple, list)) and val else val
        return isinstance(first, torch.Tensor) and first.is_complex()

    @property
    def _result(self) -> torch.Tensor:
        val = self.node.meta["val"]
        return val[0] if isinstance(val, (tuple, list)) else val

    @property
    def parts(self) -> int:
        """How many results there are."""
        return len(self.node.meta["val"])

    def is_read(self, part: int) -> bool:
        """Whether anything reads a result of several."""
        return any(user.args[1:] == (part,) for user in self.node.users)

    def shape(self, tensor: torch.Tensor) -> Dims:
        """A fake tensor's shape."""
        return tuple(self.size(size) for size in tensor.shape)

    def value(self, x: Operand, dtype: str | None = None) -> Value:
        """An operand of an element type; a number or a size becomes a tensor of rank 0."""
        kind = self.dtype if dtype is None else dtype
        if isinstance(x, str):  # a damaged file's: PyTorch calls no operator so
            self.refuse(f"operand is a text: {x[:40]!r}")
        if dtype is None and isinstance(x, int | float) and not isinstance(x, bool):
            x = self.held(x)
        if isinstance(x, Dim) and not x.is_static:
            x = self.b.size(x)
        if isinstance(x, SSAValue):
            return self.b.cast(x, kind)
        return self.b.fill(x if isinstance(x, int) else float(x), (), kind)

    def held(self, number: Number) -> Number:
        """A number as the result's type holds it, if that is one of integers: as PyTorch has it, a
        negative integer is one of an unsigned type, too."""
        kind = self._result.dtype
        if kind.is_floating_point or kind.is_complex or kind == torch.bool:
            return number
        limits = torch.iinfo(kind)
        least = min(limits.min, -limits.max) if isinstance(number, int) else limits.min
        if not least <= number <= limits.max:
            self.refuse(f"{number} is no {type_name(kind)}", "x.to(torch.int64)")
        return wrapped(number, kind) if isinstance(number, int) else number

    def scaled(self, x: Operand, factor: Number) -> Value:
        """An operand of the result's element type, times a number."""
        value = self.value(x)
        return value if factor == 1 else self.b.mul(value, self.value(factor))

    def common(self, *operands: Operand) -> list[Value]:
        """Operands of the element type that comparisons and choices bring them to."""
        kind = common_type(*operands)
        return [self.value(x, kind) for x in operands]

    def widened(self, x: Value) -> Value:
        """An operand as large as the result."""
        rank = len(self.dims)
        return self.b.broadcast(x, self.dims, range(rank - rank_of(x), rank))

    def axis(self, axis: int, rank: int) -> int:
        """An axis counted from the front; refuses one that a damaged file has beyond the last."""
        most = max(rank, 1)  # PyTorch takes scalars as vectors
        if not isinstance(axis, int) or not -most <= axis < most:
            self.refuse(f"there is no axis {axis} of {rank}")
        return axis + rank if axis < 0 else axis

    def call(self, translation: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """What a translation gives; refuses arguments that it does not take."""
        try:
            bound = signature(translation).bind(self, *args, **kwargs)
        except TypeError as error:
            self.refuse(f"arguments are not supported: {error}")
        for part in (*args, *kwargs.values()):
            # No operator of PyTorch's takes a list of texts; a damaged file may hold one.
            if isinstance(part, list | tuple) and any(isinstance(x, str) for x in part):
                self.refuse(f"an argument is a list of texts: {part}")
        return translation(*bound.args, **bound.kwargs)

    def refuse(self, what: str, hint: str | None = None) -> NoReturn:
        """Raise `CompileError` where the operator stands in the user's program."""
        raise CompileError(self.b.loc, what, hint)


def of_one_type(translation: Translation) -> Translation:
    """One that refuses floats of several types, as PyTorch's products do, but not while it traces
    them."""

    @wraps(translation)
    def checked(at: NodeContext, *args: Any, **kwargs: Any) -> Any:
        tensors = [node.meta.get("val") for node in at.node.all_input_nodes]
        kinds = [x.dtype for x in tensors if isinstance(x, torch.Tensor) and x.is_floating_point()]
        if len(set(kinds)) > 1:
            at.refuse(f"operands are {' and '.join(map(type_name, dict.fromkeys(kinds)))}")
        return translation(at, *args, **kwargs)

    return checked


@lru_cache(1 << 12)
def is_of_users(path: str) -> bool:
    """Whether a file is neither PyTorch's nor ours."""
    return not path.startswith(_NOT_USERS)


def location(node: Node) -> Location:
    """The user's line, where PyTorch knows it, and the operator."""
    lines = LINE.findall(str(node.meta.get("stack_trace") or ""))
    lines = [line for line in lines if is_of_users(line[0])]
    target = node.target if isinstance(node.target, str) else str(node.target)
    if target.startswith("<"):  # a function, shown with its address
        target = getattr(node.target, "__name__", target)
    return Location(":".join(lines[-1]) if lines else "", target)


OF_FLOAT = re.compile(r"expression [^<>=()]*\bzuf\d+[^<>=()]* \(")
"""What PyTorch says of a float that was in a tensor, where code does not compare it."""
TAKEN = "computes with a number that was in a tensor"
OF_FLAG = re.compile(r"expression (Eq|Ne)\(u\d+, [01]\)")
"""What PyTorch says of a branch on a tensor that is true or false: a symbol of its own for it."""
BRANCH = "Python code depends on whether a tensor is true"
_CALL = "calls a function that cannot be compiled: "
OF_COUNT = re.compile(r"data-dependent expression .*\(Size-like symbols: u\d")
"""What PyTorch says of code that depends on a number of rows that the run decides."""
COUNTED = "Python code depends on how many elements a mask selects"
BY_MASK = "leave the test out, or ask for mask.any()"
TAKEN_NUMBER = "asks for a number that was in a tensor, or that NumPy drew"
_TAKEN_NUMBER = re.compile(r"data-dependent expression (\w+\([^<>=]*)?\bzuf\d")
OF_INTEGER = re.compile("Could not extract specialized integer from data-dependent")
"""What PyTorch says where an integer of a tensor is to be a number of Python's."""
NEEDED_INTEGER = "an integer that was in a tensor is an index of a list, or a size"
UNREAD_SCAN = "rnncc compiles the loop"
"""Why TorchDynamo does not read `scan` itself."""
WITHIN_STEP = "scan is not supported within a step; a loop of Python is: for row in rows"
EXPORTED_TRANSFORMS = (
    "torch.func in a module is not supported where it is exported",
    "torch.compile(module, backend='rnncc'), or scan with a cell",
)
"""Why transforms are refused, but for `vmap` alone, and what to do."""
BY_STACK = "torch.stack(xs)[i], which takes a tensor"
BY_TENSORS = "y[rows, lengths - 1] for the last valid steps: docs/recipes.md#the-last-valid-step"
"""What to do where the numbers in a tensor decide what is taken of another."""
FIXED = re.compile(r"You marked (.+?) as dynamic but .* specialized it to be a constant \((\d+)\)")
"""What PyTorch says of a size that should be open and was asked for as a number, and its value."""
BY_SCAN = "rnncc.torch.scan(cell, xs, state) loops over any number of rows"


_DECIDED = {"torch.cond": "branch", "torch.while_loop": "loop"}
_REASONS = {
    "side effect": "changes what it has not made",
    "input mutation": "changes a tensor in place that it has not made (x = x + 1, not x += 1)",
    "output unsupported": "gives something else than tensors",
    "return type": "gives something else than tensors",
    "same metadata": "changes the type or shape of a tensor",
}
"""What TorchDynamo says of ways of `torch.cond`, and of loops."""
DETACHES = "a step detaches or transposes in place what it has not made"
_SAID = {
    OF_COUNT: COUNTED,
    OF_FLAG: BRANCH,
    OF_INTEGER: NEEDED_INTEGER,
    re.compile("^Data-dependent branching"): BRANCH,
    re.compile(rf"{UNREAD_SCAN}|higher_order\.scan"): WITHIN_STEP,
    re.compile("Getting an inplace view on a graph input"): DETACHES,
}
"""What it says of other things that are not supported, and what they are."""
_OPERATOR = re.compile(r"^ *Higher Order Operator: .*\n", re.MULTILINE)
"""What TorchDynamo was reading, which is the loop itself where a module is exported."""


def reason_of(text: str) -> str:
    """What a message of TorchDynamo says is wrong, without its advice."""
    for operator, name in _DECIDED.items():
        if f"Higher Order Operator: {operator}" in text:
            for word, reason in _REASONS.items():
                if word in text:
                    return f"a {name} on a tensor's value {reason}"
    text = _OPERATOR.sub("", text)
    if said := next((said for said in _SAID if said.search(text)), None):
        return _SAID[said]
    if match := _RAISED.search(text):
        return match.group(1)
    if match := _BUILTIN.search(text):
        return _CALL + match.group(1)
    if match := _GOT.search(text):
        return match.group(1)
    return TAKEN_NUMBER if _TAKEN_NUMBER.search(text) else _beginning(text)


def _beginning(text: str) -> str:
    """A message's first line, and that of its explanation."""
    head, _, rest = text.partition("\n")
    explained = rest.strip().split("\n")[0]
    return f"{head}: {explained.removeprefix('Explanation: ')}" if explained else head


def hint_of(reason: str) -> str | None:
    """What to do in a cell about a reason of `reason_of`, where that alone decides."""
    if reason == TAKEN_NUMBER:
        return "keep it a tensor, as torch.exp computes, and torch.rand draws"
    if not reason.startswith(_CALL):
        return {
            COUNTED: BY_MASK,
            NEEDED_INTEGER: BY_STACK,
            DETACHES: "h = h.detach(), h = h.t()",
        }.get(reason)
    return "torch.rand draws in cells" if "andom" in reason else "call it outside of the cell"


def user_line(text: str, name: str) -> Location:
    """The innermost line of the user's in a traceback, and a name."""
    lines = [line for line in LINE.findall(text) if is_of_users(line[0])]
    return Location(":".join(lines[-1]) if lines else "", name)


def line_of(error: BaseException, name: str) -> Location:
    """The innermost line of the user's that an error names or went through, and a name."""
    named = user_line(str(error), name)
    if named.file:
        return named
    for frame in reversed(extract_tb(error.__traceback__)):
        path = frame.filename
        is_standard = path.startswith(_STANDARD) and not path.startswith(_PACKAGES)
        if not is_standard and not path.startswith(_CALLED):
            return Location(f"{path}:{frame.lineno}", name)
    return Location("", name)


def rank_of(x: Value) -> int:
    """The number of axes."""
    return len(dims_of(x))


def wrapped(number: int, kind: torch.dtype) -> int:
    """The integer of a type that has the lowest bits of a number."""
    limits = torch.iinfo(kind)
    return (number - limits.min) % (1 << limits.bits) + limits.min


def common_type(*operands: Operand) -> str:
    """The element type that operands are compared in.

    Of floats those with axes decide, if there are any: others are numbers to PyTorch.
    """
    with_axes = [x for x in operands if isinstance(x, SSAValue) and rank_of(x)]
    floats = [kind for kind in map(_kind, with_axes) if kind in FLOATS]
    return max(floats or map(_kind, operands), key=ORDER.index)


def _kind(x: Operand) -> str:
    if isinstance(x, SSAValue):
        return dtype_of(x)
    return "i1" if isinstance(x, bool) else "i64" if isinstance(x, (int, Dim)) else "f32"


Translation = Callable[..., Any]
Table = dict[str, Translation]


def as_list(x: int | Sequence[int] | None) -> list[int]:
    """One axis or several."""
    return [] if x is None else [x] if isinstance(x, int) else list(x)
