"""Random numbers within steps: PyTorch's distributions, the same forward and backward."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rnncc_runtime

from rnncc import CompileError
from tests.torch.cells import CLOSE, F, loop, nn, torch

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers

ROW = torch.linspace(-1, 1, 4).expand(40, 4)
STEPS = 400


def of_weights(x: Any) -> Any:
    return torch.multinomial(x.softmax(-1), 1).float().expand_as(x)


def several(x: Any) -> Any:
    return torch.multinomial(torch.tensor([0.0, 0.2, 0.0, 0.8, 0.0]).expand(40, 5), 4, True).float()


def categories(x: Any) -> Any:
    drawn = torch.distributions.Categorical(logits=x, validate_args=False).sample()
    return drawn.float()[:, None].expand_as(x)


DRAWN = {
    "rand": lambda x: torch.rand(x.shape),
    "rand_like": torch.rand_like,
    "randn": lambda x: torch.randn(x.shape),
    "randn_like": torch.randn_like,
    "randint": lambda x: torch.randint(2, 9, x.shape).float(),
    "randint_from_0": lambda x: torch.randint(9, x.shape).float(),
    "randint_like": lambda x: torch.randint_like(x, -3, 9),
    "bernoulli": lambda x: torch.bernoulli((x + 1) / 2),
    "bernoulli_": lambda x: torch.empty_like(x).bernoulli_(0.3),
    "bernoulli_of_tensor": lambda x: torch.empty_like(x).bernoulli_((x + 1) / 2),
    "uniform": lambda x: torch.empty_like(x).uniform_(-1, 2),
    "normal_": lambda x: torch.empty_like(x).normal_(1, 2),
    "normal_of_tensors": lambda x: torch.normal(x, x + 2),
    "normal_of_mean": torch.normal,
    "normal_of_deviation": lambda x: torch.normal(1.0, x + 2),
    "normal_of_numbers": lambda x: torch.normal(0.0, 2.0, x.shape),
    "log_normal": lambda x: torch.empty_like(x).log_normal_(0.0, 0.5),
    "exponential": lambda x: torch.empty_like(x).exponential_(2.0),
    "dropout": lambda x: F.dropout(x + 2, 0.3),
    "dropout_of_channels": lambda x: F.dropout1d(x[:, :, None] + 2, 0.3)[:, :, 0],
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.3, True),
    "attention": lambda x: F.scaled_dot_product_attention(*[x[None]] * 3, dropout_p=0.5)[0],
    "gumbel_softmax": lambda x: F.gumbel_softmax(x, 0.7),
    "hard_gumbel_softmax": lambda x: F.gumbel_softmax(x, hard=True),
    "multinomial": of_weights,
    "multinomial_of_several": several,
    "Normal": lambda x: torch.distributions.Normal(x, 1.0, validate_args=False).rsample(),
    "Categorical": categories,
}


@pytest.mark.parametrize("name", DRAWN)
def test_distributions(name: str) -> None:
    """Means, deviations and third moments are PyTorch's, and other steps draw other numbers."""
    torch.manual_seed(0)
    draw = DRAWN[name]
    ours, _ = rt.scan(lambda x, h: (draw(x), h), ROW.expand(STEPS, 40, 4), torch.zeros(40))
    theirs = torch.stack([draw(ROW) for _ in range(STEPS)])
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
    scale = theirs.std()
    for power in (1, 2, 3):
        one, other = ((x / scale).pow(power).mean((0, 1)) for x in (ours, theirs))
        noise = (theirs / scale).pow(power).std((0, 1)) * (STEPS * 40) ** -0.5
        assert ((one - other).abs() < 7 * noise + 1e-6).all()
    assert (ours[0] != ours[1]).any()
    flat = ours.flatten(1)[:, 0] - ours.flatten(1)[:, 0].mean()
    near = (flat[1:] * flat[:-1]).mean() / flat.square().mean().clamp(min=1e-9)
    assert near.abs() < 5 * STEPS**-0.5


class Zoneout(nn.Module):
    """The numbers that it draws are rows of ys, or come with the xs."""

    def __init__(self, draws: bool) -> None:
        super().__init__()
        self.draws = draws
        self.linear = nn.Linear(4, 4)

    def forward(self, given: Any, h: Any) -> Any:
        x, kept, noise = given
        if self.draws:
            kept, noise = torch.bernoulli(torch.full_like(h, 0.4)), torch.randn_like(h)
        new = torch.tanh(self.linear(x + h) + 0.3 * noise * h)
        return torch.stack((h, kept, noise)), kept * h + (1 - kept) * new


@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_are_those_of_what_was_drawn(reverse: bool) -> None:
    torch.manual_seed(1)
    cell, replay = Zoneout(True), Zoneout(False)
    replay.load_state_dict(cell.state_dict())
    results, drawn = [], torch.zeros(30, 2, 3, 4)
    for module, run in ((cell, rt.scan), (replay, loop)):
        x = torch.linspace(-2, 2, 360).view(30, 1, 3, 4).requires_grad_()
        h = torch.full((3, 4), 0.5, requires_grad=True)
        ys, last = run(module, torch.cat((x, drawn), 1), h, reverse=reverse)
        drawn = ys[:, 1:].detach()
        total = (ys[:, 0] * torch.linspace(0, 1, 30)[:, None, None]).sum() + last.sum()
        grads = torch.autograd.grad(total, [x, h, *module.parameters()])
        results.append([ys.detach(), last.detach(), *grads])
    torch.testing.assert_close(results[0], results[1], **CLOSE)


class Looped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seed", torch.ones(4))
        self.linear = nn.Linear(4, 4)

    def step(self, x: Any, h: Any) -> Any:
        return h, torch.tanh(self.linear(h + F.dropout(x)) + 0.1 * torch.randn_like(h) + self.seed)

    def forward(self, x: Any) -> Any:
        return rt.scan(self.step, x, x.new_zeros(x.shape[1], 4))


STEPS_OPEN = ({0: torch.export.Dim("T")},)
ALL_OPEN = ({0: torch.export.Dim("T"), 1: torch.export.Dim("N")},)


def test_branches_draw() -> None:
    def cell(x: Any, h: Any) -> Any:
        if torch.rand(()) < 0.25:
            chosen = torch.randint(0, 4, h.shape[:1])
            h = h * torch.rand_like(h)
        else:
            chosen = torch.full(h.shape[:1], 5)
        return chosen, h + x

    xs, h = torch.zeros(STEPS, 40, 4), torch.ones(40, 4, requires_grad=True)
    torch.manual_seed(0)
    chosen, last = rt.scan(cell, xs, h)
    (slope,) = torch.autograd.grad(last.sum(), h)
    torch.testing.assert_close(slope, last.detach())  # it is linear
    explored = (chosen < 5).all(1)
    assert 0.15 < explored.float().mean() < 0.35
    assert (explored | (chosen == 5).all(1)).all()
    counts = torch.bincount(chosen[explored].flatten())
    assert len(counts) == 4 and counts.min() > 0.9 * counts.max()
    assert len(chosen[explored].unique(dim=0)) == explored.sum()


def test_loops_on_values_draw() -> None:
    """Each iteration of each step draws numbers of its own, in the test of the loop too."""
    h = torch.ones(8, requires_grad=True)

    def cell(x: Any, _: Any) -> Any:
        n, product = 0, h
        while torch.rand(()) < 0.75 and n < 60:
            product = product * (0.5 + torch.rand_like(h))
            n += 1
        return (product, n + x), None

    torch.manual_seed(0)
    (products, counts), _ = rt.scan(cell, torch.zeros(STEPS), None)
    assert 2.3 < counts.mean() < 3.7 and 0.18 < (counts == 0).float().mean() < 0.32
    factors = products[counts == 1].detach().flatten()
    assert factors.min() > 0.5 and factors.max() < 1.5
    assert len(factors.unique()) > 0.95 * len(factors)
    (slope,) = torch.autograd.grad(products.sum(), h)
    torch.testing.assert_close(slope, products.detach().sum(0))


def test_modules_draw_in_their_loops() -> None:
    """Exported with open sizes and with fixed ones, one after the other; the seed has a rival."""
    net, x = Looped(), torch.rand(7, 3, 4)
    for shapes in (STEPS_OPEN, None, ALL_OPEN, STEPS_OPEN):
        compiled = rt.compile(net, (x,), dynamic_shapes=shapes)
        torch.manual_seed(4)
        ys = compiled(x)[0]
        assert not torch.equal(compiled(x)[0], ys)
        torch.manual_seed(4)
        with torch.no_grad():
            assert torch.equal(compiled(x)[0], ys)


def test_a_stream_draws_what_a_run_draws(tmp_path: Path) -> None:
    x = torch.rand(7, 3, 4)
    rt.build(Looped(), (x,), dynamic_shapes=STEPS_OPEN, name="drawing", out=tmp_path)
    model = rnncc_runtime.load(tmp_path / "libdrawing.so")
    seed = {"seed": np.asarray(5, np.int32)}
    want = model.run({"x": x.numpy(), **seed})["y0"]
    stream = model.stream(3, seed)
    got = [stream.step({"x": x.numpy()[t : t + 2]})["y0"] for t in range(0, 7, 2)]
    np.testing.assert_array_equal(np.concatenate(got), want)
    assert (model.run({"x": x.numpy(), "seed": np.asarray(6, np.int32)})["y0"] != want).any()


REFUSED = {
    "replacement": lambda x: torch.multinomial(x.softmax(-1), 2).float(),
    "at most 2": lambda x: torch.randint(0, 1 << 25, x.shape).float(),
    "outside and give them": lambda x: torch.poisson(x + 1),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refusals(reason: str) -> None:
    with pytest.raises(CompileError, match=rf"test_drawn.py:\d+: .*{reason}"):
        rt.scan(lambda x, h: (REFUSED[reason](x), h), ROW.expand(3, 40, 4), torch.zeros(40))


def test_chances_have_gradients_of_zeros() -> None:
    """As in PyTorch, where what is drawn by them alone can be differentiated, too."""
    logits = torch.zeros(4, requires_grad=True)
    drawn, _ = rt.scan(lambda x, _: (torch.bernoulli(torch.sigmoid(logits)), x), ROW, ROW[0])
    drawn.sum().backward()
    assert set(drawn.unique().tolist()) == {0, 1}
    assert not drawn.signbit().any() and not logits.grad.any()
    certain = torch.tensor([0.0, 1.0, 0.0, 1.0])
    drawn, _ = rt.scan(lambda x, _: (torch.bernoulli(certain), x), ROW, ROW[0])
    torch.testing.assert_close(drawn, certain.expand(40, 4))


class Drawing(nn.Module):
    """Asks a generator of its own, or none."""

    def __init__(self, generator: Any, by_method: bool) -> None:
        super().__init__()
        self.generator, self.by_method = generator, by_method

    def forward(self, x: Any, h: Any) -> Any:
        if self.by_method:
            return x + torch.zeros(4).normal_(generator=self.generator), h
        return x + torch.rand(4, generator=self.generator), h


@pytest.mark.parametrize("by_method", [False, True])
def test_generators_are_refused(by_method: bool) -> None:
    x = torch.zeros(2, 4)
    cell, plain = (Drawing(g, by_method) for g in (torch.Generator(), None))
    for read in (rt.scan, lambda module, *args: rt.compile(module, args)):
        with pytest.raises(CompileError, match=r"draws random numbers from a torch.Generator"):
            read(cell, x, x[0])
        assert read(plain, x, x[0]) is not None


class Centred(torch.distributions.Normal):
    """Of whose divergence nothing is said but what holds for what it inherits from."""


class Squeezed(torch.distributions.Normal):
    """Of whose divergence from others the program says something itself."""


def diverging(kind: Any) -> Any:
    def step(x: Any, h: Any) -> Any:
        p, q = kind(x, h.exp() + 0.1), torch.distributions.Normal(h, x.exp() + 0.1)
        h = torch.tanh(x + h)
        return torch.distributions.kl_divergence(p, q), h

    return step


@pytest.mark.parametrize("kind", [torch.distributions.Normal, Centred])
def test_divergences_that_nothing_has_computed_before(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch looks for their formulas, and keeps what it finds."""
    step = diverging(kind)
    xs = torch.randn(5, 3, 4, dtype=torch.float64, requires_grad=True)  # gradients nearly cancel
    h = torch.zeros(3, 4, dtype=torch.float64)
    with monkeypatch.context() as patch:
        patch.setattr(torch.distributions.kl, "_KL_MEMOIZE", {})
        ours, _ = rt.scan(step, xs, h)

        class Looping(nn.Module):
            def forward(self, xs: Any, h: Any) -> Any:
                return rt.scan(step, xs, h)[0]

        exported = rt.compile(Looping(), (xs, h))(xs, h)
    theirs, _ = loop(step, xs, h)
    torch.testing.assert_close(ours, theirs, **CLOSE)
    torch.testing.assert_close(exported, theirs, **CLOSE)
    ours, theirs = (torch.autograd.grad(ys.square().sum(), xs)[0] for ys in (ours, theirs))
    torch.testing.assert_close(ours, theirs, **CLOSE)


def test_divergences_that_a_program_registers_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next call computes those."""
    monkeypatch.setattr(
        torch.distributions.kl, "_KL_REGISTRY", {**torch.distributions.kl._KL_REGISTRY}
    )
    step, (xs, h) = diverging(Squeezed), (torch.randn(5, 3, 4), torch.zeros(3, 4))
    before, _ = rt.scan(step, xs, h)

    @torch.distributions.register_kl(Squeezed, torch.distributions.Normal)
    def own(p: Any, q: Any) -> Any:
        return p.loc - q.loc

    after, _ = rt.scan(step, xs, h)
    torch.distributions.kl._KL_MEMOIZE.clear()
    theirs, _ = loop(step, xs, h)
    torch.testing.assert_close(after, theirs, **CLOSE)
    assert not torch.allclose(before, after)
