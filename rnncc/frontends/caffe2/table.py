"""The operators that the importer knows, and those it refuses with a reason."""

from rnncc.frontends.caffe2.operator import Operator
from rnncc.frontends.caffe2.ops import (
    cells,
    elementwise,
    fill,
    linear,
    recurrent_network,
    sequence,
    shape,
)

OPERATORS: dict[str, type[Operator]] = {
    **elementwise.OPERATORS,
    **linear.OPERATORS,
    **shape.OPERATORS,
    **sequence.OPERATORS,
    **cells.OPERATORS,
    **fill.OPERATORS,
    **recurrent_network.OPERATORS,
}
"""Operator type -> the class that imports it; its docstring is the formula."""

REFUSED: dict[str, str] = {**sequence.REFUSED, **fill.REFUSED}
"""Operator type -> why it is not supported."""
