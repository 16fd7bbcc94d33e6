"""What `rnncc ops` tells of the Caffe2 operators."""

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
