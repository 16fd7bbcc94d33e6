"""Single integers and bools known while a net is read: they decide how often loops run."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import prod

from rnncc.netdef import DeclaredFill

Known = tuple[str, int]
"""An element type and a value; a bool is 0 or 1."""

Rule = Callable[[Sequence[Known | None]], Known | None]

NAMES = {"float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64", "bool": "i1"}
"""Our element types by NumPy's names."""

BITS = {"i32": 32, "i64": 64}


def known_fill(fill: DeclaredFill) -> Known | None:
    """What a parameter holds, where it is one integer or bool."""
    if prod(fill.shape) != 1 or fill.dtype.kind not in "ib":
        return None
    return NAMES[fill.dtype.name], int(fill.array(0).reshape(()))


def cast(dtype: str, value: Known) -> Known | None:
    """A value as another element type."""
    if dtype == "i1":
        return "i1", int(value[1] != 0)
    return _wrapped(dtype, value[1]) if dtype in BITS else None


def _wrapped(dtype: str, value: int) -> Known:
    """As the machine counts: past the largest number comes the smallest."""
    half = 1 << (BITS[dtype] - 1)
    return dtype, (value + half) % (2 * half) - half


def _copy(values: Sequence[Known | None]) -> Known | None:
    return values[0]


def _arithmetic(function: Callable[[int, int], int]) -> Rule:
    def rule(values: Sequence[Known | None]) -> Known | None:
        total, *rest = values
        for value in rest:
            if total is None or value is None or total[0] != value[0] or total[0] not in BITS:
                return None
            total = _wrapped(total[0], function(total[1], value[1]))
        return total

    return rule


def _comparison(function: Callable[[int, int], bool]) -> Rule:
    def rule(values: Sequence[Known | None]) -> Known | None:
        a, b = values
        return None if a is None or b is None else ("i1", int(function(a[1], b[1])))

    return rule


def _logical(function: Callable[[int, int], int], decisive: int | None) -> Rule:
    """`decisive`: the value of one side that alone decides."""

    def rule(values: Sequence[Known | None]) -> Known | None:
        a, b = values
        if decisive is not None and ("i1", decisive) in (a, b):
            return "i1", decisive
        return None if a is None or b is None else ("i1", function(a[1], b[1]))

    return rule


def _not(values: Sequence[Known | None]) -> Known | None:
    return None if values[0] is None else ("i1", 1 - values[0][1])


RULES: dict[str, Rule] = {
    **dict.fromkeys(("Copy", "CopyFromCPUInput", "EnsureCPUOutput", "CopyOnDeviceLike"), _copy),
    **dict.fromkeys(
        ("CopyCPUToGPU", "CopyGPUToCPU", "StopGradient", "Alias", "AliasWithName"), _copy
    ),
    **dict.fromkeys(("Add", "Sum"), _arithmetic(operator.add)),
    "Sub": _arithmetic(operator.sub),
    "Mul": _arithmetic(operator.mul),
    "LT": _comparison(operator.lt),
    "LE": _comparison(operator.le),
    "GT": _comparison(operator.gt),
    "GE": _comparison(operator.ge),
    "EQ": _comparison(operator.eq),
    "NE": _comparison(operator.ne),
    "And": _logical(lambda a, b: a & b, 0),
    "Or": _logical(lambda a, b: a | b, 1),
    "Xor": _logical(lambda a, b: a ^ b, None),
    "Not": _not,
}
"""Operator type -> its meaning for single integers and bools, None for what is not known."""
