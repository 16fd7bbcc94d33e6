"""The operators that the importer knows, and those it refuses with a reason."""

from rnncc.frontends.caffe2.operator import Operator
from rnncc.frontends.caffe2.ops import (
    branch,
    cells,
    control_gradient,
    do,
    elementwise,
    fill,
    gradients,
    linear,
    loop,
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
    **do.OPERATORS,
    **branch.OPERATORS,
    **loop.OPERATORS,
    **gradients.OPERATORS,
    **recurrent_gradient.OPERATORS,
}
"""Operator type -> the class that imports it; its docstring is the formula."""

GRADIENTS: dict[str, type[Operator]] = control_gradient.GRADIENTS
"""Operator type -> the class of those that are marked as gradients."""

REFUSED: dict[str, str] = {
    **sequence.REFUSED,
    **fill.REFUSED,
    "ONNXWhile": "of loops, While is read",
    "Recurrent": "its weights are in cuDNN's own layout",
}
"""Operator type -> why it is not supported."""
