"""The metadata of a library (docs/abi.md): JSON in, a mapping whose entries are of their types out.

`describe` reads libraries that nobody runs, whose metadata may hold anything.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, cast

from rnncc_runtime.arrays import DTYPES
from rnncc_runtime.compiled import check_format
from rnncc_runtime.errors import LoadError
from rnncc_runtime.sizes import parse_largest

_SIZE = "formula"
"""A number from 0 up, or a formula of the library's sizes."""
_PORT: dict[str, Any] = {"name": str, "dtype": {*DTYPES}, "shape": [_SIZE]}
_PORTS, _TEXTS = [_PORT], [str]
_FORMS: dict[str, Any] = {
    **dict.fromkeys(("rnncc", "name", "target", "cpu"), str),
    **dict.fromkeys(("symbols", "sizes", "features?"), _TEXTS),
    **dict.fromkeys(("inputs", "outputs", "parameters"), _PORTS),
    **dict.fromkeys(("workspace", "weights?"), _SIZE),
    "functions": {"*": int},
    "stream?": {
        "state?": _SIZE,
        "slots?": [{**_PORT, "offset": _SIZE}],
        "starts?": {"*": object},
    },
    **dict.fromkeys(("trained?", "output_grads?", "grads?"), _PORTS),
    **dict.fromkeys(("kept?", "texts?", "images?"), _TEXTS),
    **dict.fromkeys(("tape?", "packed?", "max_steps?", "line?"), _SIZE),
    **dict.fromkeys(("device?", "denormals?", "precision?", "tuned?"), str),
    "versions?": [{"cpu": str, "tuned?": str, "features": [str], "workspace": _SIZE}],
    "bounds?": [_SIZE],
    "counts?": {"*": [object]},
}
"""Of entries: a type; one of several texts; a list of them; a record, whose names that end with ?
may be missing; or by any names. What is not here is as it is."""


def read_metadata(path: str, text: bytes | None) -> dict[str, Any]:
    """What a library tells of itself.

    Raises:
        LoadError: it is no JSON, of another format, or an entry is missing or not of its type.
    """
    try:
        read = json.loads(text or b"")
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, dict):
        raise LoadError(f"{path}: its metadata cannot be read")
    described = cast("dict[str, Any]", read)
    check_format(described, f"{path}: ")
    symbols = described.get("symbols")
    known = cast("list[object]", symbols) if isinstance(symbols, list) else []
    for key, form in _FORMS.items():
        if not _fits_at(described, key, form, known):
            raise LoadError(f"{path}: its metadata lacks {key.removesuffix('?')}, or it is damaged")
    return described


def _fits(value: Any, form: Any, symbols: Collection[object]) -> bool:
    """Whether a part of the metadata is of a form."""
    match form:
        case str():
            return _is_size(value, symbols)
        case [inner]:
            return isinstance(value, list) and all(
                _fits(part, inner, symbols) for part in cast("list[Any]", value)
            )
        case dict():
            forms = cast("dict[str, Any]", form)
            return isinstance(value, dict) and all(
                _fits_at(cast("dict[str, Any]", value), name, inner, symbols)
                for name, inner in forms.items()
            )
        case set():
            return isinstance(value, str) and value in cast("set[str]", form)
        case _:
            return isinstance(value, form)


def _fits_at(value: Mapping[str, Any], name: str, form: Any, symbols: Collection[object]) -> bool:
    """The same of an entry, or of all entries."""
    if name == "*":
        return all(_fits(part, form, symbols) for part in value.values())
    key = name.removesuffix("?")
    return _fits(value[key], form, symbols) if key in value else key != name


def _is_size(value: object, symbols: Collection[object]) -> bool:
    """Whether it is a number from 0 up, or a formula of these symbols."""
    if not isinstance(value, str):
        return type(value) is int and value >= 0  # no truth value
    if value.isidentifier():  # as most are, and formulas take longer to parse
        return value in symbols
    try:
        return all(size.symbols.issubset(symbols) for size in parse_largest(value))
    except LoadError:
        return False
