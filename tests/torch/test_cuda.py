"""The way of CUDA tensors through rnncc.torch, on an emulated GPU: the bits of the CPU's code."""

from __future__ import annotations

from typing import Any

import pytest
from rnncc_runtime import ArrayError

import rnncc
from rnncc import CompileError
from tests.torch.cells import (
    CELLS,
    CLOSE,
    UNITS,
    MinimalGated,
    MultiplicativeLstm,
    loop,
    make_cell,
    nn,
    results,
    sequence,
    torch,
)
from tests.torch.emulated_gpu import EmulatedGpu, cuda, devices, gpu
from tests.torch.tensor_memory import nothing_is_copied, tapes_go_with_the_graph
from tests.torch.words_net import Words

rt: Any = pytest.importorskip("rnncc.torch")
autograd: Any = pytest.importorskip("rnncc.torch.autograd")
backend: Any = pytest.importorskip("rnncc.torch.backend")
modules: Any = pytest.importorskip("rnncc.torch.compiled_module")
scanning: Any = pytest.importorskip("rnncc.torch.scanning")
pytestmark = pytest.mark.peers
__all__ = ["gpu"]


@pytest.mark.parametrize("kind", CELLS)
def test_equals_loop(gpu: EmulatedGpu, kind: Any) -> None:
    cell = make_cell(kind)
    for steps in (5, 2):
        given = (cell, sequence(steps), cell.start)
        torch.testing.assert_close(results(rt.scan, *given), results(loop, *given), **CLOSE)
    assert (gpu.calls, gpu.waits) == (4, 0)


def test_second_derivatives(gpu: EmulatedGpu) -> None:
    cell = make_cell(MinimalGated)

    def penalty(run: Any) -> list[Any]:
        xs = sequence(3).detach().requires_grad_()
        ys, _ = run(cell, xs, cell.start)
        (slopes,) = torch.autograd.grad(ys.sum(), xs, create_graph=True)
        return list(torch.autograd.grad(slopes.square().sum(), [xs, *cell.parameters()]))

    torch.manual_seed(0)
    made = penalty(rt.scan)
    torch.manual_seed(0)
    torch.testing.assert_close(made, penalty(loop), **CLOSE)


def test_the_bits_of_the_cpu(request: pytest.FixtureRequest) -> None:
    cell = make_cell(MultiplicativeLstm)
    given = (cell, sequence(5), cell.start)
    here = results(rt.scan, *given)
    gpu: EmulatedGpu = request.getfixturevalue("gpu")
    there = results(rt.scan, *given)
    assert gpu.calls == 2
    assert all(torch.equal(a, b) for a, b in zip(here, there, strict=True))


ROUNDED = {"rtol": 0.05, "atol": 0.02}
"""How far products of bf16 may be off, forward and backward."""


@pytest.mark.parametrize("kind", [MinimalGated, MultiplicativeLstm])
def test_rounded_products(gpu: EmulatedGpu, kind: Any) -> None:
    """Gradients and inference in bf16 are near, and not the same as float32's."""
    cell = make_cell(kind)
    given = (cell, sequence(4), cell.start)

    def rounded(*given: Any) -> Any:
        return rt.scan(*given, precision="bf16")

    want, got = results(rt.scan, *given), results(rounded, *given)
    torch.testing.assert_close(got, want, **ROUNDED)
    assert not any(torch.equal(a, b) for a, b in zip(got, want, strict=True))
    with torch.no_grad():
        ys, _ = rounded(*given)
    assert torch.equal(ys, got[0])  # products that the loop computes ahead, too
    assert gpu.calls == 5


def test_precisions_that_are_refused() -> None:
    cell = make_cell(MinimalGated)
    given = (cell, sequence(4), cell.start)
    with pytest.raises(CompileError, match="precision bf16 is for float32 tensors on a GPU"):
        rt.scan(*given, precision="bf16")
    with pytest.raises(CompileError, match="precision 'int8' is not one of fp32, bf16"):
        rt.scan(*given, precision="int8")
    with pytest.raises(CompileError, match="precision 'half' is not one of fp32, bf16, int8"):
        rt.compile(nn.LSTM(3, 4), (torch.zeros(2, 1, 3),), frozen=True, precision="half")


def test_a_compiled_module_of_rounded_products(gpu: EmulatedGpu) -> None:
    layer, x = nn.LSTM(3, 8), torch.randn(3, 2, 3)
    made = list[Any]()
    for precision in ("fp32", "bf16"):
        compiled = rt.compile(layer, (x,), precision=precision)
        layer.zero_grad()
        compiled(x)[0].square().sum().backward()
        made.append([p.grad for p in layer.parameters()])
    torch.testing.assert_close(*made, **ROUNDED)
    assert not torch.equal(made[0][0], made[1][0])
    assert gpu.calls == 4


def test_inference_and_sizes(gpu: EmulatedGpu) -> None:
    cell = make_cell(MinimalGated)
    with torch.no_grad():
        for steps, batch in ((4, 3), (1, 2), (0, 3), (3, 0)):
            xs, start = sequence(steps, batch), torch.zeros(batch, UNITS)
            ys, last = rt.scan(cell, xs, start)
            assert ys.shape == (steps, batch, UNITS)
            if steps:
                want = loop(cell, xs, start)
                torch.testing.assert_close((ys, last), want, **CLOSE)
            else:
                assert torch.equal(last, start)
    assert gpu.calls == 4


def test_tensors_that_are_not_contiguous(gpu: EmulatedGpu) -> None:
    cell = make_cell(MinimalGated)
    xs = sequence(6, 3).transpose(0, 1).contiguous().transpose(0, 1)[::2]
    given = (cell, xs, torch.zeros(1, UNITS).expand(3, UNITS))
    torch.testing.assert_close(results(rt.scan, *given), results(loop, *given), **CLOSE)
    assert gpu.calls == 2


def test_tensors_are_not_copied(gpu: EmulatedGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, real = list[int](), cuda._Entry.call

    def spy(self: Any, name: str, blocks: Any, *rest: Any) -> Any:
        seen.extend(p for block in blocks.values() if isinstance(block, list) for p in block)
        return real(self, name, blocks, *rest)

    monkeypatch.setattr(cuda._Entry, "call", spy)
    nothing_is_copied(seen)


def test_the_tape_goes_with_the_graph(gpu: EmulatedGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    tapes_go_with_the_graph(cuda.GpuCode, monkeypatch)


def test_retained_graph(gpu: EmulatedGpu) -> None:
    cell = make_cell(MultiplicativeLstm)
    ys, _ = rt.scan(cell, sequence(4), cell.start)
    first = torch.autograd.grad(ys.sum(), cell.bias, retain_graph=True)
    assert torch.equal(first[0], torch.autograd.grad(ys.sum(), cell.bias)[0])
    assert gpu.calls == 4  # forward once more


def test_gradients_of_one_output(gpu: EmulatedGpu) -> None:
    """The code gets zeros for the others, where it wants some."""
    cell = make_cell(MultiplicativeLstm)
    for run in (rt.scan, loop):
        _, (_, c) = run(cell, sequence(4), cell.start)
        c.sum().backward()
    before = gpu.calls  # forward twice, where it turns out that slopes of the others are in the way
    ours = torch.autograd.grad(rt.scan(cell, sequence(4), cell.start)[1][1].sum(), cell.bias)
    theirs = torch.autograd.grad(loop(cell, sequence(4), cell.start)[1][1].sum(), cell.bias)
    torch.testing.assert_close(ours, theirs, **CLOSE)
    assert gpu.calls == before + 2


T, N = torch.export.Dim("T"), torch.export.Dim("N")


@pytest.mark.parametrize(("kind", "both"), [("LSTM", True), ("GRU", False)])
def test_layers(gpu: EmulatedGpu, kind: str, both: bool) -> None:
    torch.manual_seed(0)
    layer = getattr(nn, kind)(3, 4, num_layers=2, bidirectional=both)
    compiled = rt.compile(layer, (torch.zeros(5, 2, 3),), dynamic_shapes=({0: T, 1: N},))
    for steps, batch in ((4, 3), (7, 2)):
        x = torch.randn(steps, batch, 3)
        gradients = []
        for net in (compiled, layer):
            layer.zero_grad()
            y = net(x)[0]
            (y * torch.linspace(-1, 1, y.numel()).view(y.shape)).sum().backward()
            gradients.append([y, *(p.grad for p in layer.parameters())])
        torch.testing.assert_close(*gradients, **CLOSE)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), layer(x), **CLOSE)
    assert (gpu.calls, gpu.waits) == (5, 0)


def test_weights_that_a_call_packs(gpu: EmulatedGpu) -> None:
    """They lie in the workspace, where those of the second direction are not at 16 bytes."""
    torch.manual_seed(0)
    net, x = nn.LSTM(3, 5, bidirectional=True), torch.randn(4, 3, 3)
    compiled = rt.compile(net, (x,), train=False, dynamic_shapes=({0: T, 1: N},))
    with torch.no_grad():  # the emulator reports what is read by 16 bytes elsewhere
        torch.testing.assert_close(compiled(x), net(x), **CLOSE)
    assert gpu.calls == 1


def test_frozen_and_prepared(gpu: EmulatedGpu) -> None:
    layer, x = nn.LSTM(3, 4), torch.randn(5, 2, 3)
    compiled = rt.compile(layer, (x,), train=False, frozen=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), layer(x), **CLOSE)
    assert gpu.calls == 1


def test_dropout_draws_a_seed(gpu: EmulatedGpu) -> None:
    net, x = nn.Sequential(nn.Linear(3, 64), nn.Dropout(0.5)), torch.randn(50, 3)
    compiled = rt.compile(net, (x,))
    torch.manual_seed(1)
    first, second = compiled(x), compiled(x)
    torch.manual_seed(1)
    assert torch.equal(compiled(x), first)
    assert not torch.equal(first, second)
    assert gpu.calls == 3


def test_buffers_and_constants(gpu: EmulatedGpu) -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(2))

        def forward(self, x: Any) -> Any:
            self.count += 1
            return x * torch.tensor([1.0, 2.0]).to(x.device) + self.count

    net: Any = Counting()
    compiled = rt.compile(net, (torch.zeros(3, 2),))
    assert compiled(torch.ones(3, 2))[0].tolist() == [2.0, 3.0]
    assert net.count.tolist() == [1.0, 1.0]
    assert gpu.calls == 1


def test_constants_are_copied_once() -> None:
    value, there = torch.ones(3), torch.device("meta")
    constant = modules._Constant(value)
    assert constant.on(value, value.device) is value
    first = constant.on(value, there)
    assert constant.on(value, there) is first
    assert first.device == there
    value.add_(1)
    assert constant.on(value, there) is not first
    assert constant.on(value.requires_grad_(), there).requires_grad


def test_back_end(gpu: EmulatedGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    torch._dynamo.reset()
    monkeypatch.setattr(backend, "_said", set())
    net, x = nn.GRU(3, 4), torch.randn(5, 2, 3)
    with torch._dynamo.config.patch(allow_rnn=True):
        made = torch.compile(net, backend=backend.backend)
        torch.testing.assert_close(made(x), net(x), **CLOSE)
    assert gpu.calls == 1


def test_float64_is_computed_on_the_cpu(gpu: EmulatedGpu) -> None:
    cell = make_cell(MinimalGated, 1).double()
    xs, start = sequence(2, 1).double().requires_grad_(), torch.zeros(1, UNITS).double()
    assert torch.autograd.gradcheck(lambda x: rt.scan(cell, x, start)[0], (xs,), fast_mode=True)
    assert gpu.calls == 0


def test_graphs_that_are_captured(gpu: EmulatedGpu) -> None:
    cell, words = make_cell(MinimalGated), torch.randint(0, 10, (6, 2))
    compiled = rt.compile(Words(), (words,), train=False)
    want = rt.scan(cell, sequence(2), cell.start)
    gpu.capturing = True
    torch.testing.assert_close(rt.scan(cell, sequence(2), cell.start), want)
    with torch.no_grad(), pytest.raises(rnncc.CompileError, match="lost in a CUDA graph"):
        compiled(words)
    with pytest.raises(rnncc.CompileError, match=r"call it once before torch.cuda.graph"):
        rt.scan(lambda x, h: (h, h * 3 + x), torch.zeros(2, 3), torch.zeros(3))


def test_wrong_arguments(gpu: EmulatedGpu) -> None:
    compiled = rt.compile(nn.LSTM(3, 4), (torch.zeros(5, 2, 3),), dynamic_shapes=({0: T, 1: N},))
    for x, message in {
        torch.zeros(5, 2, 3, dtype=torch.int32): "input is int32, expected float32",
        torch.zeros(5, 2, 3).bfloat16(): "input is bfloat16, expected float32",
        torch.zeros(5, 2, 4): "axis 2 is 4, expected 3",
        torch.zeros(5, 3): "has shape",
    }.items():
        with torch.no_grad(), pytest.raises(ArrayError, match=message):
            compiled(x)


def test_several_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = torch.zeros(3), torch.zeros(3, device="meta")
    number = torch.tensor(2.0)
    common = devices.common_device
    assert common(["a", "b"], [there, there]) == there.device
    assert common(["a", "b"], [number, there]) == there.device
    assert common(["a", "b", "c"], [here, number]) == here.device
    assert common([], []) == here.device
    for given in ([here, there], [here, number, there], [there, number, here]):
        with pytest.raises(rnncc.CompileError, match=r"is on .* and a on "):
            common(["a", "b", "c"], given)
    monkeypatch.setattr(scanning, "check_tensor", lambda _: None)
    with pytest.raises(rnncc.CompileError, match="state 0 is on meta and xs 0 on cpu"):
        rt.scan(lambda x, h: (h, h), torch.zeros(2, 3), there)


def test_autocast_of_the_gpu() -> None:
    torch.set_autocast_enabled("cuda", True)
    try:
        with pytest.raises(rnncc.CompileError, match="autocast is on"):
            autograd.check_mode(torch.device("cuda"))
        autograd.check_mode(torch.device("cpu"))
    finally:
        torch.set_autocast_enabled("cuda", False)


def test_what_no_loss_depends_on_makes_no_nan(gpu: EmulatedGpu) -> None:
    """Where what is only shown has an infinite slope, forward runs twice, but only once."""

    def logarithm(x: Any, h: Any) -> Any:
        return h.log(), torch.tanh(x + h)

    def difference(x: Any, h: Any) -> Any:
        return x - h, torch.tanh(x + h)

    def gradients(run: Any, cell: Any, shown: bool) -> tuple[Any, ...]:
        given = torch.zeros(3, 2, 3, requires_grad=True), torch.zeros(2, 3, requires_grad=True)
        ys, last = run(cell, *given)
        loss = last.square().sum() + last.sum() + (ys.sum() if shown else 0)
        return torch.autograd.grad(loss, given)

    for cell, shown, calls in (
        (logarithm, False, 3),
        (logarithm, False, 2),
        (logarithm, True, 3),
        (difference, False, 2),
    ):
        before = gpu.calls
        made = gradients(rt.scan, cell, shown)
        assert gpu.calls - before == calls
        if not shown:
            assert all(grad.isfinite().all() for grad in made)
            torch.testing.assert_close(made, gradients(loop, cell, shown), **CLOSE)
    assert gpu.waits == 0
