"""What each ONNX operator does and which of its forms are refused, as its function says.

A docstring says what the operator does; a paragraph `Refused: this; that.` lists the forms that
ONNX allows and the importer does not take.
"""

from __future__ import annotations

import inspect

from rnncc.frontends.onnx.table import FAMILIES
from rnncc.frontends.onnx.unread import BY_DEFINITION
from rnncc.records import record

_REFUSED = "Refused: "


@record
class OperatorEntry:
    """An operator.

    Attributes:
        about: what it does.
        refused: the forms that are not supported.
    """

    name: str
    about: str
    refused: tuple[str, ...]


def entries() -> dict[str, list[OperatorEntry]]:
    """All that is supported, by family."""
    by_family = {
        family: [_entry(name, operator.build.__doc__ or "") for name, operator in table.items()]
        for family, table in FAMILIES.items()
    }
    about = "As the standard defines it by other operators."
    return {
        **by_family,
        "By definition": [OperatorEntry(name, about, ()) for name in BY_DEFINITION],
    }


def _entry(name: str, doc: str) -> OperatorEntry:
    paragraphs = [" ".join(part.split()) for part in inspect.cleandoc(doc).split("\n\n")]
    refused = [p.removeprefix(_REFUSED) for p in paragraphs if p.startswith(_REFUSED)]
    about = " ".join(p for p in paragraphs if not p.startswith(_REFUSED))
    return OperatorEntry(
        name, about, tuple(refused[0].removesuffix(".").split("; ")) if refused else ()
    )
