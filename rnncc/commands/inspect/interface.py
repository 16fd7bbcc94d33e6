"""What the reports of `rnncc inspect` share, whatever kind of file they are of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rnncc.errors import CompileError
from rnncc.ir.dims import Dim
from rnncc.ir.types import dims_of, dtype_of
from rnncc.options import Options
from rnncc.sources import NetFile
from rnncc.stages.reading import import_source

Report = dict[str, Any]


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


def interface_of(net: NetFile, init: NetFile | None, options: Options) -> Report:
    """Symbols, inputs, outputs and parameters of what a file is imported as."""
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
        {"name": name, "dtype": dtype_of(value), "shape": [size_of(d) for d in dims_of(value)]}
        for name, value in values.items()
    ]


def size_of(dim: Dim) -> int | str:
    """A size as JSON has it: a number, or its formula."""
    return int(dim) if dim.is_static else str(dim)
