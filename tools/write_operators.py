"""Writes docs/operators.md from the importer's own table: python tools/write_operators.py"""

from __future__ import annotations

import re
from pathlib import Path

from rnncc.frontends.caffe2 import REFUSED
from rnncc.frontends.caffe2.reference import Entry, entries

PATH = Path(__file__).parents[1] / "docs" / "operators.md"
HEAD = """# The Caffe2 operators

Written by `tools/write_operators.py` from the docstrings of the importer's classes; do not edit.
`rnncc ops` prints the same.

X, Y, A, B and C stand for the inputs and outputs in their order. An argument that an operator does
not know is ignored, as Caffe2 ignores it; one that holds another kind of value than it should is an
error, and so is what Caffe2 itself refuses, such as shapes that do not fit. Tensors hold float,
double, int32, int64 or bool. *Refused* are the forms that Caffe2 takes and rnncc does not: each is
an error that names the operator. Of a gradient operator `x0` is the first input of the operator
whose gradient it is, `x*` are all its inputs, `y0` is its first output, `dx0` and `dy0` their
gradients.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for family, operators in entries().items():
        parts.append(f"\n## {family}\n\n")
        parts += [_line(entry) for entry in operators]
    parts.append("\n## Refused altogether\n\n")
    reasons: dict[str, list[str]] = {}
    for kind, reason in REFUSED.items():
        reasons.setdefault(reason, []).append(kind)
    parts += [f"- {_names(kinds)}: {reason}.\n" for reason, kinds in reasons.items()]
    return "".join(parts)


def _line(entry: Entry) -> str:
    counts = f"{_count(entry.inputs, 'input')}, {_count(entry.outputs, 'output')}"
    line = f"- {_names(entry.kinds)} ({counts}): {_plain(entry.about)}"
    return line + (f" *Refused*: {'; '.join(entry.refused)}.\n" if entry.refused else "\n")


def _names(kinds: list[str] | tuple[str, ...]) -> str:
    return ", ".join(f"**`{kind}`**" for kind in kinds)


def _count(text: str, what: str) -> str:
    number = "no" if text == "0" else text.replace("at least ", "") + " or more" * ("at" in text)
    return f"{number} {what}{'' if text == '1' else 's'}"


def _plain(text: str) -> str:
    """A formula's stars and underscores are no Markdown; what stands between backticks is."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([*_<])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


if __name__ == "__main__":
    PATH.write_text(page())
