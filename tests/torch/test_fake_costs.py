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


ATEN: Any = torch.ops.aten
CALLS: list[Any] = [
    lambda x, y: x + y,
    lambda x, y: x + 1,
    lambda x, y: x + 1.0,
    lambda x, y: x + True,
    lambda x, y: x * 2**40,
    lambda x, y: x[0],
    lambda x, y: x[1],
    lambda x, y: x[1:, 2],
    lambda x, y: x.t(),
    lambda x, y: x.to(torch.float64),
    lambda x, y: torch.cat([x, y]),
    lambda x, y: torch.cat([y, x, y], 1),
    lambda x, y: x.clone().mul_(2),
    lambda x, y: torch.where(x > 0, x, 0.5),
    lambda x, y: x.sum(1, keepdim=True),
    lambda x, y: x.sum(-1, dtype=torch.float64),
    lambda x, y: ATEN.split.Tensor(x, 2, 1)[1],
    lambda x, y: torch.zeros(3, dtype=x.dtype) + x[:, :1],
    lambda x, y: torch.full((2,), 1),
    lambda x, y: torch.full((2,), 1.0),
    lambda x, y: x.expand(2, *x.shape),
    lambda x, y: x.reshape(-1),
    lambda x, y: ATEN.max_pool2d_with_indices.default(x[None].float(), [2, 2])[1],
    lambda x, y: x.reshape(-1)[3:9].view(2, 3),
    lambda x, y: torch.complex(x.double(), y.double()).conj(),
]


def operands() -> list[tuple[Any, Any]]:
    """Pairs of tensors that differ in one property each."""
    x, big = torch.rand(3, 4), torch.rand(5, 12)
    others = [x.double(), x.long(), x.requires_grad_(), torch.rand(4, 3).t(), big[:3, ::3]]
    others += [big[1:4, 2:6], torch.rand(3, 4).to(torch.bfloat16), torch.rand(6, 4)[::2]]
    return [(torch.rand(3, 4), torch.rand(3, 4)), *((other, other) for other in others)]


def described(x: Any, given: Any) -> Any:
    """What is known of a tensor, and whether it has the memory of what it was made of."""
    memory = x.untyped_storage()
    shares = memory._cdata == given.untyped_storage()._cdata
    strides = x.stride(), x.storage_offset(), memory.nbytes(), shares
    flags = x.requires_grad, x.is_conj(), x.is_neg(), x.is_inference()
    return x.dtype, x.shape, x.device, *strides, *flags


def all_described(is_remembering: bool) -> list[Any]:
    """What all calls make of all operands, each three times."""
    mode = fakes.FakeTensorMode(shape_env=symbolic.ShapeEnv())
    mode.cache_enabled = is_remembering
    results = list[Any]()
    for default in (torch.float32, torch.float64):
        torch.set_default_dtype(default)
        for _ in range(3):
            for pair in operands():
                x, y = map(mode.from_tensor, pair)
                with mode:
                    results += [described(call(x, y), x) for call in CALLS]
    return results


def test_what_is_remembered_is_what_pytorch_computes() -> None:
    """By shapes, strides, types, memories and numbers, on each of which a result may depend."""
    before = torch.get_default_dtype()
    try:
        expected = all_described(is_remembering=False)
        with watch.watching():
            assert all_described(is_remembering=True) == expected
    finally:
        torch.set_default_dtype(before)


def test_known_operators_have_quick_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """To make PyTorch's takes half of the time of an operator whose result it knows."""
    mode, kind = fakes.FakeTensorMode(), fakes.FakeTensorMode
    x, made, own = mode.from_tensor(torch.rand(3, 7)), list[Any](), kind._cache_key
    with mode, watch.watching():
        for _ in range(2):
            x.mul(3)[1]
        monkeypatch.setattr(kind, "_cache_key", lambda *args: made.append(args) or own(*args))
        before = kind.cache_hits
        assert x.mul(3)[1].shape == (7,)
        assert kind.cache_hits == before + 2
    assert not made
