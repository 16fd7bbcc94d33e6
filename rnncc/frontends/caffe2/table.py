"""The operators that the importer knows, and those it refuses with a reason."""

from collections.abc import Mapping

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

FAMILIES: dict[str, Mapping[str, type[Operator]]] = {
    "Elementwise": elementwise.OPERATORS,
    "Products and rows": linear.OPERATORS,
    "Shapes": shape.OPERATORS,
    "Sequences": sequence.OPERATORS,
    "Cells": cells.OPERATORS,
    "Constants and Dropout": fill.OPERATORS,
    "Recurrent nets": recurrent_network.OPERATORS,
    "Control": {**do.OPERATORS, **branch.OPERATORS, **loop.OPERATORS},
    "Sums and gradients": {**gradients.OPERATORS, **recurrent_gradient.OPERATORS},
}

OPERATORS: dict[str, type[Operator]] = {
    kind: made for family in FAMILIES.values() for kind, made in family.items()
}
"""Operator type -> the class that imports it; its docstring is the formula, and ends with the forms
that are refused."""

GRADIENTS: dict[str, type[Operator]] = control_gradient.GRADIENTS
"""Operator type -> the class of those that are marked as gradients."""

REFUSED: dict[str, str] = {
    **sequence.REFUSED,
    **fill.REFUSED,
    "ONNXWhile": "of loops, While is read",
    "Recurrent": "its weights are in cuDNN's own layout",
}
"""Operator type -> why it is not supported."""
