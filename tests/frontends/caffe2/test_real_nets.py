"""Random recurrent nets against what the real Caffe2 computed (real_nets.py), gradients too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from rnncc.frontends.caffe2 import import_net
from rnncc.ir.interpreter import run
from rnncc.netdef import NetDef
from tests.frontends.caffe2.real import NETS as CASES
from tests.frontends.caffe2.real import filled

Array = np.ndarray[Any, Any]


def results(case: Mapping[str, Array], net: str) -> dict[str, Array]:
    """What the interpreter makes of one of a case's nets."""
    init = filled({name[6:]: array for name, array in case.items() if name.startswith("param:")})
    program = import_net(NetDef.FromString(case[net].tobytes()), init)
    return run(program, {name: case[f"in:{name}"] for name in program.net.inputs})


def assert_near(got: Mapping[str, Array], case: Mapping[str, Array], kind: str) -> None:
    for name, want in case.items():
        if name.startswith(kind):
            scale = max(1.0, float(np.abs(want).max(initial=0.0)))
            mine = got[name.removeprefix(kind)]
            np.testing.assert_allclose(mine, want, 1e-4, 3e-5 * scale, err_msg=name)


@pytest.mark.parametrize("case", CASES)
def test_outputs_and_gradients(case: str) -> None:
    assert_near(results(CASES[case], "net"), CASES[case], "out:")
    assert_near(results(CASES[case], "train"), CASES[case], "grad:")
