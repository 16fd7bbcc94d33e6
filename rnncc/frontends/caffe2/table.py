"""The operators that the importer knows, and those it refuses with a reason."""

from rnncc.frontends.caffe2.operator import Operator
from rnncc.frontends.caffe2.ops import (
    cells,
    elementwise,
    fill,
    gradients,
    linear,
    recurrent_gradient,
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
    **gradients.OPERATORS,
    **recurrent_gradient.OPERATORS,
}
"""Operator type -> the class that imports it; its docstring is the formula."""

_CONTROL = ("If", "While", "Do", "ONNXWhile", "CreateScope", "HasScope")

REFUSED: dict[str, str] = {
    **sequence.REFUSED,
    **fill.REFUSED,
    **dict.fromkeys(_CONTROL, "control flow is not read"),
    "Recurrent": "its weights are in cuDNN's own layout",
}
"""Operator type -> why it is not supported."""
