"""What each operator does and which of its forms are refused, as its class says.

A docstring says what the operator does; a paragraph `Refused: this; that.` lists the forms that
Caffe2 takes and the importer does not, or `nothing`. Without one, that of the class above counts.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping

from rnncc.frontends.caffe2.operator import Operator, range_text
from rnncc.frontends.caffe2.table import FAMILIES, GRADIENTS
from rnncc.records import record

_REFUSED = "Refused: "
_ATTRIBUTES = "Attributes:"


@record
class OperatorGroup:
    """Operator types that are imported alike.

    Attributes:
        kinds: the types.
        about: what they do.
        refused: the forms that are not supported.
        inputs, outputs: how many there may be: `1 to 3`.
    """

    kinds: tuple[str, ...]
    about: str
    refused: tuple[str, ...]
    inputs: str
    outputs: str


def entries() -> dict[str, list[OperatorGroup]]:
    """All that is supported, by family."""
    families = {family: _entries(operators) for family, operators in FAMILIES.items()}
    return {**families, "Gradients of control": _entries(GRADIENTS)}


def _entries(operators: Mapping[str, type[Operator]]) -> list[OperatorGroup]:
    kinds: dict[type[Operator], list[str]] = {}
    for kind, operator in operators.items():
        kinds.setdefault(operator, []).append(kind)
    return [_entry(tuple(names), operator) for operator, names in kinds.items()]


def _entry(kinds: tuple[str, ...], operator: type[Operator]) -> OperatorGroup:
    about = " ".join(
        text
        for text in _paragraphs(operator)
        if not text.startswith(_REFUSED) and not text.startswith(_ATTRIBUTES)
    )
    stated = [text for kind in operator.__mro__ if (text := _refused(kind))]
    refused = stated[0] if stated else "nothing"
    return OperatorGroup(
        kinds,
        about,
        () if refused == "nothing" else tuple(refused.split("; ")),
        range_text(*operator.inputs),
        range_text(*operator.outputs),
    )


def _refused(operator: type) -> str:
    """What a class itself says is refused; empty where it does not say."""
    for text in _paragraphs(operator):
        if text.startswith(_REFUSED):
            return text.removeprefix(_REFUSED).removesuffix(".")
    return ""


def _paragraphs(operator: type) -> list[str]:
    text: str = inspect.cleandoc(operator.__doc__ or "")
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
