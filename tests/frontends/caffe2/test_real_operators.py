"""Single operators against what the real Caffe2 computed (real_operators.py), gradients too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rnncc.frontends.caffe2 import import_net
from rnncc.ir.interpreter import run
from rnncc.netdef import NetDef

Array = np.ndarray[Any, Any]
FILE = Path(__file__).parents[2] / "data" / "caffe2_operators.npz"
FILLS = {"f": "GivenTensorFill", "i": "GivenTensorIntFill", "b": "GivenTensorBoolFill"}


def arrays_by_case(path: Path) -> dict[str, dict[str, Array]]:
    """What a file of golden data holds of each case."""
    found: dict[str, dict[str, Array]] = {}
    with np.load(path) as arrays:
        for name in arrays.files:
            case, _, member = name.partition("/")
            found.setdefault(case, {})[member] = arrays[name]
    return found


CASES = arrays_by_case(FILE)


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


def results(case: Mapping[str, Array], net: str) -> dict[str, Array]:
    """What the interpreter makes of one of a case's nets; what is no float is filled in."""
    made = NetDef.FromString(case[net].tobytes())
    given = {x: case[f"in:{x}"] for x in made.external_input}
    held = {x: array for x, array in given.items() if array.dtype != np.float32}
    inputs = {x: array for x, array in given.items() if x not in held}
    shapes = {x: array.shape for x, array in inputs.items()}
    program = import_net(made, filled(held), shapes=shapes)
    return run(program, inputs)


def assert_near(got: Array, want: Array, name: str) -> None:
    assert got.shape == want.shape, name
    assert got.dtype.kind == want.dtype.kind, name
    np.testing.assert_allclose(got, want, 2e-5, 1e-5, err_msg=name)


@pytest.mark.parametrize("case", CASES)
def test_outputs(case: str) -> None:
    got = results(CASES[case], "net")
    for name, want in CASES[case].items():
        if name.startswith("out:"):
            assert_near(got[name[4:]], want, name)


@pytest.mark.parametrize("case", [case for case, arrays in CASES.items() if "train" in arrays])
def test_gradient_operators(case: str) -> None:
    got = results(CASES[case], "train")
    for name, want in CASES[case].items():
        if name.startswith("grad:"):
            assert_near(got[name[5:]], want, name)
