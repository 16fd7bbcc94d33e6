"""The golden cases in which the original breaks a net or answers arbitrarily: what ours does."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from rnncc.errors import NetError
from rnncc.netdef import (
    NetDef,
    export,
    fuse_copies,
    infer_devices,
    load,
    parameters,
    remove_dead_ops,
    remove_reshape_before_fc,
    rename_input,
    rename_output,
    reshape_subgraphs,
    ssa_rewrite,
)
from tests.netdef.graph_cases import GRAPH, QUIRKS

FUSE, RESHAPE = "fuse_copy_between_cpu_and_gpu", "remove_reshape_for_fc"
PARAMS = ["w", "b", "minus", "w1", "b1", "minus2", "w2", "b2"]


def given(function: str, case: str) -> NetDef:
    return load(GRAPH / function / case / "net.pb")


def lines(net: NetDef) -> list[str]:
    return [f"{op.type} {' '.join(op.input)} -> {' '.join(op.output)}" for op in net.op]


def test_every_case_that_is_listed_as_different_has_its_expectation_here() -> None:
    listed = json.loads((GRAPH / "quirks.json").read_text())
    del listed["about"], listed["random"], listed["export"]["about"]
    named = {(function, case) for function, cases in listed.items() for case in cases}
    as_golden = {
        ("identify_reshape_sub_graph", "window_far"),
        (RESHAPE, "window_far"),
        ("ssa_rewrite", "unknown_output"),
    }
    assert named - as_golden | {("remove_dead_end_ops", "random_3")} == QUIRKS


def test_what_a_live_operator_reads_is_live() -> None:
    net = given("remove_dead_end_ops", "live_and_dead_reader")
    assert lines(remove_dead_ops(net)) == ["Relu x -> h", "Tanh h -> y"]
    net = given("remove_dead_end_ops", "random_3")
    assert [op.output[0] for op in remove_dead_ops(net).op] == [
        "in2",
        "t1_0",
        "t1_0",
        "in2",
        "in2",
        "t6_0",
    ]


@pytest.mark.parametrize(
    ("case", "first"), [("window_cut", 1), ("window_far", 22), ("window_lost", 1)]
)
def test_reshapes_are_found_and_removed_in_nets_of_any_size(case: str, first: int) -> None:
    net = given("identify_reshape_sub_graph", case)
    assert reshape_subgraphs(net) == [list(range(first, first + 5))]
    net = given(RESHAPE, case)
    made, params = remove_reshape_before_fc(net, PARAMS)
    wanted = [line for i, line in enumerate(lines(net)) if not first <= i < first + 5]
    assert lines(made) == [line.replace("FC r", "FC h") for line in wanted]
    assert "minus" not in params
    assert "minus" not in made.external_input


@pytest.mark.parametrize("case", ["data_overwritten", "output_of_net", "no_consumer"])
def test_a_reshape_stays_where_its_readers_would_see_another_value(case: str) -> None:
    net = given(RESHAPE, case)
    assert remove_reshape_before_fc(net, PARAMS) == (net, PARAMS)


def test_a_parameter_stays_while_anything_reads_it() -> None:
    net = given(RESHAPE, "param_used_elsewhere")
    made, params = remove_reshape_before_fc(net, PARAMS)
    assert lines(made) == ["FC x w b -> h", "FC h w1 b1 -> y", "Cast minus -> z"]
    assert params == PARAMS
    assert list(made.external_input) == list(net.external_input)


def test_a_parameter_of_two_reshapes_goes_once() -> None:
    made, params = remove_reshape_before_fc(given(RESHAPE, "shared_param"), PARAMS[:5])
    assert lines(made) == ["FC x w b -> h", "FC h w1 b1 -> y", "FC y w1 b1 -> z"]
    assert params == list(made.external_input)[1:] == ["w", "b", "w1", "b1"]


@pytest.mark.parametrize(
    ("case", "want"),
    [
        ("two_readers", ["Relu a -> y", "Tanh a -> z"]),
        ("read_twice", ["Mul a a -> y"]),
        ("no_second_reader", ["Relu a -> y"]),
        ("half_done", ["Relu a -> y"]),
    ],
)
def test_every_reader_of_a_copy_back_reads_the_source(case: str, want: list[str]) -> None:
    assert lines(fuse_copies(given(FUSE, case))) == want


def test_a_copy_of_what_is_overwritten_stays() -> None:
    net = given(FUSE, "overwritten")
    assert fuse_copies(net) == net


@pytest.mark.parametrize("case", ["taken", "back"])
def test_an_output_takes_no_name_that_is_taken(case: str) -> None:
    args = json.loads((GRAPH / "rename_op_output" / case / "case.json").read_text())["args"]
    with pytest.raises(NetError, match=f'the name "{args["new_name"]}" is taken'):
        rename_output(given("rename_op_output", case), 0, 0, args["new_name"])


def test_an_input_takes_no_name_that_is_taken() -> None:
    net = given("rename_op_input", "taken")
    with pytest.raises(NetError, match='the name "w" is taken'):
        rename_input(net, NetDef(), 0, 0, "w")
    init = NetDef.FromString((GRAPH / "rename_op_input" / "param" / "init.pb").read_bytes())
    kept = [name for op in init.op for name in op.output if name not in net.external_input]
    for name in kept:
        with pytest.raises(NetError, match="is taken"):
            rename_input(net, init, 0, 0, name)


def test_a_version_takes_a_free_name() -> None:
    made = ssa_rewrite(given("ssa_rewrite", "collision"))
    assert lines(made) == ["Relu x -> x_1_1", "Tanh x_1_1 -> x_2", "Sum x_2 x_1 -> y"]


def test_devices_are_found_in_as_many_passes_as_it_takes() -> None:
    found: dict[Any, str] = infer_devices(
        given("infer_device_type", "back_and_forth"), {("c", 1): "cpu"}
    )
    assert found == dict.fromkeys([("w", 0), ("a", 1), ("b", 1), ("c", 1)], "cpu")


def test_a_parameter_of_truth_values_is_exported() -> None:
    init, _ = export(given("export", "bool"), {"p": np.array([True, False])}, "unread")
    assert init.op[0].type == "GivenTensorBoolFill"
    np.testing.assert_array_equal(parameters(init)["p"], [True, False])
