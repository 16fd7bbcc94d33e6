"""Nets inside operators: what surgery sees of them, and what it renames there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rnncc.errors import NetError
from rnncc.frontends.caffe2 import import_net
from rnncc.ir.interpreter import run
from rnncc.ir.types import dims_of
from rnncc.netdef import (
    NetDef,
    OperatorDef,
    export,
    extract,
    fuse_copies,
    load,
    prune,
    remove_dead_ops,
    rename_input,
    rename_output,
    ssa_rewrite,
)
from tests.frontends.caffe2.nets import net, op, recurrent, sum_step
from tests.golden import CASES, arrays_of


def branches(then: list[OperatorDef], otherwise: list[OperatorDef] | None = None) -> OperatorDef:
    """If c: write y; it declares neither what its branches read nor that it reads y."""
    nets = {"then_net": net(then, "", "")}
    if otherwise is not None:
        nets["else_net"] = net(otherwise, "", "")
    return op("If", "c", "y", **nets)


def lines(made: NetDef) -> list[str]:
    """The operators, those of nets inside after their own."""
    found: list[str] = []
    for o in made.op:
        found.append(f"{o.type} {' '.join(o.input)} -> {' '.join(o.output)}")
        for arg in o.arg:
            if arg.HasField("n"):
                found += [f"  {line}" for line in lines(arg.n)]
    return found


ONE_BRANCH = net(
    [op("Relu", "x", "h"), op("Tanh", "x", "y"), branches([op("Exp", "h", "y")])], "c x", "y"
)


def test_what_a_branch_reads_or_may_leave_as_it_is_stays() -> None:
    assert prune(ONE_BRANCH) == (ONE_BRANCH, [])
    assert remove_dead_ops(ONE_BRANCH, nested=True) == ONE_BRANCH
    assert lines(remove_dead_ops(ONE_BRANCH))[0] == "If c -> y"
    both = [op("Relu", "x", "h"), op("Tanh", "x", "dead"), ONE_BRANCH.op[2]]
    assert [r.output for r in prune(net(both, "c x", "y"))[1]] == ["dead"]
    assert extract(ONE_BRANCH, ["y"]).op == ONE_BRANCH.op
    assert list(export(ONE_BRANCH, {})[1].external_input) == ["c", "x"]


def test_a_name_is_followed_into_branches_if_asked() -> None:
    made = rename_output(ONE_BRANCH, 0, 0, "new", nested=True)
    assert lines(made)[0] == "Relu x -> new"
    assert lines(made)[-1] == "  Exp new -> y"
    assert lines(rename_output(ONE_BRANCH, 0, 0, "new"))[-1] == "  Exp h -> y"


def test_what_a_branch_writes_keeps_one_name_with_what_it_leaves() -> None:
    made = rename_output(ONE_BRANCH, 1, 0, "new", nested=True)
    assert lines(made) == ["Relu x -> h", "Tanh x -> new", "If c -> new", "  Exp h -> new"]
    assert list(made.external_output) == ["new"]
    ops = [op("Relu", "x", "y"), *ONE_BRANCH.op]
    made = ssa_rewrite(net(ops, "c x", "y"), nested=True)
    assert lines(made)[0] == "Relu x -> y_1"
    assert lines(made)[2:] == ["Tanh x -> y_2", "If c -> y_2", "  Exp h -> y_2"]
    assert list(made.external_output) == ["y_2"]


def test_an_input_that_a_branch_overwrites_is_renamed_at_both_ends() -> None:
    only = net([branches([op("Exp", "y", "y")])], "c y", "y")
    made = rename_output(only, 0, 0, "new", nested=True)
    assert lines(made) == ["If c -> new", "  Exp new -> new"]
    assert list(made.external_input) == ["c", "new"]
    assert list(made.external_output) == ["new"]


def test_branches_in_branches_are_followed() -> None:
    inner = branches([op("Exp", "h", "y")], [op("Relu", "t", "y")])
    outer = branches([op("Tanh", "x", "t"), inner])
    whole = net([op("Relu", "x", "h"), outer], "c x", "y")
    made = rename_output(whole, 0, 0, "new", nested=True)
    assert "    Exp new -> y" in lines(made)
    assert prune(whole)[1] == []


def test_a_loop_reads_what_its_condition_does_not_write() -> None:
    step = net([op("Add", "i one", "i"), op("LT", "i n", "c")], "", "")
    body = net([op("Mul", "y w", "y"), op("Tanh", "i", "seen")], "", "")
    loop = op("While", "c", "y", cond_net=step, loop_net=body)
    fills = [
        op("Copy", "x", "y"),
        op("Relu", "u", "w"),
        op("Copy", "u", "i"),
        op("Relu", "u", "dead"),
    ]
    made, gone = prune(net([*fills, loop], "c x u one n", "y"))
    assert [r.output for r in gone] == ["dead"]
    assert lines(made)[:3] == ["Copy x -> y", "Relu u -> w", "Copy u -> i"]


def test_copies_that_a_branch_reads_by_name_stay() -> None:
    ops = [op("CopyCPUToGPU", "x", "b"), op("CopyGPUToCPU", "b", "h"), ONE_BRANCH.op[2]]
    whole = net(ops, "c x", "y")
    assert fuse_copies(whole) == whole
    assert prune(whole) == (whole, [])


def test_the_names_of_nets_inside_are_taken() -> None:
    inner = branches([op("Exp", "h", "local"), op("Copy", "local", "y")])
    whole = net([op("Relu", "x", "h"), inner], "c x", "y")
    with pytest.raises(NetError, match='the name "local" is taken'):
        rename_output(whole, 0, 0, "local")


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_inputs_and_outputs_of_recurrent_nets_have_other_names(case: Path) -> None:
    """The first RecurrentNetwork's inputs and outputs are renamed, and the net runs as before."""
    whole, init = load(case / "net.pb"), load(case / "init.pb")
    index = next((i for i, o in enumerate(whole.op) if o.type == "RecurrentNetwork"), None)
    if index is None or any(a.name == "backward_step_net" for a in whole.op[index].arg):
        pytest.skip("no RecurrentNetwork, or one with a gradient")
    made, made_init = whole, init
    names: dict[str, str] = {}
    for position, name in enumerate(whole.op[index].input):
        try:
            new = f"new_{position}"
            made, made_init = rename_input(made, made_init, index, position, new)
            names[name] = new
        except NetError as error:
            assert "only one of them would be renamed" in str(error)
    for position, name in enumerate(whole.op[index].output):
        made = rename_output(made, index, position, f"out_{position}")
        names[name] = f"out_{position}"
    assert len(names) > 3
    inputs = {names.get(n, n): a for n, a in arrays_of(case, "in:").items()}
    program = import_net(made, made_init)
    for name, value in program.net.inputs.items():
        if name not in inputs:  # Caffe2 filled it with zeros while it made the net
            inputs[name] = np.zeros([int(d) for d in dims_of(value)], np.float32)
    got = run(program, {n: inputs[n] for n in program.net.inputs})
    for name, array in arrays_of(case, "out:").items():
        if names.get(name, name) in got:
            np.testing.assert_allclose(got[names.get(name, name)], array, 1e-5, 1e-5, err_msg=name)


def test_a_step_net_in_text_form_is_renamed_in() -> None:
    step = net([op("Sum", "h_prev x_t w", "s"), op("Tanh", "s", "h")], "", "h", "step")
    text = str(step)
    whole = net([recurrent(text, inputs="x h0 w")], "x h0 w", "h_all h_last")
    made, _ = rename_input(whole, NetDef(), 0, 2, "new")
    (inside,) = (arg.s.decode() for arg in made.op[0].arg if arg.name == "step_net")
    assert '"new"' in inside
    assert '"w"' not in inside
    assert list(made.op[0].input) == ["x", "h0", "new"]


def test_what_a_gradient_knows_by_name_is_not_renamed() -> None:
    back = net([op("Copy", "h_grad", "x_t_grad")], "", "")
    whole = net([recurrent(sum_step(), backward_step_net=back)], "x h0", "h_all h_last")
    with pytest.raises(NetError, match=r'op 0 .RecurrentNetwork "h_all".*the gradient knows "x"'):
        rename_input(whole, NetDef(), 0, 0, "new")


def test_a_do_may_write_what_it_declares_as_an_input() -> None:
    """A binding is an alias: x is written inside, and then read outside."""
    inside = net([op("Exp", "i", "i"), op("Exp", "i", "local")], "", "")
    do = op("Do", "x scope", "scope", net=inside, inner_blobs=["i"], outer_blobs_idx=[0])
    whole = net([op("CreateScope", "", "scope"), do, op("Tanh", "x", "y")], "x", "y")
    assert prune(whole) == (whole, [])
    assert list(extract(whole, ["x"]).op) == list(whole.op[:2])
    made = ssa_rewrite(whole, nested=True)
    assert lines(made)[1:] == ["Do x scope -> scope", *lines(whole)[2:4], "Tanh x -> y"]


def test_a_branch_in_text_form_is_followed() -> None:
    branch = str(net([op("Exp", "h", "y")], "", ""))
    whole = net([op("Relu", "x", "h"), op("If", "c", "y", then_net=branch)], "c x", "y")
    assert prune(whole) == (whole, [])
    made = rename_output(whole, 0, 0, "new", nested=True)
    assert '"new"' in made.op[1].arg[0].s.decode()
    with pytest.raises(NetError, match="taken"):
        rename_output(net([op("Relu", "x", "z"), *whole.op], "c x", "y"), 0, 0, "h")
