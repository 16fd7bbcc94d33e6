"""What `rnncc ops` tells of the operators of Caffe2 and of ONNX."""

from __future__ import annotations

from typing import Any

from rnncc.commands.tables import print_table
from rnncc.frontends.caffe2 import REFUSED
from rnncc.frontends.caffe2.reference import entries


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


def print_report() -> None:
    """Print a table a family, then what is refused altogether."""
    for family, operators in entries().items():
        rows = [
            (kind, entry.about, "; ".join(entry.refused))
            for entry in operators
            for kind in entry.kinds
        ]
        print_table(family, ["operator", "what it does", "refused"], rows)
    print_table("refused altogether", ["operator", "why"], sorted(REFUSED.items()))


def onnx_report() -> dict[str, Any]:
    """The ONNX operators as plain data, ready for JSON."""
    from rnncc.frontends.onnx.reference import entries as onnx_entries
    from rnncc.frontends.onnx.table import REFUSED as onnx_refused  # noqa: N811

    supported = {
        entry.name: {"family": family, "does": entry.about, "refused": list(entry.refused)}
        for family, operators in onnx_entries().items()
        for entry in operators
    }
    return {"supported": supported, "refused": onnx_refused}


def print_onnx_report() -> None:
    """Print a table a family, then what is refused altogether."""
    told = onnx_report()
    families = dict.fromkeys(entry["family"] for entry in told["supported"].values())
    for family in families:
        rows = [
            (name, entry["does"], "; ".join(entry["refused"]))
            for name, entry in told["supported"].items()
            if entry["family"] == family
        ]
        print_table(family, ["operator", "what it does", "refused"], rows)
    print_table("refused altogether", ["operator", "why"], sorted(told["refused"].items()))
