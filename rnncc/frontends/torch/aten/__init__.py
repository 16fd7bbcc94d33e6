"""The aten operators that are translated, by family: name -> function of its context and operands.

A function takes aten's own arguments, tensors as values, and gives a value or a tuple of them. A
key is an operator's name, or NAME.OVERLOAD where overloads differ.
"""

from __future__ import annotations

from rnncc.frontends.torch.aten import (
    activations,
    comparisons,
    complex_numbers,
    convolution,
    elementwise,
    indexing,
    linear,
    losses,
    normalisation,
    pooling,
    quantisation,
    random,
    ranking,
    recurrent,
    reductions,
    resizing,
    shapes,
    sources,
)
from rnncc.frontends.torch.node_context import Table
from rnncc.frontends.torch.own_operators import constant_op, scalar_op

OPERATORS: Table = {
    **elementwise.OPERATORS,
    **activations.OPERATORS,
    **comparisons.OPERATORS,
    **linear.OPERATORS,
    **losses.OPERATORS,
    **reductions.OPERATORS,
    **normalisation.OPERATORS,
    **random.OPERATORS,
    **recurrent.OPERATORS,
    **shapes.OPERATORS,
    **convolution.OPERATORS,
    **pooling.OPERATORS,
    **quantisation.OPERATORS,
    **resizing.OPERATORS,
    **indexing.OPERATORS,
    **ranking.OPERATORS,
    **sources.OPERATORS,
    **scalar_op.OPERATORS,
    **constant_op.OPERATORS,
}
COMPLEX = complex_numbers.OPERATORS
COMPLEX_FROM_FLOATS = complex_numbers.MAKING
