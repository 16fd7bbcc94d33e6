"""Lines of random cells: what one makes of tensors [B, 6], by itself or of two, in place too."""

ONE = """
a * (max(a.shape[-1] - 4, 1) / 3)
a * a.shape[1] ** -0.5
a / min(a.shape[0] + 1, 100)
a / max(len(a), 2) * sum(a.shape[1:])
torch.linspace(-1, 1, a.shape[-1]) * a
a.view(len(a), max(a.shape[1] // 3, 1), -1).mean(1).repeat(1, 2)
torch.arange(a.size(1)).div(max(*a.shape[1:], 3)) + a
((a > 0) + (a < -1)) * a
(a.tanh() * 3).int().clamp(-1, 2) * a
(a > 0).all(axis=1, keepdims=True) * a + a
(a > 0).float() * a
(a.tanh().abs() * 9).to(torch.uint8) // 3 * 0.1 * a
(a.tanh().abs() * 9).to(torch.uint8).mul(40).float() * 0.01 + a
a * (a.abs() < 0.8)
a - a.mean(-1, keepdim=True)
a / (a.std(-1, keepdim=True) + 1)
a @ p.W
a.amax(-1, keepdim=True) - a
a.amax(axis=1, keepdims=True) - a
a.chunk(2, -1)[1].repeat(1, 2)
a.clamp(-1, 1)
a.clamp(min=-0.5)
a.cumsum(-1) * 0.3
a.cumsum(axis=1) * 0.3
a.diff(dim=-1, prepend=a[:, :1])
a.double().tanh().float()
a.flip(-1)
a.gather(1, a.argsort(-1))
a.gather(1, torch.arange(6).flip(0).expand_as(a))
a.index_select(1, torch.tensor([0, 0, 3, 4, 5, 1]))
a.kthvalue(2, -1, keepdim=True)[0] + a
a.log_softmax(-1)
a.masked_fill(a < 0, 0.1)
a.max(axis=1, keepdims=True).values - a
a.mean(axis=-1, keepdims=True) + a
a.median(-1, keepdim=True).values + a
a.narrow(1, 1, 3).repeat(1, 2)
a.new_tensor([1.0, 2, 3, 4, 5, 6]) * a
a.norm(dim=-1, keepdim=True) * 0.3 + a
a.pow(3) * 0.1
a.prod(-1, keepdim=True) * 0.1 + a
a.prod(axis=-1, keepdims=True) * 0.1 + a
a.reshape(-1, 3, 2).max(-1).values.repeat_interleave(2, -1)
a.roll(2, -1)
a.scatter(1, torch.zeros_like(a[:, :1], dtype=torch.long), 0.5)
a.scatter_add(1, torch.ones(a.shape[0], 2, dtype=torch.long), a[:, :2])
a.select(dim=-1, index=-2).unsqueeze(1) + a
a.softmax(-1)
a.sort(-1).values
a.sort(-1, descending=True)[0]
a.square().sum(-1, keepdim=True).sqrt() + a
a.std(-1, keepdim=True) * a
a.std(axis=1, correction=0, keepdims=True) + a
a.sum(axis=(0, 1)) * 0.1 + a
a.swapaxes(0, 1).T
a.t().contiguous().t()
a.topk(3, -1)[0].repeat(1, 2)
a.topk(6, -1).values
a.trunc() + a.frac() * 0.5
a.unflatten(-1, (3, 2)).flip(1).flatten(1)
a.unsqueeze(1).expand(-1, 4, -1).sum(1) * 0.25
a.var(-1, unbiased=False, keepdim=True) + a
a.view(-1, 2, 3).mean(1).repeat(1, 2)
a.view(-1, 2, 3).transpose(1, 2).reshape(-1, 6)
a[:, [3, 1, 0, 5, 2, 4]]
F.adaptive_avg_pool1d(a.unsqueeze(1), 3).squeeze(1).repeat(1, 2)
F.adaptive_max_pool1d(a.unsqueeze(1), 3).squeeze(1).repeat(1, 2)
F.avg_pool1d(a.unsqueeze(1), 3, 1, 1).squeeze(1)
F.avg_pool2d(a.view(-1, 1, 2, 3), 2, 1).view(-1, 2).repeat(1, 3)
F.batch_norm(a, None, None, training=True)
F.bilinear(a, a, p.B)
F.binary_cross_entropy_with_logits(a, a.sigmoid().detach()) + a
F.celu(a)
F.channel_shuffle(a.view(-1, 6, 1), 2).squeeze(-1)
F.conv1d(a.unsqueeze(1), p.K, padding=1).mean(1)
F.conv2d(a.view(-1, 1, 2, 3), p.K.view(2, 1, 1, 3), padding=(0, 1)).mean(1).flatten(1)
F.conv_transpose1d(a.unsqueeze(1), p.K.transpose(0, 1).contiguous() * 1, padding=1).mean(1)
F.cosine_similarity(a, p.b.expand_as(a), dim=-1).unsqueeze(-1) * a
F.cross_entropy(a, a.argmax(-1)) + a
F.elu(a)
F.fold(F.unfold(a.view(-1, 1, 2, 3), (2, 2), padding=1), (2, 3), (2, 2), padding=1).view(-1, 6)
F.gelu(a)
F.glu(torch.cat([a, -a], -1))
F.group_norm(a, 2)
F.hardshrink(a, 0.2)
F.hardsigmoid(a)
F.hardswish(a)
F.hardtanh(a)
F.hinge_embedding_loss(a, torch.sign(a.detach())) + a
F.instance_norm(a.view(-1, 2, 3)).flatten(1)
F.interpolate(a.view(-1, 1, 2, 3), scale_factor=2, mode="bilinear", align_corners=True).mean((1, 2))
F.interpolate(a.view(-1, 1, 6), size=12, mode="linear").view(-1, 2, 6).mean(1)
F.interpolate(a.T[None], size=2 * len(a), mode="linear", align_corners=True)[0, :, ::2].T
F.interpolate(a.T[None], scale_factor=2, mode="linear")[0].T[1::2]
F.interpolate(a.view(1, 1, -1, 6), scale_factor=(2, 1), mode="bicubic")[0, 0, ::2]
F.max_pool1d(a.T, 3, 1, 1).T
F.avg_pool1d(F.pad(a.T[None], (1, 1), "replicate"), 3, 1)[0].T
F.conv1d(a.T[None], p.W[:, :, None].expand(-1, -1, 3), padding=1)[0].T * 0.3
F.embedding_bag((a > 0).long(), p.W)
F.pad(a, (0, 0, 2, 0)).unfold(0, 3, 1).sum(-1)
a / a.shape[0] ** 0.5
a.roll(1, 0) + a.roll(-1)
torch.cdist(a, a) @ a * 0.1
torch.einsum("bi,ci,cj->bj", a, a, a) * 0.1
torch.meshgrid(a[:, 0], a[0], indexing="ij")[0] + a
F.layer_norm(a, (6,))
F.layer_norm(a, (6,), p.g, p.b)
F.layer_norm(input=a, normalized_shape=[6], weight=p.g, eps=0.1)
F.leaky_relu(a, 0.2)
F.linear(a, p.W, p.b)
F.local_response_norm(a.view(-1, 6, 1), 2).squeeze(-1)
F.logsigmoid(a)
F.lp_pool1d(a.unsqueeze(1).abs(), 2, 2).squeeze(1).repeat(1, 2)
F.margin_ranking_loss(a, a * 0.5, torch.sign(a.detach())) + a
F.max_pool1d(a.unsqueeze(1), 3, 1, 1).squeeze(1)
F.mish(a)
F.nll_loss(a.log_softmax(-1), a.argmax(-1)) + a
F.normalize(a, dim=-1)
F.one_hot((a > 0).long().sum(-1) % 6, 6) * a
F.one_hot(a.argmax(-1), 6).float() + a * 0.5
F.pad(a, (2, 0))[:, :6]
F.pad(a[:, 1:-1], (1, 1))
F.pad(input=a, pad=(1, 2), mode="constant", value=0.7)[:, 1:7]
F.pixel_shuffle(a.view(-1, 6, 1, 1)[:, :4], 2).flatten(1).repeat(1, 2)[:, :6]
F.poisson_nll_loss(a, a.abs()) + a
F.prelu(a, p.s)
F.relu(a)
F.relu6(a)
F.rms_norm(a, (6,))
F.scaled_dot_product_attention(a.view(-1, 2, 3), a.view(-1, 2, 3), a.view(-1, 2, 3)).reshape(-1, 6)
F.selu(a)
F.silu(a)
F.smooth_l1_loss(a, a * 0.5, reduction="none")
F.softmin(a, -1)
F.softplus(a)
F.softshrink(a, 0.2)
F.softsign(a)
F.tanhshrink(a)
F.threshold(a, 0.1, -0.2)
F.triplet_margin_loss(a, a * 0.5, a + 1) + a
p.emb(a.argmax(-1)) + a * 0.3
p.gru(a, a * 0.5)
p.lin(a)
p.lin2(a)
p.ln(a)
torch.addbmm(p.W, a.unsqueeze(2), a.unsqueeze(1))[0] + a
torch.addcdiv(p.b, a, a.abs() + 1)
torch.addcmul(p.b, a, a, value=0.3)
torch.addmm(input=p.b, mat1=a, mat2=p.W, beta=0.5, alpha=2)
torch.addmm(p.b, a, p.W)
torch.addmv(p.b, p.W, a[0]) + a
torch.addr(p.W, a[0], a[-1])[0] + a
torch.aminmax(a, dim=-1, keepdim=True)[1] + a
torch.arange(6.0) * a * 0.1
torch.argmin(input=a, dim=1, keepdim=True) * 0.1 + a
torch.argsort(a, -1).float() * 0.1 + a
torch.atan(a)
torch.atan2(a, p.b + 2)
torch.baddbmm(a.unsqueeze(1), a.unsqueeze(1), p.W.expand(a.shape[0], -1, -1)).squeeze(1)
torch.block_diag(p.W[:3, :3], p.W[3:, 3:]).matmul(a.unsqueeze(-1)).squeeze(-1)
torch.bmm(a.unsqueeze(1), p.W.unsqueeze(0).expand(a.shape[0], -1, -1)).squeeze(1)
torch.bucketize(a, p.edges).float() * 0.2 + a
torch.cat([a[:, 2:], a[:, :2]], -1)
torch.chain_matmul(p.W, p.W)[0] + a
torch.cholesky_solve(a.unsqueeze(-1), torch.eye(6) * 2).squeeze(-1)
torch.clamp(a, torch.tensor(-0.5), torch.tensor(0.5))
torch.clip(a, -p.b.abs(), p.b.abs())
torch.complex(a, a * 0.5).abs()
torch.concatenate([a[:, 2:], a[:, :2]], axis=1)
torch.cos(a)
torch.count_nonzero(a > 0, dim=-1).unsqueeze(-1) * a * 0.1
torch.cross(a[:, :3], a[:, 3:], dim=-1).repeat(1, 2)
torch.cummax(a, -1)[0]
torch.cummin(a, -1)[0]
torch.cumprod(a.clamp(-1, 1), -1)
torch.cumulative_trapezoid(a, dim=-1).repeat(1, 2)[:, :6]
torch.deg2rad(a)
torch.diag_embed(a).sum(1)
torch.diagonal(a.unsqueeze(1) * p.W, dim1=1, dim2=2)
torch.diff(a, n=2, dim=-1, prepend=a[:, :2])
torch.digamma(a.abs() + 1)
torch.dot(a[0], a[-1]) + a
torch.einsum("bi,bj->bij", a, a).sum(1) * 0.2
torch.einsum("bi,ij->bj", a, p.W)
torch.erf(a)
torch.erfinv(a.clamp(-0.9, 0.9))
torch.exp(-a.abs())
torch.expm1(a * 0.3)
torch.fft.fft(a).real
torch.fft.fftshift(a, -1)
torch.fft.ifft(torch.fft.fft(a) * 2).real
torch.fft.irfft(torch.fft.rfft(a) * 0.5, n=6)
torch.fft.rfft(a).abs().sum(-1, keepdim=True) * 0.1 + a
torch.flip(input=a, dims=(-1,))
torch.fliplr(a)
torch.flipud(a)
torch.float_power(a, 2).float()
torch.float_power(a.abs() + 1, 0.3).float()
torch.floor(a * 2) * 0.5 + a * 0.1
torch.fmod(a * 3, 1.0)
torch.full_like(a, 0.5) * a
torch.func.grad(lambda v: (v ** 3).sum())(a) * 0.1
torch.func.vmap(lambda v: torch.dot(v, v))(a).unsqueeze(-1) + a
torch.gather(input=a, dim=1, index=a.argsort(dim=1))
torch.ger(a[0], p.b)[0] + a
torch.gradient(a, dim=-1)[0]
torch.hstack([a[:, :3], a[:, :3] * 2])
torch.hypot(a, p.b)
torch.index_add(input=a, dim=1, index=torch.tensor([0, 2]), source=a[:, :2], alpha=0.5)
torch.inner(a, p.W)
torch.isclose(a, a).float() * a
torch.kron(a[:1], p.b[:1].view(1, 1)) + a
torch.lerp(a, p.b.expand_as(a), 0.3)
torch.lgamma(a.abs() + 1)
torch.linalg.cross(a.view(-1, 2, 3), a.view(-1, 2, 3).flip(-1)).flatten(1)
torch.linalg.det(torch.eye(3) + a.view(-1, 2, 3)[:, :1] * 0.1).unsqueeze(-1) + a
torch.linalg.matrix_power(p.W, 3)[0] * 0.1 + a
torch.linalg.multi_dot([a, p.W, p.W])
torch.linalg.norm(a, dim=-1, keepdim=True) + a
torch.linalg.qr(a.view(-1, 2, 3).mT)[0].flatten(1)
torch.linalg.slogdet(torch.eye(6) * 2 + p.W * 0.1)[1] + a
torch.linalg.solve(torch.eye(3) + p.W[:3, :3] * 0.1, a.view(-1, 3, 2)).flatten(1)
torch.linalg.vecdot(a, a).unsqueeze(-1) + a
torch.linspace(0, 1, 6) * a
torch.log1p(a.abs())
torch.logcumsumexp(a, -1)
torch.logit(a.sigmoid())
torch.logspace(0, 1, 6) * a * 0.1
torch.logsumexp(a, -1, keepdim=True) + a * 0.1
torch.matmul(a.unsqueeze(1), p.W).squeeze(1)
torch.matrix_exp(p.W * 0.1)[0] + a
torch.maximum(a, -a * 0.3)
torch.meshgrid(a[0], a[0], indexing="ij")[0].sum(0) + a
torch.minimum(a, p.b)
torch.moveaxis(a.view(-1, 2, 3), source=-1, destination=1).reshape(-1, 6)
torch.movedim(a.view(-1, 2, 3), 1, 2).flatten(1)
torch.msort(a)
torch.mv(p.W, a[0]) + a
torch.mvlgamma(a.abs() + 2, 2)
torch.nan_to_num(a / (a * 0 + 1))
torch.nanmean(a, -1, keepdim=True) + a
torch.nansum(a, -1, keepdim=True) * 0.1 + a
torch.narrow(input=a, dim=1, start=-4, length=3).repeat(1, 2)
torch.nn.utils.parameters_to_vector([p.b])[:6] * a
torch.outer(a[0], a[0]).sum(0) + a
torch.polar(a.abs(), a).real
torch.positive(a)
torch.rad2deg(a) * 0.01
torch.remainder(a, 0.7)
torch.remainder(a, other=-0.4)
torch.renorm(a, 2, 0, 1.0)
torch.roll(a, shifts=1, dims=1)
torch.roll(input=a, shifts=(1, -2), dims=(0, 1))
torch.rot90(a.view(-1, 2, 3), 1, (1, 2)).flatten(1)
torch.round(a).detach() + a - a.detach()
torch.rsqrt(a ** 2 + 0.5)
torch.searchsorted(p.edges, a).float() * 0.1 + a
torch.searchsorted(p.edges, a, side="right") * 0.1 + a
torch.sgn(a) * a
torch.sigmoid(a)
torch.sign(a) * a ** 2 * 0.5
torch.sin(a)
torch.sinc(a)
torch.softmax(a.view(-1, 2, 3), dim=1).flatten(1)
torch.special.entr(a.sigmoid())
torch.special.expit(a)
torch.special.log_ndtr(a)
torch.special.ndtr(a)
torch.split(a, split_size_or_sections=4, dim=1)[1].repeat(1, 3)
torch.sqrt(a * a + 1)
torch.stack([a, a * 2], 0).sum(0) * 0.5
torch.std_mean(a, -1, keepdim=True)[0] + a
torch.sum(input=a, dim=[1], keepdim=True, dtype=torch.float64).float() + a
torch.swapaxes(a.view(-1, 2, 3), axis0=1, axis1=-1).reshape(-1, 6)
torch.take_along_dim(a, a.argsort(1), 1)
torch.tanh(a)
torch.tensor_split(a, 3, -1)[1].repeat(1, 3)
torch.trace(p.W) + a
torch.trapezoid(a, dim=-1).unsqueeze(-1) + a
torch.trapezoid(a, x=torch.tensor([0.0, 1, 3, 4, 6, 7]), dim=1).unsqueeze(1) * 0.1 + a
torch.tril(a.unsqueeze(2) * a.unsqueeze(1)).sum(1) * 0.2
torch.triu(p.W).mul(a.unsqueeze(1)).sum(-1)
torch.utils.checkpoint.checkpoint(lambda v: torch.tanh(v) * v, a, use_reentrant=False)
torch.vdot(a[0], a[-1]) + a
torch.view_as_real(torch.complex(a, p.b.expand_as(a))).sum(-1)
torch.vmap(lambda v: v * v.sum())(a)
torch.vstack([a, a])[:a.shape[0]]
torch.where((a > 0.3) | (a < -0.3), a, torch.zeros_like(a))
torch.where(a > 0, 1, 0) * a
torch.where(a > 0, a, a * 0.1)
torch.where(a > 0, a, float("nan")).nansum(axis=1, keepdims=True) * 0.1 + a
torch.xlogy(a.abs(), a.abs() + 1)
"""
"""Expressions of a; `p` holds parameters."""

TWO = """
(a.unsqueeze(2) * b.unsqueeze(1)).logsumexp(1) * 0.2
(a.view(-1, 2, 3) @ b.view(-1, 3, 2)).flatten(1).repeat(1, 2)[:, :6]
a * b
a + b
a - 0.5 * b
a / (b.abs() + 1)
a.gather(1, b.argsort(-1))
a.mul(b).cumsum(-1) * 0.2
a.where(condition=a > 0, other=b)
F.bilinear(a, b, p.B)
F.cosine_similarity(a, b, dim=-1)[:, None] + a
F.gelu(a) * b
F.huber_loss(a, b) + a
F.kl_div(a.log_softmax(-1), b.softmax(-1), reduction="batchmean") * 0.1 + a
F.mse_loss(a, b, reduction="none") * 0.3
F.pairwise_distance(a, b, keepdim=True) * 0.1 + b
F.scaled_dot_product_attention(a.view(-1, 2, 3), b.view(-1, 2, 3), a.view(-1, 2, 3)).reshape(-1, 6)
p.cell(a, b)
torch.add(input=a, other=b, alpha=-0.5)
torch.addcmul(a, b, a, value=0.1)
torch.atan2(a, b.abs() + 1)
torch.baddbmm(a.unsqueeze(2), b.unsqueeze(2), a.mean(-1).view(-1, 1, 1)).squeeze(2)
torch.bmm(a.view(-1, 3, 2), b.view(-1, 2, 3)).diagonal(dim1=1, dim2=2).repeat(1, 2)
torch.cat([a[:, :2], b[:, 2:]], axis=1)
torch.cat([a[:, :3], b[:, 3:]], -1)
torch.clamp(a, min=-b.abs(), max=b.abs())
torch.copysign(a, b)
torch.dist(a, b) * 0.1 + a
torch.div(a, b.abs() + 1, rounding_mode="floor") * 0.3 + a
torch.einsum("bi,bi->b", a, b).unsqueeze(-1) * 0.3 + a
torch.fmax(a, b)
torch.hypot(a, b)
torch.ldexp(a, (b > 0).float())
torch.lerp(a, b, torch.sigmoid(a))
torch.logaddexp(a, b)
torch.maximum(a, b)
torch.minimum(a, b)
torch.stack([a, b], 1).amax(1)
torch.stack(tensors=[a, b], dim=-1).prod(axis=-1)
torch.tensordot(a, p.W, dims=1) * b
torch.where((a > 0) & (b > 0), a * b, a)
torch.where(a > b, a, b * 0.5)
torch.where(condition=a > 0, input=a, other=b)
"""
"""Expressions of a and b."""

STATEMENTS = """
k = (a.tanh() * 3).long(); y = torch.where(k > 0, k, 0.5) * b
k = a.argmax(-1); y = b + p.W[k]
k = a.argmax(-1, keepdim=True); y = a.scatter(1, k, b.gather(1, k))
k = a.argmin(-1); y = a[torch.arange(a.shape[0]), k].unsqueeze(-1) + b
m = (a > 0).cumsum(-1); y = torch.where(m % 2 == 0, a, b); y = y + m.float() * 0.1
m = a > 0; m &= b < 1; m |= a < -1; y = m * a + b
m = a > b; y = torch.where(m.any(-1, keepdim=True), a, b)
n = (a > 0).sum(-1, keepdim=True); y = a * n / 6 + b
s = a.new_tensor([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]); s[1:3] = b[0, :2]; y = s * a
s = torch.tensor(0.3); s.add_(a.mean()); y = s * b
s = torch.zeros(()); s = s + a.mean(); y = s * b + a
u, v = a.chunk(2, -1); y = torch.cat([v, u], -1) * b
u, v, w = torch.split(a, [1, 2, 3], -1); y = torch.cat([w, u, v], -1) + b * 0.5
y = [a[:, k] * (k + 1) * 0.3 for k in range(6)]; y = torch.stack(y, -1)
y = a * 1; y.add_(b)
y = a * 1; y.mul_(0.5).tanh_()
y = a.clone(); v = y.view(-1, 2, 3); v[:, 0] += b[:, :3]
y = a.clone(); v = y[:, 1:4]; w = v[:, 1:]; w.mul_(2); v.add_(0.1)
y = a.clone(); y += b if a.shape[-1] == 6 else 0
y = a.clone(); y.index_add_(1, torch.tensor([0, 3]), b[:, :2])
y = a.clone(); y.index_copy_(1, torch.tensor([4, 1]), b[:, :2])
y = a.clone(); y.masked_fill_(b > 0, 0.2)
y = a.clone(); y.scatter_(1, torch.tensor([[2]]).expand(a.shape[0], 1), b[:, :1])
y = a.clone(); y.t()[0].copy_(b[:, 0]); y.t()[1:3].zero_()
y = a.clone(); y[..., 1:] += y[..., :-1].clone() * 0.3
y = a.clone(); y[:, -1:] = b.sum(-1, keepdim=True) * 0.1
y = a.clone(); y[:, 0] += b[:, 1]
y = a.clone(); y[:, 1::2] *= 0.5
y = a.clone(); y[:, :2] = b[:, :2]
y = a.clone(); y[:, [0, 2]] = b[:, [1, 3]]
y = a.clone(); y[a > 0.2] = 0.3
y = a.detach() * b
y = a.t().clone(); y[0] = 0.1; y = y.t() + b
y = a.view(-1, 2, 3).clone(); y[:, 0] = b[:, :3]; y = y.flatten(1)
y = dict(x=a, y=b); y = y["x"] * y["y"] + y["x"]
y = torch.empty_like(a); y.copy_(a); y.clamp_(-1, 1)
y = torch.zeros(a.shape[0], 8); y[:, 1:7] = a; y = y[:, 2:] + b
y = torch.zeros_like(a); y[:, :3] = a[:, 3:]; y[:, 3:] += b[:, :3]
"""
"""What makes y of a and b."""
