"""The whole sequence on nets that Caffe2 ran: the same values, products where they belong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rnncc.frontends.caffe2 import import_net
from rnncc.ir.interpreter import run
from rnncc.ir.ops.control import Scan
from tests.golden import CASES, GOLDEN
from tests.passes.helpers import count, whole_sequence
from tests.strategies import SIZES, make_inputs


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_sequence_keeps_values(case: Path):
    program = import_net(case / "net.pb", case / "init.pb")
    sizes = dict.fromkeys(program.symbols, 4) | SIZES
    _, inputs = make_inputs(program, sizes)
    before = run(program, inputs, np.float64, sizes)
    whole_sequence(program)
    program.module.verify()
    known = {n: a for n, a in inputs.items() if n in program.net.inputs or n in program.params}
    after = run(program, known, np.float64, sizes)
    for name, array in before.items():
        # Folded parameters are rounded to float32.
        np.testing.assert_allclose(after[name], array, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("name", ["lstm", "lstm_two_layers", "lstm_last_only", "basic_rnn_tanh"])
def test_one_product_a_layer_stays_in_the_loop(name: str):
    case = GOLDEN / "caffe2" / name
    program = import_net(case / "net.pb", case / "init.pb")
    whole_sequence(program)
    scans = [op for op in program.net.walk() if isinstance(op, Scan)]
    assert [count(scan.body.block)["matmul"] for scan in scans] == [1] * len(scans)
    top = count(program.net.body.block)
    assert (top["matmul"], top["add"]) == (len(scans), len(scans))
    assert all(count(scan.body.block)["reshape"] == 0 for scan in scans)
