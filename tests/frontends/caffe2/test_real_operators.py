"""Single operators against what the real Caffe2 computed (real_operators.py), gradients too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from rnncc.frontends.caffe2 import import_net
from rnncc.ir.interpreter import run
from rnncc.netdef import NetDef
from tests.frontends.caffe2.real import OPERATORS as CASES
from tests.frontends.caffe2.real import filled

Array = np.ndarray[Any, Any]


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
