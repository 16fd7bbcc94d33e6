"""rnncc.torch on a GPU that is there: run by hand, `pytest tests/torch/test_cuda_device.py`."""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest
from rnncc_runtime import RunError

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
)
from tests.torch.words_net import Words

rt: Any = pytest.importorskip("rnncc.torch")
backend: Any = pytest.importorskip("rnncc.torch.backend")
pytestmark = [
    pytest.mark.peers,
    pytest.mark.skipif(
        not torch.cuda.is_available() or torch.version.hip is not None, reason="no NVIDIA GPU here"
    ),
]
several = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU here")
A_WHILE = 200_000_000
"""Cycles that keep a stream busy: about a tenth of a second."""


def cell_on(kind: Any, where: str = "cuda", batch: int = 3) -> Any:
    cell = make_cell(kind, batch).to(where)
    cell.start = torch.utils._pytree.tree_map(lambda s: s.to(where), cell.start)
    return cell


@pytest.fixture(autouse=True)
def exact() -> None:
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


@pytest.mark.parametrize("kind", CELLS)
def test_equals_loop(kind: Any) -> None:
    cell = cell_on(kind)
    for steps in (5, 2):
        given = (cell, sequence(steps).cuda(), cell.start)
        torch.testing.assert_close(results(rt.scan, *given), results(loop, *given), **CLOSE)


@pytest.mark.parametrize("kind", CELLS)
def test_the_bits_of_the_cpu(kind: Any) -> None:
    here, there = make_cell(kind), cell_on(kind)
    a = results(rt.scan, here, sequence(5), here.start)
    b = results(rt.scan, there, sequence(5).cuda(), there.start)
    assert all(torch.equal(x, y.cpu()) for x, y in zip(a, b, strict=True))


def test_sizes() -> None:
    cell = cell_on(MinimalGated)
    with torch.no_grad():
        for steps, batch in ((40, 3), (1, 64), (0, 3), (3, 0)):
            xs, start = sequence(steps, batch).cuda(), torch.zeros(batch, UNITS, device="cuda")
            ys, last = rt.scan(cell, xs, start)
            if steps:
                torch.testing.assert_close((ys, last), loop(cell, xs, start), **CLOSE)
            else:
                assert torch.equal(last, start)


def test_training() -> None:
    losses: list[list[float]] = []
    for run in (loop, rt.scan):
        cell, xs = cell_on(MultiplicativeLstm), sequence(5).cuda()
        optimiser = torch.optim.Adam(cell.parameters(), 0.01)
        losses.append([])
        for _ in range(5):
            optimiser.zero_grad()
            loss = (run(cell, xs, cell.start)[0] - xs).square().mean()
            loss.backward()
            optimiser.step()
            losses[-1].append(loss.item())
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


@pytest.mark.parametrize(("kind", "both"), [("LSTM", True), ("GRU", False), ("RNN", True)])
def test_layers(kind: str, both: bool) -> None:
    torch.manual_seed(0)
    layer = getattr(nn, kind)(3, 20, num_layers=2, bidirectional=both).cuda()
    axes = {0: torch.export.Dim("T"), 1: torch.export.Dim("N")}
    compiled = rt.compile(layer, (torch.zeros(5, 2, 3, device="cuda"),), dynamic_shapes=(axes,))
    for steps, batch in ((4, 3), (30, 17)):
        x = torch.randn(steps, batch, 3, device="cuda")
        gradients = []
        for net in (compiled, layer):
            layer.zero_grad()
            y = net(x)[0]
            (y * torch.linspace(-1, 1, y.numel(), device="cuda").view(y.shape)).sum().backward()
            gradients.append([y, *(p.grad for p in layer.parameters())])
        torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-4)


def test_a_module_that_moves() -> None:
    """Compiled on the CPU, then on the GPU, as `to` does with any module."""

    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(3, 4)

        def forward(self, x: Any) -> Any:
            return self.lstm(x)[0] + torch.tensor([1.0, 2.0, 3.0, 4.0]).to(x.device)

    net, x = Shifted(), torch.randn(5, 2, 3)
    compiled = rt.compile(net, (x,))
    want = compiled(x).detach()
    compiled.cuda()
    torch.testing.assert_close(compiled(x.cuda()).cpu(), want, **CLOSE)
    with pytest.raises(rnncc.CompileError, match=r"is on cuda:0 and x on cpu"):
        compiled(x)


def test_packed_sequences() -> None:
    """Their lengths are on the CPU, where PyTorch wants them."""

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(3, 4, bidirectional=True)

        def forward(self, x: Any, lengths: Any) -> Any:
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
            y, _ = self.lstm(packed)
            return nn.utils.rnn.pad_packed_sequence(y, total_length=x.shape[0])[0]

    net, x, lengths = Tagger().cuda(), torch.randn(6, 3, 3, device="cuda"), torch.tensor([2, 6, 4])
    compiled = rt.compile(net, (x, lengths))
    torch.testing.assert_close(compiled(x, lengths), net(x, lengths), **CLOSE)
    compiled(x, lengths).square().sum().backward()


def test_dropout_and_buffers() -> None:
    net = nn.Sequential(nn.Linear(3, 64), nn.BatchNorm1d(64), nn.Dropout(0.5)).cuda()
    x = torch.randn(50, 3, device="cuda")
    compiled = rt.compile(net, (x,))
    torch.manual_seed(1)
    first, second = compiled(x), compiled(x)
    torch.manual_seed(1)
    assert torch.equal(compiled(x) == 0, first == 0)
    assert not torch.equal(first, second)
    assert int(net[1].num_batches_tracked) == 3


def test_back_end() -> None:
    torch._dynamo.reset()
    net, x = nn.GRU(3, 4).cuda(), torch.randn(5, 2, 3, device="cuda")
    with torch._dynamo.config.patch(allow_rnn=True):
        made = torch.compile(net, backend=backend.backend)
        torch.testing.assert_close(made(x)[0], net(x)[0], **CLOSE)


def test_gradcheck_in_float64() -> None:
    cell = make_cell(MinimalGated, 1).double().cuda()
    xs = sequence(2, 1).double().cuda().requires_grad_()
    start = torch.zeros(1, UNITS, dtype=torch.float64, device="cuda")
    assert torch.autograd.gradcheck(lambda x: rt.scan(cell, x, start)[0], (xs,), fast_mode=True)


def test_user_functions() -> None:
    @rt.elementwise
    def cubed(x: float) -> float:
        return x * x * x

    x = torch.randn(5, 2, device="cuda", requires_grad=True)
    (own,) = torch.autograd.grad(cubed(x).sum(), x)
    torch.testing.assert_close(own, 3 * x.detach() ** 2)
    h = torch.zeros(2, device="cuda")
    given = (lambda a, b: (b, cubed(a + b)), x.detach(), h)
    torch.testing.assert_close(rt.scan(*given), loop(*given), **CLOSE)


# Streams, graphs, memory


def test_the_current_stream() -> None:
    """It comes after what its stream was given before, and before what follows there."""
    cell, xs = cell_on(MinimalGated), sequence(5).cuda()
    want = loop(cell, xs, cell.start)[0].detach()
    rt.scan(cell, xs, cell.start)[0].sum().backward()
    stream, late = torch.cuda.Stream(), torch.zeros_like(xs)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(A_WHILE)
        late.copy_(xs)
        ys = rt.scan(cell, late, cell.start)[0]
        copied = ys * 1
        ys.sum().backward()
    assert not stream.query(), "it was waited for"
    stream.synchronize()
    torch.testing.assert_close(copied, want, **CLOSE)


def test_nothing_is_waited_for() -> None:
    cell, xs = cell_on(MinimalGated), sequence(5).cuda()
    rt.scan(cell, xs, cell.start)[0].sum().backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        rt.scan(cell, xs, cell.start)[0].sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_memory_is_pytorchs() -> None:
    cell, xs = cell_on(MultiplicativeLstm, batch=64), sequence(200, 64).cuda()
    for _ in range(3):
        rt.scan(cell, xs, cell.start)[0].sum().backward()
    torch.cuda.synchronize()
    free = torch.cuda.mem_get_info()[0]
    reserved = torch.cuda.memory_reserved()
    for _ in range(20):
        rt.scan(cell, xs, cell.start)[0].sum().backward()
    torch.cuda.synchronize()
    assert torch.cuda.mem_get_info()[0] == free
    assert torch.cuda.memory_reserved() == reserved


def test_a_graph_of_inference() -> None:
    cell, xs = cell_on(MinimalGated), sequence(5).cuda()
    with torch.no_grad():
        rt.scan(cell, xs, cell.start)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            ys, last = rt.scan(cell, xs, cell.start)
        for seed in (1, 2):
            new = torch.randn(5, 3, WIDTH, generator=torch.Generator().manual_seed(seed))
            xs.copy_(new)
            graph.replay()
            torch.testing.assert_close((ys, last), loop(cell, new.cuda(), cell.start), **CLOSE)


def test_a_graph_of_a_training_step() -> None:
    own, other = cell_on(MinimalGated), cell_on(MinimalGated)
    xs = sequence(5).cuda()
    optimisers = [torch.optim.SGD(c.parameters(), 0.1) for c in (own, other)]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    before = copy.deepcopy(own.state_dict())
    with torch.cuda.stream(side):
        for _ in range(2):
            optimisers[0].zero_grad(set_to_none=True)
            rt.scan(own, xs, own.start)[0].square().sum().backward()
            optimisers[0].step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimisers[0].zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        rt.scan(own, xs, own.start)[0].square().sum().backward()
        optimisers[0].step()
    own.load_state_dict(before)
    for _ in range(3):
        graph.replay()
        optimisers[1].zero_grad()
        loop(other, xs, other.start)[0].square().sum().backward()
        optimisers[1].step()
    torch.testing.assert_close(own.state_dict(), other.state_dict(), rtol=1e-3, atol=1e-4)


def test_dropout_in_a_graph() -> None:
    net, x = nn.Sequential(nn.Linear(3, 64), nn.Dropout(0.5)).cuda(), torch.randn(50, 3).cuda()
    compiled = rt.compile(net, (x,), train=False)
    with torch.no_grad():
        compiled(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = compiled(x)
        graph.replay()
        first = y.clone()
        graph.replay()
    assert not torch.equal(first, y)


def test_threads() -> None:
    cell = cell_on(MinimalGated)
    want = results(loop, copy.deepcopy(cell), sequence(6).cuda(), cell.start)
    found: list[Any] = []
    torch.cuda.synchronize()

    def work() -> None:
        own = copy.deepcopy(cell)
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(5):
                found.append(results(rt.scan, own, sequence(6).cuda(), cell.start))
            torch.cuda.current_stream().synchronize()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 20
    for one in found:
        torch.testing.assert_close(one, want, **CLOSE)


# What can be wrong


def test_an_index_outside_of_its_table() -> None:
    net, words = Words().cuda(), torch.randint(0, 10, (6, 2), device="cuda")
    compiled = rt.compile(net, (words,))
    torch.testing.assert_close(compiled(words), net(words), **CLOSE)
    compiled(words).sum().backward()
    words[3, 1] = 10
    for _ in range(2):
        with pytest.raises(RunError, match="an index is outside of its table"):
            compiled(words)
    words[3, 1] = 9
    torch.testing.assert_close(compiled(words), net(words), **CLOSE)
    graph = torch.cuda.CUDAGraph()
    with (
        torch.no_grad(),
        torch.cuda.graph(graph),
        pytest.raises(rnncc.CompileError, match="lost in a CUDA graph"),
    ):
        compiled(words)


def test_several_kinds_of_devices() -> None:
    cell, xs = cell_on(MinimalGated), sequence(4)
    with pytest.raises(rnncc.CompileError, match="state 0 is on cuda:0 and xs 0 on cpu"):
        rt.scan(cell, xs, cell.start)
    with pytest.raises(rnncc.CompileError, match="device"):
        rt.scan(cell, xs, torch.zeros(3, UNITS))
    factor = torch.tensor(2.0)  # a number may be anywhere
    given = (lambda x, h: (h, torch.tanh(x + h * factor)), xs.cuda(), cell.start)
    torch.testing.assert_close(rt.scan(*given), loop(*given), **CLOSE)


def test_dtypes_and_autocast() -> None:
    cell, xs = cell_on(MinimalGated), sequence(4).cuda()
    given = (cell.half(), xs.half(), cell.start.half())
    torch.testing.assert_close(rt.scan(*given), loop(*given), rtol=1e-2, atol=1e-2)
    cell = cell_on(MinimalGated)
    with torch.autocast("cuda", torch.bfloat16):
        ours, theirs = rt.scan(cell, xs, cell.start), loop(cell, xs, cell.start)
    torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=1e-2)


@several
def test_two_gpus() -> None:
    """The tensors' GPU computes, whichever is the current one."""
    for where in ("cuda:1", "cuda:0"):
        cell = cell_on(MinimalGated, where)
        given = (cell, sequence(5).to(where), cell.start)
        found = results(rt.scan, *given)
        assert all(str(x.device) == where for x in found)
        torch.testing.assert_close(found, results(loop, *given), **CLOSE)
    assert torch.cuda.current_device() == 0
    with pytest.raises(rnncc.CompileError, match="state 0 is on cuda:0 and xs 0 on cuda:1"):
        rt.scan(cell, sequence(5).to("cuda:1"), cell.start)


def test_leaves_are_on_the_gpu() -> None:
    cell = cell_on(MultiplicativeLstm)
    ys, state = rt.scan(cell, sequence(4).cuda(), cell.start)
    assert all(x.is_cuda for x in (ys, *leaves_of(state)))
