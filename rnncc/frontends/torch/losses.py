# pyright: basic, reportMissingImports=false
"""Losses as other operators, where PyTorch's own way to take them apart does not do."""

from __future__ import annotations

from typing import Any

import torch


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
