"""Writes docs/operators.md and docs/onnx_operators.md from the importers' own tables.

python -m tools.write_operators
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from rnncc.frontends import caffe2
from rnncc.frontends.caffe2 import reference as caffe2_reference
from rnncc.frontends.onnx import reference as onnx_reference
from rnncc.frontends.onnx import unread
from tools.wrapping import wrap

DOCS = Path(__file__).parents[1] / "docs"
CAFFE2_HEAD = """# The Caffe2 operators

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
ONNX_HEAD = """# The ONNX operators

Written by `tools/write_operators.py` from the docstrings of the importer's functions; do not
edit. `rnncc ops --onnx` prints the same.

X, Y, A, B and C stand for the inputs in their order. All forms of opset 6 to the newest are read,
but for those that stand behind *Refused*: each is an error that names the node.
"""


def caffe2_page() -> str:
    """docs/operators.md"""
    lines = {
        family: [_caffe2_line(e) for e in es] for family, es in caffe2_reference.entries().items()
    }
    return _page(CAFFE2_HEAD, lines, caffe2.REFUSED)


def onnx_page() -> str:
    """docs/onnx_operators.md"""
    lines = {family: _onnx_lines(es) for family, es in onnx_reference.entries().items()}
    return _page(ONNX_HEAD, lines, unread.REFUSED)


def _page(head: str, families: Mapping[str, Sequence[str]], refused: Mapping[str, str]) -> str:
    parts = [head]
    for family, lines in families.items():
        parts += [f"\n## {family}\n\n", *lines]
    parts.append("\n## Refused altogether\n\n")
    reasons: dict[str, list[str]] = {}
    for kind, reason in refused.items():
        reasons.setdefault(reason, []).append(kind)
    parts += [f"- {_names(kinds)}: {reason}.\n" for reason, kinds in reasons.items()]
    return wrap("".join(parts))


def _caffe2_line(entry: caffe2_reference.OperatorGroup) -> str:
    counts = f"{_count(entry.inputs, 'input')}, {_count(entry.outputs, 'output')}"
    return _line(f"{_names(entry.kinds)} ({counts})", entry.about, entry.refused)


def _onnx_lines(entries: Sequence[onnx_reference.OperatorEntry]) -> list[str]:
    """Operators of which the same is said share a line."""
    same: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for entry in entries:
        same.setdefault((entry.about, entry.refused), []).append(entry.name)
    return [_line(_names(names), *said) for said, names in same.items()]


def _line(names: str, about: str, refused: Sequence[str]) -> str:
    line = f"- {names}: {_plain(about)}"
    return line + (f" *Refused*: {'; '.join(refused)}.\n" if refused else "\n")


def _names(kinds: Sequence[str]) -> str:
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
    (DOCS / "operators.md").write_text(caffe2_page())
    (DOCS / "onnx_operators.md").write_text(onnx_page())
