"""What `rnncc netdef ssa` and `diff` print."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rnncc.commands.tables import print_table, printable
from rnncc.netdef import NetDef, ssa, undefined_blobs


def print_versions(net: NetDef, as_json: bool) -> None:
    """Print each operator's blobs with their versions, then every blob's last version."""
    steps, last = ssa(net)
    undefined = undefined_blobs(net)
    if as_json:
        operators = [
            {"index": index, "type": op.type, "inputs": inputs, "outputs": outputs}
            for index, (op, (inputs, outputs)) in enumerate(zip(net.op, steps, strict=True))
        ]
        report = {"operators": operators, "last_versions": last, "undefined": undefined}
        print(json.dumps(report, indent=2))
        return
    rows = [
        (index, op.type, _values(inputs), _values(outputs))
        for index, (op, (inputs, outputs)) in enumerate(zip(net.op, steps, strict=True))
    ]
    print_table("operators", ["op", "type", "reads", "writes"], rows)
    last_versions = [
        (name, version, "x" if name in undefined else "") for name, version in last.items()
    ]
    print_table("blobs", ["name", "last version", "read before written"], last_versions)


def print_differences(lines: Sequence[str], as_json: bool) -> None:
    """Print one difference a line."""
    if as_json:
        print(json.dumps({"differences": lines}, indent=2))
    else:
        print("\n".join(map(printable, lines)) or "no difference")


def _values(values: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{name}.{version}" for name, version in values)
