# pyright: basic, reportMissingImports=false
"""Losses as other operators, where PyTorch's own way to take them apart does not do."""

from __future__ import annotations

import math
from typing import Any

import torch

from rnncc.frontends.torch.checks import checked


def multilabel_margin_loss(x: Any, target: Any, reduction: int) -> tuple[Any, Any]:
    """PyTorch's own (of 2.13) counts the labels behind the first -1 as the first class."""
    shape, x, target = x.shape, torch.atleast_2d(x), torch.atleast_2d(target)
    classes = torch.arange(x.shape[1], device=x.device)
    counts = (target == -1).cumsum(1) == 0
    labels = torch.where(counts, target, 0)
    is_target = ((labels.unsqueeze(2) == classes) & counts.unsqueeze(2)).any(1)
    apart = (1 - x.gather(1, labels).unsqueeze(2) + x.unsqueeze(1)).clamp_min(0)
    counted = counts.unsqueeze(2) & ~is_target.unsqueeze(1)
    loss = torch.where(counted, apart, 0).sum((1, 2)) / x.shape[1]
    loss = (
        loss.reshape(shape[:-1])
        if reduction == 0
        else loss.sum()
        if reduction == 2
        else loss.mean()
    )
    return loss, is_target.to(x.dtype).reshape(shape)


def _gaussian_nll_loss(
    x: Any,
    target: Any,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:
    """PyTorch's own asks whether a variance is negative where no question is seen."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    if isinstance(var, float):
        var = torch.full_like(x, var)
    if var.shape != x.shape:
        differ = [size for size, own in zip(x.shape, var.shape, strict=False) if size != own]
        if x.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif x.dim() != var.dim() or len(differ) != 1 or 1 not in var.shape:
            raise ValueError("var is of incorrect size")
    checked((var >= 0).all(), True)
    var = var.detach().clamp_min(eps) + (var - var.detach())  # the slope is that without a bound
    loss = 0.5 * (var.log() + (x - target) ** 2 / var)
    loss = loss + 0.5 * math.log(2 * math.pi) if full else loss
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


ASKING: dict[Any, Any] = {torch.nn.functional.gaussian_nll_loss: _gaussian_nll_loss}
"""Functions that ask what tensors hold, and what takes their place."""
