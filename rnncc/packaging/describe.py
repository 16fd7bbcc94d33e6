"""What a library tells of itself: the metadata of docs/abi.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rnncc import __version__
from rnncc.codegen.cpu.entries import FUNCTIONS
from rnncc.codegen.target import Target
from rnncc.ir.dims import Dim, Largest
from rnncc.ir.kernel_program import Port
from rnncc.ir.library import Library
from rnncc.packaging.names import c_names

FORMAT = 2


def describe(library: Library, target: Target) -> dict[str, Any]:
    """The metadata, ready for JSON."""
    programs = list(library.programs.values())
    first = programs[0]
    return {
        "format": FORMAT,
        "rnncc": __version__,
        "name": library.name,
        "symbols": library.symbols,
        "functions": {"run": FUNCTIONS["run"]},
        "sizes": ["workspace_bytes"],
        "inputs": _ports(first.inputs),
        "outputs": _ports(first.outputs),
        "parameters": [{**port, "packed": True} for port in _ports(first.parameters)],
        "workspace": str(Largest(f for p in programs for f in p.workspace.formulas)),
        "weights": library.weights,
        "target": target.triple,
        "cpu": target.cpu,
        "precision": "fp32",
    }


def _ports(listed: Sequence[Port]) -> list[dict[str, Any]]:
    names = c_names([port.name for port in listed])
    return [
        {
            "name": port.name,
            "c_name": name,
            "dtype": port.dtype,
            "shape": [_size(d) for d in port.dims],
            **({"optional": True} if port.optional else {}),
        }
        for port, name in zip(listed, names, strict=True)
    ]


def _size(dim: Dim) -> int | str:
    return int(dim) if dim.is_static else str(dim)
