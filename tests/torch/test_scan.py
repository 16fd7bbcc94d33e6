"""Loops of custom cells: outputs and gradients equal those of PyTorch's loop."""

from __future__ import annotations

import copy
import logging
import threading
import warnings
from types import SimpleNamespace
from typing import Any

import pytest

import rnncc
from tests.torch.cells import (
    CELLS,
    CLOSE,
    UNITS,
    WIDTH,
    MinimalGated,
    MultiplicativeLstm,
    leaves_of,
    loop,
    make_cell,
    nn,
    results,
    sequence,
    torch,
    with_gradients,
)
from tests.torch.tensor_memory import nothing_is_copied, tapes_go_with_the_graph

rt: Any = pytest.importorskip("rnncc.torch")
autograd: Any = pytest.importorskip("rnncc.torch.autograd")
codes: Any = pytest.importorskip("rnncc.torch.codes")
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


def test_inference_has_the_same_outputs() -> None:
    cell = make_cell(MultiplicativeLstm)
    xs = sequence(4)
    want = loop(cell, xs, cell.start)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            ours = rt.scan(cell, xs, cell.start)
            assert not ours[0].requires_grad
            torch.testing.assert_close(ours, want, **CLOSE)


def test_no_steps() -> None:
    cell = make_cell(MultiplicativeLstm)
    ys, finals = rt.scan(cell, sequence(0), cell.start)
    assert ys.shape == (0, 3, UNITS)
    torch.testing.assert_close(finals, cell.start)


def test_what_a_function_closes_over_has_gradients() -> None:
    weights = torch.nn.Parameter(torch.randn(WIDTH, UNITS))

    def cell(x: Any, h: Any) -> Any:
        h = torch.tanh(x @ weights + h)
        return h, h

    xs, start = sequence(3), torch.zeros(3, UNITS)
    (want,) = torch.autograd.grad(loop(cell, xs, start)[0].sum(), weights)
    (grad,) = torch.autograd.grad(rt.scan(cell, xs, start)[0].sum(), weights)
    torch.testing.assert_close(grad, want, **CLOSE)


def test_sees_what_changes_outside() -> None:
    """Settings are guarded, tensors are read anew."""
    settings: dict[str, Any] = {"factor": 2.0, "bias": torch.ones(1)}

    def cell(x: Any, h: Any) -> Any:
        h = h + settings["factor"] * x + settings["bias"]
        return h, h

    xs, start = torch.ones(3, 1), torch.zeros(1)
    assert rt.scan(cell, xs, start)[1].item() == 9
    settings["factor"] = 3.0
    assert rt.scan(cell, xs, start)[1].item() == 12
    settings["bias"] = torch.zeros(1)
    assert rt.scan(cell, xs, start)[1].item() == 9


def test_whole_numbers() -> None:
    """A counter and a mask beside floats."""

    def cell(x: Any, state: Any) -> Any:
        count, h = state
        h = torch.where((count < 2).unsqueeze(-1), h + x, h)
        return (h, count), (count + 1, h)

    xs, start = sequence(4), (torch.tensor([0, 1, 5]), torch.zeros(3, WIDTH))
    ys, finals = rt.scan(cell, xs, start)
    assert finals[0].tolist() == [4, 5, 9]
    torch.testing.assert_close(finals[1][0], xs[:2, 0].sum(0))
    torch.testing.assert_close(finals[1][1], xs[0, 1])
    assert ys[1].dtype == torch.int64


def test_retained_graph() -> None:
    cell = make_cell(MultiplicativeLstm)
    ys, _ = rt.scan(cell, sequence(4), cell.start)
    first = torch.autograd.grad(ys.sum(), cell.bias, retain_graph=True)
    assert torch.equal(first[0], torch.autograd.grad(ys.sum(), cell.bias)[0])
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(ys.sum(), cell.bias)


@pytest.mark.parametrize("number", [0, 1])
def test_outputs_that_are_changed_before_backward(number: int) -> None:
    """As by activations in place; backward reads outputs, where those of a loop are copies."""
    cell, xs = make_cell(MinimalGated), sequence(5)

    def changed(run: Any) -> Any:
        def call(cell: Any, xs: Any, state: Any) -> Any:
            outputs = run(cell, xs, state)
            outputs[number].mul_(2)
            outputs[number][0].detach().add_(1)
            return outputs

        return results(call, cell, xs, cell.start)

    def loop_with_copies(*given: Any) -> Any:
        ys, last = loop(*given)
        return ys, last.clone()

    torch.testing.assert_close(changed(rt.scan), changed(loop_with_copies), **CLOSE)


def test_parameters_changed_before_backward() -> None:
    cell = make_cell(MultiplicativeLstm)
    ys, _ = rt.scan(cell, sequence(4), cell.start)
    with torch.no_grad():
        cell.bias.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        ys.sum().backward()


def test_training() -> None:
    """The same losses as the loop's, with Adam."""
    losses: list[list[float]] = []
    for run in (loop, rt.scan):
        cell, xs = make_cell(MultiplicativeLstm), sequence(5)
        optimiser = torch.optim.Adam(cell.parameters(), 0.01)
        losses.append([])
        for _ in range(5):
            optimiser.zero_grad()
            loss = (run(cell, xs, cell.start)[0] - xs).square().mean()
            loss.backward()
            optimiser.step()
            losses[-1].append(loss.item())
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert losses[0][-1] < losses[0][0]


def test_threads() -> None:
    cell = make_cell(MinimalGated)
    want = results(loop, copy.deepcopy(cell), sequence(6), cell.start)
    found: list[Any] = []

    def work() -> None:
        own = copy.deepcopy(cell)
        for _ in range(5):
            found.append(results(rt.scan, own, sequence(6), cell.start))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 20
    for one in found:
        torch.testing.assert_close(one, want, **CLOSE)


def test_other_lengths_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = make_cell(MinimalGated)
    rt.scan(cell, sequence(4), cell.start)[0].sum().backward()
    monkeypatch.setattr(rnncc, "compile", None)
    for steps in (1, 3, 9):
        rt.scan(cell, sequence(steps), cell.start)[0].sum().backward()
        rt.scan(copy.deepcopy(cell), sequence(steps), cell.start)


def test_tensors_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    for name in ("forward_at", "backward_at"):
        real = getattr(codes.CompiledCode, name)

        def spy(self: Any, *groups: Any, real: Any = real) -> Any:
            placed = [x for g in groups if isinstance(g, dict) for x in g.values()]
            seen.extend(place for _, place in placed)
            seen.extend([] if placed else groups[1])
            return real(self, *groups)

        monkeypatch.setattr(codes.CompiledCode, name, spy)
    nothing_is_copied(seen)


def test_the_tape_goes_with_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    tapes_go_with_the_graph(codes.CompiledCode, monkeypatch, "forward_at")


def test_inside_torch_compile() -> None:
    cell, xs = make_cell(MinimalGated), sequence(3)

    def whole(xs: Any) -> Any:
        return rt.scan(cell, xs * 2, cell.start)[0] + 1

    ours = torch.compile(whole, backend="eager")(xs)
    torch.testing.assert_close(ours, loop(cell, xs * 2, cell.start)[0] + 1, **CLOSE)


def test_mixed_float32_and_float64() -> None:
    """By PyTorch's promotion: what has axes decides over numbers, float64 over float32."""
    torch.manual_seed(0)
    weight = torch.randn(WIDTH, WIDTH, requires_grad=True)
    tenth = torch.tensor(0.1, dtype=torch.float64)

    def cell(x: Any, state: Any) -> Any:
        h, c = state
        same = (x == tenth).float() + (c == tenth).float()
        h = torch.tanh(h * tenth + (x @ weight).double() + x)
        c = c * tenth + h.sum(-1, keepdim=True).float() + same
        return torch.where(x > 0, x, h), (h, c)

    xs = sequence(3).requires_grad_()
    xs.data[0, 0, 0] = 0.1
    state = (torch.randn(3, WIDTH, dtype=torch.float64), torch.full((3, WIDTH), 0.1))
    made = []
    for run in (rt.scan, loop):
        outputs = torch.utils._pytree.tree_leaves(run(cell, xs, state))
        total = sum((o * o).sum() for o in outputs)
        made.append((outputs, torch.autograd.grad(total, (xs, weight))))
    assert [o.dtype for o in made[0][0]] == [o.dtype for o in made[1][0]]
    torch.testing.assert_close(made[0], made[1], rtol=1e-5, atol=1e-5)


def test_within_distributed_data_parallel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under it TorchDynamo cuts graphs where parameters are larger than a bucket of gradients."""
    parallel, active = (
        torch.nn.parallel.DistributedDataParallel,
        SimpleNamespace(bucket_bytes_cap=1),
    )
    monkeypatch.setattr(parallel, "_active_ddp_module", active)
    torch._dynamo.reset()
    cell = make_cell(MinimalGated)
    given = (cell, sequence(3), cell.start)
    torch.testing.assert_close(results(rt.scan, *given), results(loop, *given), **CLOSE)
    assert parallel._active_ddp_module is active


@pytest.mark.parametrize("outside", [False, True])
def test_sums_over_time_that_nearly_cancel_keep_their_digits(outside: bool) -> None:
    """A decay's gradient is the sum of what it does to the state, less of what to the input, which
    may be known before the loop; each is some hundred times as large."""

    def gradient(run: Any, dtype: Any) -> Any:
        decay = torch.linspace(0, 1, 8, dtype=dtype).requires_grad_()
        xs = torch.linspace(2, 4, 300 * 4 * 8, dtype=dtype).sin().view(300, 4, 8) + 3

        def step(x: Any, h: Any) -> Any:
            kept = torch.sigmoid(decay)
            x = (1 - kept) * x if outside else (1 - kept) * (x + 1e-3 * h.sin())
            h = kept * h + x
            return h, h

        run(step, xs, torch.zeros(4, 8, dtype=dtype))[0].sum().backward()
        return decay.grad.double()

    exact = gradient(loop, torch.float64)
    ours, theirs = (gradient(run, torch.float32) - exact for run in (rt.scan, loop))
    assert ours.abs().max() < 4 * theirs.abs().max() + 1e-6 * exact.abs().max()
