"""Exported modules: their files, cells, structures and constants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rnncc_runtime

import rnncc
from rnncc import CompileError
from tests.torch.cells import ExponentialLstm, Labelled, MinimalGated, nn, torch
from tests.torch.compiled_modules import (
    OfPairs,
    Pair,
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
CLOSE = {"rtol": 1e-4, "atol": 3e-5}


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
    with pytest.raises(CompileError, match=r"compiled_modules.py:\d+: .* taken for a constant"):
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
    found = [outputs_and_gradients(run, (x,)) for run in (compiled, net)]
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


def test_extremes_of_sizes() -> None:
    """While torch.export is at work, TorchDynamo takes max for min."""

    class Scaled(nn.Module):
        def forward(self, xs: Any, h: Any) -> Any:
            return rt.scan(self.cell, xs, h)

        def cell(self, x: Any, h: Any) -> Any:
            width = h.shape[-1]
            h = x / max(width - 1, 1) + h / min(width, 100, 3)
            return h, h

    module, args = Scaled(), (torch.randn(4, 2, 5), torch.randn(2, 5))
    for ours, theirs in zip(rt.compile(module, args)(*args), module(*args), strict=True):
        torch.testing.assert_close(ours, theirs, **CLOSE)


def test_what_steps_put_into_constants_has_gradients() -> None:
    """While torch.export is at work, each `torch.tensor` is detached in place."""

    class Shifted(nn.Module):
        def forward(self, xs: Any, h: Any) -> Any:
            return rt.scan(self.cell, xs, h)

        def cell(self, x: Any, h: Any) -> Any:
            factors = torch.tensor([0.5, 0.6, 0.7])
            factors[1:] = h[0, :2]
            h = torch.sin(factors * x)
            return h, h

    module = Shifted()
    args = [torch.randn(4, 2, 3), torch.randn(2, 3, requires_grad=True)]
    found = [run(*args)[1].sum() for run in (rt.compile(module, tuple(args)), module)]
    ours, theirs = (torch.autograd.grad(loss, args[1:])[0] for loss in found)
    torch.testing.assert_close(ours, theirs, **CLOSE)
