"""What nets do not allow is told in one line, with the operator and the blob."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rnncc import netdef
from rnncc.errors import CompileError, NetError
from rnncc.netdef import NetDef, OperatorDef
from tests.frontends.caffe2.nets import net, op

SMALL = net([op("Relu", "x", "h"), op("Sum", "h x", "y")], "x", "y")
LOST = net([op("Relu", "x", "h")], "x", "far")
ODD = net([op("Relu", "x", "h"), op("Reshape", "h", "y old", shape=[-1])], "x", "y")
KNOWN = net([op("Relu", "x", "h"), op("CopyGPUToCPU", "h", "y")], "x", "y")

CASES: list[tuple[Callable[[], Any], str]] = [
    (lambda: netdef.ssa([SMALL]), "the net is list, not a NetDef"),  # type: ignore[arg-type]
    (lambda: netdef.subgraph_io(SMALL, [2]), "small: there is no operator 2: the net has 2"),
    (lambda: netdef.subgraph_io(SMALL, [-3]), "no operator -3"),
    (lambda: netdef.subgraph_io(LOST, [0]), 'the external output "far" is no declared input'),
    (lambda: netdef.remove_dead_ops(LOST), 'the external output "far" is no declared input'),
    (lambda: netdef.fuse_copies(LOST), 'the external output "far" is no declared input'),
    (lambda: netdef.prune(LOST), 'the external output "far" is no declared input'),
    (lambda: netdef.ssa_rewrite(LOST), 'the external output "far" is no declared input'),
    (lambda: netdef.infer_devices(LOST, {}), 'the external output "far" is no declared input'),
    (lambda: netdef.extract(SMALL, ["far"]), 'small: has no blob "far"'),
    (
        lambda: netdef.external_blobs(SMALL, ["h"]),
        'small: op 0 (Relu "h"): reads "x", which is not in the scope',
    ),
    (
        lambda: netdef.rename_input(SMALL, NetDef(), 0, 0, "new"),
        'op 0 (Relu "h"): reads "x", as does operator 1',
    ),
    (
        lambda: netdef.rename_input(SMALL, NetDef(), 1, 1, "new", from_producer=True),
        'op 1 (Sum "y"): reads "x", which no operator of the net makes',
    ),
    (lambda: netdef.rename_input(SMALL, NetDef(), 1, 2, "new"), "has no input 2: it has 2"),
    (lambda: netdef.rename_input(SMALL, NetDef(), 7, 0, "new"), "there is no operator 7"),
    (lambda: netdef.rename_input(SMALL, None, 0, 0, "n"), "the init net is NoneType"),  # type: ignore[arg-type]
    (lambda: netdef.rename_output(SMALL, 0, 1, "new"), 'op 0 (Relu "h"): has no output 1'),
    (lambda: netdef.rename_output(SMALL, 0, 0, "y"), 'the name "y" is taken'),
    (lambda: netdef.rename_output(SMALL, 0, 0, ""), "'' is no name for a blob"),
    (lambda: netdef.rename_output(SMALL, 0, 0, "a\nb"), "is no name for a blob"),
    (lambda: netdef.reshape_subgraphs(ODD), 'op 1 (Reshape "y"): has 1 inputs, expected 2'),
    (lambda: netdef.remove_reshape_before_fc(ODD, []), 'op 1 (Reshape "y"): has 1 inputs'),
    (lambda: netdef.infer_devices(SMALL, {}), 'op 0 (Relu "h"): nothing tells the device of "x"'),
    (lambda: netdef.infer_devices(SMALL, {}, "torch"), "device_name_style is 'torch'"),
    (lambda: netdef.infer_devices(SMALL, {("x", 3): "cpu"}), 'has no blob "x" at version 3'),
    (lambda: netdef.infer_devices(SMALL, {("x", 0): None}), 'known of "x" is None'),  # type: ignore[dict-item]
    (
        lambda: netdef.infer_devices(KNOWN, {("x", 0): "cpu"}),
        'op 1 (CopyGPUToCPU "y"): "h" would be gpu, and is known to be cpu',
    ),
    (
        lambda: netdef.ssa_rewrite(SMALL, net([op("Copy", "a", "x")], "a", "x")),
        'op 0 (Copy "x"): computes',
    ),
    (
        lambda: netdef.ssa_rewrite(SMALL, net([op("GivenTensorFill", "", "x z")], "", "x")),
        'op 0 (GivenTensorFill "x"): has 2 outputs, expected 1',
    ),
    (lambda: netdef.export(SMALL, {"w": np.zeros(2)}), 'the parameter "w" is of type float64'),
    (lambda: netdef.export(SMALL, {"w": None}), 'the parameter "w" has no value'),
    (
        lambda: netdef.export(SMALL, {"w": np.array([b"a", 3.5], object)}),
        "holds float, not strings",
    ),
    (lambda: netdef.export(SMALL, {}, "all"), "outputs is 'all'"),
    (lambda: netdef.export(SMALL, {}, ["far"]), 'the output "far" is no input and no operator'),
]


@pytest.mark.parametrize(("call", "message"), CASES, ids=[message for _, message in CASES])
def test_message(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(NetError) as raised:
        call()
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert isinstance(raised.value, CompileError)


def test_nets_nested_without_end_are_refused() -> None:
    whole = inner = NetDef()
    for _ in range(1000):
        op = inner.op.add(type="If", input=["c"], output=["y"])
        inner = op.arg.add(name="then_net").n
    for call in (netdef.prune, lambda n: netdef.rename_output(n, 0, 0, "new", nested=True)):
        with pytest.raises(NetError, match="nested"):
            call(whole)


def test_shapes_that_hang_on_everything_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rnncc.netdef.reshapes.MAX_SEEN", 50)
    ops = [op("Shape", "x", "s0"), *(op("Slice", f"s{i}", f"s{i + 1}") for i in range(9))]
    ops += [op("Reshape", f"x s{i}", f"r{i} o{i}") for i in range(10)]
    whole = net(ops, "x", " ".join(f"r{i}" for i in range(10)))
    with pytest.raises(NetError, match=r'Reshape "r9".*depends on 10 operators'):
        netdef.reshape_subgraphs(whole)
    assert netdef.prune(whole) == (whole, [])


def test_facts_of_any_kind_follow_by_a_rule() -> None:
    """Ranks: Relu keeps them, FC makes a matrix."""

    def rule(op: OperatorDef, inputs: Any, outputs: Any) -> Any:
        if op.type == "FC":
            return inputs, [2]
        known = next((rank for rank in (*inputs, *outputs) if rank is not None), None)
        return [known] * len(inputs), [known] * len(outputs)

    whole = net([op("Relu", "x", "h"), op("FC", "h w b", "y"), op("Relu", "y", "z")], "x w b", "z")
    found = netdef.propagate(whole, rule, {("h", 1): 3})
    assert found == {("h", 1): 3, ("x", 0): 3, ("y", 1): 2, ("z", 1): 2}
    with pytest.raises(NetError, match=r'op 2 .*"z" would be 2, and is known to be 4'):
        netdef.propagate(whole, rule, {("z", 1): 4, ("y", 1): 2})
