"""Gradients in one program with the net, compiled without passes, against Caffe2.

tests/training compiles those of all golden nets, as users do.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.frontends.caffe2 import import_net
from rnncc.passes.cleanup.simplify import Simplify
from rnncc.passes.gradients.differentiate import differentiate
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.codegen.random_programs import as_it_is
from tests.golden import KINDS, arrays_of, random_inputs, sizes_of
from tests.passes.gradients import sunk


@pytest.mark.parametrize("case", KINDS, ids=lambda path: path.name)
def test_golden_nets(case: Path) -> None:
    program = import_net(case / "net.pb", case / "init.pb")
    Simplify().rewrite(program.net)
    inputs, weights, want = (arrays_of(case, f"{p}:") for p in ("in", "weight", "grad"))
    sizes = sizes_of(program, inputs)
    inputs = {**random_inputs(program, sizes), **inputs}
    inputs |= {f"grad:{name}": array for name, array in weights.items()}
    both = differentiate(program, list(weights), list(want))
    sunk(both)
    bare = Bare(as_it_is(both), resolve_target())
    for end in (False, True):
        with guards(end) as memory:
            got = bare.run(inputs, sizes, memory)
        for name, array in want.items():
            np.testing.assert_allclose(got[f"grad:{name}"], array, 1e-4, 2e-5, err_msg=name)
