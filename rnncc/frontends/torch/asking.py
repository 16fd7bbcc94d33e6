# pyright: basic, reportMissingImports=false
"""Functions of PyTorch that ask what tensors hold, or how large they are, as other operators."""

from __future__ import annotations

import math
from typing import Any

import torch

from rnncc.frontends.torch.checks import checked


def _gaussian_nll_loss(
    input: Any,
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
        var = torch.full_like(input, var)
    if var.shape != input.shape:
        differ = [size for size, own in zip(input.shape, var.shape, strict=False) if size != own]
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif input.dim() != var.dim() or len(differ) != 1 or 1 not in var.shape:
            raise ValueError("var is of incorrect size")
    checked((var >= 0).all(), True)
    var = var.detach().clamp_min(eps) + (var - var.detach())  # the slope is that without a bound
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    loss = loss + 0.5 * math.log(2 * math.pi) if full else loss
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def _cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """PyTorch's own asks whether the weights are negative, and whether there are enough rows."""
    input = input.reshape(1, -1) if input.dim() < 2 else input
    input = (
        input
        if input.is_floating_point() or input.is_complex()
        else input.to(torch.get_default_dtype())
    )
    if fweights is None and aweights is None:
        centred = input - input.mean(1, keepdim=True)
        return (centred @ centred.mT.conj() / max(input.shape[1] - correction, 0)).squeeze()
    weights: Any = fweights if aweights is None else aweights
    if fweights is not None and aweights is not None:
        weights = fweights * aweights
    checked((weights >= 0).all(), True)
    total = weights.sum()
    less = correction if aweights is None else correction * (weights * aweights).sum() / total
    centred = input - ((input * weights).sum(1) / total).unsqueeze(1)
    return (centred @ (centred * weights).mT.conj() / (total - less).clamp_min(0)).squeeze()


def _corrcoef(input: Any) -> Any:
    """It is made of the other one."""
    covariance = _cov(input)
    if covariance.dim() == 0:
        return covariance / covariance
    deviations = covariance.diagonal().sqrt()
    return (covariance / deviations.unsqueeze(1) / deviations).clamp(-1, 1)


def _max_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """PyTorch's own asks for all sizes as numbers: with open ones it is a pool over two axes."""
    if return_indices or all(isinstance(size, int) for size in input.shape):
        stride = stride or kernel_size
        # Not `torch.max_pool1d`, whose place this function takes in cells.
        both = torch.max_pool1d_with_indices(
            input, kernel_size, stride, padding, dilation, ceil_mode
        )
        return both if return_indices else both[0]

    def along_second(given: Any, first: int) -> Any:
        return (first, given if isinstance(given, int) else given[0])

    stride = along_second(stride or kernel_size, 1)
    steps = along_second(kernel_size, 1), stride, along_second(padding, 0)
    y = torch.max_pool2d(input.unsqueeze(-2), *steps, along_second(dilation, 1), ceil_mode)
    return y.squeeze(-2)


def _bincount(input: Any, weights: Any = None, minlength: int = 0) -> Any:
    """PyTorch's own asks for the largest number; here one beyond the others is an error."""
    if minlength < 1:
        raise ValueError(
            "the largest number decides how many counts there are: bincount(x, None, n)"
        )
    known = torch.arange(minlength, device=input.device)
    flags = known.index_select(0, input).unsqueeze(-1) == known
    if weights is None:
        return flags.sum(0)
    if weights.shape != input.shape:
        raise ValueError("bincount takes as many weights as numbers")
    kind = torch.float32 if weights.dtype == torch.float32 else torch.float64
    return torch.where(flags, weights.to(kind).unsqueeze(-1), 0).sum(0).detach()


ASKING: dict[Any, Any] = {
    **dict.fromkeys((torch.bincount, torch.Tensor.bincount), _bincount),
    torch.max_pool1d: _max_pool1d,
    torch.nn.functional.max_pool1d: _max_pool1d,
    torch.nn.functional.gaussian_nll_loss: _gaussian_nll_loss,
    **dict.fromkeys((torch.cov, torch.Tensor.cov), _cov),
    **dict.fromkeys((torch.corrcoef, torch.Tensor.corrcoef), _corrcoef),
}
"""What takes their place."""
