"""How notebooks show a model: its arrays, and the memory that it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from rnncc_runtime.arrays import TensorSpec

_CELL = "padding:2px 12px 2px 0;text-align:left;font-family:monospace"


def page(kind: str, metadata: Mapping[str, Any], groups: Mapping[str, Sequence[TensorSpec]]) -> str:
    """A table of arrays by group, with what the model is and takes below.

    Args:
        kind: of the model, as its class says.
        groups: such as inputs -> their specs.
    """
    rows = "".join(_group(title, specs) for title, specs in groups.items() if specs)
    facts = {
        "workspace": f"{metadata['workspace']} bytes",
        "state": f"{metadata.get('stream', {}).get('state')} bytes",
        "tape": f"{metadata.get('tape')} bytes",
        "weights": f"{metadata.get('weights')} bytes, {metadata.get('precision', 'fp32')}",
        "for": f"{metadata.get('cpu')}, {metadata.get('target')}",
    }
    lines = "".join(_row(name, text) for name, text in facts.items() if "None" not in text)
    return (
        f"<div><b>{escape(kind)} {escape(metadata['name'])}</b><table>{rows}{lines}</table></div>"
    )


def _group(title: str, specs: Sequence[TensorSpec]) -> str:
    first, *rest = [str(spec) for spec in specs]
    return _row(title, first) + "".join(_row("", text) for text in rest)


def _row(name: str, text: str) -> str:
    head = f'<th style="{_CELL}">{escape(name)}</th>'
    return f'<tr>{head}<td style="{_CELL}">{escape(text)}</td></tr>'
