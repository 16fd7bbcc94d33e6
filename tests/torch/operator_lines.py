"""Operators of PyTorch, one line each: of x and y [4, 6] and integers n [6]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.torch.cells import F, torch

Operator = Callable[[Any, Any, Any], Any]
SCALES, ZEROS = torch.tensor([0.1, 0.2, 0.03, 0.11]), torch.tensor([0, 3, -2, 1]).int()

OPERATORS: dict[str, Operator] = {
    "slice with a step": lambda x, y, n: x[:, ::2],
    "slice from the end with a step": lambda x, y, n: x[-3:, 1::3],
    "slice beyond the end": lambda x, y, n: x[:, 4:99],
    "replaced with a step": lambda x, y, n: (
        x.slice_scatter(y[:, :3], 1, 1, step=2)
        + x.slice_scatter(y[:2], 0, -3, -1)
        + x.slice_scatter(y[:, 1:3], 1, 1, 5, 3)
    ),
    "padded around": lambda x, y, n: (
        F.pad(x[None], (2, 3), "circular")
        + F.pad(y[None, None], (5, 0, 1, 3), "circular")[0, 0, 2, :]
    ),
    "cut and padded": lambda x, y, n: F.pad(x, (0, 0, 1, -1)) + F.pad(y, (-2, 2, -1, 1), value=0.5),
    "empty slice": lambda x, y, n: x[5:3],
    "select from the end": lambda x, y, n: x[-2],
    "as_strided": lambda x, y, n: (
        (x + 1).as_strided((2, 3, 2), (3, 1, 2)) * y[0, 0] + x.as_strided((3, 2), (0, 1)).mean()
    ),
    "unbind": lambda x, y, n: x.unbind(0)[2] - x.unbind(1)[1].sum(),
    "rows by number": lambda x, y, n: x[torch.tensor([2, -1])] + y[n[1:3].clamp(max=3)],
    "reductions of rank 0": lambda x, y, n: (
        (x[0, 0].sum(0) + x[0, 1].mean(-1) + x[1, 0].amax(0) + y[0, 0].prod(0)) * y
        + y[1, 0].logsumexp(0)
        + x[1, 1].norm(dim=0)
        + (x[2, 0] > 0).all(0)
        + x[2, 1].softmax(0)
        + y[0, 1].log_softmax(0)
        + y[1, 1].var(0, correction=0)
        + x[0, 2].flip(0)
    ),
    "detached integers": lambda x, y, n: n.detach() + (x > 0).detach(),
    "var": lambda x, y, n: x.var(),
    "var along an axis": lambda x, y, n: x.var(1, correction=2, keepdim=True),
    "var with half a correction": lambda x, y, n: torch.var(x, 0, correction=0.5),
    "biased var": lambda x, y, n: x[0].var(unbiased=False) + y.var(1, False)[:1],
    "biased var and mean": lambda x, y, n: torch.var_mean(x, 1, False, True)[0],
    "powers of a number": lambda x, y, n: 10 ** (x * (y > 0)),
    "powers that are not integers": lambda x, y, n: (x * (y > 0)).abs() ** 1.5,
    "powers of 1 and 0": lambda x, y, n: (
        ((x > 0) + 0.0 * x)
        ** torch.tensor([1.0, 2.0, 2.5, 0.0, -1.0, 3.0]).where(x > 0, y.abs() + 1)
    ),
    "one hot": lambda x, y, n: F.one_hot(n, 7) + x[0, 0],
    "var and mean": lambda x, y, n: torch.var_mean(x, 1)[1],
    "norm": lambda x, y, n: x.norm() + F.normalize(y, dim=1),
    "norm of order 1 along both axes": lambda x, y, n: torch.linalg.vector_norm(x, 1, (0, 1)),
    "largest norm": lambda x, y, n: torch.linalg.vector_norm(x - y, torch.inf, 0, keepdim=True),
    "slope of the deviation of equal numbers": lambda x, y, n: (
        (x - x + 3).std(1) + torch.std_mean(y - y, 1)[0] + x[:, 0]
    ),
    "slope of sinc": lambda x, y, n: torch.sinc(x * (y > 0)) + torch.sinc(y),
    "slopes far out": lambda x, y, n: F.celu(200 * x) + torch.special.log_ndtr(15 * y),
    "slope of sinc and cosh near 0": lambda x, y, n: (
        1e4 * (x * 1e-6).sinc() + 1e6 * (y / 1e6).cosh()
    ),
    "slope of the norm of zeros": lambda x, y, n: (x - x).norm(dim=1) + x[:, 0],
    "logit within bounds": lambda x, y, n: torch.logit(x, 0.2) + torch.logit(y.sigmoid()),
    "cross entropy of certainties": lambda x, y, n: F.binary_cross_entropy(
        x - x.detach() + (x > 0), y.sigmoid().detach(), reduction="none"
    ),
    "binary cross entropy": lambda x, y, n: (
        F.binary_cross_entropy(x.sigmoid(), y.sigmoid(), y.detach().abs())
        + F.binary_cross_entropy(y.sigmoid(), x.sigmoid(), reduction="sum")
    ),
    "distances from stacks": lambda x, y, n: (
        torch.cdist(x, y.view(2, 2, 6)) + torch.cdist(y.view(2, 2, 6), x, p=1).mT
    ),
    "bounds that are no numbers": lambda x, y, n: (
        torch.where(x.clamp(min=torch.nan).isnan(), y, x)
        + x.detach().clamp((y.detach() - 0.5).sqrt()).nan_to_num(7.0)
    ),
    "bounds the wrong way round": lambda x, y, n: x.clamp(y, y - 1) + y.clamp(1, -1),
    "attention of masked rows": lambda x, y, n: F.scaled_dot_product_attention(
        x[None],
        y[None],
        y[None] * 2,
        torch.tensor([[1, 0, 1, 1], [0] * 4, [1] * 4, [0, 1, 0, 0]]) > 0,
    ),
    "margins of several labels": lambda x, y, n: (
        F.multilabel_margin_loss(x[:2, :4], torch.tensor([[3, 0, -1, 1], [1, -1, 0, 0]]))
        + F.multilabel_margin_loss(y[0], n.flip(0), reduction="sum")
    ),
    "slopes below 0 that are drawn in training": lambda x, y, n: F.rrelu(x) + F.rrelu(y, 0.2, 0.4),
    "normal likelihood": lambda x, y, n: (
        F.gaussian_nll_loss(x, y, (x[:, 0] * y[:, 0]).square(), full=True)
        + F.gaussian_nll_loss(y, x, x.square() * (x > 0), reduction="sum", eps=0.1)
    ),
    "covariances": lambda x, y, n: (
        torch.cov(x, correction=0)
        + torch.cov(y, fweights=n % 3 + 1, aweights=y[0].abs().detach()) * x[0].cov()
        + torch.corrcoef(x) * torch.corrcoef(y[0])
    ),
    "counts": lambda x, y, n: (
        x[0, 0] * torch.bincount(n % 5, minlength=6)
        + y[0, 0] * torch.bincount(n % 5, weights=n * 0.5, minlength=6)
        + torch.bincount(n % 5, 1 / torch.where(n == n[0], 0.0, 1.0), 6).isinf()
    ),
    "bags of rows": lambda x, y, n: F.embedding_bag(
        n[:4] % 3, x, torch.tensor([0, 1, 1]), mode="sum", per_sample_weights=y[0, :4]
    ),
    "means of bags": lambda x, y, n: F.embedding_bag(n[:4].view(2, 2) % 4, x, padding_idx=0),
    "largest of bags": lambda x, y, n: F.embedding_bag(
        n % 4, x, torch.tensor([0, 2, 2, 6]), mode="max", include_last_offset=True, padding_idx=1
    ),
    "running sum": lambda x, y, n: x.cumsum(0) * y.cumsum(-1),
    "running sum of integers": lambda x, y, n: n.cumsum(0) + (n > 2).cumsum(0),
    "softmax of integers": lambda x, y, n: torch.softmax(n, 0, dtype=torch.float32),
    "layer norm over two axes": lambda x, y, n: F.layer_norm(x, (4, 6), y, y + 1),
    "layer norm over one": lambda x, y, n: F.layer_norm(x, (6,), y[0]),
    "products of stacks": lambda x, y, n: torch.matmul(x.view(1, 4, 1, 6), y.view(2, 1, 6, 2)),
    "a row by a stack": lambda x, y, n: x[0] @ y.view(2, 6, 2),
    "addmm": lambda x, y, n: torch.addmm(x[:, :4], x, y.T, beta=0.5, alpha=2),
    "addmv": lambda x, y, n: torch.addmv(x[:, 0], x, y[0], beta=0.5, alpha=2),
    "addbmm": lambda x, y, n: torch.addbmm(x[:, :4], x.view(2, 4, 3), y.view(2, 3, 4), beta=0.5),
    "ldexp": lambda x, y, n: torch.ldexp(x, n) + torch.ldexp(x, y),
    "rsub": lambda x, y, n: torch.rsub(x, y, alpha=3),
    "add of integers": lambda x, y, n: torch.add(n, n, alpha=2),
    "bits of bools": lambda x, y, n: ~((x > 0) & (y > 0)) ^ (x > y),
    "bits": lambda x, y, n: (n & 6) ^ ~(n | 1) | (n << n) ^ (-n >> 1) ^ (2 << n),
    "bits of int32": lambda x, y, n: torch.bitwise_left_shift(n.int(), n.int() * 7) | n.int(),
    "bits beyond the width": lambda x, y, n: (n - 3 << n * 13 - 1) ^ (n - 3 >> n * 32 - 32),
    "bits of large numbers": lambda x, y, n: (n * 2**59 + 3) & 0x7FEDCBA987654321,
    "logic of numbers": lambda x, y, n: torch.logical_and(n, n - 1).logical_not(),
    "maximum": lambda x, y, n: torch.maximum(x.round(), y.round()) + torch.minimum(x, y),
    "maximum of integers": lambda x, y, n: torch.maximum(n, 3 - n),
    "maximum of numbers": lambda x, y, n: torch.fmax(x.log(), y) + torch.fmin(y.log(), x.round()),
    "masked fill": lambda x, y, n: x.masked_fill(y > 0, 2.0),
    "sort": lambda x, y, n: x[0].sort(descending=True)[0],
    "stable sort": lambda x, y, n: n.sort(stable=True)[1],
    "scatter": lambda x, y, n: torch.zeros(6).scatter(0, n, x[0]),
    "scatter of integers": lambda x, y, n: n.int().scatter(0, n.flip(0), 7 - n.int()),
    "scatter along an axis": lambda x, y, n: x.scatter(1, n[2:].view(2, 2), y[2:, :2] + 1),
    "scatter of a number": lambda x, y, n: x.scatter(0, (y[:1] > 0).long(), 2.5),
    "scatter and add": lambda x, y, n: x.scatter_add(1, n.expand(4, 6) // 2, y),
    "scatter of the largest": lambda x, y, n: x.scatter_reduce(1, n.expand(4, 6) // 2, y, "amax"),
    "scatter of means": lambda x, y, n: (
        x.scatter_reduce(1, n.expand(4, 6) // 2, y, "mean")
        + x.scatter_reduce(0, n.expand(4, 6) // 3, y, "mean", include_self=False)
    ),
    "scatter of products": lambda x, y, n: x.scatter_reduce(1, n.expand(4, 6) // 2, y, "prod"),
    "scatter without what is there": lambda x, y, n: (
        x.scatter_reduce(1, n.expand(4, 6) // 3, y, "sum", include_self=False)
        + x.scatter_reduce(1, n.expand(4, 6) // 2, y, "amin", include_self=False)
        + x.scatter_reduce(0, n.expand(4, 6) // 2, y, "prod", include_self=False)
    ),
    "leaky by random slopes": lambda x, y, n: (
        F.rrelu(x, 0.2, 0.2, training=True) + F.rrelu(y, 0.1, 0.3)
    ),
    "two numbers": lambda x, y, n: x[n[:4].clamp(max=3), n[2:]],
    "two numbers that broadcast": lambda x, y, n: y[torch.tensor([[0], [-1]]), n],
    "numbers around an axis": lambda x, y, n: x.view(4, 2, 3)[n[:2], :, n[1:2]],
    "numbers of neighbours": lambda x, y, n: x.view(2, 2, 6)[:, n[:2] // 2, n[1:3]],
    "elements put": lambda x, y, n: x.index_put((n[:4].clamp(max=3), n[2:]), y[:, 0]),
    "elements put around an axis": lambda x, y, n: x.view(4, 2, 3).index_put(
        (n[:2], torch.tensor([0]), n[1:3] // 2), y[0, 0]
    ),
    "elements added": lambda x, y, n: x.index_put((n // 2,), y[0], accumulate=True),
    "rows added": lambda x, y, n: x.index_add(0, n[:2] + 1, y[:2], alpha=2),
    "rows copied": lambda x, y, n: x.index_copy(1, n[1:4], y[:, :3]),
    "remainders": lambda x, y, n: x.remainder(y) + torch.fmod(x, y) + n.remainder(-4),
    "rounded quotients": lambda x, y, n: (
        x.detach() // y.detach() + torch.div(x, y, rounding_mode="trunc") + (n - 3) // 2
    ),
    "some and all": lambda x, y, n: (x > 1).any() | (x > -9).all(1, keepdim=True) & (n > 0).any(0),
    "no numbers": lambda x, y, n: (x / 0.0 * (n > 2)).isnan() | (x / 0.0).isinf() | x.isfinite(),
    "numbers for none": lambda x, y, n: (x / (n > 2)).detach().nan_to_num(1.0, 2.0, 3.0),
    "deviation": lambda x, y, n: x.std(1, keepdim=True) * y + x.std(),
    "running products": lambda x, y, n: x.cumprod(1) + n.cumprod(0) + x.logcumsumexp(0),
    "angles": lambda x, y, n: torch.atan2(x, y) + torch.atan2(x - x, n - 2.5),
    "angles of zeros": lambda x, y, n: torch.atan2(0 * x.detach(), 0 * y.detach()),
    "hypotenuse": lambda x, y, n: torch.hypot(x * 1e25, y * 1e25) / 1e25 + torch.hypot(x - x, y),
    "signs": lambda x, y, n: x.copysign(y) + torch.ones(6).copysign(0 * y.detach()),
    "logarithms": lambda x, y, n: x.abs().log2() + y.abs().log10() + x.exp2() + x.erfc(),
    "x log y": lambda x, y, n: (
        torch.xlogy(x.relu(), y.abs())
        + torch.xlogy(x - x.detach(), torch.cat([y[:2], x[2:].abs()]))
        + torch.special.xlog1py(x.relu(), y.abs())
        + torch.special.xlog1py(x - x.detach(), torch.cat([y[:2] - 1, x[2:].abs()]))
    ),
    "decimals": lambda x, y, n: x.round(decimals=1) + (100 * y).round(decimals=-2),
    "more norms": lambda x, y, n: (
        F.group_norm(x[None], 2, y[:, 0], y[:, 1])[0] + F.rms_norm(x, (6,))
    ),
    "instance norm": lambda x, y, n: F.instance_norm(x[None])[0],
    "windows": lambda x, y, n: x.unfold(1, 3, 2) * y.unfold(0, 2, 1).sum(),
    "edges": lambda x, y, n: (
        F.pad(x[None], (2, 1), "reflect") + F.pad(y[None], (0, 3), "replicate")
    ),
    "attention": lambda x, y, n: F.scaled_dot_product_attention(x[None], y[None], x[None]),
    "attention backwards": lambda x, y, n: F.scaled_dot_product_attention(
        x[None], y[None], y[None], is_causal=True, scale=0.3
    ),
    "inverse": lambda x, y, n: torch.linalg.inv_ex(x[:, :4] + 3 * (n[:4, None] == n[:4]))[0],
    "solution": lambda x, y, n: torch.linalg.solve_ex(x[:, :4] + 3 * (n[:4, None] == n[:4]), y)[0],
    "checked inverse": lambda x, y, n: square(x).inverse() @ torch.linalg.solve(square(y), x),
    "solution from the right": lambda x, y, n: torch.linalg.solve(square(x), y.T, left=False),
    "a vector's solution": lambda x, y, n: torch.linalg.solve(square(x), y[:, 0]),
    "singular": lambda x, y, n: torch.linalg.inv_ex(x[:3, :3] * (n[:3, None] > 0))[1] + n,
    "determinant": lambda x, y, n: x[:, :4].det() * square(y).det(),
    "determinants of a stack": lambda x, y, n: torch.stack([square(x), square(-y)]).slogdet()[1],
    "signs of determinants": lambda x, y, n: torch.stack([x[:, :4], y[:, 2:]]).slogdet()[0],
    "cholesky": lambda x, y, n: torch.linalg.cholesky(x @ x.T + square(y)),
    "upper cholesky": lambda x, y, n: torch.linalg.cholesky(y @ y.T + square(x), upper=True),
    "not positive": lambda x, y, n: torch.linalg.cholesky_ex(-(x @ x.T))[1] + n,
    "solutions by a factor": lambda x, y, n: (
        torch.cholesky_solve(y, square(x).tril())
        + torch.cholesky_solve(x, square(y).triu(), upper=True)
    ),
    "inverse by a factor": lambda x, y, n: torch.cholesky_inverse(square(x).tril()),
    "triangle from the left": lambda x, y, n: (
        torch.linalg.solve_triangular(square(x), y, upper=True)
        + torch.triangular_solve(y, square(x), upper=False, transpose=True)[0]
    ),
    "triangles from the right": lambda x, y, n: torch.linalg.solve_triangular(
        torch.stack([square(x), x[:, 2:]]), y.T, upper=False, left=False, unitriangular=True
    ),
    "reflections": lambda x, y, n: torch.linalg.householder_product(x.T, y[0, :3]),
    "orthogonal factors": lambda x, y, n: (
        torch.linalg.qr(x.T)[0].T * y + square(y).T @ torch.linalg.qr(x[:, 2:])[1] @ x
    ),
    "wide orthogonal factors": lambda x, y, n: (
        torch.linalg.qr(torch.stack([x[:3], y[1:]]))[1] + torch.linalg.qr(square(y))[0][0, 0]
    ),
    "a triangle alone": lambda x, y, n: torch.linalg.qr(x.detach().T, mode="r")[1] @ y,
    "matrix exponential": lambda x, y, n: torch.matrix_exp(x[:, :4] - y[:, 2:]),
    "gamma": lambda x, y, n: (3 * x).lgamma() + (3 * y.detach()).digamma() + y.abs().lgamma(),
    "error functions": lambda x, y, n: (
        (3 * x).erfc() + torch.erfinv(y / 4) + torch.special.log_ndtr(3 * y)
    ),
    "derivatives of digamma": lambda x, y, n: (
        torch.polygamma(0, x.detach()) + torch.polygamma(2, x) + torch.polygamma(3, y.abs() + 0.1)
    ),
    "Bessel functions": lambda x, y, n: (
        torch.special.i0(9 * x)
        + torch.special.i1(y)
        + torch.special.i0e(x) * torch.special.i1e(30 * y)
    ),
    "quantiles": lambda x, y, n: torch.special.ndtri(x.sigmoid()),
    "norms of other orders": lambda x, y, n: (
        x.norm(3) + torch.linalg.vector_norm(y, 1.5, 0) + torch.dist(x, y, 3) + y.norm(-torch.inf)
    ),
    "count as a norm": lambda x, y, n: torch.linalg.vector_norm(x.relu(), 0, 1) + (x - x).norm(3),
    "largest so far": lambda x, y, n: x.cummax(1)[0] * y.cummin(0)[1] + n.cummax(0)[0],
    "masked scatter": lambda x, y, n: x.masked_scatter(n > 2, y),
    "bilinear form": lambda x, y, n: F.bilinear(x, y, x[:3, :, None] * y[0], y[0, :3]),
    "sign bits": lambda x, y, n: (x * 0).signbit() ^ (n < 2).signbit() | (n - 2).signbit(),
    "part of a range": lambda x, y, n: torch.arange(0.5, 2.1, 0.3) * x,
    "places of a triangle": lambda x, y, n: x[*torch.tril_indices(4, 6, 1)] * 2,
    "medians": lambda x, y, n: x.median(1)[0] + y.kthvalue(2, 0)[0][:4] * x.relu().median(),
    "medians with NaN": lambda x, y, n: (
        x.where(x > 0, torch.nan).nanmedian(1, True)[0] * y.where(n > 2, torch.nan).nanmedian()
        + x.where(x > -1, torch.nan).median(1, True)[0].isnan()
    ),
    "most frequent ones": lambda x, y, n: x.relu().mode(1)[0] + n.mode(0)[1] + n.median(),
    "diagonals": lambda x, y, n: x.diagonal(1) @ y[:, 1:5].diag_embed().diagonal(-1, 1, 2)[:, :3],
    "diagonals beside the main one": lambda x, y, n: (
        x.diag_embed(1, 0, 2)[:, 0] @ y[0].diagflat(-2)[:7] + x.narrow_copy(1, 0, 1)
    ),
    "another diagonal": lambda x, y, n: (
        torch.stack([x[:, :4], y[:4, :4]], 2).diagonal_scatter(x[:2, 2:6]).sum(2)
    ),
    "distances": lambda x, y, n: torch.cdist(x, y) + torch.cdist(x, y, 1),
    "distances of other orders": lambda x, y, n: (
        torch.cdist(x, y, 3) + torch.cdist(x, y, 1.5) + torch.cdist(x, y, torch.inf)
    ),
    "differing places": lambda x, y, n: torch.cdist(x.round(), y.round(), 0) + x.sum(),
    "several largest differences": lambda x, y, n: torch.cdist(
        x - (x - x.round()).detach(), y - (y - y.round()).detach(), torch.inf
    ),
    "distances of rows": lambda x, y, n: F.pdist(x) + F.pdist(y[: len(x)], 1),
    "cross entropy": lambda x, y, n: F.cross_entropy(x, n[:4], n.float(), ignore_index=5),
    "losses of each": lambda x, y, n: F.cross_entropy(x, n[:4], reduction="none"),
    "loss of logits": lambda x, y, n: F.binary_cross_entropy_with_logits(x, y.sigmoid()),
    "divergence": lambda x, y, n: F.kl_div(x.log_softmax(1), y.softmax(1)),
    "larger images": lambda x, y, n: F.interpolate(x[None], scale_factor=2, mode="linear"),
    "places among bounds": lambda x, y, n: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])),
    "places in rows": lambda x, y, n: torch.searchsorted(x.sort(1)[0], y, right=True),
    "places in rows by side": lambda x, y, n: (
        torch.searchsorted(x.sort(1)[0], y, side="right")
        + 10 * torch.searchsorted(x.sort(1)[0], x, side="left")
    ),
    "sums of bools": lambda x, y, n: torch.add((x > 0) + (y > 0), x > 1, alpha=True),
    "parametric": lambda x, y, n: F.prelu(x, y[0, :1]) + F.logsigmoid(y),
    "arange": lambda x, y, n: torch.arange(7, 2, -2) + torch.arange(3),
    "linspace": lambda x, y, n: torch.linspace(0.5, 2, 6) * x,
    "new_full": lambda x, y, n: x.new_full((2, 3), 1.5) + torch.full((3,), 2.5),
    "powers": lambda x, y, n: x.abs() ** y + x**3 + (x * x + 1) ** -0.5,
    "powers of integers": lambda x, y, n: (n - 3) ** 3 + n**0 + n.int() ** 21,
    "powers of two": lambda x, y, n: 2 ** (n * 9 - 8) + 8 ** n.int(),
    "negative integers": lambda x, y, n: (-n).abs() + n.sign(),
    "products of elements": lambda x, y, n: x.prod(1) + x.prod() * n.prod(),
    "log sum exp": lambda x, y, n: torch.logsumexp(x, (0, 1)) + torch.logsumexp(y, 1),
    "arc functions": lambda x, y, n: x.atan() + (x / 9).asin() + (x / 9).acos() + x.tan(),
    "arc tangent of large numbers": lambda x, y, n: (1000 * x).atan() + (x * 0).atan(),
    "hyperbolic functions": lambda x, y, n: x.sinh() + x.cosh() + x.asinh() + (x / 9).atanh(),
    "inverse hyperbolic cosine": lambda x, y, n: (x.abs() + 1.5).acosh(),
    "place of the largest": lambda x, y, n: x.argmax() + y.argmin(1, keepdim=True) + n.argmax(-1),
    "largest and where": lambda x, y, n: (
        x.max(1)[0] * x.max(1)[1] + y.min(0, keepdim=True)[0][0, 1]
    ),
    "largest three": lambda x, y, n: x.topk(3)[0] + x.topk(3, largest=False)[1],
    "largest two of columns": lambda x, y, n: x.topk(2, dim=0)[0] * n.topk(6)[0],
    "sort of rows": lambda x, y, n: x.sort(dim=1)[0] + y.sort(0, descending=True)[1],
    "gather": lambda x, y, n: x.gather(1, torch.tensor([[0, 5], [1, 1], [2, 3], [4, 4]])),
    "triangles": lambda x, y, n: x.tril(-1) + y.triu(1),
    "fake quantised": lambda x, y, n: torch.fake_quantize_per_tensor_affine(x, 0.03, 1, -20, 25),
    "fake quantised by tensors": lambda x, y, n: (
        torch.fake_quantize_per_tensor_affine(x, SCALES[:1], ZEROS[1:2], -8, 7) + y
    ),
    "fake quantised by channels": lambda x, y, n: (
        torch.fake_quantize_per_channel_affine(x, SCALES, ZEROS, 0, -8, 7) * y
    ),
    "batch norm": lambda x, y, n: F.batch_norm(x, n + 0.5, n + 1.0, y[2], y[3]),
}


def square(x: Any) -> Any:
    """A matrix that is well conditioned."""
    return x[:, :4] + 4 * torch.eye(4)
