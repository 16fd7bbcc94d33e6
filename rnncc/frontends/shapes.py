"""Shapes as users give them: `("T", "N", 40)` or `"T,N,40"`."""

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

_SYMBOL = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")


def parse_shape(shape: Shape, place: Location) -> list[Dim | None]:
    """Numbers and symbols; None where None or `?` leaves a size to the net.

    Raises:
        CompileError: something else.
    """
    if isinstance(shape, str):
        shape = [part.strip() for part in shape.split(",")] if shape.strip() else []
    return [_parse_size(size, place) for size in shape]


def _parse_size(size: Size, place: Location) -> Dim | None:
    if size is None or size == "?":
        return None
    if isinstance(size, str) and _SYMBOL.match(size):
        return Dim.of(size)
    try:
        number = int(size) if isinstance(size, str) else index(size)
    except (TypeError, ValueError):
        number = -1
    if number < 1:
        what = f"{size!r} is no size"
        raise CompileError(place, what, "sizes are numbers from 1, names such as N, or ?")
    return Dim.of(number)
