"""Writes docs/onnx_operators.md from the importer's table: python tools/write_onnx_operators.py"""

from __future__ import annotations

import re
from pathlib import Path

from rnncc.frontends.onnx.reference import Entry, entries
from rnncc.frontends.onnx.table import REFUSED

PATH = Path(__file__).parents[1] / "docs" / "onnx_operators.md"
HEAD = """# The ONNX operators

Written by `tools/write_onnx_operators.py` from the docstrings of the importer's functions; do not
edit. `rnncc ops --onnx` prints the same.

X, Y, A, B and C stand for the inputs in their order. All forms of opset 7 to the newest are read,
but for those that stand behind *Refused*: each is an error that names the node.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for family, operators in entries().items():
        parts.append(f"\n## {family}\n\n")
        same: dict[tuple[str, tuple[str, ...]], list[Entry]] = {}
        for entry in operators:
            same.setdefault((entry.about, entry.refused), []).append(entry)
        parts += [_line(alike) for alike in same.values()]
    parts.append("\n## Refused altogether\n\n")
    reasons: dict[str, list[str]] = {}
    for name, reason in REFUSED.items():
        reasons.setdefault(reason, []).append(name)
    parts += [f"- {_names(names)}: {reason}.\n" for reason, names in reasons.items()]
    return "".join(parts)


def _line(alike: list[Entry]) -> str:
    line = f"- {_names([e.name for e in alike])}: {_plain(alike[0].about)}"
    refused = "; ".join(alike[0].refused)
    return line + (f" *Refused*: {refused}.\n" if refused else "\n")


def _names(names: list[str]) -> str:
    return ", ".join(f"**`{name}`**" for name in names)


def _plain(text: str) -> str:
    """A formula's stars and underscores are no Markdown; what stands between backticks is."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([*_<])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


if __name__ == "__main__":
    PATH.write_text(page())
