"""The example net: a character-level LSTM as Caffe2 writes it, in as few operators.

x [T,N,V] -> i2h -> LSTM of H units -> FC -> softmax: the next character's probabilities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rnncc.netdef import Argument, NetDef, OperatorDef

Value = int | float | str | Sequence[int] | Sequence[str] | NetDef


def char_lstm(characters: int = 64, units: int = 128) -> tuple[NetDef, NetDef]:
    """The net and the net that fills its parameters."""
    return _net(), _init(characters, units)


def _net() -> NetDef:
    net = NetDef(name="char_lstm")
    _operator(net, "FC", ["x", "i2h_w", "i2h_b"], ["i2h"], axis=2)
    sequence = ["i2h", "h0", "c0", "gates_w", "gates_b", "seq_lengths"]
    results = ["hidden_all", "hidden_last", "cell_all", "cell_last", "step_workspaces"]
    _operator(net, "RecurrentNetwork", sequence, results, **_recurrence())
    _operator(net, "FC", ["hidden_all", "out_w", "out_b"], ["logits"], axis=2)
    _operator(net, "Softmax", ["logits"], ["probabilities"], axis=2)
    net.external_input.extend(["x", "seq_lengths", "h0", "c0"])
    net.external_input.extend(["i2h_w", "i2h_b", "gates_w", "gates_b", "out_w", "out_b"])
    net.external_output.extend(["probabilities", "hidden_last", "cell_last"])
    return net


def _recurrence() -> Mapping[str, Value]:
    """How one step is wired: row t of a state goes in, row t + 1 comes out."""
    h, c = "hidden_states", "cell_states"
    return {
        "step_net": _step(),
        "timestep": "timestep",
        "recurrent_states": [h, c],
        "initial_recurrent_state_ids": [1, 2],
        "link_internal": ["hidden_prev", "hidden", "cell_prev", "cell", "i2h_t"],
        "link_external": [h, h, c, c, "i2h"],
        "link_offset": [0, 1, 0, 1, 0],
        "alias_src": [h, h, c, c],
        "alias_dst": ["hidden_all", "hidden_last", "cell_all", "cell_last"],
        "alias_offset": [1, -1, 1, -1],
    }


def _step() -> NetDef:
    step = NetDef(name="step", type="simple")
    _operator(step, "FC", ["hidden_prev", "gates_w", "gates_b"], ["gates"], axis=2)
    _operator(step, "Sum", ["gates", "i2h_t"], ["gates"])
    unit = ["hidden_prev", "cell_prev", "gates", "seq_lengths", "timestep"]
    _operator(step, "LSTMUnit", unit, ["hidden", "cell"], sequence_lengths=1, forget_bias=1.0)
    step.external_input.extend(["i2h_t", "timestep", "hidden_prev", "cell_prev"])
    step.external_input.extend(["gates_w", "gates_b", "seq_lengths"])
    step.external_output.extend(["hidden", "cell"])
    return step


def _init(characters: int, units: int) -> NetDef:
    init = NetDef(name="char_lstm_init")
    for name, shape in {
        "i2h_w": [4 * units, characters],
        "gates_w": [4 * units, units],
        "out_w": [characters, units],
    }.items():
        _operator(init, "XavierFill", [], [name], shape=shape)
    for name, size in {"i2h_b": 4 * units, "gates_b": 4 * units, "out_b": characters}.items():
        _operator(init, "ConstantFill", [], [name], shape=[size])
    return init


def _operator(
    net: NetDef, kind: str, inputs: list[str], outputs: list[str], **arguments: Value
) -> OperatorDef:
    op = net.op.add(type=kind, input=inputs, output=outputs)
    for name, value in arguments.items():
        _set(op.arg.add(name=name), value)
    return op


def _set(argument: Argument, value: Value) -> None:
    match value:
        case NetDef():
            argument.n.CopyFrom(value)
        case str():
            argument.s = value.encode()
        case int():
            argument.i = value
        case float():
            argument.f = value
        case _:
            argument.ints.extend(item for item in value if isinstance(item, int))
            argument.strings.extend(item.encode() for item in value if isinstance(item, str))
