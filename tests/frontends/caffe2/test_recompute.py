"""A net's own choice of what the backward pass computes again, from its argument to the choice."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnncc.frontends.caffe2 import import_net
from rnncc.ir.ops.linear import Matmul
from rnncc.ir.program import Program
from rnncc.ir.rewriting import scans_of
from rnncc.netdef import NetDef, load
from rnncc.options import Options
from rnncc.passes.gradients.differentiate import differentiate
from rnncc.passes.gradients.rematerialise import AllSteps, rematerialise
from tests.compiling import training_of
from tests.frontends.caffe2.train import TRAIN
from tests.frontends.caffe2.training_nets import forward, training_net

CASES = [case for case in TRAIN if case.name.endswith("recompute")]
SHAPE = {"x": "T,N,4"}
SAVED: dict[str, set[str | None]] = {
    "lstm_recompute": set(),
    "milstm_recompute": {
        "rnn_prev_t",
        "rnn_alpha_by_input_t_plus_beta_h",
        "rnn_beta_i_by_input_t_plus_b",
    },
    # its unit reads a copy that is not named
    "milstm_reshape_recompute": {"mi_prev_t", None, "f", "g", "i", "o", "live"},
    "sum_cell_recompute": {"act", "fc"},
}
"""What is kept of each step beside the outputs; None, gates and `live` are what an operator
computes on the way. Products that only a sum reads are no values of their own."""


def forward_part(case: Path) -> NetDef:
    """A net for training without its loss and gradients."""
    net = load(case / "train.pb")
    last = next(i for i, op in enumerate(net.op) if op.type == "RecurrentNetwork")
    del net.op[last + 1 :]
    net.external_input.remove("loss_weight_0")
    return net


def small(names: list[str]) -> Program:
    made = training_net(forward(recompute_blobs_on_backward=names))
    made.external_input.remove("dh")
    return import_net(made, shapes=SHAPE)


def test_names_are_those_of_values_in_the_loop() -> None:
    program = small(["gates", "what the step does not write"])
    assert program.recompute == {"gates"}
    (scan,) = scans_of(program.net.body.block)
    named = [op for op in scan.body.block.ops if any(v.name_hint == "gates" for v in op.results)]
    assert len(named) == 4
    assert isinstance(named[0], Matmul)  # with all that FC computes
    assert small([]).recompute == frozenset()
    assert program.copy().recompute == {"gates"}


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_named_values_are_computed_again_and_nothing_else(case: Path) -> None:
    program = import_net(forward_part(case), case / "init.pb")
    assert program.recompute
    program = training_of(program, Options(train=True), "simplify-hoisted").programs["net"]
    outputs = [next(iter(program.net.outputs))]
    made = differentiate(program, outputs, list(program.net.inputs)[:1])
    saved = names_saved(made, made.recompute)
    assert saved == SAVED[case.name]
    assert not saved & made.recompute


def names_saved(program: Program, rule: str | frozenset[str]) -> set[str | None]:
    """What the values are called that a rule keeps for all steps."""
    choice = rematerialise(program, rule)
    return {node.row.name_hint for node in choice.saved if isinstance(node, AllSteps)}
