"""Ensembles of trees of ai.onnx.ml: what ONNX Runtime computes, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

import rnncc
from rnncc.errors import CompileError
from tests.frontends.onnx.models import by_onnxruntime, imported, info, interpreted, model, node

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
VALUES = np.array([-1.0, -0.5, 0.0, 0.5, 1.0], np.float32)
"""Of thresholds and of data, so that they are often equal."""
DTYPES = {"f32": np.float32, "f64": np.float64, "i64": np.int64}


def forest(
    modes: tuple[str, ...], targets: int, *, negative: bool = True, seed: int = 0
) -> dict[str, Any]:
    """Attributes of five random trees of up to four comparisons; weights for `targets`."""
    rng = np.random.default_rng(seed)
    names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    made: dict[str, list[Any]] = {f"nodes_{name}": [] for name in names}
    made["nodes_missing_value_tracks_true"] = []
    leaves: dict[str, list[Any]] = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}

    def grow(tree: int, depth: int, numbers: Any) -> int:
        number, inner = next(numbers), depth < 4 and (depth == 0 or rng.random() < 0.7)
        row: list[Any] = [tree, number, 0, 0.0, "LEAF", 0, 0]
        at = len(made["nodes_modes"])
        for name, value in zip(names, row, strict=True):
            made[f"nodes_{name}"].append(value)
        made["nodes_missing_value_tracks_true"].append(int(rng.integers(2)))
        if inner:
            made["nodes_featureids"][at] = int(rng.integers(3))
            made["nodes_values"][at] = float(rng.choice(VALUES))
            made["nodes_modes"][at] = str(rng.choice(modes))
            made["nodes_truenodeids"][at] = grow(tree, depth + 1, numbers)
            made["nodes_falsenodeids"][at] = grow(tree, depth + 1, numbers)
        for target in range(0 if inner else targets):
            weight = float(rng.standard_normal())
            row = [tree, number, target, weight if negative else abs(weight) / 5]
            for name, value in zip(leaves, row, strict=True):
                leaves[name].append(value)
        return number

    for tree in (0, 1, 4, 2, 3):
        grow(tree, 0, iter(range(99)))
    return {**made, "leaves": leaves}


def regressor(modes: tuple[str, ...], targets: int, **more: Any) -> dict[str, Any]:
    trees = forest(modes, targets)
    weights = {f"target_{name}": column for name, column in trees.pop("leaves").items()}
    return {**trees, **weights, "n_targets": targets, **more}


def classifier(labels: list[int], weighed: int, *, negative: bool, **more: Any) -> dict[str, Any]:
    trees = forest(MODES[:1], weighed, negative=negative)
    weights = {f"class_{name}": column for name, column in trees.pop("leaves").items()}
    return {**trees, **weights, "classlabels_int64s": labels, **more}


def of_one(kind: str, x: np.ndarray[Any, Any], attributes: Mapping[str, Any]) -> Any:
    outputs = {"y": "f32"} if kind.endswith("Regressor") else {"label": "i64", "y": "f32"}
    dtype = next(name for name, each in DTYPES.items() if each == x.dtype)
    made = node(kind, "x", " ".join(outputs), domain="ai.onnx.ml", **attributes)
    infos = [info(name, None, each) for name, each in outputs.items()]
    return model([made], [info("x", ["N", 3], dtype)], infos, domains={"ai.onnx.ml": 3})


def data(dtype: str, missing: bool = False) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(1)
    x = rng.choice(VALUES, (40, 3)) * (2 if dtype == "i64" else 1)
    if missing:
        x[rng.random((40, 3)) < 0.3] = np.nan
    return x.astype(DTYPES[dtype])


CASES: dict[str, tuple[str, Any, dict[str, Any]]] = {
    **{
        f"regressor {'each' if len(modes) > 1 else modes[0]} {targets}": (
            "TreeEnsembleRegressor",
            data("f32", missing=True),
            regressor(modes, targets),
        )
        for modes in ((MODES[0],), (MODES[3],), MODES)
        for targets in (1, 3)
    },
    **{
        f"regressor {kind} {targets}": (
            "TreeEnsembleRegressor",
            data("f32"),
            regressor(
                MODES[1:2], targets, aggregate_function=kind, base_values=[0.5, -1, 2][:targets]
            ),
        )
        for kind, targets in (("AVERAGE", 1), ("AVERAGE", 3), ("MIN", 1), ("MAX", 1), ("SUM", 3))
    },
    **{
        f"classifier {count} labels, {weighed} weighed {post} {negative}": (
            "TreeEnsembleClassifier",
            data("i64" if post == "NONE" else "f32"),
            classifier([5, -7, 9][:count], weighed, negative=negative, post_transform=post),
        )
        for count, weighed, post, negative in (
            *((2, 1, "LOGISTIC", True), (2, 1, "NONE", True), (2, 1, "NONE", False)),
            *((3, 3, "NONE", True), (3, 3, "SOFTMAX", True), (3, 3, "LOGISTIC", True)),
        )
    },
}


@pytest.mark.peers
@pytest.mark.parametrize("name", CASES)
def test_operator(name: str) -> None:
    kind, x, attributes = CASES[name]
    made = of_one(kind, x, attributes)
    got, want = interpreted(made, {"x": x}), by_onnxruntime(made, {"x": x})
    assert {n: a.dtype for n, a in got.items()} == {n: a.dtype for n, a in want.items()}
    np.testing.assert_allclose(got["y"], want["y"], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(got.get("label", 0), want.get("label", 0))


@pytest.mark.peers
def test_compiled() -> None:
    """At two sizes of the batch, with thresholds of float64."""
    attributes = regressor(MODES, 1)
    for name in ("nodes_values", "target_weights"):
        wide = np.array(attributes.pop(name), np.float64)
        attributes[f"{name}_as_tensor"] = numpy_helper.from_array(wide)
    made = of_one("TreeEnsembleRegressor", data("f64"), attributes)
    compiled = rnncc.compile(made)
    for rows in (1, 40):
        x = data("f64")[:rows]
        got, want = compiled.run({"x": x}), by_onnxruntime(made, {"x": x})
        np.testing.assert_allclose(got["y"], want["y"], rtol=1e-5, atol=1e-6)


def changed(**more: Any) -> dict[str, Any]:
    return {**regressor(MODES[:1], 1), **more}


NODES = changed()["nodes_modes"]


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        (changed(nodes_truenodeids=[0] * len(NODES)), "a node with two parents"),
        (changed(nodes_truenodeids=[98] * len(NODES)), "whose children are not there"),
        (changed(nodes_featureids=[7] * len(NODES)), "compares column 7 of 3"),
        (changed(nodes_modes=["BRANCH_MEMBER"] * len(NODES)), "of mode 'BRANCH_MEMBER'"),
        (changed(nodes_values=[0.5]), "has 1 values for"),
        (changed(nodes_featureids=[1]), "'nodes_featureids' has 1 numbers for"),
        (changed(nodes_treeids=[0] * len(NODES)), "or two of one number"),
        (changed(target_ids=[5] * len(changed()["target_ids"])), "targets that are not there"),
        (changed(target_ids=[0]), "for 1 targets of leaves"),
        (changed(post_transform="LOGISTIC"), "transforms the scores of a single target"),
        (changed(base_values=[1.0, 2.0]), "has 2 base values for 1 targets"),
        (
            regressor(MODES[:1], 3, aggregate_function="MIN"),
            "takes the MIN of 3 targets",
        ),
    ],
)
def test_refusal(attributes: dict[str, Any], why: str) -> None:
    with pytest.raises(CompileError, match=why):
        imported(of_one("TreeEnsembleRegressor", data("f32"), attributes))


@pytest.mark.parametrize("labels", [[], [3]])
def test_too_few_labels(labels: list[int]) -> None:
    attributes = classifier([5, -7], 1, negative=True)
    del attributes["classlabels_int64s"]
    attributes |= {"classlabels_int64s": labels} if labels else {"classlabels_strings": ["a"]}
    with pytest.raises(CompileError, match="has 1 labels"):
        imported(of_one("TreeEnsembleClassifier", data("f32"), attributes))


@pytest.mark.parametrize(
    ("weighed", "negative", "post", "why"),
    [
        (2, True, "NONE", "weighs both of two labels"),
        (1, True, "SOFTMAX", "transforms one sum by 'SOFTMAX'"),
        (1, False, "LOGISTIC", "none of which is negative"),
    ],
)
def test_refused_labels(weighed: int, negative: bool, post: str, why: str) -> None:
    attributes = classifier([5, -7], weighed, negative=negative, post_transform=post)
    with pytest.raises(CompileError, match=why):
        imported(of_one("TreeEnsembleClassifier", data("f32"), attributes))
