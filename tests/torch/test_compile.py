"""Whole modules: outputs and gradients equal PyTorch's, for sizes other than the example's."""

from __future__ import annotations

import copy
import itertools
import pickle
import random
import re
import warnings
from collections import deque
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import rnncc_runtime

import rnncc
from rnncc import CompileError
from tests.torch.cells import ExponentialLstm, Labelled, MinimalGated, loop, nn, torch

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


class Wrapped(nn.Module):
    """A layer that gives its y alone, and some arithmetic."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Any) -> Any:
        y, last = self.layer(x * 0.5 + 1)
        return torch.cat([y, x.mean(-1, keepdim=True)], -1), last


def check(module: Any, make: Any, shapes: Any, sizes: list[tuple[int, int]]) -> None:
    """Compare for several sizes; the first are the example's."""
    compiled = rt.compile(module, make(*sizes[0]), dynamic_shapes=shapes)
    peer = copy.deepcopy(module)
    for size in sizes:
        given = make(*size)
        found = [_outputs_and_gradients(net, given) for net in (compiled, peer)]
        torch.testing.assert_close(*found, **CLOSE)


def _outputs_and_gradients(net: Any, given: Any) -> list[Any]:
    given = torch.utils._pytree.tree_map(_leaf, given)
    net.zero_grad()
    outputs = leaves_of(net(*given))
    weights = [torch.linspace(-1, 1, o.numel()).view(o.shape) for o in outputs]
    floats = [(o, w) for o, w in zip(outputs, weights, strict=True) if o.requires_grad]
    torch.autograd.backward(*zip(*floats, strict=True))
    sources = [*leaves_of(given), *net.parameters()]
    return [*outputs, *(s.grad for s in sources)]


def _leaf(x: Any) -> Any:
    return x.clone().requires_grad_(x.is_floating_point())


def sequence(width: int) -> Any:
    return lambda t, n: (torch.randn(t, n, width),)


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
        _outputs_and_gradients(copied, (x,)), _outputs_and_gradients(peer, (x,))
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
        ours = _outputs_and_gradients(compiled, (rows,))
        torch.testing.assert_close(ours, _outputs_and_gradients(peer, (rows,)), **CLOSE)
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


def test_dropout() -> None:
    """Follows PyTorch's seed, keeps the mean, and backward drops what forward dropped."""
    module = nn.Sequential(nn.Dropout(0.25), nn.Identity())
    compiled = rt.compile(module, (torch.ones(4, 4),), dynamic_shapes=({0: N},))
    x = torch.ones(1000, 4, requires_grad=True)
    torch.manual_seed(3)
    y = compiled(x)
    y.sum().backward()
    assert y.unique().tolist() == pytest.approx([0, 4 / 3])
    assert y.mean().item() == pytest.approx(1, abs=0.05)
    assert torch.equal(x.grad, y)
    other = compiled(x)
    assert not torch.equal(other, y)
    torch.manual_seed(3)
    assert torch.equal(compiled(x), y)
    still = rt.compile(module.eval(), (torch.ones(4, 4),))
    assert torch.equal(still(torch.ones(4, 4)), torch.ones(4, 4))


def test_dropout_between_layers() -> None:
    layer = nn.LSTM(3, 4, 2, dropout=0.5)
    compiled = rt.compile(layer, (torch.ones(3, 2, 3),))
    first, second = (compiled(torch.ones(3, 2, 3))[0] for _ in range(2))
    assert not torch.equal(first, second)


def test_buffers_that_change() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(2))
            self.parts = nn.ModuleList([nn.Module()])  # which names it again
            self.parts[0].register_buffer("same", self.total)

        def forward(self, x: Any) -> Any:
            self.total.add_(x.sum(0))
            return x * self.total

    module = Counting()
    compiled = rt.compile(module, (torch.ones(3, 2),), dynamic_shapes=({0: N},))
    compiled(torch.ones(4, 2))
    assert compiled(torch.ones(2, 2)).tolist() == [[6, 6], [6, 6]]
    assert module.total.tolist() == [6, 6]


def test_sparse_tensors() -> None:
    class Reservoir(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weights", torch.eye(3).to_sparse())

        def forward(self, x: Any) -> Any:
            return torch.sparse.mm(self.weights, x)

    with pytest.raises(CompileError, match=r"test_compile.py:\d+: .*sparse_coo.*to_dense"):
        rt.compile(Reservoir(), (torch.ones(3, 2),))


BUFFERS: dict[str, Any] = {
    "in place": lambda m, x: m.k.add_(1),
    "moved": lambda m, x: setattr(m, "k", m.k.to(x.device)),
    "reassigned": lambda m, x: setattr(m, "k", m.k * 0.5 + x.detach().mean(0)),
    "made anew": lambda m, x: setattr(m, "k", x.new_ones(2)),
}


class Buffered(nn.Module):
    """Does something to its buffer, or keeps an average of what it saw."""

    def __init__(self, change: Any) -> None:
        super().__init__()
        self.change, self.weight = change, nn.Parameter(torch.ones(2))
        self.register_buffer("k", torch.ones(2))

    def forward(self, x: Any) -> Any:
        y, seen = x * self.weight, self.k.view(2)
        if self.change is None:
            with torch.no_grad():
                self.k.mul_(0.9).add_(y.mean(0))
        else:
            self.change(self, x)
        return y * self.k + seen


@pytest.mark.parametrize("name", [*BUFFERS, None])
def test_buffers_in_training(name: str | None) -> None:
    nets: list[Any] = [Buffered(BUFFERS.get(name or "")) for _ in range(2)]
    run = rt.compile(nets[0], (torch.ones(3, 2),))
    for _ in range(2):
        x = torch.randn(3, 2)
        ours, theirs = (_outputs_and_gradients(net, (x,)) for net in (run, nets[1]))
        torch.testing.assert_close(ours[:2], theirs[:2], **CLOSE)
        torch.testing.assert_close(nets[0].weight.grad, nets[1].weight.grad, **CLOSE)
        torch.testing.assert_close(nets[0].k, nets[1].k, **CLOSE)


def test_buffers_that_would_keep_gradients() -> None:
    net = Buffered(lambda m, x: setattr(m, "k", torch.tanh(m.k + (x * m.weight).sum(0))))
    compiled = rt.compile(net, (torch.ones(3, 2),))
    with pytest.raises(CompileError, match="Buffered: buffer k is given a value that has gradi"):
        compiled(torch.ones(3, 2))
    peer = copy.deepcopy(net)
    with torch.no_grad():
        torch.testing.assert_close(compiled(torch.ones(3, 2)), peer(torch.ones(3, 2)), **CLOSE)
        torch.testing.assert_close(net.k, peer.k, **CLOSE)


class Remembering(nn.Module):
    """Puts what it computed somewhere, and may read there what an earlier call has put."""

    def __init__(self, keep: Any, reads: bool) -> None:
        super().__init__()
        self.linear, self.keep, self.reads = nn.Linear(2, 2), keep, reads
        self.kept: dict[str, Any] = {"h": None}
        self.last = deque([torch.zeros(3, 2)], maxlen=1)
        self.h: Any = None

    def forward(self, x: Any) -> Any:
        last = self.h if self.kept["h"] is None else self.kept["h"]
        y = self.linear(x)
        if self.reads:
            y = y + self.last[0] + (0 if last is None else last)
        self.keep(self, y)
        return y


KEEPING: dict[str, Any] = {
    "Remembering.h": lambda m, y: setattr(m, "h", y),
    "['h']": lambda m, y: m.kept.update(h=(y * 2).detach()),
    "[0]": lambda m, y: m.last.append(y.detach()),
}


@pytest.mark.parametrize("place", KEEPING)
def test_tensors_that_a_module_keeps(place: str) -> None:
    """Compiled code keeps none: refused where the next call would read it."""
    x = torch.randn(3, 2)
    net = Remembering(KEEPING[place], reads=True)
    with pytest.raises(CompileError, match=f"Remembering: the next call may .*{re.escape(place)}"):
        rt.compile(net, (x,))
    net.reads = False
    with pytest.warns(UserWarning, match=f"compiled code leaves {re.escape(place)} as it was"):
        compiled = rt.compile(net, (x,))
    torch.testing.assert_close(compiled(x), net(x))
    net.h = net.kept["h"] = None
    compiled(x)
    assert (net.h, net.kept) == (None, {"h": None})


class Looking(nn.Module):
    """Computes what it needs not, in its first call or in later ones, such as to look for changes;
    a change of what it was given is needed."""

    def __init__(self, change: Any) -> None:
        super().__init__()
        self.linear, self.change = nn.Linear(2, 2), change
        self.register_buffer("total", torch.zeros(2))
        self.seen: list[Any] = [None]

    def forward(self, x: Any) -> Any:
        if self.seen[0] is self.linear.weight:
            self.change(self.total, self.linear.weight.exp().sum(0))
        self.seen[0] = self.linear.weight
        return self.linear(x)


def test_what_only_some_calls_compute() -> None:
    x = torch.randn(3, 2)
    net = Looking(lambda total, x: total + x)
    torch.testing.assert_close(rt.compile(net, (x,))(x), net(x), **CLOSE)
    with pytest.raises(CompileError, match="the next call may compute with what it"):
        rt.compile(Looking(lambda total, x: total.view(1, 2).add_(x.detach())), (x,))


@pytest.mark.filterwarnings("ignore:.*_flat_weights as it was")
def test_layers_with_weights_that_are_made_at_each_call() -> None:
    layer, x = (
        nn.utils.parametrizations.weight_norm(nn.GRU(3, 4), "weight_hh_l0"),
        torch.randn(5, 2, 3),
    )
    with warnings.catch_warnings(action="error"):
        compiled = rt.compile(layer, (x,))
    for _ in range(2):
        ours, theirs = (
            torch.autograd.grad(net(x)[0].square().sum(), [*layer.parameters()])
            for net in (compiled, layer)
        )
        torch.testing.assert_close(ours, theirs, **CLOSE)
        with torch.no_grad():
            layer.parametrizations.weight_hh_l0.original0.mul_(2)


class Counting(nn.Module):
    """Counts its calls, and may compute with their number."""

    def __init__(self, use: Any) -> None:
        super().__init__()
        self.linear, self.use, self.calls, self.counts = nn.Linear(2, 2), use, 0, [0]

    def forward(self, x: Any) -> Any:
        self.calls += 1
        self.counts[0] += 1
        return self.linear(x) * self.use(self)


@pytest.mark.parametrize(
    "use", [lambda m: 0.9**m.calls, lambda m: 1 if m.counts[0] > 1 else m.linear.bias]
)
def test_calls_that_a_module_counts(use: Any) -> None:
    """Each call would compute as the first."""
    with pytest.raises(CompileError, match=r"compute with Counting.calls, \[0\], which"):
        rt.compile(Counting(use), (torch.ones(3, 2),))
    net = Counting(lambda m: 2)
    with pytest.warns(UserWarning, match=r"leaves Counting.calls, \[0\] as it was"):
        rt.compile(net, (torch.ones(3, 2),))
    assert (net.calls, net.counts) == (0, [0])


class CountingWays(Counting):
    """Counts in functions that both ways of a branch call, as solvers count evaluations."""

    def counted(self, x: Any) -> Any:
        self.calls += 1
        return torch.tanh(self.linear(x))

    def forward(self, x: Any) -> Any:
        if not x.isfinite().all():
            raise ValueError("not finite")
        return self.counted(x) + 1 if x.sum() > 0 else self.counted(self.use(self, x))


def test_calls_that_both_ways_of_a_branch_count() -> None:
    net = CountingWays(lambda m, x: -x)
    compiled = rt.compile(net, (torch.ones(3, 2),))
    for x in (torch.rand(3, 2), -torch.rand(3, 2)):
        torch.testing.assert_close(compiled(x), net(x), **CLOSE)
    with pytest.raises(CompileError, match=r"changes CountingWays\.calls"):
        rt.compile(CountingWays(CountingWays.counted), (torch.ones(3, 2),))


class Elsewhere(nn.Module):
    """Keeps numbers where no attribute shows that they change."""

    calls = 0

    def __init__(self, number: Any) -> None:
        super().__init__()
        self.number, self.numbers, self.array = number, itertools.count(1), np.zeros(1)

    def count(self) -> int:
        type(self).calls += 1
        return type(self).calls

    def add(self) -> float:
        self.array += 1
        return float(self.array[0])

    def forward(self, x: Any) -> Any:
        return torch.tanh(x * self.number(self))


@pytest.mark.parametrize(
    "number",
    [Elsewhere.count, Elsewhere.add, lambda m: next(m.numbers), lambda m: torch.tensor(m.count())],
)
def test_what_no_attribute_shows(number: Any) -> None:
    with pytest.raises(CompileError, match="Elsewhere: the next call may compute with what it kee"):
        rt.compile(Elsewhere(number), (torch.ones(3, 2),))


@pytest.mark.parametrize("draw", [random.random, lambda: float(np.random.rand())])
def test_random_numbers_of_python(draw: Any) -> None:
    """As of teacher forcing: one drawn while exporting would be that of all calls."""

    class Forced(nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2 if draw() < 0.5 else x.tanh()

    with pytest.raises(CompileError, match="Forced: random numbers of Python and NumPy would be"):
        rt.compile(Forced(), (torch.ones(3, 2),))


def test_tables_that_a_module_makes_once() -> None:
    """What no argument decides is the same at each call; layers' lists of weights are no state."""

    class Placed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.lstm = None, nn.LSTM(2, 3)

        def forward(self, x: Any) -> Any:
            if self.table is None:
                self.table = torch.arange(2.0)
            return self.lstm(x + self.table)[0]

    net, x = Placed(), torch.randn(3, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = rt.compile(net, (x,))
    assert net.table is None
    torch.testing.assert_close(compiled(x), net(x), **CLOSE)


def test_loops_of_pytorch_run_as_ever_after_an_export() -> None:
    x = torch.ones(3, 2)
    rt.compile(OfPairs(), (x,))
    scan = import_module("torch._higher_order_ops.scan").scan
    last, ys = scan(lambda h, x: (h + x, h * x), torch.zeros(2), x)
    assert (last.tolist(), ys.tolist()) == ([3, 3], [[0, 0], [1, 1], [2, 2]])


class Within(nn.Module):
    """Gives buffers of its own and of modules within it other tensors, and what was there."""

    def __init__(self, change: Any) -> None:
        super().__init__()
        self.change, self.first, self.second = change, Buffered(None), Buffered(None)
        for name, buffer in {"none": None, "a": torch.ones(2), "b": torch.zeros(2)}.items():
            self.register_buffer(name, buffer)

    def forward(self, x: Any) -> Any:
        before = self.first.k, self.a
        self.change(self, x)
        return before, self.second(x) * self.first.k


def swap(m: Any, x: Any) -> None:
    m.first.k, m.second.k = m.second.k * 2, m.first.k
    m.a, m.b = m.b + x[0].detach(), m.a


def assign_twice(m: Any, x: Any) -> None:
    for row in x.detach():
        m.first.k = m.first.k * 0.5 + row
        m.a.copy_(m.first.k)


@pytest.mark.parametrize("change", [swap, assign_twice])
def test_buffers_of_parts_that_are_given_other_tensors(change: Any) -> None:
    nets: list[Any] = [Within(change) for _ in range(2)]
    run = rt.compile(nets[0], (torch.ones(3, 2),))
    for _ in range(2):
        x = torch.randn(3, 2)
        torch.testing.assert_close(run(x), nets[1](x), **CLOSE)
        torch.testing.assert_close(nets[0].state_dict(), nets[1].state_dict(), **CLOSE)
    assert [*nets[0]._buffers] == ["none", "a", "b"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m, x: setattr(m, "a", m.a > 0), r"a: a buffer is float32 .2. before a .* and bool"),
        (
            lambda m, x: setattr(m.first, "k", x),
            r"first.k: a buffer is .* and float32 .3, 2. after",
        ),
        (lambda m, x: setattr(m, "b", None), r"b: a buffer is .* and None after it"),
        (
            lambda m, x: setattr(m.first, "weight", nn.Parameter(m.first.weight * 2)),
            r"first.weight: a parameter is given another tensor",
        ),
        (lambda m, x: setattr(m, "none", x[0] * 2), r"none: a buffer is None .* \(call the module"),
    ],
)
def test_buffers_of_other_types(change: Any, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        rt.compile(Within(change), (torch.ones(3, 2),))


def test_buffers_that_modules_share() -> None:
    net = Within(lambda m, x: setattr(m.first, "k", m.first.k * 2))
    net.second.k = net.first.k
    with pytest.raises(
        CompileError, match=r"first\.k: a buffer that another module has, too, is gi"
    ):
        rt.compile(net, (torch.ones(3, 2),))


def test_buffers_of_frozen_modules_and_libraries(tmp_path: Path) -> None:
    """Values that change are no constants of the code."""
    net = Buffered(BUFFERS["in place"])
    compiled, x = rt.compile(net, (torch.ones(3, 2),), frozen=True), torch.ones(3, 2)
    made = rt.build(net, (x,), out=tmp_path, name="counts")
    with torch.no_grad():
        assert [compiled(x)[0, 0].item() for _ in range(2)] == [4, 6]
    given = {"x": x.numpy(), "k": np.ones(2, np.float32)}
    outputs = rnncc_runtime.load(made.library).run(given)
    assert outputs["new_k"].tolist() == [2, 2]
    assert outputs["y"][0].tolist() == [4, 4]


def shared_states(x: Any, w: Any) -> Any:
    zeros = x.new_zeros(x.shape[1:])
    return x, (zeros, zeros), w


def views(x: Any, w: Any) -> Any:
    both = x.new_zeros(2, 8)
    return x, (both[:, :4], both[:, 4:]), w


def rows_and_states(x: Any, w: Any) -> Any:
    return x.transpose(1, 2).transpose(1, 2), (x[0], x[1]), w


def broadcast(x: Any, w: Any) -> Any:
    return x, (w[0].expand(2, 4), w[0].expand(2, 4)), w


def held_views(x: Any, w: Any) -> Any:
    return x, (x[0], w[:2]), w.t()


@pytest.mark.parametrize("make", [shared_states, views, rows_and_states, broadcast, held_views])
def test_operands_that_share_memory(make: Any) -> None:
    class Net(nn.Module):
        def __init__(self, scan: Any) -> None:
            super().__init__()
            self.w, self.scan = nn.Parameter(torch.eye(4) * 0.5), scan

        def forward(self, x: Any) -> Any:
            xs, state, held = make(x, self.w)

            def cell(row: Any, state: Any) -> Any:
                h = torch.tanh(row @ held + state[1] @ self.w + x[0])
                return h, (h, state[0] + h)

            return self.scan(cell, xs, state)[0]

    x = torch.randn(3, 2, 4).double()
    net, peer = Net(rt.scan).double(), Net(loop).double()
    ours = _outputs_and_gradients(rt.compile(net, (x,)), (x,))[:2]
    torch.testing.assert_close(ours, _outputs_and_gradients(peer, (x,))[:2], **CLOSE)
    torch.testing.assert_close(net.w.grad, peer.w.grad, **CLOSE)


def test_double() -> None:
    module = Wrapped(nn.GRU(2, 2)).double()
    compiled = rt.compile(module, (torch.ones(2, 1, 2).double(),), dynamic_shapes=({0: T},))
    x = torch.randn(3, 1, 2, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(compiled, (x,))


def test_files(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = Labelled(layers=1, both=False)
    words = torch.randint(0, 9, (2, 5))
    shapes = {"words": {0: N, 1: T}}
    made = rt.build(module, (words,), dynamic_shapes=shapes, out=tmp_path, name="labels")
    words = torch.randint(0, 9, (3, 4))
    outputs = rnncc_runtime.load(made.library).run({"words": words.numpy()})
    want = leaves_of(module(words))
    for ours, theirs in zip(outputs.values(), want, strict=True):
        np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-4, atol=3e-5)


def test_exported_program() -> None:
    module = Wrapped(nn.RNN(3, 4))
    exported = rt.export(module, (torch.ones(3, 2, 3),), dynamic_shapes=({0: T, 1: N},))
    x = torch.randn(5, 4, 3)
    outputs = rnncc.compile(exported).run({"x": x.numpy()})
    torch.testing.assert_close(torch.from_numpy(outputs["y0"]), module(x)[0].detach(), **CLOSE)


@pytest.mark.parametrize(
    ("kind", "reverse"),
    [(MinimalGated, True), pytest.param(ExponentialLstm, False, marks=pytest.mark.slow)],
)
def test_custom_cell(kind: Any, reverse: bool, tmp_path: Path) -> None:
    """A loop of `scan` within a module: with gradients, and as a library."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.out = kind(3, 4, 2), nn.Linear(4, 2)

        def forward(self, x: Any) -> Any:
            state = torch.utils._pytree.tree_map(
                lambda s: torch.zeros(x.shape[1], 4), self.cell.start
            )
            return self.out(rt.scan(self.cell, x, state, reverse=reverse)[0]).relu()

    torch.manual_seed(0)
    net, shapes = Net(), ({0: T, 1: N},)
    check(net, sequence(3), shapes, [(4, 3), (5, 2)])
    made = rt.build(net, (torch.ones(4, 2, 3),), dynamic_shapes=shapes, out=tmp_path)
    x = torch.randn(6, 3, 3)
    (y,) = rnncc_runtime.load(made.library).run({"x": x.numpy()}).values()
    torch.testing.assert_close(torch.from_numpy(y), net(x).detach(), **CLOSE)


class Switching(nn.Module):
    """Parts without gradients, and one that is detached."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            fixed = self.inner(x) * 2
        with torch.autocast("cpu", enabled=False):
            fixed = fixed + 1
        y = fixed * self.inner(x)
        return y, y.detach() * self.inner(x)


class Pair(NamedTuple):
    h: Any
    c: Any


class OfPairs(nn.Module):
    """A loop of a cell that writes numbers down, in named tuples."""

    def forward(self, x: Any) -> Any:
        def step(row: Any, state: Any) -> Any:
            new = state._replace(h=0.5 * state.h + row * torch.tensor([0.5, 2.0]), c=state.h)
            return new.h + new.c, new

        return rt.scan(step, x, Pair(x[0], x[0]))


def test_named_tuples_and_constants_of_cells() -> None:
    x = torch.randn(5, 3, 2)
    y, last = rt.compile(OfPairs(), (x,))(x)
    expected, (h, c) = OfPairs()(x)
    assert isinstance(last, Pair)
    torch.testing.assert_close((y, last.h, last.c), (expected, h, c))


def test_exported_programs_stay_as_they_are() -> None:
    """A file of one would hold what only this process knows."""
    x = torch.randn(5, 3, 2)
    exported = rt.export(OfPairs(), (x,))
    before = exported.graph_module.print_readable(print_output=False)
    y = rnncc.compile(exported).run({"x": x.numpy()})
    torch.testing.assert_close(next(iter(y.values())), OfPairs()(x)[0].numpy())
    assert exported.graph_module.print_readable(print_output=False) == before


def test_tensors_that_a_trace_took_for_constants() -> None:
    """A loop's body holds a fake where PyTorch did not see what a tensor came from."""
    x = torch.randn(5, 3, 2)
    exported = rt.export(OfPairs(), (x,))
    parts = [part for part in exported.graph_module.modules() if list(part.buffers(False))]
    for part in parts:
        name, numbers = next(part.named_buffers(recurse=False))
        setattr(part, name, torch._subclasses.FakeTensorMode().from_tensor(numbers))
    with pytest.raises(CompileError, match=r"test_compile.py:\d+: .* taken for a constant"):
        rnncc.compile(exported)


@pytest.mark.parametrize("name", ["none", "part", "stateless"])
def test_ys_and_states_that_are_nothing(name: str) -> None:
    cells: dict[str, Any] = {
        "none": lambda x, h: (None, torch.tanh(x + h)),
        "part": lambda x, h: ({"y": x * h, "other": None}, torch.tanh(x + h)),
        "stateless": lambda x, _: (x * 2, ()),
    }

    class Net(nn.Module):
        def forward(self, x: Any) -> Any:
            start = () if name == "stateless" else x[0]
            return rt.scan(cells[name], x, start, reverse=True)

    x = torch.randn(4, 2, 3)
    found, known = rt.compile(Net(), (x,))(x), Net()(x)
    leaves_of = torch.utils._pytree.tree_leaves
    assert [y is None for y in leaves_of(found)] == [y is None for y in leaves_of(known)]
    pairs = zip(leaves_of(found), leaves_of(known), strict=True)
    torch.testing.assert_close(*zip(*(p for p in pairs if p[0] is not None), strict=True), **CLOSE)


class OfOtherStates(nn.Module):
    def forward(self, x: Any) -> Any:
        return rt.scan(lambda row, state: (row, (state["b"], row)), x, {"a": x[0], "b": x[0]})


def test_state_that_becomes_another_nest() -> None:
    with pytest.raises(CompileError, match="another nest of tensors"):
        rt.compile(OfOtherStates(), (torch.ones(5, 2),))


@pytest.mark.parametrize("outside", [torch.no_grad, torch.enable_grad])
def test_parts_without_gradients(outside: Any) -> None:
    torch.manual_seed(0)
    net, x = Switching(), torch.randn(2, 3)
    with outside():
        compiled = rt.compile(net, (x,))
    found = [_outputs_and_gradients(run, (x,)) for run in (compiled, net)]
    torch.testing.assert_close(*found, **CLOSE)


class Gated(nn.Module):
    """Each step has a region without gradients."""

    def forward(self, x: Any) -> Any:
        h, ys = x[0], list[Any]()
        for row in x:
            with torch.no_grad():
                gate = (h.sigmoid() > 0.5).float()
            h = torch.tanh(h + row) * gate
            ys.append(h)
        return torch.stack(ys)


def test_exporting_grows_with_regions_not_with_their_square(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of all graphs that PyTorch writes as code, the nodes: 24 steps have twice those of 12."""
    written, graph = list[int](), torch.fx.Graph
    own = graph.python_code

    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        written.append(len(self.nodes))
        return own(self, *args, **kwargs)

    monkeypatch.setattr(graph, "python_code", counted)
    counts = list[int]()
    for steps in (12, 24):
        written.clear()
        rt.export(Gated(), (torch.ones(steps, 2, 3),))
        counts.append(sum(written))
    assert counts[1] < 2.2 * counts[0]


def test_what_falls_apart_in_steps_does_so_in_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    class Masked(nn.Module):
        def forward(self, x: Any) -> Any:
            window = torch.hann_window(8)
            bins = torch.stft(x, 8, 4, window=window, return_complex=True)
            return torch.istft(bins * bins.abs().sigmoid(), 8, 4, window=window)

    runs = list[int]()
    run = torch.export.ExportedProgram.run_decompositions

    def counted(*args: Any) -> Any:
        runs.append(1)
        return run(*args)

    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", counted)
    masked, x = Masked(), torch.randn(2, 32)
    compiled = rt.compile(masked, (x,))
    assert len(runs) == 1
    torch.testing.assert_close(compiled(x), masked(x))


def test_another_structure() -> None:
    compiled = rt.compile(Wrapped(nn.GRU(3, 4)), (torch.ones(2, 1, 3),))
    with pytest.raises(CompileError, match="compiled for"):
        compiled([torch.ones(2, 1, 3)])
    with pytest.raises(rnncc_runtime.ArrayError, match="axis 0 is 5, expected 2"):
        compiled(torch.ones(5, 1, 3))


class Switched(nn.Module):
    """Its arguments are tensors, and a number and a word that its code depends on."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(3, 4)

    def forward(self, x: Any, factor: Any, of: str, y: Any) -> Any:
        return self.layer(x)[0] * factor + (y if of == "sum" else 0)


def test_arguments_that_are_no_tensors(tmp_path: Path) -> None:
    """They are in the code as the example had them."""
    net, x, y = Switched(), torch.ones(2, 1, 3), torch.ones(2, 1, 4)
    compiled = rt.compile(net, (x, 2, "sum", y), dynamic_shapes=({0: T}, None, None, {0: T}))
    x, y = torch.ones(5, 1, 3), torch.ones(5, 1, 4)
    torch.testing.assert_close(compiled(x, 2, "sum", y), net(x, 2, "sum", y), **CLOSE)
    for wrong in ((x, 3, "sum", y), (x, 2.0, "sum", y), (x, True, "sum", y), (x, 2, "", y)):
        with pytest.raises(CompileError, match=r"(factor|of): compiled for (2|'sum'), called with"):
            compiled(*wrong)
    with pytest.raises(CompileError, match="factor: compiled for 2"):
        compiled(x, torch.tensor(2), "sum", y)
    with pytest.raises(CompileError, match="x: is ndarray, compiled for a tensor"):
        compiled(x.numpy(), 2, "sum", y)
    free = ({0: T}, Dim.DYNAMIC, None, {0: T})
    with pytest.raises(CompileError, match="factor: is a number of Python that may change"):
        rt.compile(net, (x, 2, "sum", y), dynamic_shapes=free)
    with pytest.raises(CompileError, match="factor: is a number of Python that may change"):
        rt.build(net, (x, 2, "sum", y), dynamic_shapes=free, out=tmp_path)


class Marking(nn.Module):
    """Adds something that it marks as a leaf."""

    def __init__(self, leaf: Any) -> None:
        super().__init__()
        self.leaf, self.part = leaf, nn.Parameter(torch.ones(3))
        self.register_buffer("scale", torch.ones(3))

    def forward(self, x: Any) -> Any:
        return x * self.part + self.leaf(self, x)


@pytest.mark.parametrize(
    "leaf",
    [
        lambda m, x: x.requires_grad_(),
        lambda m, x: m.scale.requires_grad_(),
        lambda m, x: m.part.requires_grad_(False),
    ],
)
def test_what_is_given_becomes_no_leaf(leaf: Any) -> None:
    """It would have a gradient after backward, or none."""
    with pytest.raises(CompileError, match="requires_grad_: is not supported here"):
        rt.compile(Marking(leaf), (torch.ones(2, 3),))


def test_what_a_module_makes_may_be_a_leaf() -> None:
    net = Marking(lambda m, x: (2 * m.scale).requires_grad_() + m.part.detach().requires_grad_())
    x = torch.randn(2, 3)
    ours = _outputs_and_gradients(rt.compile(net, (x,)), (x,))
    torch.testing.assert_close(ours, _outputs_and_gradients(net, (x,)))


def test_what_a_module_makes_may_be_said_to_have_no_gradient() -> None:
    def plain(module: Any, x: Any) -> Any:
        made = torch.tensor([1.0, 2.0, 3.0])
        made.requires_grad = False
        return made * x + torch.zeros_like(x).requires_grad_(False)

    net, x = Marking(plain), torch.randn(2, 3)
    ours = _outputs_and_gradients(rt.compile(net, (x,)), (x,))
    torch.testing.assert_close(ours, _outputs_and_gradients(net, (x,)))


def test_unsupported() -> None:
    class Strange(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.linalg.svd(x)[0]

    with pytest.raises(CompileError, match=r"test_compile.py:\d+: aten.*svd"):
        rt.compile(Strange(), (torch.ones(3, 3),))
    with pytest.raises(CompileError, match=r"test_compile.py:\d+: Strange: torch.export: "):
        rt.compile(Strange(), (torch.ones(3),))


class Learning(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.func.vmap(torch.func.grad(lambda x: x.sin().sum()))(x)


class Branching(nn.Module):
    def forward(self, x: Any) -> Any:
        return x[[bool(row.sum() > 0) for row in x]]


@pytest.mark.parametrize(
    "module, message",
    [
        (Learning, "torch.func in a module is not supported where it is exported"),
        (Branching, "Python code depends on whether a tensor is true: what asks is no `if`"),
    ],
)
def test_what_is_not_exported(module: Any, message: str, capfd: pytest.CaptureFixture[str]) -> None:
    """One line, which names the user's, without PyTorch's own traces."""
    name = module.__name__
    with pytest.raises(CompileError, match=rf"test_compile.py:\d+: {name}: {message}") as caught:
        rt.compile(module(), (torch.ones(3, 3),))
    assert "\n" not in str(caught.value)
    assert "def forward" not in capfd.readouterr().err


def test_distributions_are_not_validated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which would ask for the values of their parameters."""
    kind: Any = torch.distributions.Distribution
    monkeypatch.setattr(kind, "_validate_args", True)  # TorchDynamo switches it off for good

    class Scored(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.distributions.Normal(x, x.exp()).log_prob(x + 1)

    x = torch.randn(3, 4)
    torch.testing.assert_close(rt.compile(Scored(), (x,))(x), Scored()(x), **CLOSE)
    assert kind._validate_args
    ys, _ = rt.scan(lambda row, h: (Scored()(row), h), x, torch.zeros(4))
    torch.testing.assert_close(ys, torch.stack(list(map(Scored(), x))), **CLOSE)


class Chosen(nn.Module):
    """PyTorch's conditional, and its loop without a state."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        def one(x: Any) -> Any:
            return torch.tanh(self.layer(x))

        def other(x: Any) -> Any:
            return x * 2

        y = torch.cond(x.sum() > 0, one, other, (x,))
        rows = torch._higher_order_ops.map(lambda row, s: torch.sin(row) + s, y, x.sum(0))
        return y, rows


def test_conditional_and_map_of_pytorch() -> None:
    net = Chosen()
    model = rnncc.compile(torch.export.export(net, (torch.ones(5, 4),)))
    compiled = rt.compile(net, (torch.ones(5, 4),))
    for x in (torch.rand(5, 4), -torch.rand(5, 4)):
        found = model.run({"x": x.numpy()})
        torch.testing.assert_close(compiled(x), net(x), **CLOSE)
        want = {f"y{i}": y.detach().numpy() for i, y in enumerate(net(x))}
        for name, y in want.items():
            np.testing.assert_allclose(found[name], y, rtol=1e-4, atol=1e-5)


class Settling(nn.Module):
    """Steps until they are large, or too many."""

    def __init__(self, loop: Any) -> None:
        super().__init__()
        self.layer, self.loop = nn.Linear(4, 4).double(), loop

    def forward(self, x: Any, h: Any) -> Any:
        def goes_on(h: Any, n: Any) -> Any:
            return (h.norm() < 3) & (n < 2000)

        def step(h: Any, n: Any) -> Any:
            return h * 1.5 + torch.tanh(self.layer(h) + x) * 0.1, n + 1

        h, n = self.loop(goes_on, step, (h * 0.1, torch.zeros((), dtype=torch.int64)))
        return n, h


def while_in_python(goes_on: Any, step: Any, carried: Any) -> Any:
    while goes_on(*carried):
        carried = step(*carried)
    return carried


def test_while_loop_of_pytorch() -> None:
    """Gradients are compared with those of Python's loop: PyTorch 2.13's own lack some terms."""
    torch.manual_seed(0)
    ours, theirs = Settling(torch._higher_order_ops.while_loop), Settling(while_in_python)
    theirs.load_state_dict(ours.state_dict())
    xs, h = torch.randn(3, 2, 4).double(), torch.randn(2, 4).double()
    compiled = rt.compile(ours, (xs[0], h))

    def found(run: Any, net: Any) -> list[Any]:
        n, last = run()
        return [n, last, *torch.autograd.grad((last**2).sum(), list(net.layer.parameters()))]

    pairs = [
        (lambda: rt.scan(ours, xs, h), lambda: loop(theirs, xs, h)),
        (lambda: compiled(xs[0], h), lambda: theirs(xs[0], h)),
    ]
    for one, other in pairs:
        torch.testing.assert_close(found(one, ours), found(other, theirs))
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.zero_()
    assert compiled(0 * xs[0], 0 * h)[0] == 2000
    with pytest.raises(rnncc_runtime.RunError, match="than its limit"):
        rt.scan(ours, 0 * xs, 0 * h)
