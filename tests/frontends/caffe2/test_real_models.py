"""Caffe2's own models against what the real Caffe2 computed (real_models.py): translators that are
trained and that search with a beam, a conditional random field."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

import rnncc
from rnncc.frontends.caffe2 import import_net
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.netdef import NetDef, extract, remove_dead_ops, rename_output, ssa_rewrite
from tests.frontends.caffe2.real import MODELS, Array, assert_near, net_of

SHAPES = {
    "train": dict.fromkeys(("decoder_inputs", "targets", "target_weights"), "U,N"),
    "beam": {"encoder_inputs": "S,1", "encoder_lengths": "1"},
    "crf": {},
}


def imported(name: str, case: Mapping[str, Array]) -> tuple[Program, dict[str, Array]]:
    """A model as a program, with its inputs in the types that it reads."""
    net, init, inputs = net_of(case)
    program = import_net(net, init, shapes=SHAPES[name.partition("-")[0]])
    # nothing tells that the labels of a field are integers
    return program, {n: a.astype(np.float32) if n == "labels" else a for n, a in inputs.items()}


@pytest.mark.parametrize("name", MODELS)
def test_outputs_and_gradients(name: str) -> None:
    program, inputs = imported(name, MODELS[name])
    assert_near(run(program, inputs), MODELS[name])


CHANGES: dict[str, Callable[[NetDef, NetDef], NetDef]] = {
    "extract": lambda net, init: extract(net, net.external_output),
    "remove_dead_ops": lambda net, init: remove_dead_ops(net, nested=True),
    "rename_output": lambda net, init: rename_output(net, 3, 0, "first", nested=True),
    "ssa_rewrite": lambda net, init: ssa_rewrite(net, init, nested=True),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_nets_compute_the_same(change: str) -> None:
    """Steps read blobs of the net around that the loop does not declare."""
    case = MODELS["beam-attention-2"]
    net, init, inputs = net_of(case)
    changed = CHANGES[change](net, init)
    assert_near(run(import_net(changed, init, shapes=SHAPES["beam"]), inputs), case)


@pytest.mark.parametrize("name", ["beam-attention-5", "crf-6"])
def test_compiled(name: str) -> None:
    net, init, inputs = net_of(MODELS[name])
    model = rnncc.compile(net, init, shapes=SHAPES[name.partition("-")[0]])
    given = {n: array.astype(model.inputs[n].dtype) for n, array in inputs.items()}
    assert_near(model.run(given), MODELS[name])
