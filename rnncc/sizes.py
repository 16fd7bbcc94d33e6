"""The symbols of sizes that mean something, and what users write about sizes.

`50,8` or `T=50,N=8` are sizes, `64M` bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rnncc.errors import CompileError

TIME, BATCH = "T", "N"
"""The symbols of the steps of a sequence and of its rows, in every shape of every net."""

TYPICAL, TYPICAL_OTHER = {TIME: 50, BATCH: 8}, 50
"""Sizes at which figures are shown unless others are asked for; one for all other symbols."""

_BYTES = re.compile(r"(\d{1,18})([KMG]?)", re.ASCII)
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
SizeValues = str | Sequence[int] | Mapping[str, int] | None


def number_of(text: str) -> int | None:
    """The number from 0 up that a text is, of up to 18 digits; None if it is none.

    Python's `int` raises `ValueError` where there are thousands of digits.
    """
    return int(text) if _NUMBER.fullmatch(text) else None


def parse_sizes(
    text: str | None, symbols: Sequence[str], option: str = "--plan-for"
) -> dict[str, int]:
    """The values of `50,8`, in the order of the symbols, or of `T=50,N=8`.

    Raises:
        CompileError: a symbol is unknown, or a value no number from 0 up, or of over 18 digits.
    """
    sizes: dict[str, int] = {}
    parts = [part.strip() for part in text.split(",")] if text else []
    for place, part in enumerate(parts):
        name, equals, value = (word.strip() for word in part.rpartition("="))
        if not equals:
            name = symbols[place] if place < len(symbols) else f"size number {place + 1}"
        if name not in symbols:
            expected = (
                f"its sizes are {', '.join(symbols)}" if symbols else "its shapes are numbers"
            )
            raise CompileError(option, f"the net has no {name}", expected)
        size = number_of(value)
        if size is None:
            raise CompileError(option, f"{value[:40]!r} is not a number from 0 up to 10**18")
        sizes[name] = size
    return sizes


def given_sizes(values: SizeValues, symbols: Sequence[str]) -> dict[str, int]:
    """As `parse_sizes`, from a text, numbers in the symbols' order, or a mapping."""
    if isinstance(values, Mapping):
        values = ",".join(f"{name}={value}" for name, value in values.items())
    elif values is not None and not isinstance(values, str):
        values = ",".join(map(str, values))
    return parse_sizes(values, symbols)


def all_sizes(
    values: SizeValues, symbols: Sequence[str], needed: Sequence[str], why: str
) -> dict[str, int]:
    """As `given_sizes`, a value for every symbol: 1 for those that no shape has.

    Args:
        needed: the symbols that shapes have.

    Raises:
        CompileError: as for `parse_sizes`; or one of these has no value, which `why` needs.
    """
    sizes = given_sizes(values, symbols)
    if missing := [name for name in needed if name not in sizes]:
        raise CompileError("--plan-for", f"{why} needs a value for {', '.join(missing)}")
    return {name: sizes.get(name, 1) for name in symbols}


def parse_bytes(text: str | int, option: str) -> int:
    """The bytes of `1000`, `64K`, `16M` or `2G`, in powers of 1024.

    Raises:
        CompileError: it is none of them.
    """
    match = _BYTES.fullmatch(str(text))
    if match is None:
        raise CompileError(
            option, f"{str(text)[:40]!r} is not a number of bytes", "such as 65536, 64K, 16M"
        )
    return int(match.group(1)) * _UNITS[match.group(2)]
