"""What users write for inputs that are constants: `--bind sr=16000`, `bind={"sr": 16000}`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from rnncc.errors import CompileError, Location

Number = float | int | bool
Constant = Number | list[Any]
"""A number, or lists of them: what JSON can say."""
Constants = Mapping[str, Constant]
"""Input -> what it is from now on."""
FORM = "is not of the form INPUT=NUMBER or INPUT=[NUMBER, ...]"


def parse_constants(bind: Any) -> dict[str, Constant]:
    """Constants by input, from a mapping of numbers, lists and arrays, or from texts.

    Raises:
        CompileError: something else, or an input that is given twice.
    """
    if isinstance(bind, Mapping):
        pairs = list(cast("Mapping[Any, Any]", bind).items())
    else:
        pairs = [_parse(text) for text in ([bind] if isinstance(bind, str) else bind)]
    constants = dict[str, Constant]()
    for name, value in pairs:
        if name in constants:
            raise CompileError(_place(name), "is given twice")
        constants[str(name)] = _plain(value, _place(name))
    return constants


def _parse(text: object) -> tuple[str, Any]:
    name, equals, value = str(text).rpartition("=")
    try:
        if equals and name:
            return name, json.loads(value)
    except (ValueError, RecursionError):
        pass
    raise CompileError("--bind", f"{str(text)[:60]!r} {FORM}")


def _plain(value: Any, place: Location) -> Constant:
    """Numbers in lists of one length each."""
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError, RecursionError):
        raise CompileError(place, "has rows of different lengths, or is too deep") from None
    if array.dtype.kind not in "biuf" or array.size == 0:
        raise CompileError(place, "is neither a number nor numbers in lists")
    return array.tolist()


def _place(name: object) -> Location:
    return Location("", f"--bind {name}")
