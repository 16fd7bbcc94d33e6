"""What `rnncc inspect` tells of a net: its operators, blobs and versions, shapes, parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rnncc.commands.tables import print_table, shape_text
from rnncc.errors import CompileError
from rnncc.frontends.caffe2 import OperatorShapes, infer_shapes
from rnncc.ir.dims import Dim
from rnncc.ir.types import dims_of, dtype_of
from rnncc.netdef import Argument, NetDef, OperatorDef, load, parse_text, ssa
from rnncc.options import Options
from rnncc.sources import NetFile

Report = dict[str, Any]


def inspect(net: NetFile, init: NetFile | None, options: Options) -> Report:
    """The net as plain data, ready for JSON.

    Shapes are there where the net can be imported; else `problem` says why it cannot.

    Raises:
        CompileError: a file cannot be read.
    """
    from rnncc.frontends.onnx.reading import is_onnx
    from rnncc.frontends.torch.archives import is_exported

    if is_onnx(net):
        from rnncc.commands import inspect_onnx

        return inspect_onnx.inspect(net, options)
    if is_exported(net):
        from rnncc.commands import inspect_exported

        return inspect_exported.inspect(net, options)
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


def described(file: NetFile, options: Options, operators: list[Report]) -> Report:
    """The report of a model without blobs; `problem` says why it cannot be imported."""
    report: Report = {"name": options.name, "file": str(file), "operators": operators}
    known: Report = {}
    try:
        known = interface_of(file, None, options)
    except CompileError as error:
        report["problem"] = str(error)
    report |= {key: known.get(key, []) for key in ("symbols", "inputs", "outputs", "parameters")}
    return report | {"blobs": []}


def print_report(report: Report) -> None:
    """Print the tables of a report."""
    if "library" in report:
        from rnncc.commands.libraries import print_inspection

        print_inspection(report["library"])
    rows = [
        (row["index"] if depth == 0 else "", "  " * depth + row["type"], *_blobs(row))
        for depth, row in _flat(report["operators"])
    ]
    if rows:
        print_table("operators", ["op", "type", "inputs", "outputs"], rows)
    for group in ("inputs", "outputs", "parameters"):
        if report[group]:
            rows = [(e["name"], e["dtype"], shape_text(e["shape"])) for e in report[group]]
            print_table(group, ["name", "dtype", "shape"], rows)
    rows = [(blob["name"], blob["role"], blob["last_version"]) for blob in report["blobs"]]
    if rows:
        print_table("blobs", ["name", "role", "last version"], rows)
    if "problem" in report:
        print(f"no shapes: {report['problem']}")


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


def interface_of(net: NetFile, init: NetFile | None, options: Options) -> Report:
    """Symbols, inputs, outputs and parameters of what a file is imported as."""
    from rnncc.stages.reading import import_source

    program = import_source(net, init, options)
    parameters = {name: op.y for name, op in program.params.items()}
    return {
        "symbols": list(program.symbols),
        "inputs": _entries(program.net.inputs),
        "outputs": _entries(program.net.outputs),
        "parameters": _entries(parameters),
    }


def _entries(values: Mapping[str, Any]) -> list[Report]:
    return [
        {"name": name, "dtype": dtype_of(value), "shape": [_size(d) for d in dims_of(value)]}
        for name, value in values.items()
    ]


def _add_shapes(operators: list[Report], shapes: list[OperatorShapes]) -> None:
    """Say beside each operator, those of step nets too, what its outputs are."""
    for operator, found in zip(operators, shapes, strict=True):
        operator["output_types"] = [
            entry and {"dtype": entry[0], "shape": [_size(d) for d in entry[1]]}
            for entry in found.outputs
        ]
        _add_shapes(operator.get("operators", []) if found.inside else [], found.inside)


def _size(dim: Dim) -> int | str:
    return int(dim) if dim.is_static else str(dim)


def _role(name: str, net: NetDef, known: Report) -> str:
    for role in ("output", "parameter"):
        if name in {entry["name"] for entry in known.get(f"{role}s", [])}:
            return role
    if name in net.external_output:
        return "output"
    return "input" if name in net.external_input else "temporary"


def _flat(operators: list[Report], depth: int = 0) -> Iterator[tuple[int, Report]]:
    for operator in operators:
        yield depth, operator
        yield from _flat(operator.get("operators", []), depth + 1)


def _blobs(row: Report) -> tuple[str, str]:
    def text(blob: str | tuple[str, int]) -> str:
        return blob if isinstance(blob, str) else f"{blob[0]}.{blob[1]}"

    outputs = list(map(text, row["outputs"]))
    for i, known in enumerate(row.get("output_types", [])):
        outputs[i] += f" {shape_text(known['shape'])}" if known else ""
    return ", ".join(map(text, row["inputs"])), ", ".join(outputs)
