"""Golden nets that carry their own gradient operators, as machine code, against Caffe2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rnncc_runtime

import rnncc
from tests.frontends.caffe2.train import TRAIN, train_inputs, train_outputs
from tests.golden import KINDS

NETS = [case for case in TRAIN if case in KINDS]
"""One of each kind: tests/frontends interprets all."""


def check(model: Any, case: Path) -> None:
    got = model.run(train_inputs(case))
    for name, want in train_outputs(case).items():
        if name in got or name.endswith("_grad"):
            np.testing.assert_allclose(got[name], want, 1e-4, 2e-5, err_msg=name)


@pytest.mark.parametrize("case", NETS, ids=lambda path: path.name)
def test_in_memory(case: Path) -> None:
    check(rnncc.compile(case / "train.pb", case / "init.pb"), case)


@pytest.mark.slow
@pytest.mark.parametrize("case", TRAIN, ids=lambda path: path.name)
def test_as_a_library(case: Path, tmp_path: Path) -> None:
    made = rnncc.build(case / "train.pb", case / "init.pb", out=tmp_path, products=("so",))
    assert made.library is not None
    check(rnncc_runtime.load(made.library), case)
