"""Operators of ai.onnx.ml that look numbers and texts up: encoders of labels and categories.

Texts are numbers in compiled code (`rnncc.frontends.onnx.texts`), so that a table of texts is one
of integers.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.node import NUMBERS, Node, OnnxOperator
from rnncc.frontends.onnx.texts import texts_of
from rnncc.frontends.onnx.values import Array
from rnncc.ir.types import dims_of, dtype_of

MAX_SPAN = 1 << 20
"""Between the least and the largest of integer keys that are looked up in a table."""
TABLED = ("float32", "float64", "int32", "int64")
"""Types of numbers that tables hold."""
_FORMS = ("tensor", "strings", "int64s", "floats")
"""Ends of the names of attributes that hold keys or values."""


def _one_hot_encoder(n: Node) -> SSAValue:
    """1 at the number of an element's category along an axis put in last, else 0; floats are
    rounded towards zero.

    Refused: a category twice; an error for elements of no category, `zeros` 0.
    """
    b, is_text = n.b, n.value(0).dtype == "text"
    if n.given("cats_strings") and n.given("cats_int64s"):
        raise n.error("has categories twice, as texts and as integers")
    if is_text:
        categories = _table_numbers(n, texts_of(n.texts("cats_strings")))
    else:
        categories = np.array(n.integers("cats_int64s"), np.int64)
    if not categories.size:
        raise n.error(f"has no categories that are {'texts' if is_text else 'integers'}")
    _check_once(n, categories, "category")
    if not n.flag("zeros", 1):
        raise n.unsupported("refuses elements of no category")
    x = b.cast(n.text_numbers(0) if is_text else n.x(0, NUMBERS), "i64")
    wide = b.broadcast(x, (*dims_of(x), categories.size), range(len(dims_of(x))))
    here = b.compare("eq", wide, n.literal(categories))
    return b.select(here, n.full(1.0, "f32"), n.full(0.0, "f32"))


def _check_once(n: Node, keys: Array, what: str) -> None:
    if len(np.unique(keys)) < keys.size:
        raise n.unsupported(f"has a {what} twice", "which of them counts, readers do not agree on")


def _label_encoder(n: Node) -> SSAValue:
    """The value of an element's key, or a default.

    Refused: a key twice; values of int16.
    """
    if n.given("classes_strings"):
        return _by_classes(n)
    keys, values = _entries(n, "keys"), _entries(n, "values")
    return _looked_up(n, keys, values, _default(n, values.dtype))


def _by_classes(n: Node) -> SSAValue:
    """The first version's: a text's place among classes, or the other way round."""
    classes = texts_of(n.texts("classes_strings"))
    return _both_ways(n, classes, np.arange(classes.size))


def _category_mapper(n: Node) -> SSAValue:
    """The integer of a text, or the text of an integer, or a default.

    Refused: a text or an integer twice.
    """
    words, numbers = n.texts("cats_strings"), n.integers("cats_int64s")
    return _both_ways(n, texts_of(words), np.array(numbers, np.int64))


def _both_ways(n: Node, texts: Array, numbers: Array) -> SSAValue:
    """Numbers of texts, where the input is texts, else texts of numbers."""
    pair = (texts, numbers) if n.value(0).dtype == "text" else (numbers, texts)
    return _looked_up(n, *pair, _default(n, pair[1].dtype))


def _looked_up(n: Node, keys: Array, values: Array, default: Array) -> SSAValue:
    """The value of each element's key."""
    b = n.b
    if keys.shape != values.shape or keys.ndim != 1 or not keys.size:
        raise n.error(f"has keys {keys.shape} for values {values.shape}")
    _check_once(n, keys, "key")
    if (keys.dtype.kind == "U") != (n.value(0).dtype == "text"):
        raise n.error("has keys of another type than its input")
    if keys.dtype.kind == "U":
        x, keys = n.text_numbers(0), _table_numbers(n, keys)
    else:
        x = n.x(0, NUMBERS)
    kind = np.result_type(values, default) if values.dtype.kind == "U" else values.dtype
    table = np.append(values, default).astype(kind)
    if keys.dtype.kind == "i" and int(keys.max()) - int(keys.min()) < MAX_SPAN:
        return _by_span(n, x, keys, table)
    key = b.cast(n.literal(keys), dtype_of(x))
    wide = b.broadcast(x, (*dims_of(x), keys.size), range(len(dims_of(x))))
    here = b.compare("eq", wide, key)
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        nans = b.compare("ne", wide, wide), b.compare("ne", key, key)
        here = b.logical("or", here, b.logical("and", *nans))
    number = b.iota(dims_of(wide), len(dims_of(x)), "i32")
    place = b.select(here, number, b.fill(keys.size, (), "i32"))
    return b.gather(n.literal(table), b.reduce("min", place, [len(dims_of(x))]), 0)


def _table_numbers(n: Node, texts: Array) -> Array:
    """The numbers that texts are in compiled code, as int64."""
    return n.scope.model.texts.numbers(texts).astype(np.int64)


def _by_span(n: Node, x: SSAValue, keys: Array, table: Array) -> SSAValue:
    """Values looked up by the distance to the least of integer keys."""
    b, least, most = n.b, int(keys.min()), int(keys.max())
    spread = np.full(most - least + 2, table[-1], table.dtype)
    spread[keys.astype(np.int64) - least] = table[:-1]
    x = b.cast(x, "i64")
    bounds = [n.literal(np.array(bound, np.int64)) for bound in (least, most)]
    inside = b.logical("and", b.compare("ge", x, bounds[0]), b.compare("le", x, bounds[1]))
    outside = b.fill(len(spread) - 1, (), "i64")
    return b.gather(n.literal(spread), b.select(inside, b.sub(x, bounds[0]), outside), 0)


def _entries(n: Node, what: str) -> Array:
    """Keys or values, as the one attribute has them that is there."""
    forms = [form for form in _FORMS if n.given(f"{what}_{form}")]
    if len(forms) > 1:
        raise n.error(f"has {what} twice, as {' and '.join(forms)}")
    if n.given(f"{what}_tensor"):
        tensor = n.tensor(f"{what}_tensor")
        if tensor.dtype.kind != "U" and tensor.dtype.name not in TABLED:
            raise n.unsupported(f"has {what} of {tensor.dtype}")
        return tensor
    if n.given(f"{what}_strings"):
        return texts_of(n.texts(f"{what}_strings"))
    if n.given(f"{what}_int64s"):
        return np.array(n.integers(f"{what}_int64s"), np.int64)
    if n.given(f"{what}_floats"):
        return np.array(n.reals(f"{what}_floats"), np.float32)
    raise n.error(f"has no {what}")


def _default(n: Node, dtype: np.dtype[np.generic]) -> Array:
    """What stands for elements without a key."""
    if n.given("default_tensor"):
        default = n.tensor("default_tensor").reshape(-1)[:1]
        if not default.size or (default.dtype.kind == "U") != (dtype.kind == "U"):
            raise n.error("has a default_tensor that is none of its values' type")
        return default
    if dtype.kind == "U":
        return texts_of([n.text("default_string")])
    value = n.integer("default_int64") if dtype.kind == "i" else n.real("default_float")
    return np.array([value])


OPERATORS: dict[str, OnnxOperator] = {
    "ai.onnx.ml.CategoryMapper": OnnxOperator(_category_mapper),
    "ai.onnx.ml.LabelEncoder": OnnxOperator(_label_encoder),
    "ai.onnx.ml.OneHotEncoder": OnnxOperator(_one_hot_encoder),
}
