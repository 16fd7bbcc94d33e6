"""Which rows of a kernel are computed, where not all are."""

from __future__ import annotations

from xdsl.dialects.builtin import BoolAttr, IntAttr
from xdsl.ir import Attribute, SSAValue

from rnncc.records import record


@record
class ListedRows:
    """Rows that a list names.

    Attributes:
        rows: the list, by `kern.list_rows`.
        axes: how many of the domain's first axes a row's number runs over.
        where: the flag of the rows that are computed.
    """

    rows: SSAValue
    axes: int
    where: bool


def chosen(some: ListedRows | None) -> tuple[list[SSAValue], dict[str, Attribute | None]]:
    """The operand and the properties of a kernel that say which rows are computed."""
    if some is None:
        return [], {}
    properties = {"row_axes": IntAttr(some.axes), "where": BoolAttr.from_bool(some.where)}
    return [some.rows], {**properties}
