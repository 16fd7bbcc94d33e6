"""Whether a Reshape before FC only flattens its data as FC would: to a matrix, keeping axis 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np

from rnncc.netdef.arguments import Arguments
from rnncc.netdef.checks import locate
from rnncc.netdef.netdef_pb2 import NetDef
from rnncc.netdef.reshapes import Flattening
from rnncc.netdef.versions import Steps, Value

Array = np.ndarray[Any, Any]
Sizes = list[int | str]
"""A shape's entries; "first" is the data's first size, and "shape" stands for all its sizes."""


def flattens(
    net: NetDef, steps: Steps, flattening: Flattening, params: Mapping[str, Array]
) -> bool:
    """Whether FC computes the same from the data itself.

    FC flattens what it reads to a matrix, all axes from the second on becoming one; so a Reshape
    to [first size, -1] changes nothing where the data has two axes or more, as it has where FC's
    weight has more than one column.
    """
    sizes = _shape_of(net, steps, flattening, params)
    if sizes not in ([0, -1], ["first", -1]):
        return False
    for op, index in flattening.readers:
        args = Arguments(net.op[op], locate(net, op))
        name, version = steps[op][0][1] if len(steps[op][0]) > 1 else ("", 1)
        weight = params.get(name) if version == 0 else None
        wide = weight is not None and weight.ndim == 2 and weight.shape[1] > 1
        if index != 0 or not wide or args.int("axis", 1) != 1 or args.int("axis_w", 1) != 1:
            return False
    return True


def _shape_of(
    net: NetDef, steps: Steps, flattening: Flattening, params: Mapping[str, Array]
) -> Sizes | None:
    """The shape that the Reshape gives its data; None if it is not known."""
    contents: dict[Value, Sizes] = {}
    for name in flattening.inputs:
        array = params.get(name)
        if array is not None and array.ndim == 1 and array.dtype.kind == "i" and array.size < 9:
            contents[name, 0] = array.tolist()
    for index in sorted(flattening.ops - {flattening.reshape}):
        inputs, outputs = steps[index]
        args = Arguments(net.op[index], locate(net, index))
        sizes = _sizes(net.op[index].type, args, inputs, flattening.data, contents)
        if sizes is not None:
            contents[outputs[0]] = sizes
    reshape = net.op[flattening.reshape]
    if len(reshape.input) == 1:
        return [
            int(size) for size in Arguments(reshape, locate(net, flattening.reshape)).ints("shape")
        ]
    return contents.get(steps[flattening.reshape][0][1])


def _sizes(
    kind: str, args: Arguments, inputs: Sequence[Value], data: Value, known: Mapping[Value, Sizes]
) -> Sizes | None:
    """What an operator makes of sizes: those that flattening nets are built with."""
    if kind == "Shape" and "axes" not in args:
        return ["shape"] if inputs[0] == data else None
    parts = [known.get(value) for value in inputs]
    if kind == "Slice" and parts == [["shape"]]:
        first = list(args.ints("starts")) == [0] and list(args.ints("ends")) == [1]
        return ["first"] if first else None
    if kind == "Concat" and args.int("axis", 1) == 0 and not args.flag("add_axis"):
        return [size for part in parts for size in part] if _whole(parts) else None
    return parts[0] if kind in ("Cast", "Copy") and len(parts) == 1 else None


def _whole(parts: Sequence[Sizes | None]) -> TypeGuard[Sequence[Sizes]]:
    return all(part is not None for part in parts)
