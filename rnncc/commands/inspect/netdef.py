"""What `rnncc inspect` tells of a NetDef: its operators, blobs and versions, shapes, parameters."""

from __future__ import annotations

from rnncc.commands.inspect.interface import Report, interface_of, size_of
from rnncc.errors import CompileError
from rnncc.frontends.caffe2 import OperatorShapes, infer_shapes
from rnncc.netdef import Argument, NetDef, OperatorDef, load, parse_text, ssa
from rnncc.options import Options
from rnncc.sources import NetFile


def inspect(net: NetFile, init: NetFile | None, options: Options) -> Report:
    """The net as plain data.

    Raises:
        CompileError: a file cannot be read.
    """
    message = load(net)
    steps, versions = ssa(message)
    operators = [
        {"index": index, **_operator(op), "inputs": inputs, "outputs": outputs}
        for index, (op, (inputs, outputs)) in enumerate(zip(message.op, steps, strict=True))
    ]
    report: Report = {"name": options.name, "file": str(net), "operators": operators}
    known: Report = {}
    try:
        known = interface_of(net, init, options)
        _add_shapes(operators, infer_shapes(net, init, dict(options.shapes), options.bind))
    except CompileError as error:
        report["problem"] = str(error)
    report |= {key: known.get(key, []) for key in ("symbols", "inputs", "outputs", "parameters")}
    report["blobs"] = [
        {"name": name, "role": _role(name, message, known), "last_version": last}
        for name, last in versions.items()
    ]
    return report


def _operator(op: OperatorDef) -> Report:
    """Type, name, and the operators of the step net within; of a gradient, of its own."""
    is_gradient = op.type == "RecurrentNetworkGradient"
    other = "step_net" if is_gradient else "backward_step_net"
    nets = [net for argument in op.arg if argument.name != other for net in _nets(argument)]
    inner = [
        {"index": i, **_operator(o), "inputs": list(o.input), "outputs": list(o.output)}
        for net in nets
        for i, o in enumerate(net.op)
    ]
    return {"type": op.type, "name": op.name, **({"operators": inner} if inner else {})}


def _nets(argument: Argument) -> list[NetDef]:
    """The nets in an argument; a step net may also stand there as text."""
    if argument.s and argument.name.endswith("step_net"):
        return [parse_text(argument.s.decode(errors="replace"), argument.name)]
    return [argument.n] if argument.HasField("n") else list(argument.nets)


def _add_shapes(operators: list[Report], shapes: list[OperatorShapes]) -> None:
    """Say beside each operator, those of step nets too, what its outputs are."""
    for operator, shape_of in zip(operators, shapes, strict=True):
        operator["output_types"] = [
            entry and {"dtype": entry[0], "shape": [size_of(d) for d in entry[1]]}
            for entry in shape_of.outputs
        ]
        _add_shapes(operator.get("operators", []) if shape_of.inside else [], shape_of.inside)


def _role(name: str, net: NetDef, known: Report) -> str:
    for role in ("output", "parameter"):
        if name in {entry["name"] for entry in known.get(f"{role}s", [])}:
            return role
    if name in net.external_output:
        return "output"
    return "input" if name in net.external_input else "temporary"
