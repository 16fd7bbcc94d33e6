"""Tensors that code keeps in globals, classes and functions: no stand-in stays there."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import pytest

from tests.torch.cells import nn, torch

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers
_masks: dict[int, Any] = {}
_last: Any = None


def mask_of(size: int) -> Any:
    return torch.ones(size, size).tril()


def in_a_global_dict(size: int) -> Any:
    if size not in _masks:
        _masks[size] = mask_of(size)
    return _masks[size]


def in_a_global(size: int) -> Any:
    global _last
    if _last is None or len(_last) != size:
        _last = mask_of(size)
    return _last


def in_a_default(size: int, known: dict[int, Any] = {}) -> Any:  # noqa: B006
    return known.setdefault(size, mask_of(size))


def closed_over() -> Any:
    known: list[Any] = []

    def found(size: int) -> Any:
        if not known or len(known[-1]) != size:
            known.append(mask_of(size))
        return known[-1]

    return found


class Masks:
    """Keeps them in the class, or in the object."""

    known: dict[int, Any] = {}  # noqa: RUF012
    last: Any = None

    def __init__(self) -> None:
        self.own: dict[int, Any] = {}

    @classmethod
    def of_class(cls, size: int) -> Any:
        if size not in cls.known:
            cls.known[size] = mask_of(size)
        return cls.known[size]

    @classmethod
    def last_of_class(cls, size: int) -> Any:
        if cls.last is None or len(cls.last) != size:
            cls.last = mask_of(size)
        return cls.last

    def of_object(self, size: int) -> Any:
        if size not in self.own:
            self.own[size] = mask_of(size)
        return self.own[size]


MASKS = Masks()
FUNCTIONS = {
    "a global dict": in_a_global_dict,
    "a global": in_a_global,
    "a default": in_a_default,
    "what a function closes over": closed_over(),
    "a class's dict": Masks.of_class,
    "a class": Masks.last_of_class,
    "an object": MASKS.of_object,
    "cache": cache(mask_of),
    "lru_cache": lru_cache(maxsize=8)(mask_of),
}


class Masking(nn.Module):
    masks: Any

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(3, 3, batch_first=True)

    def forward(self, x: Any) -> Any:
        return self.layer(self.masks(x.shape[1]) @ x)[0]


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_no_stand_in_stays(kind: str) -> None:
    """Neither the module itself nor another export of it meets one."""
    net = type(kind, (Masking,), {"masks": staticmethod(FUNCTIONS[kind])})()
    for steps in (4, 6, 4):
        x = torch.randn(2, steps, 3)
        found = rt.compile(net, (x,))(x)
        torch.testing.assert_close(found, net(x), atol=1e-5, rtol=1e-5)
        known = net.masks(steps)
        assert type(known) is torch.Tensor and known.equal(mask_of(steps))
