# pyright: basic, reportMissingImports=false
"""Fake tensors like others, in memory of their own.

`clone()` makes them too, but PyTorch looks up what an operator would make of each, for several
times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._mode_utils import no_dispatch

_META = torch.device("meta")


class Fresh:
    """Makes tensors like some, one time after another.

    Args:
        fakes: tensors of which `can_be_made` holds.
    """

    def __init__(self, fakes: Sequence[Any]) -> None:
        self._kinds = [
            (x.fake_mode, x.shape, x.stride(), x.dtype, x.fake_device, x.requires_grad)
            for x in fakes
        ]
        self._anchor = next((x for x in fakes if x.requires_grad), None)

    def made(self) -> list[torch.Tensor]:
        """Others, which are no leaves where they have gradients."""
        with no_dispatch():
            results = [self._one(*kind) for *kind, has_gradient in self._kinds if not has_gradient]
            if self._anchor is not None:
                with torch.enable_grad():
                    differentiable = iter(_Computed.apply(self._anchor, self))
        plain = iter(results)
        return [next(differentiable if kind[-1] else plain) for kind in self._kinds]

    def differentiable(self) -> tuple[torch.Tensor, ...]:
        """Those that have gradients, as leaves."""
        return tuple(self._one(*kind) for *kind, has_gradient in self._kinds if has_gradient)

    @staticmethod
    def _one(mode: Any, shape: Any, strides: Any, dtype: Any, device: Any) -> torch.Tensor:
        return FakeTensor(
            mode, torch.empty_strided(shape, strides, dtype=dtype, device=_META), device
        )


class _Computed(torch.autograd.Function):
    """What makes tensors that are computed from one with gradients."""

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, fresh: Fresh) -> tuple[torch.Tensor, ...]:
        return fresh.differentiable()


def can_be_made(fake: torch.Tensor) -> bool:
    """Whether what this module makes has all that a tensor has: sizes are numbers, and it is no
    view of other memory."""
    if (
        type(fake) is not FakeTensor
        or fake.layout is not torch.strided
        or fake.constant is not None
    ):
        return False
    sizes = *fake.shape, *fake.stride(), fake.storage_offset()
    if not all(type(size) is int for size in sizes) or fake.storage_offset() != 0:
        return False
    if fake.is_conj() or fake.is_neg() or fake.is_quantized:
        return False
    alike = torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device=_META)
    return fake.untyped_storage().nbytes() == alike.untyped_storage().nbytes()
