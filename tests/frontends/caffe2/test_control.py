"""Do, If and scopes by hand: what is visible where, what a branch leaves alone, and each error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rnncc.errors import CompileError
from rnncc.frontends.caffe2 import import_net
from rnncc.ir.interpreter import run
from rnncc.netdef import NetDef
from tests.frontends.caffe2.control_nets import (
    BOOL,
    INT32,
    body,
    branch,
    constant,
    do,
    loop,
    scope,
)
from tests.frontends.caffe2.nets import net, op

X = np.array([0.5, -1.0, 2.0])
TANH = body(op("Tanh", "x", "y"))


def computed(made: NetDef, **inputs: Any) -> dict[str, np.ndarray]:
    shapes = {name: np.shape(array) for name, array in inputs.items()}
    program = import_net(made, shapes=shapes)
    program.module.verify()
    return run(program, inputs, np.float64)


def refused(made: NetDef, **shapes: Any) -> str:
    with pytest.raises(CompileError) as caught:
        import_net(made, shapes=shapes or {"x": (3,)})
    return str(caught.value).removeprefix("<net>: ")


# Do


def test_a_binding_is_the_blob_itself() -> None:
    """What a Do writes to an inner name is the outer blob's next version, declared or not."""
    inside = body(op("Tanh", "a", "a"), op("Mul", "a a", "b"))
    ops = [scope(), op("Copy", "x", "y"), do(inside, {"a": "y", "b": "z"}, "y", "z")]
    got = computed(net(ops, "x", "y z"), x=X)
    np.testing.assert_allclose(got["y"], np.tanh(X))
    np.testing.assert_allclose(got["z"], np.tanh(X) ** 2)


def test_names_inside_are_not_those_outside() -> None:
    """`t` inside is another blob than `t` outside."""
    inside = body(op("Sigmoid", "x", "t"), op("Mul", "t x", "y"))
    ops = [scope(), op("Tanh", "x", "t"), do(inside, {"x": "x", "y": "y"}, "x", "y")]
    got = computed(net(ops, "x", "y t"), x=X)
    np.testing.assert_allclose(got["t"], np.tanh(X))
    np.testing.assert_allclose(got["y"], X / (1 + np.exp(-X)))


def test_a_workspace_used_again_has_its_locals() -> None:
    first = do(body(op("Tanh", "x", "t"), op("Copy", "t", "y")), {"x": "x", "y": "y"}, "x", "y")
    second = do(body(op("Mul", "t t", "z")), {"z": "z"}, "", "z", reuse_workspace=1)
    got = computed(net([scope(), first, second], "x", "y z"), x=X)
    np.testing.assert_allclose(got["z"], np.tanh(X) ** 2)
    second = do(body(op("Mul", "t t", "z")), {"z": "z"}, "", "z")
    text = refused(net([scope(), first, second], "x", "y z"))
    assert text == (
        'op 2 (Do "z"): inner op 0 (Mul "z"): reads "t", which is no input and no operator writes'
    )


def test_locals_of_a_branch_are_not_seen_behind_it() -> None:
    first = do(body(op("Tanh", "x", "t"), op("Copy", "t", "y")), {"x": "x", "y": "y"}, "x", "y")
    second = do(body(op("Mul", "t t", "z")), {"z": "z"}, "", "z", reuse_workspace=1)
    ops = [scope(), branch("c x y s", "y s", body(first), body(op("Copy", "x", "y"))), second]
    assert 'reads "t"' in refused(net([op("Copy", "x", "y"), *ops], "c x", "z"))


def test_a_workspace_used_again_keeps_its_bindings() -> None:
    first = do(TANH, {"x": "x", "y": "y"}, "x", "y")
    again = do(body(op("Tanh", "a", "z")), {"a": "x", "z": "z"}, "x", "z", reuse_workspace=1)
    text = refused(net([scope(), first, again], "x", "z"))
    assert text == 'op 2 (Do "z"): binds "a" to "x", but its workspace has it as "x"'
    again = do(body(op("Copy", "y", "z")), {"y": "x2", "z": "z"}, "x2", "z", reuse_workspace=1)
    text = refused(net([scope(), first, op("Copy", "x", "x2"), again], "x", "z"))
    assert text == 'op 3 (Do "z"): binds "y" to "x2", but its workspace has another "y"'


def test_has_scope_counts_workspaces() -> None:
    made = do(TANH, {"x": "x", "y": "y"}, "x", "y")
    ops = [scope(), op("HasScope", "s", "before"), made, op("HasScope", "s", "after")]
    got = computed(net(ops, "x", "y before after"), x=X)
    assert (got["before"], got["after"]) == ([False], [True])
    iteration = loop("go x s", "go y s", body(made, op("Not", "go", "go")))
    ops = [scope(), iteration, op("HasScope", "s", "after"), op("Not", "after", "z")]
    text = refused(net(ops, "x go", "z"))
    assert text == (
        'op 3 (Not "z"): reads "after", which depends on how many workspaces a loop has made'
    )


def test_scopes_are_no_tensors() -> None:
    text = refused(net([scope(), op("Tanh", "s", "y")], "x", "y"))
    assert text == 'op 1 (Tanh "y"): reads "s", which is a scope, not a tensor'
    assert refused(net([scope()], "x", "s")) == 'the external output "s" is a scope, not a tensor'
    text = refused(net([op("HasScope", "x", "y")], "x", "y"))
    assert text == 'op 0 (HasScope "y"): reads "x", which is no scope'


def test_what_shares_memory_is_not_written_inside() -> None:
    ops = [scope(), op("Alias", "x", "z"), do(TANH, {"x": "x", "y": "z"}, "x z", "")]
    text = refused(net(ops, "x", "z"))
    assert 'inner op 0 (Tanh "y"): writes "y", which shares its memory through Alias' in text


# If


@pytest.mark.parametrize("taken", [True, False])
def test_what_a_branch_does_not_write_keeps_its_version(taken: bool) -> None:
    then = body(op("Tanh", "y", "y"))
    ops = [op("Copy", "x", "y"), op("Copy", "x", "z")]
    ops.append(branch("c y z", "y z", then, body(op("Sigmoid", "z", "z"))))
    got = computed(net(ops, "c x", "y z"), x=X, c=np.array([taken]))
    np.testing.assert_allclose(got["y"], np.tanh(X) if taken else X)
    np.testing.assert_allclose(got["z"], X if taken else 1 / (1 + np.exp(-X)))


@pytest.mark.parametrize("taken", [True, False])
def test_what_was_never_written_is_an_input(taken: bool) -> None:
    """What y holds before the net runs is its value where the branch is not taken."""
    made = net([branch("c x", "y", TANH)], "c x", "y")
    program = import_net(made, shapes={"x": (3,)})
    assert list(program.net.inputs) == ["c", "x", "y"]
    got = run(program, {"c": np.array([taken]), "x": X, "y": 7 * X}, np.float64)
    np.testing.assert_allclose(got["y"], np.tanh(X) if taken else 7 * X)


def test_what_nobody_reads_needs_no_value_before() -> None:
    ops = [branch("c x", "y t", body(op("Tanh", "x", "t"), op("Copy", "t", "y")), TANH)]
    program = import_net(net(ops, "c x", "y"), shapes={"x": (3,)})
    assert list(program.net.inputs) == ["c", "x"]


def test_what_nobody_reads_may_be_empty() -> None:
    """Reshape's second output, the shape of a scalar, holds nothing."""
    ops = op("SumElements", "x", "s"), op("Reshape", "s", "r old", shape=[1])
    inside = body(*ops, op("Add", "x r", "y", broadcast=1))
    made = net([op("Copy", "x", "y"), branch("c x y", "y old", inside)], "c x", "y")
    np.testing.assert_allclose(computed(made, c=np.array([True]), x=X)["y"], X + X.sum())
    again = body(*ops, op("Add", "x r", "x", broadcast=1), op("GT", "r most", "c"))
    most = op("GivenTensorFill", "", "most", shape=[1], values=[9.0])
    made = net([most, loop("c x", "x c old", again)], "c x", "x")
    np.testing.assert_allclose(computed(made, c=np.array([True]), x=X)["x"], X + X.sum())


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_a_condition_may_have_any_rank(shape: tuple[int, ...]) -> None:
    made = net([branch("c x", "y", TANH, body(op("Copy", "x", "y")))], "c x", "y")
    got = computed(made, c=np.ones(shape, np.bool_), x=X)
    np.testing.assert_allclose(got["y"], np.tanh(X))


def test_a_known_condition_leaves_no_branch() -> None:
    for value in (0, 1):
        choose = branch("c x", "y", TANH, body(op("Copy", "x", "y")))
        made = net([constant("c", value, BOOL), choose], "x", "y")
        program = import_net(made, shapes={"x": (3,)})
        assert "rnn.scan" not in str(program)
        np.testing.assert_allclose(
            run(program, {"x": X}, np.float64)["y"], np.tanh(X) if value else X
        )


def test_errors_of_if() -> None:
    other = body(op("Copy", "w", "y"))
    text = refused(net([branch("c x w", "y", TANH, other)], "c x w", "y"), x=(3,), w=(4,))
    assert text == (
        'op 0 (If "y"): "y" differs between the branches: "y" has shape [4], expected [3]'
    )
    made = net([branch("c x", "y", TANH, body(op("Copy", "x", "y")))], "c x", "y")
    text = refused(made, c=(2,), x=(3,))
    assert text == 'op 0 (If "y"): has the condition "c" of shape [2], not one bool'
    ops = [constant("c", 1, INT32), branch("c x", "y", TANH, body(op("Copy", "x", "y")))]
    text = refused(net(ops, "x", "y"))
    assert text == 'op 1 (If "y"): has the condition "c" of type i32, not bool'
    text = refused(net([op("If", "c x", "y")], "c x", "y"))
    assert text == "op 0 (If \"y\"): lacks the argument 'then_net'"


def test_a_local_that_a_branch_may_not_write() -> None:
    """Inside a Do a name holds nothing before: it cannot become an input."""
    inside = body(branch("c x", "t", body(op("Tanh", "x", "t"))), op("Mul", "t x", "y"))
    ops = [scope(), do(inside, {"c": "c", "x": "x", "y": "y"}, "c x", "y")]
    text = refused(net(ops, "c x", "y"))
    assert text == (
        'op 1 (Do "y"): inner op 1 (Mul "y"): reads "t", which holds nothing unless the then_net '
        'of inner op 0 (If "t") runs'
    )


# Depth


def nested(depth: int) -> NetDef:
    made = body(op("Tanh", "x", "y"))
    for _ in range(depth):
        made = body(scope(), do(made, {"x": "x", "y": "y"}, "x", "y"))
    return net(made.op, "x", "y")


def test_nesting() -> None:
    np.testing.assert_allclose(computed(nested(20), x=X)["y"], np.tanh(X))
    assert refused(nested(26)).endswith("nets are nested more than 24 deep")
    data = nested(26).SerializeToString()
    assert refused(data).endswith("nets are nested more than 24 deep")  # type: ignore[arg-type]


def test_a_thousand_nested_nets_are_no_net() -> None:
    text = 'op { type: "Do" output: "y" arg { name: "net" n { ' * 1000
    assert "nested more than" in refused(text.encode())  # type: ignore[arg-type]


def test_condition_nets_in_condition_nets() -> None:
    """Each is built twice: together they would fill the memory."""
    condition = body(op("Not", "go", "go"))
    for _ in range(14):
        condition = body(loop("go y", "y go", body(op("Tanh", "y", "y")), condition))
    ops = [op("Copy", "x", "y"), loop("go y", "y go", body(op("Tanh", "y", "y")), condition)]
    assert "operators would be built again" in refused(net(ops, "x go", "y"))


def test_both_branches_write_what_has_another_shape_before() -> None:
    then, other = body(op("Tanh", "x", "y")), body(op("Mul", "y y", "t"), op("Copy", "x", "y"))
    ops = [op("Copy", "w", "y"), branch("c x y", "y", then, other)]
    for taken in (True, False):
        got = computed(net(ops, "c x w", "y"), c=np.array([taken]), x=X, w=np.ones((2, 2)))
        np.testing.assert_allclose(got["y"], np.tanh(X) if taken else X)


def test_what_nobody_reads_between_two_branches() -> None:
    choose = branch("c x", "y", TANH, body(op("Copy", "x", "y")))
    got = computed(net([choose, choose], "c x", "y"), c=np.array([True]), x=X)
    np.testing.assert_allclose(got["y"], np.tanh(X))


def test_a_do_that_does_not_write_its_output() -> None:
    """In a branch it stays what it was: an input, as nothing else writes it."""
    then = body(do(body(op("Tanh", "x", "t")), {"x": "x", "y": "y"}, "x", "y"))
    ops = [scope(), branch("c x s", "y s", then, body(op("Copy", "x", "y")))]
    program = import_net(net(ops, "c x", "y"), shapes={"x": (3,)})
    assert list(program.net.inputs) == ["c", "x", "y"]
    inputs = {"c": np.array([True]), "x": X, "y": 5 * X}
    np.testing.assert_allclose(run(program, inputs, np.float64)["y"], 5 * X)
