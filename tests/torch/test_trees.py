"""Nests are taken apart as PyTorch takes them apart."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.torch.cells import torch

trees: Any = pytest.importorskip("rnncc.torch.objects.trees")
pytestmark = pytest.mark.peers
pytree = torch.utils._pytree
Pair = namedtuple("Pair", "one other")


def _leaf(number: int) -> Any:
    kinds = torch.zeros, lambda n: torch.nn.Parameter(torch.zeros(n)), lambda n: None, float, str
    return kinds[number % len(kinds)](number)


nests = st.recursive(
    st.integers(0, 9).map(_leaf),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        st.dictionaries(st.sampled_from("abc"), inner, max_size=2).map(OrderedDict),
        st.tuples(inner, inner).map(lambda pair: Pair(*pair)),
    ),
    max_leaves=8,
)


def _same(one: Any, other: Any) -> bool:
    return one is other


def _is_one(nest: Any, other: Any) -> bool:
    """Whether two nests are of one kind, with the same leaves, by PyTorch."""
    (ends, spec), (other_ends, other_spec) = map(pytree.tree_flatten, (nest, other))
    return spec == other_spec and all(map(_same, ends, other_ends))


@given(nests)
def test_leaves(nest: Any) -> None:
    assert all(map(_same, trees.leaves(nest), pytree.tree_leaves(nest)))
    assert len(trees.leaves(nest)) == len(pytree.tree_leaves(nest))


@given(nests)
def test_mapped(nest: Any) -> None:
    made = {id(leaf): object() for leaf in pytree.tree_leaves(nest)}
    found, want = (f(lambda leaf: made[id(leaf)], nest) for f in (trees.mapped, pytree.tree_map))
    assert _is_one(found, want)


@given(nests, nests)
def test_alike(nest: Any, other: Any) -> None:
    assert trees.alike(nest, pytree.tree_map(lambda leaf: leaf, nest), _same)
    assert trees.alike(nest, other, _same) == _is_one(nest, other)
