"""Operators of ai.onnx.ml: what ONNX Runtime computes, for all types and kinds of attributes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

import rnncc
from rnncc.errors import CompileError
from tests.frontends.onnx.models import (
    Arrays,
    assert_close,
    by_onnxruntime,
    info,
    interpreted,
    model,
    node,
)

DOMAIN = "ai.onnx.ml"
DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64}
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}
ROWS = np.array([[1.0, -2, 3], [0, 0, 0], [-1, -5, -2], [4, 2, 7]])
Case = tuple[str, Mapping[str, Any], str, Mapping[str, Any]]


def of_one(kind: str, inputs: Mapping[str, Any], outputs: str, **attributes: Any) -> Any:
    """A model of one node; `outputs` are names with their types, such as `y:f32`."""
    results = [text.split(":") for text in outputs.split()]
    return model(
        [
            node(
                kind, " ".join(inputs), " ".join(n for n, _ in results), domain=DOMAIN, **attributes
            )
        ],
        [info(n, list(a.shape), NAMES[a.dtype]) for n, a in inputs.items()],
        [info(n, None, dtype) for n, dtype in results],
        domains={DOMAIN: 4},
    )


def weights(targets: int) -> dict[str, Any]:
    numbers = [0.5, -1.0, 0.25, 0.125, 2.0, -0.75, 1.5, 0.5, -0.25][: 3 * targets]
    return {"coefficients": numbers, "intercepts": [0.25, -0.5, 1.0][:targets]}


def cases() -> dict[str, Case]:
    made = dict[str, Case]()
    for dtype, (form, x) in product(DTYPES, {"rows": ROWS, "one": ROWS[3]}.items()):
        given, name = {"x": x.astype(DTYPES[dtype])}, f"{dtype} {form}"
        for count in (1, 3):
            spread = {"offset": [1.0, 0.5, 2.0][:count], "scale": [2.0, -3.0, 0.1][:count]}
            made[f"Scaler {name} {count}"] = ("Scaler", given, "y:f32", spread)
        for norm in ("MAX", "L1", "L2"):
            made[f"Normalizer {name} {norm}"] = ("Normalizer", given, "y:f32", {"norm": norm})
        for targets, told in product((1, 2, 3), ("NONE", "LOGISTIC", "SOFTMAX")):
            post = {"post_transform": told, **weights(targets)}
            if dtype == "f32" and (targets > 1 or told == "NONE"):  # ONNX Runtime has no others
                regressed = {"targets": targets, **post}
                made[f"LinearRegressor {name} {targets} {told}"] = (
                    *("LinearRegressor", given, "y:f32"),
                    regressed,
                )
            if targets > 1 or told != "SOFTMAX":
                labels = {"classlabels_ints": [5, -7, 9][: max(targets, 2)]}
                made[f"LinearClassifier {name} {targets} {told}"] = (
                    *("LinearClassifier", given, "label:i64 y:f32"),
                    {**post, **labels},
                )
        if dtype != "i32":  # nor these
            categories = {"cats_int64s": [3, 0, 7]}
            made[f"OneHotEncoder {name}"] = ("OneHotEncoder", given, "y:f32", categories)
        places = {**given, "at": np.array([[2, 0]])}
        made[f"ArrayFeatureExtractor {name}"] = ("ArrayFeatureExtractor", places, f"y:{dtype}", {})
        vectors = {**given, "z": x.astype(DTYPES[dtype]) + 1}
        sizes = {"inputdimensions": [3, 3]}
        made[f"FeatureVectorizer {name}"] = ("FeatureVectorizer", vectors, "y:f32", sizes)
    for count, replaced in product((1, 3), (0.0, float("nan"))):
        x = np.where(ROWS == -2, np.nan, ROWS).astype(np.float32)
        told = {"imputed_value_floats": [7.0, 8.0, 9.0][:count], "replaced_value_float": replaced}
        made[f"Imputer {count} {replaced}"] = ("Imputer", {"x": x}, "y:f32", told)
    whole = {"imputed_value_int64s": [7], "replaced_value_int64": -2}
    made["Imputer of integers"] = ("Imputer", {"x": ROWS.astype("i8")}, "y:i64", whole)
    binary = ("Binarizer", {"x": ROWS.astype("f4")}, "y:f32", {"threshold": 0.5})
    return {**made, "Binarizer": binary, **label_encoders(), **machines()}


def machines() -> dict[str, Case]:
    """With support vectors, of one class, and by coefficients alone."""
    made = dict[str, Case]()
    for kernel, params in {
        "LINEAR": [0.0, 0.0, 0.0],
        "POLY": [0.5, 0.25, 3.0],
        "RBF": [0.3, 0.0, 0.0],
        "SIGMOID": [0.2, -0.5, 0.0],
    }.items():
        machine = {"kernel_type": kernel, "kernel_params": params, "rho": [0.25]}
        rows, told = {"x": 0.5 * ROWS.astype("f4")}, {"coefficients": [0.5, -1.0, 0.75]}
        vectors = {"n_supports": 2, "support_vectors": [0.5, -1, 1, 2, 0.5, 0.25]}
        for one_class in (0, 1):
            several = {**machine, **vectors, "coefficients": [1.5, -2.0], "one_class": one_class}
            made[f"SVMRegressor {kernel} {one_class}"] = ("SVMRegressor", rows, "y:f32", several)
        made[f"SVMRegressor {kernel} alone"] = ("SVMRegressor", rows, "y:f32", machine | told)
    return made


def label_encoders() -> dict[str, Case]:
    """From and to integers and floats, near each other and far apart, by lists and by tensors."""
    near, far = [3, -2, 7], [3, -2, 1 << 40]
    kinds: dict[str, tuple[Any, str, dict[str, Any]]] = {
        "near": (np.array([[7, 3], [5, -2]]), "f32", {"keys_int64s": near}),
        "far": (np.array([[1 << 40, 3], [5, -2]]), "f32", {"keys_int64s": far}),
        "far outside": (np.array([1 << 62, -(1 << 62) - 5, 7]), "f32", {"keys_int64s": near}),
        "floats": (
            np.array([0.5, np.nan, -0.0, 9], np.float32),
            "i64",
            {"keys_floats": [float("nan"), 0.0, 0.5]},
        ),
    }
    values: dict[str, dict[str, Any]] = {
        "f32": {"values_floats": [0.5, 0.25, 4.0], "default_float": -1.5},
        "i64": {"values_int64s": [10, 1 << 40, -30], "default_int64": 6},
    }
    made: dict[str, Case] = {
        f"LabelEncoder {name}": ("LabelEncoder", {"x": x}, f"y:{dtype}", {**keys, **values[dtype]})
        for name, (x, dtype, keys) in kinds.items()
    }
    tensors = {
        "keys_tensor": numpy_helper.from_array(np.array([1, 2], np.int64)),
        "values_tensor": numpy_helper.from_array(np.array([0.5, 0.25])),
        "default_tensor": numpy_helper.from_array(np.array([9.0])),
    }
    x = {"x": np.array([2, 1, 3, -1])}
    return {**made, "LabelEncoder of tensors": ("LabelEncoder", x, "y:f64", tensors)}


CASES = cases()


@pytest.mark.peers
@pytest.mark.parametrize("name", CASES)
def test_operator(name: str) -> None:
    kind, inputs, outputs, attributes = CASES[name]
    made = of_one(kind, inputs, outputs, **attributes)
    got, want = interpreted(made, inputs), by_onnxruntime(made, inputs)
    assert {n: a.dtype for n, a in got.items()} == {n: a.dtype for n, a in want.items()}
    assert_close(got, want)


X = {"x": ROWS.astype(np.float32)}


@pytest.mark.parametrize(
    ("case", "why"),
    [
        (("Scaler", X, "y:f32", {"offset": [1.0], "scale": [1.0, 2, 3]}), "1 offsets and 3 scales"),
        (("Scaler", {"x": X["x"][None]}, "y:f32", {}), "of shape 1 x 4 x 3, expected one or two"),
        (("OneHotEncoder", X, "y:f32", {"cats_int64s": [1, 1]}), "has a category twice"),
        (("OneHotEncoder", X, "y:f32", {"cats_int64s": [1], "zeros": 0}), "refuses elements of no"),
        (("OneHotEncoder", X, "y:f32", {"cats_strings": ["a"]}), "no categories that are integers"),
        (("LabelEncoder", X, "y:f32", {"keys_floats": [1.0]}), "has no values"),
        (
            ("LabelEncoder", X, "y:i64", {"keys_floats": [1.0], "values_int64s": [1, 2]}),
            r"has keys \(1,\) for values \(2,\)",
        ),
        (
            ("LabelEncoder", X, "y:i64", {"keys_floats": [1.0, 1.0], "values_int64s": [1, 2]}),
            "has a key twice",
        ),
        (
            ("LinearRegressor", X, "y:f32", {**weights(1), "post_transform": "LOGISTIC"}),
            "transforms the scores of a single target",
        ),
        (
            (
                "LinearRegressor",
                X,
                "y:f32",
                {**weights(2), "targets": 2, "post_transform": "PROBIT"},
            ),
            "transforms scores by 'PROBIT'",
        ),
        (("LinearRegressor", X, "y:f32", {**weights(2), "targets": 3}), "6 coefficients and 2"),
        (
            ("LinearClassifier", X, "l:i64 y:f32", {**weights(3), "classlabels_ints": [1]}),
            "1 labels for 3 scores",
        ),
        (
            (
                "LinearClassifier",
                X,
                "l:i64 y:f32",
                {**weights(1), "classlabels_strings": ["a"] * 3},
            ),
            "3 labels for 1 scores",
        ),
        (
            ("FeatureVectorizer", {**X, "z": X["x"]}, "y:f32", {"inputdimensions": [2, 3]}),
            "not those of inputdimensions",
        ),
        (("ZipMap", X, "y:f32", {"classlabels_int64s": [1, 2, 3]}), "maps are not read"),
    ],
)
def test_refusal(case: Case, why: str) -> None:
    kind, inputs, outputs, attributes = case
    with pytest.raises(CompileError, match=why):
        interpreted(of_one(kind, inputs, outputs, **attributes), inputs)


@pytest.mark.peers
def test_pipeline_compiled() -> None:
    """Scaled features of an open batch, a GRU, a linear classifier: at two sizes."""
    rng = np.random.default_rng(0)
    constants: Arrays = {
        "w": rng.standard_normal((1, 12, 3)).astype(np.float32),
        "r": rng.standard_normal((1, 12, 4)).astype(np.float32),
        "flat": np.array([-1, 3]),
        "rows": np.array([-1, 4]),
    }
    labels = {"classlabels_ints": [4, 8, 15], "post_transform": "SOFTMAX"}
    linear = {"coefficients": [*rng.standard_normal(12)], "intercepts": [0.1, 0.2, -0.3]}
    spread = {"offset": [1.0, 0.5, 2.0], "scale": [2.0, -3.0, 0.1]}
    nodes = [
        node("Shape", "x", "shape"),
        node("Reshape", "x flat", "columns"),
        node("Scaler", "columns", "scaled", domain=DOMAIN, **spread),
        node("Reshape", "scaled shape", "sequence"),
        node("GRU", "sequence w r", "_ last", hidden_size=4),
        node("Reshape", "last rows", "features"),
        node("LinearClassifier", "features", "label y", domain=DOMAIN, **linear, **labels),
    ]
    made = model(
        nodes,
        [info("x", ["T", "N", 3])],
        [info("label", None, "i64"), info("y", None)],
        constants,
        domains={DOMAIN: 3},
    )
    compiled = rnncc.compile(made)
    for steps, batch in ((5, 1), (3, 4)):
        x = {"x": rng.standard_normal((steps, batch, 3)).astype(np.float32)}
        assert_close(compiled.run(x), by_onnxruntime(made, x))


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        ({"rho": [0.0], "coefficients": [1.0]}, "1 coefficients, 0 numbers of 0 support vectors"),
        ({"rho": [0.0], "coefficients": [1.0] * 3, "post_transform": "LOGISTIC"}, "transforms"),
    ],
)
def test_machines_that_do_not_fit(attributes: Mapping[str, Any], why: str) -> None:
    with pytest.raises(CompileError, match=why):
        interpreted(of_one("SVMRegressor", X, "y:f32", **attributes), X)
