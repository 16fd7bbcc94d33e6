"""docs/netdef.md: its tables know every function."""

from __future__ import annotations

import re
from pathlib import Path

from rnncc import netdef

TEXT = (Path(__file__).parents[2] / "docs" / "netdef.md").read_text()


def test_every_function_on_nets_has_its_row() -> None:
    rows = set(re.findall(r"^\| `(\w+)\(|, `(\w+)\(", TEXT, re.MULTILINE))
    named = {name for pair in rows for name in pair if name}
    functions = {name for name in netdef.__all__ if name.islower()}
    assert functions - named == {"check_text", "declared_fills", "parse_text"}
