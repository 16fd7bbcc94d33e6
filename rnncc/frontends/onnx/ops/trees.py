"""Ensembles of decision trees of ai.onnx.ml: forests and boosted trees.

Attributes list the nodes of all trees, each by the numbers of its tree and in it, and the weights
that leaves add to targets or classes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.node import NUMBERS, Node, OnnxOperator
from rnncc.frontends.onnx.ops.learners import labels_of, transformed
from rnncc.frontends.onnx.values import Array
from rnncc.ir.dims import product
from rnncc.ir.types import dims_of, dtype_of, shape_text
from rnncc.nn.arithmetic import negative, plus, times
from rnncc.nn.decision_trees import Trees, leaves
from rnncc.nn.indexing import extremum_place

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
"""In the order of `nn.decision_trees.COMPARISONS`."""
LEAF = "LEAF"
KINDS = ("SUM", "AVERAGE", "MIN", "MAX")
MOST_WEIGHTS = 1 << 24
"""Of nodes times targets."""


def _tree_regressor(n: Node) -> SSAValue:
    """Sums, means, least or largest of what the leaves of each row weigh, a column a target.

    Refused: other than two axes; PROBIT and SOFTMAX_ZERO; the least or largest of several targets;
    transforms of a single target, which ONNX Runtime leaves out.
    """
    targets, kind = n.integer("n_targets", 1), n.one_of("aggregate_function", KINDS, "SUM")
    if targets == 1 and n.text("post_transform") != "NONE":
        raise n.unsupported("transforms the scores of a single target")
    return transformed(n, _scores(n, "target", targets, kind))


def _tree_classifier(n: Node) -> Sequence[SSAValue]:
    """The label of the largest sum of what leaves weigh, and all sums; of two labels of which only
    one is weighed, the second where its sum is above 0, or above 1/2 if no weight is negative.

    Refused: other than two axes; PROBIT and SOFTMAX_ZERO; of two labels, both weighed, which
    readers do not agree on, a softmax, and a logistic function of weights that are all positive.
    """
    b, labels = n.b, labels_of(n, "classlabels_int64s")
    if labels.size < 2:
        raise n.unsupported(f"has {labels.size} labels, expected two or more")
    weighed = np.unique(n.integers("class_ids"))
    if labels.size == 2:
        if weighed.size != 1:
            raise n.unsupported("weighs both of two labels", "readers do not agree on the label")
        return _of_two(n, labels)
    scores = _scores(n, "class", labels.size, "SUM")
    label = b.gather(n.literal(labels), extremum_place(b, scores, "max", 1), 0)
    return [label, transformed(n, scores)]


def _of_two(n: Node, labels: Array) -> Sequence[SSAValue]:
    """Two labels of which one is weighed."""
    b, kind = n.b, n.text("post_transform")
    if kind not in ("NONE", "LOGISTIC"):
        raise n.unsupported(f"transforms one sum by {kind[:40]!r}", "supported: NONE, LOGISTIC")
    sums = _scores(n, "class", 1, "SUM")
    positive = bool((_weights(n, "class")[0] >= 0).all())
    above = b.compare("gt", sums, b.full_like(sums, 0.5 if positive else 0.0))
    place = b.cast(b.reshape(above, dims_of(sums)[:1]), "i64")
    if kind == "LOGISTIC" and not positive:
        other, sums = b.sigmoid(negative(b, sums)), b.sigmoid(sums)
    elif kind == "LOGISTIC":
        raise n.unsupported("transforms sums of weights none of which is negative")
    else:
        other = plus(b, negative(b, sums), 1.0) if positive else negative(b, sums)
    return [b.gather(n.literal(labels), place, 0), b.concat([other, sums], 1)]


def _scores(n: Node, what: str, targets: int, kind: str) -> SSAValue:
    """What the leaves of each row weigh, of all trees together: [N, targets] of float32."""
    b, dims = n.b, n.dims()
    if len(dims) != 2 or not dims[1].is_static:
        raise n.unsupported(f"has data of shape {shape_text(dims)}, expected rows of known length")
    trees, weights = _trees(n, what, targets)
    if int(trees.features.max(initial=0)) >= int(dims[1]):
        raise n.error(f"compares column {int(trees.features.max())} of {dims[1]}")
    x = b.cast(n.x(0, NUMBERS), "f64" if trees.thresholds.dtype == np.float64 else "f32")
    places = leaves(b, x, trees, n.literal)
    count = len(trees.roots)
    rows = b.gather(n.literal(weights), b.reshape(places, (product(dims_of(places)),)), 0)
    rows = b.reshape(rows, (dims[0], count, targets))
    if kind in ("SUM", "AVERAGE"):
        y = b.reduce("sum", rows, [1])
        y = times(b, y, 1.0 / count) if kind == "AVERAGE" else y
    elif targets == 1:
        y = b.reduce(kind.lower(), rows, [1])
    else:
        raise n.unsupported(f"takes the {kind} of {targets} targets")
    base = _numbers(n, "base_values")
    if base.size not in (0, targets):
        raise n.error(f"has {base.size} base values for {targets} targets")
    y = b.add(y, b.cast(n.literal(base), dtype_of(y))) if base.size else y
    return b.cast(y, "f32")


def _trees(n: Node, what: str, targets: int) -> tuple[Trees, Array]:
    """The nodes as tables, and weights [nodes, targets]."""
    modes = n.texts("nodes_modes")
    unknown = {*modes} - {LEAF, *MODES}
    if unknown:
        raise n.unsupported(f"has nodes of mode {min(unknown)[:40]!r}")
    tree, number = _column(n, "nodes_treeids", modes), _column(n, "nodes_nodeids", modes)
    places = {key: at for at, key in enumerate(zip(tree, number, strict=True))}
    if not modes or len(places) < len(modes):
        raise n.error("has no nodes, or two of one number")
    is_leaf = np.array([mode == LEAF for mode in modes])
    features = np.where(is_leaf, 0, _column(n, "nodes_featureids", modes))
    if (features < 0).any():
        raise n.error("compares columns of negative number")
    thresholds = _numbers(n, "nodes_values")
    if thresholds.size != len(modes):
        raise n.error(f"has {thresholds.size} values for {len(modes)} nodes")
    children = list[Array]()
    for name in ("nodes_truenodeids", "nodes_falsenodeids"):
        following = _column(n, name, modes)
        at = [places.get((t, f), -1) for t, f in zip(tree, following, strict=True)]
        children.append(np.where(is_leaf, np.arange(len(modes)), np.array(at, np.int64)))
    roots = np.unique(tree, return_index=True)[1]
    kinds = np.array([MODES.index(m) if m != LEAF else -1 for m in modes], np.int64)
    kinds[kinds < 0] = kinds.max() if kinds.max() >= 0 else 0
    missing = np.array(n.integers("nodes_missing_value_tracks_true"), bool)
    if missing.size not in (0, len(modes)):
        raise n.error(f"has {missing.size} ways of missing values for {len(modes)} nodes")
    table = Trees(
        roots=roots.astype(np.int64),
        features=features,
        thresholds=thresholds,
        kinds=kinds,
        holds=children[0],
        fails=children[1],
        missing=missing if missing.any() else None,
        depth=_depth(n, roots, is_leaf, children),
    )
    return table, _weights_of_nodes(n, what, places, targets)


def _depth(n: Node, roots: Array, is_leaf: Array, children: Sequence[Array]) -> int:
    """Comparisons up to the furthest leaf; refuses children that are not there, and ways round."""
    level, depth, seen = roots, 0, np.zeros(len(is_leaf), np.int64)
    while level.size:
        if (level < 0).any():
            raise n.error("has nodes whose children are not there")
        np.add.at(seen, level, 1)
        if (seen > 1).any():
            raise n.error("has a node with two parents")
        inner = level[~is_leaf[level]]
        level = np.concatenate([child[inner] for child in children])
        depth += bool(level.size)
    return depth


def _weights_of_nodes(
    n: Node, what: str, places: dict[tuple[int, int], int], targets: int
) -> Array:
    """What each node adds to each target."""
    weights, ids = _weights(n, what)
    named = (n.integers(f"{what}_treeids"), n.integers(f"{what}_nodeids"))
    if len({weights.size, len(ids), *map(len, named)}) > 1:
        raise n.error(f"has {weights.size} weights for {len(ids)} targets of leaves")
    if targets < 1 or len(places) * targets > MOST_WEIGHTS:
        raise n.unsupported(f"has {len(places)} nodes that weigh for {targets} targets")
    at = [places.get(key, -1) for key in zip(*named, strict=True)]
    if min(at, default=0) < 0 or ids.min(initial=0) < 0 or ids.max(initial=0) >= targets:
        raise n.error("has weights of nodes or targets that are not there")
    table = np.zeros((len(places), targets), weights.dtype)
    np.add.at(table, (np.array(at, np.int64), ids), weights)
    return table


def _weights(n: Node, what: str) -> tuple[Array, Array]:
    """Weights of leaves, and of which target each is; of two classes' only one."""
    ids = np.array(n.integers(f"{what}_ids"), np.int64)
    alone = what == "class" and len(labels_of(n, "classlabels_int64s")) == 2
    if alone and np.unique(ids).size == 1:
        ids = np.zeros_like(ids)
    return _numbers(n, f"{what}_weights"), ids


def _column(n: Node, name: str, modes: Sequence[str]) -> Array:
    """An integer of each node."""
    numbers = np.array(n.integers(name), np.int64)
    if numbers.size != len(modes):
        raise n.error(f"attribute {name!r} has {numbers.size} numbers for {len(modes)} nodes")
    return numbers


def _numbers(n: Node, name: str) -> Array:
    """Floats, as float32 or as a tensor of float64."""
    if n.given(f"{name}_as_tensor"):
        return n.tensor(f"{name}_as_tensor").reshape(-1)
    return np.array(n.reals(name), np.float32)


OPERATORS: dict[str, OnnxOperator] = {
    "ai.onnx.ml.TreeEnsembleRegressor": OnnxOperator(_tree_regressor),
    "ai.onnx.ml.TreeEnsembleClassifier": OnnxOperator(_tree_classifier),
}
