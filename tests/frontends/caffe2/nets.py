"""Small nets, built in a line or two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rnncc.netdef import NetDef, OperatorDef


def op(kind: str, inputs: str, outputs: str, **args: Any) -> OperatorDef:
    """An operator; its inputs and outputs separated by blanks."""
    made = OperatorDef(type=kind, input=inputs.split(), output=outputs.split())
    for name, value in args.items():
        add_arg(made, name, value)
    return made


def add_arg(made: OperatorDef, name: str, value: Any) -> None:
    """An argument in the field that fits the value."""
    arg = made.arg.add(name=name)
    match value:
        case NetDef():
            arg.n.CopyFrom(value)
        case bool() | int():
            arg.i = int(value)
        case float():
            arg.f = value
        case str():
            arg.s = value.encode()
        case bytes():
            arg.s = value
        case [float(), *_]:
            arg.floats.extend(value)
        case [str(), *_]:
            arg.strings.extend(v.encode() for v in value)
        case _:
            arg.ints.extend(value)


def net(ops: Sequence[OperatorDef], inputs: str, outputs: str, name: str = "small") -> NetDef:
    """A net; its external inputs and outputs separated by blanks."""
    made = NetDef(name=name, op=ops)
    made.external_input.extend(inputs.split())
    made.external_output.extend(outputs.split())
    return made


def recurrent(
    step: NetDef | str,
    inputs: str = "x h0",
    outputs: str = "h_all h_last ws",
    states: Sequence[str] = ("h_states",),
    initial: Sequence[int] = (1,),
    links: Sequence[tuple[str, str, int]] = (
        ("h_prev", "h_states", 0),
        ("h", "h_states", 1),
        ("x_t", "x", 0),
    ),
    aliases: Sequence[tuple[str, str, int]] = (
        ("h_states", "h_all", 1),
        ("h_states", "h_last", -1),
    ),
    **more: Any,
) -> OperatorDef:
    """A RecurrentNetwork; `links` and `aliases` are rows of their three arguments."""
    args: dict[str, Any] = {"step_net": step}
    columns = {
        "link_internal": [link[0] for link in links],
        "link_external": [link[1] for link in links],
        "link_offset": [link[2] for link in links],
        "alias_src": [alias[0] for alias in aliases],
        "alias_dst": [alias[1] for alias in aliases],
        "alias_offset": [alias[2] for alias in aliases],
        "recurrent_states": list(states),
        "initial_recurrent_state_ids": list(initial),
    }
    args.update({name: column for name, column in columns.items() if column})
    return op("RecurrentNetwork", inputs, outputs, **{**args, **more})


def sum_step() -> NetDef:
    """h = tanh(h_prev + x_t)"""
    ops = [op("Sum", "h_prev x_t", "s"), op("Tanh", "s", "h")]
    return net(ops, "x_t timestep h_prev", "h", "step")


def sum_net(**args: Any) -> NetDef:
    """The sum step over x."""
    return net([recurrent(sum_step(), **args)], "x h0", "h_all h_last")
