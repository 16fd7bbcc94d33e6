"""Operators of ai.onnx.ml on numbers: what scalers, encoders and linear models become.

Attributes hold their numbers, as float32 and int64.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.node import FLOATS, INTEGERS, NUMBERS, Node, OnnxOperator
from rnncc.frontends.onnx.texts import texts_of
from rnncc.frontends.onnx.values import Array
from rnncc.ir.dims import product
from rnncc.ir.types import dims_of, dtype_of, shape_text
from rnncc.nn.indexing import extremum_place
from rnncc.nn.linear import matmul
from rnncc.nn.normalisation import softmax
from rnncc.nn.reduction import reduce_keepdims


def _scaler(n: Node) -> SSAValue:
    """(X - offset) · scale by columns.

    Refused: other than one or two axes.
    """
    b, (x, columns) = n.b, _columns(n)
    x = x if dtype_of(x) in FLOATS else b.cast(x, "f32")
    offset, scale = (np.array(n.reals(name), np.float32) for name in ("offset", "scale"))
    if offset.shape != scale.shape or offset.size not in (1, columns):
        what = f"has {offset.size} offsets and {scale.size} scales for {columns} columns"
        raise n.error(what)
    offset, scale = (b.cast(n.literal(each), dtype_of(x)) for each in (offset, scale))
    return n.like(b.mul(b.sub(x, offset), scale), x)


def _columns(n: Node) -> tuple[SSAValue, int]:
    """Rows of numbers, or one, and how many columns they have."""
    x, dims = n.x(0, NUMBERS), n.dims()
    if len(dims) not in (1, 2):
        raise n.unsupported(f"has data of shape {shape_text(dims)}, expected one or two axes")
    if not dims[-1].is_static:
        raise n.unsupported(f"has an open number of columns, {dims[-1]}", "--shape gives a number")
    return x, int(dims[-1])


def _rows(n: Node) -> SSAValue:
    """Rows of float32; a vector is one."""
    x, columns = _columns(n)
    return n.b.cast(n.b.reshape(x, (product(dims_of(x)[:-1]), columns)), "f32")


def _normalizer(n: Node) -> SSAValue:
    """Rows of X / max X, X / Σ|X| or X / √ΣX²; those whose divisor is 0 stay.

    Refused: other than one or two axes.
    """
    b, x = n.b, n.b.cast(_columns(n)[0], "f32")
    axis = [len(dims_of(x)) - 1]
    norm = n.one_of("norm", ("MAX", "L1", "L2"))
    if norm == "MAX":
        size = reduce_keepdims(b, "max", x, axis)
    elif norm == "L1":
        size = reduce_keepdims(b, "sum", b.abs(x), axis)
    else:
        size = b.sqrt(reduce_keepdims(b, "sum", b.mul(x, x), axis))
    empty = b.compare("eq", size, b.full_like(size, 0))
    return b.div(x, b.select(empty, b.full_like(size, 1), size))


def _binarizer(n: Node) -> SSAValue:
    """1 where X is above a threshold, else 0.

    Refused: elements other than floats.
    """
    b, x = n.b, n.x(0, FLOATS)
    above = b.compare("gt", x, n.full(n.real("threshold"), x))
    return b.select(above, b.full_like(x, 1), b.full_like(x, 0))


def _imputer(n: Node) -> SSAValue:
    """X with one value, which may be NaN, replaced by others, one for all columns or one each.

    Refused: other than one or two axes.
    """
    b, (x, columns) = n.b, _columns(n)
    floats = dtype_of(x) in FLOATS
    if floats:
        imputed = np.array(n.reals("imputed_value_floats"), np.float32)
        replaced = np.array(n.real("replaced_value_float"), np.float32)
    else:
        imputed = np.array(n.integers("imputed_value_int64s"), np.int64)
        replaced = np.array(n.integer("replaced_value_int64"), np.int64)
    if imputed.size not in (1, columns):
        raise n.error(f"has {imputed.size} imputed values for {columns} columns")
    old, new = (b.cast(n.literal(each), dtype_of(x)) for each in (replaced, imputed))
    missing = b.compare("ne", x, x) if np.isnan(replaced) else b.compare("eq", x, old)
    return b.select(missing, new, x)


def _feature_vectorizer(n: Node) -> SSAValue:
    """The columns of the inputs one after another, as float32.

    Refused: inputs with other numbers of columns than the attribute says.
    """
    parts = list[SSAValue]()
    for index in range(len(n.inputs)):
        x, dims = n.x(index, NUMBERS), n.dims(index)
        if len(dims) not in (1, 2):
            raise n.error(f"has an input of shape {shape_text(dims)}, expected one or two axes")
        parts.append(n.b.cast(n.b.reshape(x, (product(dims[:-1]), dims[-1])), "f32"))
    sizes = [dims_of(part)[1] for part in parts]
    if n.given("inputdimensions") and sizes != n.integers("inputdimensions"):
        shown = ", ".join(map(str, sizes))
        raise n.unsupported(f"has inputs of {shown} columns, not those of inputdimensions")
    return n.b.concat(parts, 1)


def _feature_extractor(n: Node) -> SSAValue:
    """Elements along the last axis, by number."""
    b, x, dims = n.b, n.x(0, (*NUMBERS, "text")), n.dims()
    if not dims:
        raise n.error("has data without axes")
    places = b.reshape(n.x(1, INTEGERS), (product(n.dims(1)),))
    features = b.gather(x, places, len(dims) - 1)
    return b.reshape(features, (1, *dims_of(features))) if len(dims) == 1 else features


def labels_of(n: Node, integers: str) -> Array:
    """The names of classes, texts or integers."""
    if n.given("classlabels_strings"):
        return texts_of(n.texts("classlabels_strings"))
    return np.array(n.integers(integers), np.int64)


def _scores(n: Node, targets: int | None) -> SSAValue:
    """X coefficientsᵀ + intercepts: a row for each row of X, a column for each target."""
    x = _rows(n)
    columns = int(dims_of(x)[1])
    weights = np.array(n.reals("coefficients"), np.float32)
    count = weights.size // max(columns, 1) if targets is None else targets
    intercepts = np.array(n.reals("intercepts"), np.float32)
    if count < 1 or weights.size != count * columns or intercepts.size not in (0, count):
        what = f"has {weights.size} coefficients and {intercepts.size} intercepts"
        raise n.error(f"{what} for {columns} columns" + (f", {targets} targets" * bool(targets)))
    scores = matmul(n.b, x, n.literal(np.ascontiguousarray(weights.reshape(count, columns).T)))
    return n.b.add(scores, n.literal(intercepts)) if intercepts.size else scores


def transformed(n: Node, scores: SSAValue) -> SSAValue:
    """What `post_transform` makes of scores."""
    kind = n.text("post_transform")
    if kind == "LOGISTIC":
        return n.b.sigmoid(scores)
    if kind == "SOFTMAX":
        return softmax(n.b, scores, 1)
    if kind != "NONE":
        known = "supported: NONE, LOGISTIC, SOFTMAX"
        raise n.unsupported(f"transforms scores by {kind[:40]!r}", known)
    return scores


def _linear_regressor(n: Node) -> SSAValue:
    """X coefficientsᵀ + intercepts, then the logistic function or a softmax if asked for.

    Refused: other than one or two axes; PROBIT and SOFTMAX_ZERO; transforms of a single target,
    which ONNX Runtime leaves out.
    """
    targets = n.integer("targets")
    if targets == 1 and n.text("post_transform") != "NONE":
        raise n.unsupported("transforms the scores of a single target")
    return transformed(n, _scores(n, targets))


def _linear_classifier(n: Node) -> Sequence[SSAValue]:
    """The label of the largest score, and all scores, which are those of LinearRegressor; of two
    labels with one score s, the second where s > 0, and 1 - s and s.

    Refused: other than one or two axes; PROBIT and SOFTMAX_ZERO; a softmax of one score.
    """
    b, scores = n.b, _scores(n, None)
    labels = labels_of(n, "classlabels_ints")
    if not labels.size:
        raise n.error("has no labels")
    rows, count = dims_of(scores)
    if count == 1 and labels.size == 2:
        if n.text("post_transform") == "SOFTMAX":
            raise n.unsupported("has a softmax of one score")
        place = b.reshape(b.compare("gt", scores, b.full_like(scores, 0)), (rows,))
        scores = transformed(n, scores)
        scores = b.concat([b.sub(b.full_like(scores, 1), scores), scores], 1)
        return [b.gather(n.literal(labels), b.cast(place, "i64"), 0), scores]
    if count != labels.size:
        raise n.error(f"has {labels.size} labels for {count} scores")
    place = extremum_place(b, scores, "max", 1)
    return [b.gather(n.literal(labels), place, 0), transformed(n, scores)]


OPERATORS: dict[str, OnnxOperator] = {
    f"ai.onnx.ml.{name}": OnnxOperator(build)
    for name, build in {
        "Scaler": _scaler,
        "Normalizer": _normalizer,
        "Binarizer": _binarizer,
        "Imputer": _imputer,
        "FeatureVectorizer": _feature_vectorizer,
        "ArrayFeatureExtractor": _feature_extractor,
        "LinearRegressor": _linear_regressor,
        "LinearClassifier": _linear_classifier,
    }.items()
}
