"""What `rnncc inspect` tells of a file, and how it prints it."""

from __future__ import annotations

from collections.abc import Iterator

from rnncc.commands.inspect.interface import Report
from rnncc.commands.libraries import print_inspection
from rnncc.commands.tables import print_table, shape_text
from rnncc.frontends.onnx.reading import is_onnx
from rnncc.frontends.torch.programs.archives import is_exported
from rnncc.options import Options
from rnncc.sources import NetFile


def inspect(net: NetFile, init: NetFile | None, options: Options) -> Report:
    """The net as plain data, ready for JSON.

    Shapes are there where the net can be imported; else `problem` says why it cannot.

    Raises:
        CompileError: a file cannot be read.
    """
    if is_onnx(net):
        from rnncc.commands.inspect import onnx

        return onnx.inspect(net, options)
    if is_exported(net):
        from rnncc.commands.inspect import exported

        return exported.inspect(net, options)
    from rnncc.commands.inspect import netdef

    return netdef.inspect(net, init, options)


def print_report(report: Report) -> None:
    """Print the tables of a report."""
    if "library" in report:
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
