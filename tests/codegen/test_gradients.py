"""Compiled gradients of the golden nets against Caffe2."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rnncc.codegen.cpu.machines import resolve_target
from rnncc.frontends.caffe2 import import_net
from rnncc.passes.differentiate import differentiate
from rnncc.passes.simplify import Simplify
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.codegen.test_golden import fix_unrolled, sizes_of
from tests.codegen.test_random import as_it_is
from tests.golden import CASES, arrays_of, random_inputs
from tests.passes.test_sink import sunk


@pytest.mark.skipif(not CASES, reason="no golden data here")
@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_golden_nets(case: Path) -> None:
    program = import_net(case / "net.pb", case / "init.pb")
    Simplify().rewrite(program.net)
    inputs, weights, want = (arrays_of(case, f"{p}:") for p in ("in", "weight", "grad"))
    sizes = sizes_of(program, inputs)
    inputs = {**random_inputs(program, sizes), **inputs}
    fix_unrolled(inputs)
    inputs |= {f"grad:{name}": array for name, array in weights.items()}
    both = differentiate(program, list(weights), list(want))
    sunk(both)
    bare = Bare(as_it_is(both), resolve_target())
    for end in (False, True):
        with guards(end) as memory:
            got = bare.run(inputs, sizes, memory)
        for name, array in want.items():
            np.testing.assert_allclose(got[f"grad:{name}"], array, 1e-4, 2e-5, err_msg=name)
