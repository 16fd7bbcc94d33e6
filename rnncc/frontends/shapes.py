"""Shapes as users give them: `("T", "N", 40)` or `"T,N,40"`; a size may be a formula, `4*W`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from operator import index

from rnncc.errors import CompileError, Location
from rnncc.ir.dims import Dim

Size = int | str | None
Shape = Sequence[Size] | str
Sizes = Mapping[str, Shape]
"""Input -> its shape."""

_PRODUCT = r"(?:\d{1,9}|[A-Za-z][A-Za-z0-9_]*)(?: *\* *(?:\d{1,9}|[A-Za-z][A-Za-z0-9_]*))*"
_FORMULA = re.compile(rf"(?=.*[A-Za-z]) *{_PRODUCT}(?: *\+ *{_PRODUCT})* *\Z")


def parse_shape(shape: Shape, place: Location) -> list[Dim | None]:
    """Numbers and formulas of symbols; None where None or `?` leaves a size to the net.

    Raises:
        CompileError: something else.
    """
    if isinstance(shape, str):
        shape = [part.strip() for part in shape.split(",")] if shape.strip() else []
    return [_parse_size(size, place) for size in shape]


def _parse_size(size: Size, place: Location) -> Dim | None:
    if size is None or size == "?":
        return None
    if isinstance(size, str) and _FORMULA.match(size):
        return Dim.parse(size)
    try:
        number = int(size) if isinstance(size, str) else index(size)
    except (TypeError, ValueError):
        number = -1
    if number < 1:
        what = f"{size!r} is no size"
        raise CompileError(
            place,
            what,
            "sizes are numbers from 1, names such as N, formulas such as 4*W, or ?",
        )
    return Dim.of(number)
