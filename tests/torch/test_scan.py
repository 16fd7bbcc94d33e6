"""Loops of custom cells: outputs and gradients equal those of PyTorch's loop."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import pytest

from tests.torch.cells import (
    CELLS,
    CLOSE,
    UNITS,
    WIDTH,
    MinimalGated,
    leaves_of,
    loop,
    make_cell,
    nn,
    results,
    sequence,
    torch,
    with_gradients,
)

rt: Any = pytest.importorskip("rnncc.torch")
autograd: Any = pytest.importorskip("rnncc.torch.autograd")
trace: Any = pytest.importorskip("rnncc.frontends.torch.trace")
pytestmark = pytest.mark.peers


@pytest.mark.parametrize("kind", CELLS)
def test_equals_loop(kind: Any) -> None:
    cell = make_cell(kind)
    for steps in (5, 2):
        given = (cell, sequence(steps), cell.start)
        torch.testing.assert_close(results(rt.scan, *given), results(loop, *given), **CLOSE)


def test_a_loop_within_a_step_that_makes_its_masks() -> None:
    """A factorisation is one, and of a single matrix its masks are of one element."""

    def cell(x: Any, h: Any) -> tuple[Any, Any]:
        return torch.linalg.qr(x.view(-1, 2, 3).mT)[0], torch.tanh(x + h)

    xs, h = sequence(4, 1)[..., :6].requires_grad_(), torch.zeros(1, 6)
    ours, theirs = (with_gradients(run(cell, xs, h), [xs]) for run in (rt.scan, loop))
    torch.testing.assert_close(ours, theirs, **CLOSE)


class Clip(torch.autograd.Function):
    """Its backward is not linear in the gradient: there are no second derivatives."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return torch.sin(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad.clamp(-0.5, 0.5)


def test_what_no_loss_hangs_on_makes_no_nan() -> None:
    """What is only shown has an infinite slope at 0."""

    def cell(x: Any, h: Any) -> Any:
        return h.log() + x.sqrt(), torch.tanh(x + h)

    def clipped(x: Any, h: Any) -> Any:
        return h.log(), Clip.apply(x + h)

    found = []
    for run in (rt.scan, loop):
        given = torch.zeros(3, 2, 3, requires_grad=True), torch.zeros(2, 3, requires_grad=True)
        found.append(torch.autograd.grad(run(clipped, *given)[1].sum(), given))
    torch.testing.assert_close(*found)

    found = []
    for run in (rt.scan, loop):
        given = torch.zeros(3, 2, 3, requires_grad=True), torch.zeros(2, 3, requires_grad=True)
        shown, last = run(cell, *given)
        losses = last.square().sum() + last.sum(), last.sum() + shown.sum()
        both = [torch.autograd.grad(loss, given, create_graph=True) for loss in losses]
        found.append([*both, torch.autograd.grad(both[0][0].sum(), given)])
    torch.testing.assert_close(*found, equal_nan=True)
    assert found[0][0][0].isfinite().all() and found[0][1][0].isinf().any()


def logarithm(x: Any, h: Any) -> Any:
    """Nobody reads the logarithm of the last step."""
    return h[0], ((x + h[0]).log(), h[0])


def turning(x: Any, h: Any) -> Any:
    """Of the last states, each is read with every second root."""
    return x + 1, (h[1] + 0, (x + h[0]).sqrt())


@pytest.mark.parametrize(
    ("cell", "xs", "read"),
    [(logarithm, (0.0, 1.0, 0.0), 0), (turning, (-1.0, 1.0, 0.0), 1)],
    ids=["last", "turns"],
)
def test_what_leads_to_states_that_nobody_reads_makes_no_nan(
    cell: Any, xs: tuple[float, ...], read: int
) -> None:
    gradients = list[Any]()
    for run in (rt.scan, loop):
        rows = torch.tensor(xs).reshape(-1, 1).requires_grad_()
        states = [torch.full((1,), 1.0 - i, requires_grad=True) for i in range(2)]
        ys, last = run(cell, rows, tuple(states))
        chosen = [ys, *last][read].sum()
        gradients.append(torch.autograd.grad(chosen, [rows, *states], materialize_grads=True))
    torch.testing.assert_close(*gradients)


def test_nan_is_looked_for_where_it_can_come_from_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that leads to the last state of this cell leads to its outputs, too."""
    monkeypatch.setattr(autograd, "_has_nan", lambda _: pytest.fail("looked for NaN"))
    cell, x = MinimalGated(WIDTH, UNITS, 3), sequence(3).requires_grad_()
    rt.scan(cell, x, torch.zeros(3, UNITS))[0].sum().backward()
    assert x.grad is not None and x.grad.isfinite().all()


def test_what_a_step_tells_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("cells")

    def cell(x: Any, h: Any) -> Any:
        print(f"{h.shape}", h)
        warnings.warn("my own words", stacklevel=1)
        logger.info("%s", h)
        logging.debug("a step")
        h = torch.tanh(x + h)
        return nn.functional.gaussian_nll_loss(h, x, h.exp()), h

    xs, start = torch.randn(4, 2, 3), torch.zeros(2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = rt.scan(cell, xs, start)
    assert not capsys.readouterr().out
    with pytest.warns(UserWarning, match="my own words"):
        torch.testing.assert_close(ours, loop(cell, xs, start), **CLOSE)


def test_what_no_loss_hangs_on_has_no_gradient() -> None:
    """None, not zeros, by which an optimiser with weight decay would shrink it."""
    w, u, v = (torch.randn(WIDTH, WIDTH, requires_grad=True) for _ in range(3))

    def cell(x: Any, state: Any) -> tuple[Any, Any]:
        h = torch.tanh(x @ w + state[0])
        return h @ u, (h, (h.sgn() + x.sign()) @ v)

    xs, start = sequence(4).requires_grad_(), (torch.zeros(3, WIDTH), torch.zeros(3, WIDTH))
    found = []
    for run in (rt.scan, loop):
        one, (_, other) = run(cell, xs, start)
        sources, options = (xs, w, u, v), {"allow_unused": True, "retain_graph": True}
        grads = [torch.autograd.grad(y.sum(), sources, **options) for y in (one, other)]
        (slopes,) = torch.autograd.grad(one.sum(), u, create_graph=True)
        grads.append(torch.autograd.grad(slopes.sum(), sources, **options))
        found.append(grads)
    ours, theirs = ([[x is None for x in grads] for grads in every] for every in found)
    assert ours == theirs == [[0, 0, 0, 1], [0, 0, 1, 0], [0, 0, 1, 1]]
    flat = [[x for grads in every for x in grads if x is not None] for every in found]
    torch.testing.assert_close(*flat, **CLOSE)


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell"])
def test_cells_of_pytorch(kind: str) -> None:
    class Cell(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.own = getattr(torch.nn, kind)(WIDTH, UNITS)

        def forward(self, x: Any, state: Any) -> Any:
            state = self.own(x, state)
            return leaves_of(state)[0], state

    torch.manual_seed(0)
    start = torch.zeros(3, UNITS)
    given = (Cell(), sequence(3), (start, start) if kind == "LSTMCell" else start)
    torch.testing.assert_close(results(rt.scan, *given), results(loop, *given), **CLOSE)


def counting(x: Any, state: Any) -> Any:
    """Rings whose places are numbers in tensors, in every form of an index."""
    ring, t = state
    ring = ring.clone()
    ring[:, t] = x[:, :4]
    ring[..., -1 - t] = x[:, :3, None].sum(1)
    ring[0, t, 1:] = 0.5
    y = ring[:, (t + 1) % 3] + ring[1, t] + ring[..., t].sum(1, keepdim=True)
    y = y + ring[torch.tensor([0, 2, 1]), t] + ring[None, :, t, 1:2].sum(0) + ring[t - 1, 0]
    return y, (ring, (t + 1) % 3)


def test_a_norm_is_traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's own RMS norm changes what it made, and graphs with changes are traced again."""
    own, traces = trace._traced, list[Any]()

    def traced(*given: Any, **options: Any) -> Any:
        traces.append(given)
        return own(*given, **options)

    monkeypatch.setattr(trace, "_traced", traced)
    norms = [torch.nn.RMSNorm(4, eps=1e-2), torch.nn.RMSNorm((3, 4), elementwise_affine=False)]

    def cell(x: Any, h: Any) -> Any:
        h = norms[1](norms[0](h) + x)
        return h, h

    with torch.no_grad():
        xs, h = torch.randn(5, 2, 3, 4), torch.randn(2, 3, 4)
        ours, theirs = (run(cell, xs, h) for run in (rt.scan, loop))
    torch.testing.assert_close(ours, theirs, **CLOSE)
    assert len(traces) == 1


def test_numbers_in_tensors_as_indices() -> None:
    found = []
    for run in (rt.scan, loop):
        xs = sequence(4).requires_grad_()
        ys, (ring, t) = run(counting, xs, (torch.zeros(3, 3, 4), torch.tensor(0)))
        found.append((ys, ring, t, *torch.autograd.grad((ys * ys).sum() + ring.sum(), [xs])))
    torch.testing.assert_close(*found, **CLOSE)


def test_layer_of_pytorch_in_a_cell() -> None:
    """A sentence a row: its words go through nn.LSTM, what that gives through a cell."""

    class Sentences(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = torch.nn.LSTM(WIDTH, UNITS, batch_first=True)
            self.own = torch.nn.RNNCell(UNITS, UNITS)

        def forward(self, x: Any, h: Any) -> Any:
            h = self.own(self.words(x)[0].sum(1), h)
            return h, h

    torch.manual_seed(0)
    given = (Sentences(), torch.stack([sequence(3), sequence(3)], 2), torch.zeros(3, UNITS))
    torch.testing.assert_close(results(rt.scan, *given), results(loop, *given), **CLOSE)


@pytest.mark.parametrize("kind", CELLS)
def test_gradcheck(kind: Any) -> None:
    cell = make_cell(kind, 1).double()
    start = torch.utils._pytree.tree_map(lambda s: s.double() + 0.1, cell.start)
    xs = sequence(2, 1).double().requires_grad_()
    values = {name: p.detach().requires_grad_() for name, p in cell.named_parameters()}

    def run(xs: Any, *parameters: Any) -> Any:
        given = dict(zip(values, parameters, strict=True))
        return torch.func.functional_call(_Whole(cell, start), _prefixed(given), (xs,))

    assert torch.autograd.gradcheck(run, (xs, *values.values()), fast_mode=True)


class _Whole(torch.nn.Module):
    def __init__(self, cell: Any, start: Any) -> None:
        super().__init__()
        self.cell, self.start = cell, start

    def forward(self, xs: Any) -> Any:
        return rt.scan(self.cell, xs, self.start)[0]


def _prefixed(parameters: dict[str, Any]) -> dict[str, Any]:
    return {f"cell.{name}": value for name, value in parameters.items()}


def test_gradients_that_cancel_each_other() -> None:
    """An implicit solver's: what `c` does to a step's numerator and to its denominator."""

    def gradient(dtype: Any) -> Any:
        torch.manual_seed(0)
        c, w = torch.full((8,), 20.0), torch.rand(8) + 0.5
        xs, c = torch.randn(100, 16, 8).to(dtype), c.to(dtype).requires_grad_()
        weight = w.to(dtype)

        def cell(x: Any, h: Any) -> Any:
            for _ in range(2):
                h = (c * h + weight * x) / (c + weight)
            return h, h

        rt.scan(cell, xs, torch.zeros(16, 8, dtype=dtype))[0].square().sum().backward()
        return c.grad.double()

    single, double = gradient(torch.float32), gradient(torch.float64)
    assert (single - double).abs().max() < 3e-6 * double.abs().max()


def test_reverse() -> None:
    cell = make_cell(MinimalGated)
    given = (cell, sequence(4), cell.start)
    ours = results(rt.scan, *given, reverse=True)
    torch.testing.assert_close(ours, results(loop, *given, reverse=True), **CLOSE)
