"""Gradients of Do, If and While in nets that hold them: what does not go with the forward operator
is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from rnncc.errors import CompileError
from rnncc.frontends.caffe2 import import_net
from rnncc.netdef import Argument, NetDef, OperatorDef, load
from tests.frontends.caffe2.control_nets import inputs_of, shapes_of
from tests.frontends.caffe2.nets import op
from tests.golden import GOLDEN


def refused(name: str, change: Callable[[NetDef], object]) -> str:
    """The error of a golden net with gradients, changed."""
    case = GOLDEN / "control" / name
    made = load(case / "train.pb")
    inputs = inputs_of(case, training=True)
    import_net(made, case / "init.pb", shapes_of(inputs), max_iterations=6)
    copy = NetDef()
    copy.CopyFrom(made)
    change(copy)
    with pytest.raises(CompileError) as caught:
        import_net(copy, case / "init.pb", shapes_of(inputs), max_iterations=6)
    return str(caught.value).removeprefix("<net>: ")


def gradient(made: NetDef) -> OperatorDef:
    """The gradient of a control operator at the top."""
    found = [o for o in made.op if o.is_gradient_op and o.type in ("Do", "If", "While")]
    return found[0]


def argument(made: OperatorDef, name: str) -> Argument:
    return next(arg for arg in made.arg if arg.name == name)


def inside(made: NetDef) -> NetDef:
    """The net in the gradient of a Do, at the top or in the first net of a gradient."""
    found = gradient(made)
    name = {"Do": "net", "If": "then_net", "While": "loop_net"}[found.type]
    net = argument(found, name).n
    return net if found.type == "Do" else argument(net.op[0], "net").n


def operators(net: NetDef, kind: str) -> Iterator[OperatorDef]:
    return (o for o in net.op if o.type == kind)


@pytest.mark.parametrize("name", ["do_plain", "if_else_t", "while_axpy_k3"])
def test_a_gradient_that_is_scaled(name: str) -> None:
    def scale(made: NetDef) -> None:
        net = inside(made)
        last = net.op[len(net.op) - 1]
        ops = [op("Scale", last.input[0], "half", scale=0.5), op("Copy", "half", last.output[0])]
        del net.op[-1]
        net.op.extend(ops)

    text = refused(name, scale)
    assert "of its net is not the gradient of" in text and "random numbers show" in text


@pytest.mark.parametrize("name", ["do_plain", "if_else_t", "while_axpy_k3"])
def test_a_gradient_of_another_operator(name: str) -> None:
    def change(made: NetDef) -> None:
        for o in inside(made).op:
            if o.type in ("MulGradient", "FCGradient"):
                o.type = "AddGradient"

    assert "Gradient" in refused(name, change)


@pytest.mark.parametrize("name", ["do_plain", "if_else_t", "while_axpy_k3"])
def test_a_gradient_without_its_forward_operator(name: str) -> None:
    def move(made: NetDef) -> None:
        found = OperatorDef()
        found.CopyFrom(gradient(made))
        creates = [i for i, o in enumerate(made.op) if o.type == "CreateScope"]
        del made.op[:]
        made.op.extend(load(GOLDEN / "control" / name / "train.pb").op[: creates[-1] + 1])
        names = [n for n in found.input if n not in written(made)]
        made.external_input.extend(n for n in names if n not in made.external_input)
        made.op.append(found)

    text = refused(name, move)
    assert "is the gradient of no operator: no " in text


def written(made: NetDef) -> set[str]:
    return {y for o in made.op for y in o.output}


def test_two_gradients_of_one_do() -> None:
    """The scope is empty after the first."""

    def again(made: NetDef) -> None:
        made.op.append(gradient(made))

    assert "is the gradient of no operator" in refused("do_plain", again)


def test_bindings_that_do_not_fit() -> None:
    def swap(made: NetDef) -> None:
        names = argument(gradient(made), "inner_blobs").strings
        at = next(i for i, name in enumerate(names) if b"/" not in name)
        names[at] = b"unknown"

    text = refused("do_plain", swap)
    assert 'itself (Do): binds "unknown" to ' in text and "which does not go with" in text


def test_if_with_another_condition() -> None:
    def change(made: NetDef) -> None:
        at = next(i for i, o in enumerate(made.op) if o is gradient(made) or o == gradient(made))
        ops = list(made.op)
        ops.insert(at, op("Not", "cond", "other"))
        del made.op[:]
        made.op.extend(ops)
        gradient(made).input[0] = "other"

    assert "has another condition than op 2 (If" in refused("if_else_t", change)


def test_if_that_fills_with_something_else() -> None:
    def change(made: NetDef) -> None:
        net = argument(gradient(made), "then_net").n
        fill = next(operators(net, "ConstantFill"))
        argument(fill, "value").f = 1.0

    assert "(ConstantFill), which is in no gradient of an If" in refused("if_else_t", change)

    def source(made: NetDef) -> None:
        net = argument(gradient(made), "then_net").n
        next(operators(net, "ConstantFill")).input[0] = "x"

    assert 'from "x", which does not go with op 2 (If "y")' in refused("if_else_t", source)


def test_while_that_runs_by_another_condition() -> None:
    def change(made: NetDef) -> None:
        argument(gradient(made), "cond_net").n.op[0].type = "Copy"

    assert "does not run until its scope is empty" in refused("while_axpy_k3", change)


def test_while_with_another_copy() -> None:
    def change(made: NetDef) -> None:
        net = argument(gradient(made), "cond_net").n
        net.op[1].input[0] = "w_grad"

    text = refused("while_axpy_k3", change)
    assert "has condition op 1 (Copy), which does not go with it" in text


def test_an_output_that_nothing_writes() -> None:
    def change(made: NetDef) -> None:
        gradient(made).output.insert(0, "extra")

    for name in ("if_else_t", "while_axpy_k3"):
        assert 'writes "extra", which no net inside writes' in refused(name, change)
