"""What the real Caffe2 computed: golden data by case, and nets that fill arrays in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rnncc.netdef import NetDef

Array = np.ndarray[Any, Any]
DATA = Path(__file__).parents[2] / "data"
FILLS = {"f": "GivenTensorFill", "i": "GivenTensorIntFill", "b": "GivenTensorBoolFill"}


def arrays_by_case(path: Path) -> dict[str, dict[str, Array]]:
    """What a file of golden data holds of each case."""
    found: dict[str, dict[str, Array]] = {}
    with np.load(path) as arrays:
        for name in arrays.files:
            case, _, member = name.partition("/")
            found.setdefault(case, {})[member] = arrays[name]
    return found


def filled(arrays: Mapping[str, Array]) -> NetDef:
    """An init net."""
    init = NetDef(name="init")
    for name, array in arrays.items():
        kind = "GivenTensorInt64Fill" if array.dtype == np.int64 else FILLS[array.dtype.kind]
        fill = init.op.add(type=kind, output=[name])
        fill.arg.add(name="shape").ints.extend(array.shape)
        values = fill.arg.add(name="values")
        if array.dtype.kind == "f":
            values.floats.extend(array.ravel())
        else:
            values.ints.extend(array.astype(int).ravel())
    return init


OPERATORS = arrays_by_case(DATA / "caffe2_operators.npz")
NETS = arrays_by_case(DATA / "caffe2_nets.npz")
MODELS = arrays_by_case(DATA / "caffe2_models.npz")
