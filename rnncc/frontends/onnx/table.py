"""The operators that are read by a function each, by family."""

from rnncc.frontends.onnx.node import OnnxOperator
from rnncc.frontends.onnx.ops import (
    activations,
    arithmetic,
    blocked,
    blocks,
    contributed,
    control,
    conv,
    dequantised,
    elementwise,
    encoders,
    fourier,
    indexing,
    integer_products,
    learners,
    linear,
    logic,
    loop,
    machines,
    normal,
    optional,
    pooling,
    quantised,
    random,
    ranking,
    recurrent,
    reduce,
    regions,
    resize,
    selecting,
    sequence,
    shape,
    slicing,
    source,
    trees,
)

FAMILIES: dict[str, dict[str, OnnxOperator]] = {
    "Recurrent layers": recurrent.OPERATORS,
    "Control": {**control.OPERATORS, **loop.OPERATORS},
    "Products": linear.OPERATORS,
    "Arithmetic": arithmetic.OPERATORS,
    "Element by element": elementwise.OPERATORS,
    "Activations": activations.OPERATORS,
    "Comparisons and logic": logic.OPERATORS,
    "Reductions": reduce.OPERATORS,
    "Normalisation": normal.OPERATORS,
    "Convolution and pooling": {
        **conv.OPERATORS,
        **pooling.OPERATORS,
        **dequantised.OPERATORS,
        **regions.OPERATORS,
    },
    "Other sizes": resize.OPERATORS,
    "Shapes": shape.OPERATORS,
    "Parts and edges": slicing.OPERATORS,
    "Indexing": {**indexing.OPERATORS, **selecting.OPERATORS},
    "Along an axis": ranking.OPERATORS,
    "Fourier transforms": fourier.OPERATORS,
    "Lists of tensors": sequence.OPERATORS,
    "Optional values": optional.OPERATORS,
    "Constants": source.OPERATORS,
    "Random numbers": random.OPERATORS,
    "Quantised tensors": {
        **quantised.OPERATORS,
        **integer_products.OPERATORS,
        **blocks.OPERATORS,
    },
    "Written by ONNX Runtime's optimisers": {**contributed.OPERATORS, **blocked.OPERATORS},
    "Scalers, encoders, linear models, trees (ai.onnx.ml)": {
        **encoders.OPERATORS,
        **learners.OPERATORS,
        **machines.OPERATORS,
        **trees.OPERATORS,
    },
}

OPERATORS: dict[str, OnnxOperator] = {
    name: operator for family in FAMILIES.values() for name, operator in family.items()
}
"""Operator -> how it is read; with its domain in front where that is not the standard's."""
