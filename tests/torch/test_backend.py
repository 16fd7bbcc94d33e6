"""The back end of torch.compile: what goes to rnncc, and what is left to PyTorch."""

from __future__ import annotations

import math
import tomllib
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.torch.cells import nn, torch
from tests.torch.compiled_modules import gradients
from tests.torch.functions import Spike

made: Any = pytest.importorskip("rnncc.torch.backend")
rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = [pytest.mark.peers, pytest.mark.usefixtures("layers_read_anew")]
CLOSE = {"rtol": 1e-4, "atol": 2e-5}
SCAN = import_module("torch._higher_order_ops.scan").scan
WHILE = torch._higher_order_ops.while_loop


def test_entry_point() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["torch_dynamo_backends"]["rnncc"].partition(":")
    assert getattr(import_module(module), name) is made.backend


@pytest.mark.parametrize(("kind", "both"), [("LSTM", True), ("GRU", False), ("RNN", False)])
def test_layer(kind: str, both: bool) -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), getattr(nn, kind)(4, 5, bidirectional=both))
    compiled = torch.compile(net, backend=made.backend)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for batch in (2, 3, 4):
            x = torch.randn(6, batch, 3)
            torch.testing.assert_close(gradients(compiled, x), gradients(net, x), **CLOSE)


def test_a_layer_of_what_was_packed_before() -> None:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(3, 4)

        def forward(self, x: Any, lengths: Any) -> Any:
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths)
            start = x.new_zeros(1, x.shape[1], 4)
            y = self.lstm(packed, (start, start))[0]
            return nn.utils.rnn.pad_packed_sequence(y)[0]

    net, x, lengths = Packed(), torch.randn(6, 2, 3), torch.tensor([6, 4])
    with pytest.warns(UserWarning, match="leaves it to PyTorch"):
        y = torch.compile(net, backend=made.backend)(x, lengths)
    torch.testing.assert_close(y, net(x, lengths))


def test_layers_are_read_unasked_and_for_all_lengths() -> None:
    """TorchDynamo's own setting, which keeps layers out of graphs, is that of other back ends."""
    net = nn.Sequential(nn.Linear(3, 4), nn.GRU(4, 5))
    compiled = torch.compile(net, backend=made.backend, fullgraph=True)
    torch._dynamo.utils.counters.clear()
    with torch._dynamo.config.patch(allow_rnn=False), warnings.catch_warnings(action="error"):
        for steps in (6, 9, 12, 7):
            x = torch.randn(steps, 2, 3)
            torch.testing.assert_close(gradients(compiled, x), gradients(net, x), **CLOSE)
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 2
        with pytest.raises(torch._dynamo.exc.Unsupported):
            torch.compile(net, backend="eager", fullgraph=True)(torch.randn(6, 2, 3))


def test_cell() -> None:
    net = nn.LSTMCell(3, 4)
    compiled = torch.compile(net, backend=made.backend, fullgraph=True)
    x = torch.randn(2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(gradients(compiled, x), gradients(net, x), **CLOSE)


class Scanning(nn.Module):
    """A loop of PyTorch's own, over rows or until a norm is small."""

    def __init__(self, until: bool) -> None:
        super().__init__()
        self.u, self.until = nn.Parameter(torch.randn(4, 4) / 4), until

    def forward(self, x: Any) -> Any:
        def step(h: Any, row: Any) -> Any:
            h = torch.tanh(row + h @ self.u)
            return h, 2 * h

        if self.until:
            return WHILE(lambda h: h.norm() > 0.1, lambda h: (torch.tanh(h @ self.u),), (x[0],))[0]
        return (SCAN(step, x[0], x)[1],)


class Stepping(nn.Module):
    """The same loop over rows in Python: PyTorch 2.11 has gradients of `scan` wrong."""

    def __init__(self, u: Any) -> None:
        super().__init__()
        self.u = nn.Parameter(u.detach().clone())

    def forward(self, x: Any) -> Any:
        h, ys = x[0], list[Any]()
        for row in x:
            h = torch.tanh(row + h @ self.u)
            ys.append(2 * h)
        return (torch.stack(ys),)


@pytest.mark.parametrize("until", [False, True])
def test_loops_of_pytorch(until: bool) -> None:
    """They are loops where a graph holds nothing else that is recurrent."""
    net, x = Scanning(until), torch.randn(6, 2, 4)
    compiled = torch.compile(net, backend=made.backend, fullgraph=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="rnncc leaves")
        if until:
            torch.testing.assert_close(compiled(x), net(x), **CLOSE)
        else:
            want = gradients(Stepping(net.u), x)
            torch.testing.assert_close(gradients(compiled, x), want, **CLOSE)


def test_the_rest_stays_with_pytorch() -> None:
    net = nn.Linear(3, 4)
    with pytest.warns(UserWarning, match="leaves it to PyTorch: a graph holds no recurrent"):
        y = torch.compile(net, backend=made.backend)(torch.ones(2, 3))
    assert torch.equal(y, net(torch.ones(2, 3)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.compile(nn.Linear(5, 4), backend=made.backend)(torch.ones(2, 5))


def marked(h: Any) -> Any:
    h.requires_grad = True
    return h


class Starting(nn.Module):
    """A loop of a cell whose first state is a leaf, as tutorials have it."""

    def __init__(self, mark: Any) -> None:
        super().__init__()
        self.cell, self.mark = nn.GRUCell(3, 4), mark

    def forward(self, x: Any) -> Any:
        h = self.mark(x.new_zeros(x.shape[1], 4))
        ys = []
        for row in x.unbind():
            h = self.cell(row, h)
            ys.append(h)
        return torch.stack(ys) if ys else h


@pytest.mark.skipif(torch.__version__ < "2.13", reason="TorchDynamo leaves such code to Python")
@pytest.mark.parametrize("mark", [marked, lambda h: h.requires_grad_()])
def test_first_states_that_are_leaves(mark: Any) -> None:
    net = Starting(mark)
    compiled = torch.compile(net, backend=made.backend, fullgraph=True)
    x = torch.randn(20, 2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(gradients(compiled, x), gradients(net, x), **CLOSE)
        exported = rt.compile(net, (x,))
        torch.testing.assert_close(gradients(exported, x), gradients(net, x), **CLOSE)
    with pytest.warns(UserWarning, match="that is made here is a result"):
        none = compiled(x[:0])
    assert none.is_leaf and none.requires_grad
    net.requires_grad_(requires_grad=False)
    assert compiled(x).requires_grad


@pytest.mark.parametrize("kept", [True, False])
def test_other_back_ends_leave_leaves_to_python(kept: bool) -> None:
    graphs = list[Any]()

    def other(module: Any, _: Any) -> Any:
        graphs.append(module)
        return module.forward

    net = Starting(marked if kept else lambda h: h.requires_grad_())
    x = torch.randn(20, 2, 3)
    torch.testing.assert_close(torch.compile(net, backend=other)(x), net(x), **CLOSE)
    names = [node.target for module in graphs for node in module.graph.nodes]
    assert "requires_grad_" not in names


library = torch.library.Library("rnncc_backend", "DEF")
library.define("fire(Tensor xs, float decay) -> Tensor")


def fire(xs: Any, decay: float) -> Any:
    v, spikes = torch.zeros_like(xs[0]), []
    for x in xs:
        v = decay * v + x
        spikes.append(Spike.apply(v - 1))
        v = v * (1 - spikes[-1])
    return torch.stack(spikes)


library.impl("fire", fire, "CompositeImplicitAutograd")


@pytest.mark.parametrize("where", ["alone", "in a loop", "behind one"])
def test_loops_with_operators_of_others(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop within one, as libraries of spiking nets have them, alone and behind one in Python;
    and one in a loop, which is traced once, not at each step."""
    traced, lowered = list[int](), list[int]()
    own_trace, own_lower = made.aten_graph, made.lower_graph

    def trace(module: Any, *args: Any) -> Any:
        traced.append(len(module.graph.nodes))
        return own_trace(module, *args)

    def lower(module: Any, *args: Any) -> Any:
        lowered.append(len(module.graph.nodes))
        return own_lower(module, *args)

    monkeypatch.setattr(made, "aten_graph", trace)
    monkeypatch.setattr(made, "lower_graph", lower)

    class Firing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 4)

        def forward(self, x: Any) -> Any:
            h = self.linear(x)
            if where == "alone":
                return torch.ops.rnncc_backend.fire(h, 0.9)
            v, ys = torch.zeros_like(h[0]), []
            for row in h:
                v = 0.5 * v + row
                if where == "in a loop":
                    v = v + torch.ops.rnncc_backend.fire(v[None], 0.9)[0]
                ys.append(v)
            ys = torch.stack(ys)
            return ys if where == "in a loop" else torch.ops.rnncc_backend.fire(ys, 0.9)

    net, x = Firing(), 2 * torch.randn(20, 2, 3)
    compiled = torch.compile(net, backend=made.backend)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(gradients(compiled, x), gradients(net, x), **CLOSE)
    assert max(traced) < len(x)
    assert max(lowered) < 3 * len(x)


def test_repeats_that_are_no_loop_are_named() -> None:
    def net(x: Any, h: Any) -> Any:
        for t in (0, 1, 3, 7, 8):
            h = torch.tanh(x[t] + h)
        return h

    with pytest.warns(UserWarning, match=r"test_backend.py:\d+: .*5 repeats of a loop's body"):
        torch.compile(net, backend=made.backend)(torch.ones(9, 2), torch.ones(2))


class Rooted(nn.Module):
    """A layer, and code that computes with the number of steps in floats, or below zero."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(3, 4, batch_first=True)

    def forward(self, x: Any) -> tuple[Any]:
        y, count = self.layer(x)[0], x.shape[1]
        y = nn.functional.pad(y, (0, 0, 0, -count % 4)) / math.sqrt(count)
        return (y[:, : int(count * 0.7)],)


def test_sizes_without_a_formula_are_fixed() -> None:
    net = Rooted()
    compiled = torch.compile(net, backend=made.backend)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for steps in (5, 6, 9, 5):
            x = torch.randn(2, steps, 3)
            torch.testing.assert_close(gradients(compiled, x), gradients(net, x), **CLOSE)


def test_one_graph_computes_floats_of_all_sizes() -> None:
    layer = nn.GRU(3, 4)

    def net(x: Any) -> tuple[Any]:
        count = x.shape[0]
        return (layer(x)[0][: math.ceil(count / 2)] / math.sqrt(count) + count**-0.5,)

    compiled, stats = torch.compile(net, backend=made.backend), torch._dynamo.utils.counters
    before = stats["stats"]["unique_graphs"]
    for steps in (5, 6, 7, 12):
        x = torch.randn(steps, 2, 3)
        torch.testing.assert_close(compiled(x), net(x), **CLOSE)
    assert stats["stats"]["unique_graphs"] == before + 2


def test_graphs_that_stay_with_pytorch_keep_their_open_sizes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layer, left = nn.GRU(3, 3), []
    leave = made._left
    monkeypatch.setattr(made, "_left", lambda *given: (left.append(given), leave(*given))[1])

    def net(x: Any) -> Any:
        return torch.linalg.svd(layer(x)[0][0])[1] / math.sqrt(x.shape[0])

    compiled = torch.compile(net, backend=made.backend)
    with pytest.warns(UserWarning, match="svd.default: operator is not supported"):
        for steps in (4, 5, 6, 7):
            x = torch.randn(steps, 3, 3)
            torch.testing.assert_close(compiled(x), net(x))
    assert len(left) == 2


def test_what_is_not_supported_stays_with_pytorch() -> None:
    layer = nn.GRU(3, 3)

    def net(x: Any) -> Any:
        return torch.linalg.svd(layer(x)[0][0])[1]

    x = torch.randn(2, 3, 3)
    with pytest.warns(UserWarning, match="svd.default: operator is not supported"):
        y = torch.compile(net, backend=made.backend)(x)
    torch.testing.assert_close(y, net(x))


def test_many_cells_stay_with_pytorch() -> None:
    cells = nn.ModuleList(nn.GRUCell(3, 3) for _ in range(20))

    def net(xs: Any) -> Any:
        h = torch.zeros(2, 3)
        for x, cell in zip(xs, cells, strict=True):
            h = cell(x, h)
        return h

    with pytest.warns(UserWarning, match="20 calls of cells: rnncc.torch.scan is a loop"):
        torch.compile(net, backend=made.backend)(torch.randn(20, 2, 3))


class Neuron(nn.Module):
    """A neuron that puts what it computes into a buffer, an attribute and a property."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("v", torch.zeros(3, 4), persistent=False)
        self.fired: Any = None
        self.seen: Any = 0.0

    @property
    def doubled(self) -> Any:
        return 2.0 * self.seen

    @doubled.setter
    def doubled(self, value: Any) -> None:
        self.seen = value / 2.0

    def forward(self, x: Any) -> Any:
        self.v = 0.9 * self.v + torch.tanh(self.layer(x))
        self.fired = self.v - 0.1
        self.doubled = self.fired + self.doubled
        return self.fired * self.seen


def test_tensors_that_steps_put_into_modules() -> None:
    def net(module: Any, xs: Any) -> Any:
        ys = [module(x) for x in xs.unbind()]
        del module.v  # it is no buffer from now on
        for x in xs.unbind():
            module.v = x if len(ys) == 6 else ys[-1] + x
            ys.append(module.v)
        return torch.stack(ys)

    def run(compiled: bool) -> Any:
        torch.manual_seed(0)
        module, xs = Neuron(), torch.rand(6, 3, 4, requires_grad=True)
        call = torch.compile(net, backend="rnncc", fullgraph=True) if compiled else net
        y = call(module, xs)
        y.square().sum().backward()
        kept = module.v, module.fired, module.seen, module.doubled
        assert not dict(module.named_buffers())
        return [x.detach() for x in (y, xs.grad, *kept, *(p.grad for p in module.parameters()))]

    torch._dynamo.reset()
    torch.testing.assert_close(run(True), run(False), rtol=1e-4, atol=1e-5)
