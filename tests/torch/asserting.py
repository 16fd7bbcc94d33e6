"""Asserts, where pytest does not rewrite them."""

from __future__ import annotations

from typing import Any

from tests.torch.cells import torch


def asserts(x: Any) -> None:
    assert x.amax() < 5, "large"


def asserts_not(x: Any) -> None:
    assert not (x > 5).any()


def asserts_a_number(x: Any) -> None:
    assert (x < 5).all().long().view(1, 1)


def asserts_alone(x: Any, h: Any) -> Any:
    assert torch.isfinite(h).all(), "nothing that is given out could be NaN"
    return h > 0, h > 0
