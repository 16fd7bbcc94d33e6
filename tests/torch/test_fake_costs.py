"""What PyTorch remembers of shapes while code is read."""

from __future__ import annotations

from typing import Any

import pytest

from tests.torch.cells import torch

watch: Any = pytest.importorskip("rnncc.frontends.torch.watching.reading")
fakes: Any = pytest.importorskip("torch._subclasses.fake_tensor")
symbolic: Any = pytest.importorskip("torch.fx.experimental.symbolic_shapes")
pytestmark = pytest.mark.peers


def remembered(times: int = 1) -> tuple[int, int]:
    """How many operators are remembered of one of many parts, with an open size, and how many are
    found again."""
    kinds = symbolic.DimDynamic
    sizes = symbolic.StatelessSymbolicContext([kinds.DYNAMIC, kinds.STATIC, kinds.STATIC])
    mode, kind = fakes.FakeTensorMode(shape_env=symbolic.ShapeEnv()), fakes.FakeTensorMode
    x = mode.from_tensor(torch.randn(5, 4, 3), symbolic_context=sizes)
    before = kind.cache_misses, kind.cache_hits
    with mode:
        for _ in range(times):
            torch.unbind(x, 1)
    return kind.cache_misses - before[0], kind.cache_hits - before[1]


def test_parts_of_an_operator_are_not_remembered() -> None:
    """That takes most of the time of an operator that is met for the first time."""
    with watch.watching():
        assert remembered(3) == (1, 2)
    assert remembered()[0] > 1


class Listed(torch.nn.Module):
    """A step whose weight stands in a dict, where PyTorch finds the parameter itself."""

    def __init__(self) -> None:
        super().__init__()
        self.register_parameter("weight", torch.nn.Parameter(torch.rand(4, 4)))
        self.weights = {"weight": self.weight}

    def forward(self, x: Any) -> Any:
        for _ in range(6):
            x = (x @ self.weights["weight"]).tanh() * self.weights["weight"].sum()
        return x


def test_operators_of_real_tensors_are_remembered() -> None:
    """A shape that is not takes ten times as long."""
    exports: Any = pytest.importorskip("rnncc.torch.exports")
    kind = fakes.FakeTensorMode
    before = dict(kind.cache_bypasses)
    program = exports.export(Listed(), (torch.rand(3, 4),))
    bypassed = {why for why, n in kind.cache_bypasses.items() if n != before.get(why, 0)}
    assert "non-fake tensor" not in bypassed
    specs = program.graph_signature.input_specs
    constants = [spec for spec in specs if spec.kind.name == "CONSTANT_TENSOR"]
    assert len(constants) == 1  # not one for each use


def test_unsafe_views_have_the_shapes_of_views() -> None:
    before = fakes.FakeTensorMode.cache_bypasses["unsafe view"]
    with fakes.FakeTensorMode() as mode, watch.watching():
        x = mode.from_tensor(torch.rand(2, 6))
        view = torch.ops.aten._unsafe_view.default(x, [3, 4])
    assert view.shape == (3, 4)
    assert view.untyped_storage()._cdata == x.untyped_storage()._cdata
    assert fakes.FakeTensorMode.cache_bypasses["unsafe view"] == before


def test_marks_have_no_shapes_to_compute() -> None:
    marks: Any = pytest.importorskip("rnncc.frontends.torch.branches.marks")
    before = fakes.FakeTensorMode.cache_bypasses["non-builtin"]
    with fakes.FakeTensorMode(), watch.watching():
        marks.mark(torch.tensor(True), 0)
    assert fakes.FakeTensorMode.cache_bypasses["non-builtin"] == before


class Filling(torch.nn.Module):
    """Changes a buffer, which PyTorch takes apart."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(3, 4))

    def forward(self, x: Any) -> Any:
        self.kept.mul_(0.5).add_(x)
        rows = x.clone()
        rows.view(-1)[::2].fill_(1)
        return rows + self.kept


def test_graphs_that_are_not_called_have_no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch writes some at each of its steps; it reads the names of arguments of few."""
    exports: Any = pytest.importorskip("rnncc.torch.exports")
    exported: Any = pytest.importorskip("rnncc.frontends.torch.programs.exported")
    graph_code: Any = pytest.importorskip("rnncc.frontends.torch.graph_code")
    write, written = graph_code._write, list[Any]()

    def noting(module: Any) -> Any:
        written.append(module)
        return write(module)

    monkeypatch.setattr(graph_code, "_write", noting)
    program = exports.export(Filling(), (torch.rand(3, 4),))
    written.clear()
    exported.import_exported(program)
    assert len(written) <= 4
