"""Whole modules: outputs and gradients equal PyTorch's, for sizes other than the example's."""

from __future__ import annotations

import copy
import pickle
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import rnncc_runtime

import rnncc
from rnncc import CompileError
from tests.torch.cells import Labelled, nn, torch
from tests.torch.compiled_modules import (
    BUFFERS,
    Buffered,
    Wrapped,
    check,
    outputs_and_gradients,
    sequence,
)

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers
Dim = torch.export.Dim
leaves_of: Any = torch.utils._pytree.tree_leaves
T, N = Dim("T"), Dim("N")
rnn: Any = torch.nn.utils.rnn
CLOSE = {"rtol": 1e-4, "atol": 3e-5}


class Stepped(nn.Module):
    """One step, its state an argument."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LSTMCell(3, 4), nn.GRUCell(4, 5)
        self.third = nn.RNNCell(5, 2, nonlinearity="relu")

    def forward(self, x: Any, state: Any) -> Any:
        h, c = self.first(x, state[:2])
        g = self.second(h, state[2])
        return self.third(g).sigmoid(), (h, c, g)


LAYERS = {
    "lstm": lambda: nn.LSTM(3, 4),
    "lstm, no bias": lambda: nn.LSTM(3, 4, bias=False, bidirectional=True),
    "lstm, projected": lambda: nn.LSTM(3, 4, 2, proj_size=2),
    "gru": lambda: nn.GRU(3, 4, 2),
    "gru, both": lambda: nn.GRU(3, 4, bidirectional=True),
    "rnn": lambda: nn.RNN(3, 4),
    "rnn, relu": lambda: nn.RNN(3, 4, 2, nonlinearity="relu", bias=False),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str) -> None:
    torch.manual_seed(0)
    check(Wrapped(LAYERS[name]()), sequence(3), ({0: T, 1: N},), [(4, 3), (6, 2), (1, 1)])


def test_words() -> None:
    torch.manual_seed(0)
    check(
        Labelled(layers=1),
        lambda t, n: (torch.randint(0, 9, (n, t)),),
        {"words": {0: N, 1: T}},
        [(4, 3), (5, 2)],
    )


def test_one_step() -> None:
    torch.manual_seed(0)

    def make(_: int, n: int) -> Any:
        return torch.randn(n, 3), tuple(torch.randn(n, units) for units in (4, 4, 5))

    check(Stepped(), make, ({0: N}, ({0: N},) * 3), [(1, 3), (1, 2)])


def test_convolution() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv1d(3, 4, 3, padding=2, dilation=2),
        nn.BatchNorm1d(4),
        nn.SiLU(),
        nn.Conv1d(4, 6, 2, stride=2, groups=2, bias=False),
    )
    module.eval()
    check(module, lambda t, n: (torch.randn(n, 3, 2 * t),), ({0: N, 2: 2 * T},), [(4, 3), (3, 2)])
    check(module[0], lambda t, _: (torch.randn(3, 2 * t),), None, [(4, 1)])


def test_parts_stay_in_their_modes() -> None:
    """Batch norm is often frozen while all else is trained."""
    module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4).eval())
    net, x = rt.compile(module, (torch.ones(3, 4),)), torch.randn(3, 4)
    assert net.training and [part.training for part in module] == [True, False]
    torch.testing.assert_close(net(x), module(x))


def test_modes_that_change() -> None:
    """Each is compiled once; so it is with a copy, and what was pickled has those that it had."""
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm1d(4))
    net, x = rt.compile(module, (torch.ones(3, 4),)), torch.randn(3, 4)
    trained = net.form()
    net.eval()
    torch.testing.assert_close(net(x), module(x), **CLOSE)
    loaded = pickle.loads(pickle.dumps(net))
    copied = copy.deepcopy(net).train()
    assert net.train().form() is trained and copied.form() is not trained
    torch.manual_seed(0)
    y = net(x)
    torch.manual_seed(0)
    assert torch.equal(copied(x), y) and not torch.allclose(y, module.eval()(x))
    module[2].train()
    x = x.clone().requires_grad_()
    torch.testing.assert_close(net(x), module(x), **CLOSE)
    torch.testing.assert_close(loaded(x), loaded.module(x), **CLOSE)
    loaded.module[2].train()
    with pytest.raises(CompileError, match="compile the module again"):
        loaded(x)
    frozen = rt.compile(module.eval(), (x.detach(),), frozen=True)
    y = frozen(x.detach())
    assert torch.equal(frozen.train()(x.detach()), y)


def test_parts_that_are_replaced() -> None:
    module, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), torch.randn(3, 4)
    net = rt.compile(module, (x,))
    net(x)
    module[0] = nn.Linear(4, 4)
    torch.testing.assert_close(net(x), module(x), **CLOSE)
    module.append(nn.Linear(4, 2))
    nn.utils.parametrizations.weight_norm(module[0])
    net(x).sum().backward()
    ours = [p.grad.clone() for p in module.parameters()]
    module.zero_grad()
    module(x).sum().backward()
    torch.testing.assert_close(ours, [p.grad for p in module.parameters()], **CLOSE)
    values = {name: torch.ones_like(x) for name, x in net.named_parameters()}
    theirs = torch.func.functional_call(module, {n[7:]: x for n, x in values.items()}, (x,))
    torch.testing.assert_close(torch.func.functional_call(net, values, (x,)), theirs, **CLOSE)


def test_other_types_of_numbers() -> None:
    """A module that becomes one of float64 is compiled for that; what does not fit is refused."""
    module, x = nn.LSTM(3, 4), torch.randn(5, 2, 3)
    net = rt.compile(module, (x,))
    net(x)
    net.double()
    with pytest.raises(CompileError, match="float64"):
        net(x)
    y = net(x.double())[0]
    assert y.dtype == torch.float64
    torch.testing.assert_close(y, module(x.double())[0], rtol=1e-9, atol=1e-9)
    module.eval()
    torch.testing.assert_close(net(x.double())[0], module(x.double())[0], rtol=1e-9, atol=1e-9)
    module.float()
    torch.testing.assert_close(net(x)[0], module(x)[0], **CLOSE)


def test_weights_that_are_tied_no_more() -> None:
    words, out = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
    out.weight = words.weight
    module, x = nn.Sequential(words, out), torch.tensor([1, 3])
    net = rt.compile(module, (x,))
    torch.testing.assert_close(net(x), module(x), **CLOSE)
    out.weight = nn.Parameter(torch.randn(5, 4))
    net(x).sum().backward()
    torch.testing.assert_close(net(x), module(x), **CLOSE)
    torch.testing.assert_close(out.weight.grad, words(x).sum(0).expand(5, 4), **CLOSE)
    words.weight = out.weight
    torch.testing.assert_close(net(x), module(x), **CLOSE)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_normalisation_in_training(momentum: float | None) -> None:
    """Batch norm counts its batches and keeps its averages."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv1d(3, 4, 1), nn.BatchNorm1d(4, momentum=momentum))
    peer = copy.deepcopy(module)
    compiled = rt.compile(module, (torch.randn(4, 3, 5),), dynamic_shapes=({0: N},))
    x = torch.randn(6, 3, 5)
    for batch in (x, x.sin()):
        torch.testing.assert_close(compiled(batch), peer(batch), **CLOSE)
    torch.testing.assert_close(module.state_dict(), peer.state_dict(), **CLOSE)
    torch.testing.assert_close(compiled.eval()(x), peer.eval()(x), **CLOSE)


class PackedNet(nn.Module):
    def __init__(self, kind: str, layers: int, in_order: bool) -> None:
        super().__init__()
        self.layer = getattr(nn, kind)(3, 4, layers, batch_first=True, bidirectional=True)
        self.in_order = in_order

    def forward(self, x: Any, lengths: Any) -> Any:
        packed = rnn.pack_padded_sequence(x, lengths, True, enforce_sorted=self.in_order)
        packed, last = self.layer(packed)
        y, again = rnn.pad_packed_sequence(packed, True, padding_value=0.5)
        return y * 2, last, again


@pytest.mark.parametrize(("kind", "layers", "in_order"), [("LSTM", 1, False), ("GRU", 2, True)])
def test_packed_sequences(kind: str, layers: int, in_order: bool) -> None:
    torch.manual_seed(0)

    def make(t: int, n: int) -> Any:
        lengths = torch.tensor([t, 2, t - 1, 1, t][:n])
        return torch.randn(n, t, 3), lengths.sort(descending=True)[0] if in_order else lengths

    net = PackedNet(kind, layers, in_order)
    check(net, make, ({0: N, 1: T}, {0: N}), [(4, 3), (5, 5), (3, 2)])


def test_packed_sequences_elsewhere_stay_pytorchs() -> None:
    """What stands in PyTorch for its packing is no code for TorchDynamo to read."""
    net = PackedNet("GRU", 1, False)
    given = torch.randn(3, 4, 3), torch.tensor([4, 2, 3])
    rt.compile(net, given)
    y, _, lengths = torch.compile(net, backend="eager")(*given)
    torch.testing.assert_close((y, lengths), net(*given)[::2], **CLOSE)


def test_without_dynamic_sizes() -> None:
    check(Wrapped(nn.GRU(3, 4)), sequence(3), None, [(4, 2)])


def test_unbatched() -> None:
    check(Wrapped(nn.LSTM(3, 4)), lambda t, _: (torch.randn(t, 3),), ({0: T},), [(4, 1), (3, 1)])


def test_parameters_are_the_modules_own() -> None:
    layer = Wrapped(nn.GRU(3, 4))
    compiled = rt.compile(layer, (torch.ones(2, 1, 3),))
    assert {id(p) for p in compiled.parameters()} == {id(p) for p in layer.parameters()}
    with torch.no_grad():
        layer.layer.weight_ih_l0.add_(0.5)
    x = torch.randn(2, 1, 3)
    torch.testing.assert_close(compiled(x), layer(x), **CLOSE)
    layer.layer.bias_hh_l0 = nn.Parameter(torch.ones(12))
    torch.testing.assert_close(compiled(x), layer(x), **CLOSE)


class Listed(nn.Module):
    """Parameters that are registered and read from a list; one that is not registered at all."""

    def __init__(self, other: Any) -> None:
        super().__init__()
        self.w, self.u = (nn.Parameter(torch.randn(3, 4) * 0.4) for _ in "wu")
        self.layers, self.others, self.cell = [[self.w], [self.u]], {"w": other}, nn.GRUCell(4, 4)

    def forward(self, x: Any) -> Any:
        h = torch.zeros(x.shape[1], 4)
        for row in x:
            for (w,) in self.layers:
                h = self.cell(row @ w + self.others["w"], h)
        return h + self.w.sum()


def test_parameters_in_lists(tmp_path: Path) -> None:
    """Each has its gradient, in a copy and in a library too."""
    torch.manual_seed(0)
    other = nn.Parameter(torch.randn(4))
    module, x = Listed(other), torch.randn(5, 2, 3)
    compiled = rt.compile(module, (x,), dynamic_shapes={"x": {1: N}})
    places = [*module.parameters(), other]
    want, got = (torch.autograd.grad(m(x).square().sum(), places) for m in (module, compiled))
    torch.testing.assert_close(got, want, **CLOSE)
    copied = copy.deepcopy(compiled)
    with torch.no_grad():
        copied.module.w.mul_(2)
    torch.testing.assert_close(copied(x), copied.module(x), **CLOSE)
    torch.testing.assert_close(compiled(x), module(x), **CLOSE)
    rt.build(module, (x,), out=tmp_path, train=True, outputs_with_grads=["y"])
    model = rnncc_runtime.load(tmp_path / "libnet.so", train=True)
    _, tape = model.forward({"x": x.numpy()})
    grads = model.backward(tape, {"y": 2 * module(x).detach().numpy()})
    for (name, _), own in zip(module.named_parameters(), want, strict=False):
        torch.testing.assert_close(torch.from_numpy(grads[name]), own, **CLOSE)


def test_compiled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = Wrapped(nn.GRU(3, 4)), torch.randn(2, 1, 3)
    compiled = rt.compile(layer, (x,), train=True)
    monkeypatch.setattr(rnncc, "compile", None)
    compiled(x)[0].sum().backward()
    with pytest.raises(CompileError, match="frozen"):
        rt.compile(layer, (x,), train=True, frozen=True)


def test_copies_have_parameters_and_buffers_of_their_own() -> None:
    """As averaged and best models are kept, the module itself may be known there besides."""
    net, x = Buffered(BUFFERS["reassigned"]), torch.randn(3, 2)
    compiled = rt.compile(net, (x,))
    compiled(x).sum().backward()
    both = copy.deepcopy(nn.ModuleList([net, compiled]))
    plain, copied = both
    assert copied.module is plain
    with torch.no_grad():
        plain.weight.add_(1)
    peer = copy.deepcopy(plain)
    torch.testing.assert_close(
        outputs_and_gradients(copied, (x,)), outputs_and_gradients(peer, (x,))
    )
    assert torch.equal(plain.k, peer.k)
    assert not torch.equal(net.k, plain.k)
    assert torch.equal(net.weight, torch.ones(2))


@pytest.mark.filterwarnings("error")
def test_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    """For other processes: what is compiled there is what the net's text says."""
    torch.manual_seed(0)
    net, x = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4)), torch.randn(3, 2)
    both = nn.ModuleList([net, rt.compile(net, (x,), dynamic_shapes=({0: N},))])
    stored = pickle.dumps(both)
    monkeypatch.setattr(import_module("rnncc.torch.nets"), "_codes", {})
    plain, compiled = pickle.loads(stored)
    assert compiled.module is plain
    for rows in (x, torch.randn(5, 2)):
        peer = copy.deepcopy(plain)
        ours = outputs_and_gradients(compiled, (rows,))
        torch.testing.assert_close(ours, outputs_and_gradients(peer, (rows,)), **CLOSE)
        torch.testing.assert_close(plain[1].running_mean, peer[1].running_mean, **CLOSE)
        assert not plain[1].running_mean.equal(net[1].running_mean)


def test_frozen_ones_are_pickled_with_their_values() -> None:
    layer, x = Wrapped(nn.GRU(3, 4)), torch.randn(2, 1, 3)
    compiled = rt.compile(layer, (x,), frozen=True)
    stored = pickle.dumps(compiled)
    with torch.no_grad():
        want = [y.clone() for y in layer(x)]
        torch.testing.assert_close(list(pickle.loads(stored)(x)), want, **CLOSE)


def test_frozen() -> None:
    layer = Wrapped(nn.GRU(3, 4))
    x = torch.randn(2, 1, 3)
    want = [y.detach().clone() for y in layer(x)]
    compiled = rt.compile(layer, (x,), frozen=True)
    with torch.no_grad():
        layer.layer.weight_ih_l0.zero_()
    torch.testing.assert_close(list(compiled(x)), want, **CLOSE)
    with pytest.raises(CompileError, match="frozen"):
        compiled(x.requires_grad_())
