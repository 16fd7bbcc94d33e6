# pyright: basic, reportMissingImports=false
"""How operators and functions of PyTorch fall apart into those that have translations."""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any

import torch
import torch._decomp

from rnncc.frontends.torch.asking import ASKING
from rnncc.frontends.torch.losses import multilabel_margin_loss
from rnncc.frontends.torch.lower import translation_of
from rnncc.frontends.torch.spectra import istft, stft


@cache
def decompositions() -> dict[Any, Any]:
    """How PyTorch takes operators apart, of those that have no translation."""
    known = {**_explicit(), **beside_core()}.items()
    untranslated = {op: function for op, function in known if translation_of(op) is None}
    ops = torch.ops.aten
    copies = {
        ops.slice_copy.Tensor: ops.slice.Tensor,
        ops.split_copy.Tensor: ops.split.Tensor,
        ops.split_with_sizes_copy.default: ops.split_with_sizes.default,
    }
    own = {copy: partial(_copied_view, view) for copy, view in copies.items()}
    own[ops.addcmul.default] = partial(_addcmul, untranslated[ops.addcmul.default])
    return {**untranslated, **own, ops.native_batch_norm.default: _batch_norm}


def _explicit() -> dict[Any, Any]:
    """PyTorch's functions that take operators apart. It lists those of the operators beside them
    that a trace takes apart by itself, too, which takes it a tenth of a second."""
    own = getattr(torch._decomp, "_core_aten_decompositions_post_autograd", None)
    return {**(own or torch._decomp.core_aten_decompositions)()}


@cache
def beside_core() -> dict[Any, Any]:
    """How operators fall apart that PyTorch counts among the core ones."""
    ops = torch.ops.aten
    resized = [ops.upsample_bilinear2d, ops.upsample_bicubic2d, ops.upsample_trilinear3d]
    known = torch._decomp.get_decompositions([*resized, ops.linspace, ops.addmv, ops.ldexp])
    own = {
        ops.one_hot.default: _one_hot,
        **dict.fromkeys((ops.as_strided.default, ops.as_strided_copy.default), _as_strided),
        ops.narrow_copy.default: lambda x, *place: x.narrow(*place).clone(),
        ops.cosine_similarity.default: _cosine_similarity,
        ops.rrelu_with_noise_functional.default: _rrelu,
        ops._pdist_forward.default: _pdist,
        ops.multilabel_margin_loss_forward.default: multilabel_margin_loss,
        ops._embedding_bag.default: _embedding_bag,
        ops._embedding_bag_forward_only.default: _embedding_bag,
        ops.special_xlog1py.default: _xlog1py,
    }
    return {**known, **own}


def _one_hot(index: Any, num_classes: int) -> Any:
    """PyTorch checks the classes on the CPU, not in all traces; here a lookup does it."""
    known = torch.arange(num_classes, device=index.device)
    if index.device.type == "cpu":
        index = known.index_select(0, index.flatten()).view(index.shape)
    return (index.unsqueeze(-1) == known).long()


def _as_strided(x: Any, size: Any, stride: Any, storage_offset: Any = None) -> Any:
    """Elements of a tensor in the order of its axes; places before it in memory are not known."""
    last = sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    is_whole = x.is_contiguous() and x.storage_offset() == 0 and last < x.numel()
    if not is_whole or storage_offset is not None:
        return NotImplemented
    places = torch.zeros((), dtype=torch.int64, device=x.device)
    for length, step in zip(size, stride, strict=True):
        places = places.unsqueeze(-1) + torch.arange(length, device=x.device) * step
    return x.flatten()[places]


def _cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """PyTorch's own changes norms in place, so that all would have to be traced again."""
    dtype = torch.promote_types(x1.dtype, x2.dtype)
    pair = [x.to(dtype) for x in torch.broadcast_tensors(x1, x2)]
    norms = [torch.linalg.vector_norm(x, 2, dim, keepdim=True).clamp_min(eps) for x in pair]
    one, other = (x / norm for x, norm in zip(pair, norms, strict=True))
    return (one * other).sum(dim)


def _addcmul(pytorchs: Any, x: Any, one: Any, other: Any, value: Any = 1) -> Any:
    """PyTorch's own wraps integers that a type does not hold, and takes no other numbers for those;
    the operator takes none that wraps, and others without their fractions."""
    if x.dtype.is_floating_point or x.dtype.is_complex:
        return pytorchs(x, one, other, value=value)
    value = int(value) if math.isfinite(value) else value
    return torch.add(x, one * other, alpha=value)


def _xlog1py(x: Any, y: Any) -> Any:
    """x · ln(1 + y); 0 where x is 0, unless y is NaN. PyTorch's own has no slope by x there."""
    endless = (x == 0) & ((y <= -1) | (y == torch.inf))
    return x * torch.log1p(torch.where(endless, 0, y))


def _pdist(x: Any, p: float = 2) -> Any:
    """Distances between each row and the later ones."""
    if not isinstance(x.shape[0], int):
        return NotImplemented
    one, other = torch.triu_indices(len(x), len(x), 1, device=x.device)
    return torch.cdist(x[one].unsqueeze(1), x[other].unsqueeze(1), p).flatten()


def _rrelu(
    x: Any,
    noise: Any,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> tuple[Any, Any]:
    """Below 0 times a random number, of which backward reads the noise."""
    if not training:
        return torch.nn.functional.leaky_relu(x, (lower + upper) / 2), noise
    factors = torch.rand_like(x) * (upper - lower) + lower
    noise = torch.where(x <= 0, factors, torch.ones_like(x))
    return x * noise, noise


def _embedding_bag(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Any, Any, Any, Any]:
    """Sums (mode 0), means (1) or largest elements (2) of the rows of each bag, 0 of none."""
    if scale_grad_by_freq or sparse:
        return NotImplemented
    starts = offsets[:-1] if include_last_offset else offsets
    bags, places = starts.shape[0], torch.arange(indices.shape[0], device=indices.device)
    bag = (places.unsqueeze(1) >= starts).sum(1) - 1
    counts = (
        (indices != padding_idx) if padding_idx >= 0 else torch.ones_like(bag, dtype=torch.bool)
    )
    rows = weight.index_select(0, indices)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    zeros = torch.zeros(bags, weight.shape[1], dtype=weight.dtype, device=weight.device)
    if mode == 2:
        lowest = rows.masked_fill(~counts.unsqueeze(1), -torch.inf)
        at = bag.unsqueeze(1).expand_as(rows)
        most = (zeros - torch.inf).scatter_reduce(0, at, lowest, "amax")
        result = most.masked_fill(most == -torch.inf, 0)
    else:
        result = zeros.index_add(0, bag, rows.masked_fill(~counts.unsqueeze(1), 0))
    sizes = torch.zeros_like(starts).index_add(0, bag, counts.to(starts.dtype))
    if mode == 1:
        result = result / sizes.clamp_min(1).unsqueeze(1)
    return result, bag, sizes, offsets


def _rms_norm(
    input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None
) -> Any:
    """PyTorch's own changes the mean in place, so that all would have to be traced three times."""
    if input.dtype not in (torch.float32, torch.float64):
        return torch.rms_norm(input, normalized_shape, weight, eps)
    axes = list(range(input.dim() - len(normalized_shape), input.dim()))
    least = torch.finfo(input.dtype).eps if eps is None else eps
    scaled = input * torch.rsqrt(input.pow(2).mean(axes, keepdim=True).add(least))
    return scaled if weight is None else scaled * weight


def _copied_view(view: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    """What a view gives, copied: PyTorch's own, which functionalization calls, takes no open sizes.

    Where all sizes are known it stays as it is.
    """
    if all(isinstance(size, int) for size in x.shape):
        return NotImplemented
    views = view(x, *args, **kwargs)
    return views.clone() if isinstance(views, torch.Tensor) else [part.clone() for part in views]


def _batch_norm(
    x: Any, w: Any, b: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
) -> Any:
    """PyTorch's own changes the statistics without saying so."""
    ops = torch.ops.aten
    if mean is None:
        return ops._native_batch_norm_legit.no_stats(x, w, b, training, momentum, eps)
    if not training:
        return ops._native_batch_norm_legit_no_training(x, w, b, mean, var, momentum, eps)
    functional = ops._native_batch_norm_legit_functional
    *normalised, new_mean, new_var = functional(x, w, b, mean, var, training, momentum, eps)
    mean.copy_(new_mean)
    var.copy_(new_var)
    return tuple(normalised)


FUNCTIONS: dict[Any, Any] = {
    torch.nn.functional.one_hot: _one_hot,
    torch.ops.aten.one_hot.default: _one_hot,
    torch.nn.functional.cosine_similarity: _cosine_similarity,
    torch.rms_norm: _rms_norm,
    torch.nn.functional.rms_norm: _rms_norm,
    **ASKING,
    torch.functional.stft: stft,
    torch.istft: istft,
}
"""Functions that PyTorch takes apart before decompositions are asked for."""
