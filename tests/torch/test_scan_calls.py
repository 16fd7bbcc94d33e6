"""What surrounds a loop's calls: modes, changed tensors, threads, the graph, PyTorch's compiler."""

from __future__ import annotations

import copy
import threading
from inspect import unwrap
from types import SimpleNamespace
from typing import Any

import pytest

import rnncc
from tests.torch.cells import (
    CLOSE,
    UNITS,
    WIDTH,
    MinimalGated,
    MultiplicativeLstm,
    loop,
    make_cell,
    results,
    sequence,
    torch,
    with_gradients,
)
from tests.torch.tensor_memory import nothing_is_copied, tapes_go_with_the_graph

rt: Any = pytest.importorskip("rnncc.torch")
autograd: Any = pytest.importorskip("rnncc.torch.autograd")
codes: Any = pytest.importorskip("rnncc.torch.codes")
tracing: Any = pytest.importorskip("rnncc.torch.tracing")
cache_entries: Any = pytest.importorskip("torch._dynamo.eval_frame")._debug_get_cache_entry_list
pytestmark = pytest.mark.peers


def test_inference_has_the_same_outputs() -> None:
    cell = make_cell(MultiplicativeLstm)
    xs = sequence(4)
    want = loop(cell, xs, cell.start)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            ours = rt.scan(cell, xs, cell.start)
            assert not ours[0].requires_grad
            torch.testing.assert_close(ours, want, **CLOSE)


def test_training_after_inference_alone() -> None:
    cell, xs = make_cell(MultiplicativeLstm), sequence(6)
    with torch.inference_mode():
        assert rt.scan(cell, xs.detach(), cell.start)[0].is_inference()
    torch.testing.assert_close(
        results(rt.scan, cell, xs, cell.start), results(loop, cell, xs, cell.start), **CLOSE
    )


@pytest.mark.parametrize("kind", [tuple, list, dict])
def test_calls_compare_no_table_of_pytorchs(kind: Any) -> None:
    """Its trees have one of two hundred entries, which guards would look through."""
    weights = torch.randn(WIDTH, UNITS)

    def cell(x: Any, state: Any) -> Any:
        h, c = state.values() if kind is dict else state
        pair = torch.tanh(x @ weights + h), c + h
        return pair[0], dict(zip("hc", pair, strict=True)) if kind is dict else kind(pair)

    start = torch.zeros(3, UNITS), torch.ones(3, UNITS)
    state = dict(zip("hc", start, strict=True)) if kind is dict else kind(start)
    ys, _ = rt.scan(cell, sequence(2), state)
    torch.testing.assert_close(ys, loop(cell, sequence(2), state)[0], **CLOSE)
    (reader,) = tracing._readers[cell.__code__].values()
    entries = cache_entries(unwrap(reader).__code__)
    guards = [str(entry.guard_manager) for entry in entries]
    assert guards
    assert not any("SUPPORTED_NODES" in text for text in guards)


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


def test_parameters_with_other_memory_before_backward() -> None:
    """Backward is that of what they hold now; what they held before may be somebody else's."""
    cell, xs = make_cell(MultiplicativeLstm), sequence(4)
    ys, _ = rt.scan(cell, xs, cell.start)
    cell.bias.data = cell.bias.detach() + 1
    others = [torch.full_like(cell.bias, torch.nan) for _ in range(8)]
    gradients = torch.autograd.grad(ys.sum(), list(cell.parameters()))
    want = torch.autograd.grad(rt.scan(cell, xs, cell.start)[0].sum(), list(cell.parameters()))
    torch.testing.assert_close(gradients, want)
    assert all(other.isnan().all() for other in others)


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
    for name in ("forward", "backward"):
        real = getattr(codes.CompiledCode, name)

        def spy(self: Any, first: Any, *groups: Any, real: Any = real) -> Any:
            placed = [x for group in groups for x in group if x is not None]
            seen.extend(x if isinstance(x, int) else x.data_ptr() for x in placed)
            return real(self, first, *groups)

        monkeypatch.setattr(codes.CompiledCode, name, spy)
    nothing_is_copied(seen)


def test_the_tape_goes_with_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    tapes_go_with_the_graph(codes.CompiledCode, monkeypatch)


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


def test_variables_of_old_code() -> None:
    """`Variable(h)` has the values of h, and no gradient."""

    def cell(x: Any, h: Any) -> Any:
        first = torch.autograd.Variable(h.data.new(x.size(0), 2).fill_(0.5))
        h = torch.tanh(x + h * torch.autograd.Variable(h, requires_grad=False) + first)
        return h, h

    assert_like_a_loop(cell)


def test_a_deleted_variable_that_a_function_reads() -> None:
    """The function sees the next one of the name; where there is none, the cell is refused."""

    def cell(x: Any, h: Any) -> Any:
        scale = h.abs().mean()
        made = [lambda y: y * scale]
        del scale
        scale = x.abs().mean()
        h = torch.tanh(made[0](x) + h)
        return h, h

    def unbound(x: Any, h: Any) -> Any:
        scale = h.mean()
        made = [lambda y: y * scale]  # noqa: F821
        del scale
        return made[0](x), h

    assert_like_a_loop(cell)
    with pytest.raises(rnncc.CompileError, match="deleted variable"):
        rt.scan(unbound, torch.ones(3, 2, 2), torch.zeros(2, 2))


def assert_like_a_loop(cell: Any) -> None:
    sources = [torch.linspace(-1, 1, 12).view(3, 2, 2), torch.full((2, 2), 0.3)]
    for x in sources:
        x.requires_grad_()
    ours, theirs = (with_gradients(run(cell, *sources), sources) for run in (rt.scan, loop))
    torch.testing.assert_close(ours, theirs)
