"""Golden nets that carry their own gradient operators, in the interpreter, against Caffe2."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rnncc
from rnncc.commands.inspect.inspection import inspect
from rnncc.frontends.caffe2 import import_net
from rnncc.ir.interpreter import run
from rnncc.netdef import NetDef
from rnncc.options import Options
from tests.frontends.caffe2.train import TRAIN, train_inputs, train_outputs


@pytest.mark.parametrize("case", TRAIN, ids=lambda path: path.name)
def test_golden_net_with_its_gradients(case: Path) -> None:
    program = import_net(case / "train.pb", case / "init.pb")
    program.module.verify()
    got = run(program, train_inputs(case), np.float64)
    for name, want in train_outputs(case).items():
        if name in got or name.endswith("_grad"):
            np.testing.assert_allclose(got[name], want, 1e-4, 2e-5, err_msg=name)


@pytest.mark.parametrize("case", TRAIN, ids=lambda path: path.name)
def test_inspect_shows_each_operator_with_its_shapes(case: Path) -> None:
    report = inspect(case / "train.pb", case / "init.pb", Options.of(case / "train.pb", {}))
    assert "problem" not in report
    for operator in report["operators"]:
        for op in (operator, *operator.get("operators", [])):
            assert len(op["output_types"]) == len(op["outputs"])
    gradients = [op for op in report["operators"] if op["type"] == "RecurrentNetworkGradient"]
    for op in gradients:
        assert any("Gradient" in inner["type"] for inner in op["operators"])
    roles = {blob["name"]: blob["role"] for blob in report["blobs"]}
    assert all(roles[name] == "output" for name in roles if name == "x_grad")


@pytest.mark.parametrize("name", ["1", "01", "_1", "1_2"])
def test_blobs_called_by_numbers(name: str) -> None:
    """xDSL drops a number at the end of a value's name; nothing was left of it to copy."""
    net = NetDef(name="n", external_input=[name], external_output=["y"])
    net.op.add(type="Tanh", input=[name], output=["y"])
    assert rnncc.compile(net, train=True, shapes={name: ("N", 3)}).inputs.keys() == {name}
