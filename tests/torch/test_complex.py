"""Complex numbers: values and gradients are PyTorch's, in cells, loops and modules."""

from __future__ import annotations

from typing import Any

import pytest

from rnncc import CompileError
from tests.torch.cells import CLOSE, loop, nn, torch

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers
F: Any = torch.fft
TAPS = torch.hamming_window(6)

FUNCTIONS = {
    "mul": lambda x, z, w: z * z,
    "mul_of_float": lambda x, z, w: x * z + z * 2,
    "mul_of_number": lambda x, z, w: z * (1 + 2j),
    "mul_of_float_and_number": lambda x, z, w: x * 1j + 1,
    "add": lambda x, z, w: torch.add(z, x, alpha=2) + 1j,
    "sub": lambda x, z, w: x - z - 3,
    "div": lambda x, z, w: z / (z + 1),
    "div_by_float": lambda x, z, w: z / x / 2,
    "div_of_mixed": lambda x, z, w: z.to(torch.complex128) / w[:3] + x.double() / z,
    "div_of_number": lambda x, z, w: 1 / z,
    "large_quotient": lambda x, z, w: (z * 1e30) / (z * 1e30 + x * 1e30),
    "exp": lambda x, z, w: torch.exp(z),
    "exp_of_angle": lambda x, z, w: torch.exp(1j * x),
    "log": lambda x, z, w: torch.log(z),
    "sqrt": lambda x, z, w: torch.sqrt(z) + torch.sqrt(-z),
    "square": lambda x, z, w: z.square(),
    "power": lambda x, z, w: z**5 + z**-2,
    "root": lambda x, z, w: z**0.3,
    "half_power": lambda x, z, w: ((x * -1e8).to(z.dtype) ** 0.5).real + (z**-0.5).real,
    "power_of_zero": lambda x, z, w: (z * 0) ** 1.3 + (z * 0) ** torch.full_like(z, 2 + 1j),
    "power_of_mixed": lambda x, z, w: z ** (w[:3].to(torch.complex128) * 0.5),
    "power_of_complex": lambda x, z, w: z ** (z * 0.5),
    "sin": lambda x, z, w: torch.sin(z) * torch.cos(z),
    "tanh": lambda x, z, w: torch.tanh(z) + torch.tanh(z * 20),
    "sigmoid": lambda x, z, w: torch.sigmoid(z),
    "conj": lambda x, z, w: z.conj() * z + z.conj(),
    "part of conj": lambda x, z, w: z.conj().imag + 2 * w[:3].conj().real,
    "abs": lambda x, z, w: z.abs() + torch.zeros_like(z).abs(),
    "angle": lambda x, z, w: z.angle(),
    "sgn": lambda x, z, w: torch.sgn(z),
    "norm": lambda x, z, w: torch.linalg.vector_norm(z, dim=-1),
    "real": lambda x, z, w: (z * z).real + z.imag,
    "polar": lambda x, z, w: torch.polar(x, x),
    "copied_to_float": lambda x, z, w: torch.zeros_like(x).copy_(z),
    "complex": lambda x, z, w: torch.complex(x, x * 2),
    "pairs": lambda x, z, w: torch.view_as_real(z * 2),
    "from_pairs": lambda x, z, w: torch.view_as_complex(torch.stack([x, x * 3], -1)),
    "from_float": lambda x, z, w: x.to(torch.complex64) * z,
    "mm": lambda x, z, w: z @ w,
    "mm_of_conj": lambda x, z, w: z @ w.mH,
    "mm_of_float": lambda x, z, w: x.to(z.dtype) @ w,
    "addmm": lambda x, z, w: torch.addmm(z, z, w, beta=2, alpha=1j),
    "bmm": lambda x, z, w: z[None] @ w[None],
    "mv": lambda x, z, w: w @ z[0] + torch.dot(z[0], z[1]),
    "vdot": lambda x, z, w: torch.vdot(z[0], z[1]),
    "linear": lambda x, z, w: torch.nn.functional.linear(z, w, z[0]),
    "einsum": lambda x, z, w: torch.einsum("bn,nm->bm", z, w),
    "sum": lambda x, z, w: z.sum(-1) + z.mean(),
    "cumsum": lambda x, z, w: z.cumsum(0),
    "cat": lambda x, z, w: torch.cat([z, x.to(z.dtype)], -1),
    "stack": lambda x, z, w: torch.stack([z, z * 1j]).transpose(0, 1).reshape(-1)[1::2],
    "where": lambda x, z, w: torch.where(x > 0.5, z, 0),
    "masked_fill": lambda x, z, w: z.masked_fill(x > 0.5, 1 + 1j),
    "chosen": lambda x, z, w: z[:, torch.tensor([2, 0])].flip(0),
    "eq": lambda x, z, w: (z == z) & (z != z.conj()),
    "made": lambda x, z, w: torch.zeros_like(z) + torch.full((4,), 1 - 2j) + z,
    "full": lambda x, z, w: torch.full((4,), 2, dtype=torch.complex64) + z + torch.ones_like(z),
    "padded": lambda x, z, w: torch.nn.functional.pad(z, (1, 2), value=1.5),
    "zeroth_power": lambda x, z, w: (z * 0) ** 0 + z,
    "index_add": lambda x, z, w: z.index_add(0, torch.tensor([0, 2, 0]), x.to(z.dtype), alpha=2),
    "scatter_add": lambda x, z, w: z.scatter_add(1, torch.ones(3, 4).long(), z * 2),
    "index_put": lambda x, z, w: z.index_put((torch.tensor([1]),), x[:1] * 1j),
    "eq_of_float": lambda x, z, w: (x.to(z.dtype) == x) & (z != 1),
    "double": lambda x, z, w: (z.to(torch.complex128) * 1j + x.double()).abs(),
    "eq_of_doubles": lambda x, z, w: z.to(torch.complex128) == z,
    "fft": lambda x, z, w: F.fft(x) + F.fft(z, norm="ortho"),
    "fft_of_first_axis": lambda x, z, w: F.ifft(z, dim=0),
    "rfft": lambda x, z, w: F.rfft(x.repeat(1, 3), n=11),
    "irfft": lambda x, z, w: F.irfft(z, n=6) + F.irfft(z),
    "irfft_of_odd": lambda x, z, w: F.irfft(z, n=7, norm="forward"),
    "fft2": lambda x, z, w: F.ifft2(F.fft2(x) * z),
    "rfft2": lambda x, z, w: F.irfft2(F.rfft2(x) * z[:, :3], s=(3, 4)),
    "stft": lambda x, z, w: torch.stft(x.repeat(1, 3), 6, 2, window=TAPS, return_complex=True),
    "stft_of_complex": lambda x, z, w: z.stft(
        4, 1, 3, TAPS[:3], center=False, normalized=True, return_complex=True
    ),
    "istft": lambda x, z, w: torch.istft(z, 4, 2, window=TAPS[:4], length=7),
    "istft_of_two_sides": lambda x, z, w: z.mT.istft(
        4, window=TAPS[:4], center=False, normalized=True, onesided=False
    ),
    "istft_of_complex": lambda x, z, w: torch.istft(
        w, 4, 2, window=TAPS[:4].to(w.dtype), onesided=False, return_complex=True
    ),
}


def results(made: Any, sources: list[Any]) -> list[Any]:
    """Values, and gradients of a sum that gives each part of each element another weight."""
    if not made.requires_grad:
        return [made, *sources]
    parts = torch.view_as_real(made.resolve_conj()) if made.is_complex() else made
    weights = torch.linspace(-1, 1, parts.numel(), dtype=parts.dtype).view(parts.shape)
    total = (parts * weights).sum()
    grads = torch.autograd.grad(total, sources, retain_graph=True, allow_unused=True)
    known = zip(grads, sources, strict=True)
    return [made.detach(), *(torch.zeros_like(s) if g is None else g for g, s in known)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    torch.manual_seed(0)
    x = torch.rand(3, 4) + 0.1
    z, w = (torch.randn(n, 4, dtype=torch.complex64) for n in (3, 4))
    sources = [t.requires_grad_() for t in (x, z, w)]
    function = FUNCTIONS[name]
    rows = [t[None] for t in sources]
    ys, _ = rt.scan(lambda row, h: (function(*row), h), rows, torch.zeros(3))
    theirs = function(*sources)
    assert ys.dtype == theirs.dtype
    torch.testing.assert_close(results(ys[0], sources), results(theirs, sources), **CLOSE)


def test_complex_numbers_of_doubles() -> None:
    """Every eighth function: what differs from floats is the type of all."""
    torch.manual_seed(0)
    x = torch.rand(3, 4, dtype=torch.float64) + 0.1
    z, w = (torch.randn(n, 4, dtype=torch.complex128) for n in (3, 4))
    sources, taken = [t.requires_grad_() for t in (x, z, w)], list[Any]()
    for function in [*FUNCTIONS.values()][::8]:
        try:
            taken += [function] if function(x, z, w).dtype in (z.dtype, x.dtype) else []
        except RuntimeError:  # it has a constant of another type
            continue
    assert len(taken) > len(FUNCTIONS) // 16
    ys, _ = rt.scan(
        lambda row, h: (tuple(function(*row) for function in taken), h),
        [t[None] for t in sources],
        torch.zeros(3),
    )
    for ours, function in zip(ys, taken, strict=True):
        theirs = function(x, z, w)
        assert ours.dtype == theirs.dtype
        near = {"rtol": 1e-10, "atol": 1e-10}
        torch.testing.assert_close(results(ours[0], sources), results(theirs, sources), **near)


class LinearRecurrence(nn.Module):
    """A diagonal linear recurrence of complex states, as state-space models have."""

    def __init__(self, width: int, units: int) -> None:
        super().__init__()
        self.size, self.turn = (nn.Parameter(torch.rand(units)) for _ in range(2))
        self.b = nn.Parameter(torch.randn(units, width, dtype=torch.complex64) / width)
        self.c = nn.Parameter(torch.randn(width, units, dtype=torch.complex64) / units)

    def forward(self, x: Any, h: Any) -> Any:
        decay = torch.exp(torch.complex(-torch.exp(self.size), 6 * self.turn))
        h = decay * h + x.to(self.b.dtype) @ self.b.T
        return (h @ self.c.T).real, h


@pytest.mark.parametrize("reverse", [False, True])
def test_a_complex_state(reverse: bool) -> None:
    torch.manual_seed(0)
    cell = LinearRecurrence(4, 6)
    for batch in (3, 5):
        x = torch.ops.aten._neg_view(torch.randn(20, batch, 4)).requires_grad_()
        h = torch.randn(batch, 6, dtype=torch.complex64).conj().requires_grad_()
        sources = [x, h, *cell.parameters()]
        found = []
        for run in (rt.scan, loop):
            ys, last = run(cell, x, h, reverse=reverse)
            found.append([*results(ys, sources), *results(last, sources)])
        torch.testing.assert_close(found[0], found[1], **CLOSE)


def test_linear_layer_in_a_module() -> None:
    layer, z = nn.Linear(4, 3, dtype=torch.complex64), torch.randn(2, 4, dtype=torch.complex64)
    sources = [z.requires_grad_(), *layer.parameters()]
    compiled = rt.compile(layer, (z.detach(),))
    ours, theirs = (results(net(z), sources) for net in (compiled, layer))
    torch.testing.assert_close(ours, theirs, **CLOSE)


OPEN = ({0: torch.export.Dim("T"), 1: torch.export.Dim("N")}, {0: torch.export.Dim("N")})


class Filtered(nn.Module):
    """A loop, complex inputs and outputs, and a complex buffer that changes."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = LinearRecurrence(4, 6)
        self.register_buffer("total", torch.zeros(6, dtype=torch.complex64))

    def forward(self, x: Any, h: Any) -> Any:
        ys, last = self.run(self.cell, x, h)
        self.total = self.total + last.detach().sum(0)
        return ys, last * self.total

    run = staticmethod(rt.scan)


class Plain(Filtered):
    run = staticmethod(loop)


@pytest.mark.parametrize("frozen", [False, True])
def test_modules(frozen: bool) -> None:
    torch.manual_seed(0)
    ours, theirs = Filtered(), Plain()
    theirs.load_state_dict(ours.state_dict())
    given = (torch.randn(5, 3, 4), torch.randn(3, 6, dtype=torch.complex64))
    compiled = rt.compile(ours, given, dynamic_shapes=OPEN, frozen=frozen)
    for steps, batch in ((5, 3), (9, 2)):
        x = torch.randn(steps, batch, 4, requires_grad=not frozen)
        h = torch.randn(batch, 6, dtype=torch.complex64, requires_grad=not frozen)
        with torch.set_grad_enabled(not frozen):
            made, want = compiled(x, h), theirs(x, h)
            sources = [] if frozen else [x, h]
            for one, other in zip(made, want, strict=True):
                torch.testing.assert_close(results(one, sources), results(other, sources), **CLOSE)
        torch.testing.assert_close(ours.total, theirs.total, **CLOSE)


def test_the_back_end() -> None:
    layer = nn.LSTMCell(4, 6)

    def net(x: Any, z: Any) -> Any:
        return layer(x)[0] * z

    x, z = torch.randn(3, 4), torch.randn(3, 6, dtype=torch.complex64)
    made = torch.compile(net, backend="rnncc")(x, z)
    torch.testing.assert_close(made, net(x, z), **CLOSE)


REFUSED = {
    "aten.cumprod.default: operator of complex numbers": lambda z: z.cumprod(0),
    "a complex factor": lambda z: torch.add(z, z, alpha=1j),
    "Fourier transform of 300 numbers": lambda z: F.fft(z.repeat(1, 75)),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refusals(reason: str) -> None:
    z = torch.randn(1, 3, 4, dtype=torch.complex64)
    with pytest.raises(CompileError, match=rf"test_complex.py:\d+: .*{reason}"):
        rt.scan(lambda z, h: (REFUSED[reason](z), h), z, torch.zeros(3))


def test_angles_are_flat_at_zero() -> None:
    """As PyTorch's are, where the direction is not known."""
    x = torch.tensor([[0.0, 1.0]], requires_grad=True)
    ys, _ = rt.scan(lambda x, h: (torch.complex(x, 2 * x).angle(), h), x, torch.zeros(1))
    (slope,) = torch.autograd.grad(ys.sum(), x)
    assert slope.tolist() == [[0.0, 0.0]]
