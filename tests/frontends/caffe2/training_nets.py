"""A small net with its gradient operators, as Caffe2 writes them, and ways to spoil it."""

from __future__ import annotations

from typing import Any

from rnncc.netdef import NetDef, OperatorDef
from tests.frontends.caffe2.nets import add_arg, net, op, recurrent

LINKS = (("h_prev", "h_states", 0), ("h", "h_states", 1), ("x_t", "x", 0))
BACKWARD_LINKS = (
    ("h_grad", "h_states_grad", 1),
    ("h_prev_grad", "h_states_grad", 0),
    ("gates_grad", "x_grad", 0),
)
INPUTS = "x h0 w b"
OUTPUTS = "h_all h_last ws"


def step() -> NetDef:
    """h = tanh(W h_prev + b + x_t)"""
    ops = [
        op("FC", "h_prev w b", "gates", axis=2),
        op("Sum", "gates x_t", "gates"),
        op("Tanh", "gates", "h"),
    ]
    return net(ops, "x_t timestep h_prev w b", "h", "step")


def backward_step(*more: OperatorDef) -> NetDef:
    """Its gradient."""
    ops = [
        op("TanhGradient", "h h_grad", "gates_grad"),
        op("FCGradient", "h_prev w gates_grad", "w_grad b_grad h_prev_grad", axis=2),
        *more,
    ]
    return net(ops, "h h_grad h_prev w b", "", "backward")


def arguments(**changes: Any) -> dict[str, Any]:
    """What both operators hold beside what a forward net holds."""
    links = changes.pop("backward_links", BACKWARD_LINKS)
    return {
        "param": [2, 3],
        "param_grads": ["w_grad", "b_grad"],
        "outputs_with_grads": [0],
        "backward_step_net": backward_step(),
        "backward_link_internal": [link[0] for link in links],
        "backward_link_external": [link[1] for link in links],
        "backward_link_offset": [link[2] for link in links],
        **changes,
    }


def forward(**changes: Any) -> OperatorDef:
    """The RecurrentNetwork."""
    return recurrent(step(), INPUTS, OUTPUTS, links=LINKS, **arguments(**changes))


def gradient(
    inputs: str = f"dh {INPUTS} {OUTPUTS}",
    outputs: str = "x_grad w_grad b_grad h0_grad",
    **changes: Any,
) -> OperatorDef:
    """Its RecurrentNetworkGradient."""
    made = op("RecurrentNetworkGradient", inputs, outputs)
    made.arg.extend(forward(**changes).arg)
    return made


def training_net(*ops: OperatorDef, outputs: str = "h_all") -> NetDef:
    """Both, or the operators given; the gradient of h_all is an input."""
    return net(ops or [forward(), gradient()], f"{INPUTS} dh", outputs)


def both(
    inputs: str = f"dh {INPUTS} {OUTPUTS}",
    outputs: str = "x_grad w_grad b_grad h0_grad",
    **changes: Any,
) -> NetDef:
    """Both operators, changed alike."""
    return training_net(forward(**changes), gradient(inputs, outputs, **changes))


def without(made: OperatorDef, name: str) -> OperatorDef:
    """An operator without one of its arguments."""
    kept = [arg for arg in made.arg if arg.name != name]
    del made.arg[:]
    made.arg.extend(kept)
    return made


def with_arg(made: OperatorDef, name: str, value: Any) -> OperatorDef:
    """An operator with another value of an argument."""
    add_arg(without(made, name), name, value)
    return made
