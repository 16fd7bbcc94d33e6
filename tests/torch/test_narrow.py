"""Tensors of few bits: computed in 32, rounded or wrapped where PyTorch does it."""

from __future__ import annotations

from typing import Any

import pytest
from rnncc_runtime.errors import ArrayError

from rnncc import CompileError
from tests.torch.cells import F, loop, nn, torch
from tests.torch.emulated_gpu import EmulatedGpu, gpu

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers
__all__ = ["gpu"]
DTYPES = [torch.bfloat16, torch.float16]
UNITS = 8


class Cell(nn.Module):
    """Products, functions, a norm, a reduction, a constant, and a choice."""

    def __init__(self) -> None:
        super().__init__()
        self.of_input, self.of_state = nn.Linear(UNITS, UNITS), nn.Linear(UNITS, UNITS, bias=False)
        self.norm = nn.LayerNorm(UNITS)

    def forward(self, x: Any, h: Any) -> Any:
        gate = torch.sigmoid(self.of_input(x) + self.of_state(h))
        h = self.norm(gate * h + (1 - gate) * torch.tanh(x))
        y = torch.where(h > 0, h, 0.3 * h) / (1 + h.abs().sum(-1, keepdim=True))
        return F.softmax(y, -1), h


def case(dtype: Any) -> tuple[Any, Any, Any]:
    torch.manual_seed(0)
    cell, xs = Cell().to(dtype), torch.randn(9, 3, UNITS).to(dtype)
    return cell, xs, torch.zeros(3, UNITS, dtype=dtype)


def gradients(run: Any, cell: Any, xs: Any, start: Any) -> list[Any]:
    xs = xs.detach().requires_grad_()
    y, last = run(cell, xs, start)
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)
    return list(torch.autograd.grad([y, last], [xs, *cell.parameters()], [weights, last.detach()]))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_cells_have_the_bits_of_pytorch(dtype: Any) -> None:
    cell, xs, start = case(dtype)
    with torch.no_grad():
        ours, theirs = rt.scan(cell, xs, start), loop(cell, xs, start)
    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype == dtype
        assert torch.equal(one, other)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gradients_are_at_least_as_near(dtype: Any) -> None:
    """Within the loop PyTorch rounds them at each operator, rnncc does not."""
    cell, xs, start = case(dtype)
    ours, theirs = gradients(rt.scan, cell, xs, start), gradients(loop, cell, xs, start)
    exact = gradients(loop, cell.double(), xs.double(), start.double())
    for one, other, true in zip(ours, theirs, exact, strict=True):
        assert one.dtype == dtype
        errors = [(g.double() - true).norm() for g in (one, other)]
        assert errors[0] <= 1.1 * errors[1] + 1e-3 * true.norm()


def test_on_a_gpu(gpu: EmulatedGpu) -> None:
    cell, xs, start = case(torch.bfloat16)
    for one, other in zip(rt.scan(cell, xs, start), loop(cell, xs, start), strict=True):
        torch.testing.assert_close(one, other, rtol=2e-2, atol=2e-2)
    assert gpu.calls


class Counting(nn.Module):
    """Integers of few bits: what wraps, what widens, comparisons, and a state of each kind."""

    def forward(self, rows: Any, state: Any) -> Any:
        pixels, i8, i16 = rows
        small, short = state
        small = small + i8 * 3 - pixels.to(torch.int8)
        short = (short * 7 + pixels * i8 + ~i16) >> 1
        same = [pixels - 7, -pixels, pixels // 3, (pixels << 3) ^ 5, i8.abs(), pixels.mul(i16)]
        changed = pixels.clone()
        changed[:, 1:] *= 2
        wide = pixels.sum(-1), i8.cumsum(0), pixels > 100, (i8 * 0.5).to(torch.uint8)
        chosen = torch.where(i8 > 0, pixels, pixels * 2), short.max(-1).values
        return (*same, changed, *wide, *chosen, pixels.float() / 255, i8 / 3), (small, short)


def test_integers_of_few_bits() -> None:
    generator = torch.Generator().manual_seed(0)
    shape = 7, 3, 4
    xs = [
        torch.randint(info.min, info.max, shape, dtype=dtype, generator=generator)
        for dtype in (torch.uint8, torch.int8, torch.int16)
        for info in [torch.iinfo(dtype)]
    ]
    state = torch.zeros(3, 4, dtype=torch.int8), torch.ones(3, 4, dtype=torch.int16)
    cell, rows, want = Counting(), list[Any](), state
    for t in range(7):
        y, want = cell([x[t] for x in xs], want)
        rows.append(y)
    known = [*(torch.stack(ys) for ys in zip(*rows, strict=True)), *want]
    ys, last = rt.scan(cell, xs, state)
    for one, other in zip([*ys, *last], known, strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
    with pytest.raises(CompileError, match="state 0 is int16 before a step and int32 after it"):
        rt.scan(lambda x, n: (None, n.int()), xs[2], xs[2][0])
    compiled = rt.compile(nn.Flatten(), (xs[0],))
    assert torch.equal(compiled(xs[0]), xs[0].flatten(1))
    with pytest.raises(ArrayError, match="input is int32, expected uint8"):
        compiled(xs[0].int())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_modules(dtype: Any) -> None:
    torch.manual_seed(0)
    layer, x = nn.LSTM(5, 6).to(dtype), torch.randn(7, 2, 5).to(dtype)
    exact = layer.double()(x.double())[0]
    layer.to(dtype)
    for compiled in (rt.compile(layer, (x,)), torch.compile(layer, backend="rnncc")):
        y = compiled(x)[0]
        assert y.dtype == dtype
        assert (y - exact).norm() <= 1.1 * (layer(x)[0] - exact).norm()
        y.sum().backward()
        assert all(p.grad.dtype == dtype and p.grad.any() for p in layer.parameters())
        layer.zero_grad()


def test_other_bits_than_compiled_for() -> None:
    net, x = nn.Linear(4, 3), torch.zeros(2, 4)
    wide, narrow = rt.compile(net, (x,)), rt.compile(nn.Linear(4, 3).half(), (x.half(),))
    for compiled, given, message in (
        (wide, x.half(), "input is float16, expected float32"),
        (narrow, x, "input is float32, expected float16"),
        (narrow, x.bfloat16(), "input is bfloat16, expected float16"),
    ):
        with pytest.raises(ArrayError, match=message):
            compiled(given)
    net.half()
    with pytest.raises(CompileError, match="operands are float32 and float16"):
        wide(x)


@pytest.mark.parametrize(
    "product",
    [
        nn.functional.linear,
        lambda x, w: x @ w.T,
        lambda x, w: torch.bmm(x[None], w.T[None])[0],
        lambda x, w: torch.addmm(x[:, :3], x, w.T),
        lambda x, w: nn.functional.conv1d(x.T[None], w[..., None])[0].T,
    ],
)
def test_products_of_two_types(product: Any) -> None:
    w = torch.randn(3, 4).half()

    def cell(x: Any, h: Any) -> Any:
        return product(x, w), h

    with pytest.raises(RuntimeError):
        cell(torch.zeros(2, 4), None)
    with pytest.raises(CompileError, match=r"float32.* and .*float16|but found torch.float16"):
        rt.scan(cell, torch.zeros(5, 2, 4), torch.zeros(1))


@pytest.mark.parametrize("kind", ["compared", "scaled", "widened"])
def test_constants_and_other_types(kind: str) -> None:
    """What is made within the step, and what float32 makes of it."""

    def cell(x: Any, h: Any) -> Any:
        wide = (x.float() + torch.tensor([0.1, 0.2, 0.3])).to(torch.float16)
        made = {"compared": wide > x, "scaled": wide * 3.0, "widened": wide + x.double()}
        return made[kind], torch.full_like(h, 0.1) + x

    xs, start = torch.randn(4, 3).half(), torch.zeros(3).half()
    for one, other in zip(rt.scan(cell, xs, start), loop(cell, xs, start), strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


def test_a_frozen_module_and_its_library(tmp_path: Any) -> None:
    """A library takes and gives float32."""
    torch.manual_seed(0)
    net, x = nn.Sequential(nn.Linear(4, 3), nn.Tanh()).bfloat16(), torch.randn(2, 4).bfloat16()
    with torch.no_grad():
        assert torch.equal(rt.compile(net, (x,), frozen=True)(x), net(x))
        rt.build(net, (x,), out=tmp_path, name="narrow")
        import rnncc_runtime

        library = rnncc_runtime.load(tmp_path / "libnarrow.so")
        (y,) = library.run({"input": x.float().numpy()}).values()
        assert torch.equal(torch.from_numpy(y), net(x).float())


class Beyond(nn.Module):
    """Numbers that the type of x does not hold, and a tensor of one."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def forward(self, x: Any) -> Any:
        n, held = self.number, torch.tensor(self.number)
        compared = x > n, x <= n, x == n, torch.isin(x, n), x < held
        divided = x // n, n // x, x % n, torch.fmod(x, n), torch.div(x, n, rounding_mode="trunc")
        bounded = torch.maximum(x, held), torch.clamp(x, min=held), torch.where(x > 3, x, held)
        bounded += (torch.clamp(x, held, torch.tensor([n])),)  # of int64
        return *compared, *divided, *bounded, x / n, x + n, n - x, x & n


@pytest.mark.parametrize(
    ("dtype", "number"),
    [
        (torch.int8, 300),
        (torch.int8, -129),
        (torch.uint8, -7),
        (torch.uint8, 2**40 + 3),
        (torch.int32, 2**40 + 3),
    ],
    ids=str,
)
def test_numbers_that_a_type_does_not_hold(dtype: Any, number: int) -> None:
    """PyTorch wraps them where they meet a tensor."""
    limits = torch.iinfo(dtype)
    x = torch.tensor([limits.min or 2, 1, 5, 44, 100, limits.max], dtype=dtype)
    net = Beyond(number)
    for one, other in zip(rt.compile(net, (x,))(x), net(x), strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.full_like(x, 300),
        lambda x: x.clamp(max=300),
        lambda x: torch.where(x > 0, x, 300),
        lambda x: torch.add(x, x, alpha=300),
        lambda x: torch.rsub(x, 1, alpha=300),
        lambda x: torch.addcmul(x, x, x, value=300),
        lambda x: torch.nn.functional.pad(x, (1, 1), value=300.0),
        lambda x: x.scatter(0, torch.tensor([0]), 300),
    ],
    ids=["full", "clamp", "where", "alpha", "rsub", "addcmul", "pad", "scatter"],
)
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8], ids=str)
def test_numbers_at_which_pytorch_raises(dtype: Any, call: Any) -> None:
    x = torch.ones(3, dtype=dtype)
    with pytest.raises(RuntimeError, match="overflow"):
        call(x)
    with pytest.raises(CompileError, match=r"300(\.0)? is no u?int8 \(x.to\(torch.int64\)\)"):
        rt.scan(lambda x, h: (call(x), h), x[None], torch.zeros(1))


@pytest.mark.parametrize(
    "call", [torch.sub, lambda x, y, alpha: torch.rsub(y, x, alpha=alpha)], ids=["sub", "rsub"]
)
def test_factors_of_what_is_taken_away(call: Any) -> None:
    """PyTorch adds so many times less: it takes 128 for int8, and no -128."""
    xs, y = torch.tensor([[1, 5, -128]], dtype=torch.int8), torch.tensor([3, 2, 1]).to(torch.int8)
    rows, _ = rt.scan(lambda x, h: (call(x, h, alpha=128), h), xs, y)
    assert torch.equal(rows[0], call(xs[0], y, alpha=128))
    with pytest.raises(CompileError, match="128 is no int8"):
        rt.scan(lambda x, h: (call(x, h, alpha=-128), h), xs, y)


def test_fractions_of_factors_are_left_out() -> None:
    xs = torch.tensor([[1, 5, -3]], dtype=torch.int8)
    rows, _ = rt.scan(lambda x, h: (torch.addcmul(x, x, x, value=-2.5), h), xs, torch.zeros(1))
    assert torch.equal(rows[0], torch.addcmul(xs[0], xs[0], xs[0], value=-2.5))


def test_negative_numbers_of_an_unsigned_type() -> None:
    """-7 is 249 to PyTorch."""
    x = torch.tensor([1, 250, 255], dtype=torch.uint8)

    def cell(x: Any, h: Any) -> Any:
        return torch.stack([x.clamp(min=-7), torch.full_like(x, -7), x.masked_fill(x > 3, -7)]), h

    ours, theirs = (run(cell, x[None], torch.zeros(1))[0] for run in (rt.scan, loop))
    assert torch.equal(ours, theirs)


REFUSED = {
    "state 0 is bfloat16 before a step and float32 after it": (
        lambda x, h: (h, h.float() * 2),
        torch.bfloat16,
    ),
    "state 0 is float16 before a step and bfloat16 after it": (
        lambda x, h: (h, h.bfloat16()),
        torch.float16,
    ),
    "complex32 is not supported": (lambda x, h: (h, h * x), torch.complex32),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message: str) -> None:
    cell, dtype = REFUSED[message]
    with pytest.raises(CompileError, match=message):
        rt.scan(cell, torch.zeros(3, 2).to(dtype), torch.zeros(2).to(dtype))


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8], ids=str)
def test_integers_divided_by_zero(dtype: Any) -> None:
    """PyTorch raises an error."""
    x = torch.tensor([7, 0, 9], dtype=dtype)
    rows, _ = rt.scan(lambda x, h: ((x // h, x % h), h), x[None], torch.zeros_like(x))
    assert not rows[0].any() and torch.equal(rows[1][0], x)
