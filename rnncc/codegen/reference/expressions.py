"""Sizes, numbers and names as C expressions.

A size or a loop's index is written `@T@` until `resolved` knows what it is called in C.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rnncc.ir.dims import Dim, Excess, Quotient
from rnncc.ir.types import NUMPY
from rnncc.kern.access import Access
from rnncc.kern.largest import Largest
from rnncc.kern.signatures import C_TYPES

VALUE_TYPES = {**C_TYPES, "i1": "int"}
"""Element types while a kernel computes with them."""
LETTERS = {"f32": "f", "f64": ""}
"""Behind constants of a type, and behind the names of libm's functions of it."""
ENDINGS = {"f32": "", "f64": "_f64"}
"""Behind the names of the prelude's functions of a type."""
AXIS = "$"
"""What the names of axes' indices begin with in formulas, as no size's does."""


def size(dim: Dim) -> str:
    """A formula of sizes and loops' indices, of the type int64_t."""
    terms = [_product(monomial, factor) for monomial, factor in dim.terms]
    return " + ".join(terms).replace("+ -", "- ") or "0"


def factor(dim: Dim) -> str:
    """A formula as an operand of a product or a comparison."""
    text = size(dim)
    return f"({text})" if " " in text or text.startswith("-") else text


def largest(sizes: Largest) -> str:
    """The largest of some formulas."""
    first, *others = [size(formula) for formula in sizes.formulas] or ["0"]
    for other in others:
        first = f"rnncc_larger({first}, {other})"
    return first


def index(access: Access, axes: int | None = None) -> str:
    """Which element a point of the domain reads or writes."""
    strides = access.strides[:axes]
    terms = [stride * Dim.of(f"{AXIS}{number}") for number, stride in enumerate(strides)]
    return size(sum(terms, access.offset))


def axis(number: int) -> str:
    """The name of an axis's index."""
    return f"i{number}"


def number(value: float, dtype: str) -> str:
    """A constant of an element type."""
    if dtype in LETTERS:
        return _float(NUMPY[dtype](value), dtype)
    whole = int(value)
    bits = {"i32": 32, "i64": 64}.get(dtype)
    # -2147483648 is minus a number that no int holds.
    if bits is not None and whole == -(1 << (bits - 1)):
        return f"INT{bits}_MIN"
    if dtype in ("u32", "u64"):
        return f"UINT{dtype[1:]}_C({whole})"
    return f"INT64_C({whole})" if bits == 64 else str(whole)


def array(values: Iterable[float], dtype: str) -> list[str]:
    """Lines of an initialiser, without its braces."""
    words, lines = [number(value, dtype) for value in values], list[str]()
    line = ""
    # C99 has no empty initialisers.
    for word in words or ["0"]:
        if line and len(line) + len(word) > 92:
            lines.append(f"    {line}")
            line = ""
        line += f"{word}, "
    return [text.rstrip() for text in (*lines, f"    {line}")]


def mentions(lines: Sequence[str], name: str) -> bool:
    """Whether code reads or writes what has a name; a member of a struct may have the same."""
    word = re.compile(rf"(?<!->)(?<!\.)\b{re.escape(name)}\b")
    return any(word.search(line) for line in lines)


def placeholder(symbol: str) -> str:
    """A size or a loop's index whose name in C is still open."""
    return f"@{symbol}@"


def asks(lines: Sequence[str], symbol: str) -> bool:
    """Whether code needs a size or a loop's index."""
    return any(placeholder(symbol) in line for line in lines)


def resolved(lines: Iterable[str], symbols: Mapping[str, str]) -> list[str]:
    """Code with the names that sizes and indices have in C."""
    return [re.sub(r"@(\w+)@", lambda match: symbols[match[1]], line) for line in lines]


def indented(lines: Iterable[str]) -> list[str]:
    """Code one level further in."""
    return [f"    {line}" if line else line for line in lines]


def loops(
    counts: Sequence[tuple[str, str]], body: Callable[[], list[str]], down: bool = False
) -> list[str]:
    """Nested loops: the name of an index and how many there are, for each; `down`: from the end."""
    if not counts:
        return body()
    (name, count), *inner = counts
    head = f"for (int64_t {name} = 0; {name} < {count}; {name}++) {{"
    if down:
        head = f"for (int64_t {name} = {count} - 1; {name} >= 0; {name}--) {{"
    return [head, *indented(loops(inner, body, down)), "}"]


def _product(monomial: tuple[str, ...], coefficient: int) -> str:
    words = [_factor(name) for name in monomial]
    if not words or abs(coefficient) != 1:
        return " * ".join([str(coefficient), *words])
    return ("-" if coefficient < 0 else "") + " * ".join(words)


def _factor(name: str) -> str:
    match name:
        case Quotient():
            return f"rnncc_parts({size(name.inner)}, {name.divisor})"
        case Excess():
            return f"rnncc_larger({size(name.inner)}, 0)"
        case _:
            return f"i{name[1:]}" if name.startswith(AXIS) else placeholder(name)


def _float(value: Any, dtype: str) -> str:
    if np.isnan(value):
        return "NAN"
    if np.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    # NumPy writes the shortest decimal that reads as the same number.
    return f"{value!s}{LETTERS[dtype]}"
