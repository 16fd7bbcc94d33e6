"""What `rnncc ops` tells of the operators of Caffe2 and of ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rnncc.commands.tables import print_table
from rnncc.errors import CompileError
from rnncc.frontends.caffe2 import REFUSED
from rnncc.frontends.caffe2.reference import entries
from rnncc.names import did_you_mean


def report() -> dict[str, Any]:
    """The operators as plain data, ready for JSON."""
    supported = {
        kind: {
            "family": family,
            "does": entry.about,
            "inputs": entry.inputs,
            "outputs": entry.outputs,
            "refused": list(entry.refused),
        }
        for family, operators in entries().items()
        for entry in operators
        for kind in entry.kinds
    }
    return {"supported": supported, "refused": REFUSED}


def onnx_report() -> dict[str, Any]:
    """The ONNX operators as plain data, ready for JSON."""
    from rnncc.frontends.onnx import reference, unread

    supported = {
        entry.name: {"family": family, "does": entry.about, "refused": list(entry.refused)}
        for family, operators in reference.entries().items()
        for entry in operators
    }
    return {"supported": supported, "refused": unread.REFUSED}


def only(report: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """What a report has of some operators.

    Raises:
        CompileError: it has none of such a name.
    """
    supported, refused = report["supported"], report["refused"]
    for name in names:
        if name not in supported and name not in refused:
            listed = "`rnncc ops` lists those of Caffe2, `rnncc ops --onnx` those of ONNX"
            hint = did_you_mean(name, [*supported, *refused], listed)
            raise CompileError("", f"operator {name!r} is not known", hint)
    return {
        group: {name: entries[name] for name in names if name in entries}
        for group, entries in report.items()
    }


def print_report(report: dict[str, Any]) -> None:
    """Print a table a family, then what is refused altogether."""
    families: dict[str, list[tuple[str, str, str]]] = {}
    for name, entry in report["supported"].items():
        row = name, entry["does"], "; ".join(entry["refused"])
        families.setdefault(entry["family"], []).append(row)
    for family, rows in families.items():
        print_table(family, ["operator", "what it does", "refused"], rows)
    if report["refused"]:
        print_table("refused altogether", ["operator", "why"], sorted(report["refused"].items()))
