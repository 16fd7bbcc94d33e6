"""Fake tensors in memory of their own, as copies of steps have them."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
fresh: Any = pytest.importorskip("rnncc.frontends.torch.repeating.fresh")
FakeTensorMode: Any = pytest.importorskip("torch._subclasses.fake_tensor").FakeTensorMode


def test_fresh_tensors_are_like_clones() -> None:
    mode = FakeTensorMode()
    with mode, torch.enable_grad():
        weight = torch.ones(3, 4, requires_grad=True)
        fakes = [
            2 * weight,
            torch.zeros(2, dtype=torch.int64),
            torch.ones(4, 3).T.clone(),
            weight + 1,
        ]
        made = fresh.Fresh(fakes).made()
        made[0].add_(1)  # of a leaf with a gradient that would be an error
    assert all(map(fresh.can_be_made, fakes))
    memories = {x.untyped_storage()._cdata for x in (*fakes, *made)}
    assert len(memories) == 2 * len(fakes)
    for own, other in zip(fakes, made, strict=True):
        assert (own.shape, own.stride(), own.dtype) == (other.shape, other.stride(), other.dtype)
        assert (own.requires_grad, own.device) == (other.requires_grad, other.device)
        assert other.fake_mode is mode and other.is_leaf == own.is_leaf


def test_views_and_open_sizes_are_no_fresh_tensors() -> None:
    with FakeTensorMode():
        whole = torch.ones(4, 4)
        views = [
            whole[1:],
            whole[:2],
            whole.to_sparse(),
            torch.ones(2, dtype=torch.complex64).conj(),
        ]
        assert not any(map(fresh.can_be_made, views)) and fresh.can_be_made(whole.T)
