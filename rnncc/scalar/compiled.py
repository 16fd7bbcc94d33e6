"""A user's function of numbers as LLVM IR and as code that runs here, by numba."""

# numba's own code has few types, and those of intrinsics are not what a caller sees
# pyright: basic, reportCallIssue=false, reportArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llvmlite.binding as llvm
import numba
import numpy as np
from numba import types
from numba.core.errors import NumbaError
from numba.np.unsafe.ndarray import to_fixed_tuple

from rnncc.errors import CompileError
from rnncc.scalar import rules
from rnncc.scalar.code import KEPT, MATH, FunctionCode
from rnncc.scalar.dual import plain, seeded, slope_of, value_of

if TYPE_CHECKING:
    from rnncc.scalar.function import Scalar

Array = np.ndarray[Any, Any]


REALS = {"f32": types.float32, "f64": types.float64}
"""Element types as numba has them."""


def compile_scalar(scalar: Scalar, dtype: str) -> FunctionCode:
    """The code for an element type, named by what it holds.

    Raises:
        CompileError: numba cannot type it, or the code may raise or calls what rnncc has not.
    """
    location = f"function {scalar.name!r}"
    signature = (types.UniTuple(REALS[dtype], scalar.count),)
    entry = numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **rules.OPTIONS)(
        _entry(scalar)
    )
    _typed(lambda: entry.compile(signature), scalar)
    compiled = entry.overloads[signature]
    module = llvm.parse_assembly(compiled.library.get_llvm_str())
    text = str(module.get_function(compiled.fndesc.llvm_func_name))
    # Attribute groups and metadata stand elsewhere in numba's module.
    text = re.sub(r" #\d+|, !\S+ !\d+", "", text[text.index("define") :])
    # numba numbers its functions: the name tells nothing of what one does.
    digest = blake2b(text.replace(compiled.fndesc.llvm_func_name, "").encode(), digest_size=8)
    symbol = f"scalar.{_NO_NAME.sub('_', scalar.name)}.{digest.hexdigest()}"
    code = FunctionCode(symbol, text.replace(compiled.fndesc.llvm_func_name, symbol), dtype)
    unknown = sorted(code.calls - MATH[dtype].keys() - KEPT[dtype])
    if unknown:
        raise CompileError(location, f"calls {', '.join(unknown)}", f"there are {SUPPORTED}")
    # Of numba's functions any other status is an exception.
    if set(re.findall(r"ret i32 (\S+)", code.text)) != {"0"}:
        raise CompileError(location, "may raise an exception")
    return code


def compile_oracle(scalar: Scalar) -> Callable[[Array], Array]:
    """The same in float64: of an array [count, n] the n results."""
    entry, count = numba.njit(**rules.OPTIONS)(_entry(scalar)), scalar.count

    @numba.njit(**rules.OPTIONS)
    def rows(stacked: Array) -> Array:
        out = np.empty(stacked.shape[1])
        for i in range(out.size):
            out[i] = entry(to_fixed_tuple(stacked[:, i], count))
        return out

    return lambda stacked: _typed(lambda: rows(stacked), scalar)


SUPPORTED = "+ - * / **, comparisons, min, max, abs, " + ", ".join(
    f"math.{operation.__name__}"
    for operation in rules.UNARY
    if getattr(operation, "__module__", "") == "math"
)
_NO_NAME = re.compile(r"\W")


def _entry(scalar: Scalar) -> Callable[..., Any]:
    """What gives, of a tuple of reals, the function's value or its slope."""
    inner, seed = numba.njit(**rules.OPTIONS)(scalar.function), seeded(scalar.along)
    item = scalar.item

    def value(values: Any) -> Any:
        return value_of(inner(*seed(values)), plain(values[0]))

    def slope(values: Any) -> Any:
        return slope_of(inner(*seed(values)), plain(values[0]))

    def value_of_one(values: Any) -> Any:
        return value_of(inner(*seed(values))[item], plain(values[0]))

    if item is None:
        return value if scalar.along is None else slope
    assert scalar.along is None, "a derivative that was given has no derivative of an item"
    return value_of_one


def _typed(compile_it: Callable[[], Any], scalar: Scalar) -> Any:
    """What numba makes; why it cannot, in one line."""
    try:
        return compile_it()
    except NumbaError as error:
        text, file = str(error), Path(scalar.function.__code__.co_filename).name
        lines = re.findall(rf'File "[^"\n]*{re.escape(file)}", line (\d+)', text)
        where = f"line {lines[0]}: " if lines else ""
        reason = next(iter(_REASONS.findall(text)), text.splitlines()[0])
        what = f"{where}numba cannot type it: {' '.join(reason.split())}"
        raise CompileError(f"function {scalar.name!r}", what, f"there are {SUPPORTED}") from error


_REASONS = re.compile(
    r"(?<=No implementation of function )[^\n]* found for signature:\s+>>> [^\n]*|"
    r"(?:Untyped global|Unknown attribute|NameError|Use of unsupported|Can't unify)[^\n]*"
)
