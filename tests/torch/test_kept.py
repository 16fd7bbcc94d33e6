"""What a cell keeps in objects of its own: as a loop in Python leaves it, with its gradients."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from rnncc import CompileError
from tests.torch.cells import CLOSE, leaves_of, loop, nn, torch
from tests.torch.keeping_cells import XS, Caching, Membrane, Plain

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


class Memories(nn.Module):
    """A dict in a submodule, of a float before the first step; attributes that lead to it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.layer = nn.Module(), nn.Linear(4, 4)
        self.clear()

    def clear(self) -> None:
        self.inner.held = {"v": 0.0, "count": 3}

    def forward(self, x: Any) -> Any:
        held = self.inner.held
        if isinstance(held["v"], float):
            held["v"] = torch.full_like(x, held["v"])
        held["v"] = torch.tanh(0.5 * held["v"] + self.layer(x))
        return held["v"] * held["count"]


class Hidden(nn.Module):
    """None, then a tuple; the input of the step before; an entry of a list."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(4, 4)
        self.parts: list[Any] = [torch.zeros(3, 4), "name"]
        self.clear()

    def clear(self) -> None:
        self.hidden, self.before = None, torch.ones(3, 4)
        self.parts[0] = torch.zeros(3, 4)

    def forward(self, x: Any) -> Any:
        self.hidden = self.cell(x - self.before, self.hidden)
        self.before = x
        self.parts[0] = self.parts[0] * 0.5 + self.hidden[1]
        return self.parts[0].sin()


class Statistics(nn.Module):
    """A running mean, changed in place, and a count of steps that is a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.mean: Any
        self.steps: Any
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def clear(self) -> None:
        self.mean.zero_()
        self.steps.zero_()

    def forward(self, x: Any) -> Any:
        y = self.layer(x)
        self.mean.mul_(0.9).add_(0.1 * y.detach().mean(0))
        self.steps += 1
        return y - self.mean * (self.steps % 2)


class Asking(nn.Module):
    """Asks for its buffers by name and at once, before and after it was assigned some."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.inner = nn.Linear(4, 4), nn.Module()
        self.inner.register_buffer("mean", torch.zeros(4))
        self.register_buffer("none", None)
        self.clear()

    def clear(self) -> None:
        self.register_buffer("mem", torch.zeros(0))
        self.inner.mean = torch.zeros(4)

    def forward(self, x: Any) -> Any:
        if any(buffer.shape == torch.Size([0]) for buffer in self.buffers()):
            self.mem = torch.zeros_like(x)
        self.mem = 0.9 * self.mem + self.layer(x)
        self.inner.mean = 0.5 * self.inner.mean + self.mem.mean(0)
        held = dict(self.named_buffers())
        assert [*held] == ["mem", "inner.mean"]
        return torch.tanh(held["mem"] - held["inner.mean"]) + len(list(self.buffers(recurse=False)))


class Learnt(nn.Module):
    """What is kept starts from a parameter, by way of an alias of another attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.start, self.layer = nn.Parameter(torch.randn(3, 4)), nn.Linear(4, 4)
        self.clear()

    def clear(self) -> None:
        self.state = self.start * 1.0
        self.older = self.state

    def forward(self, x: Any) -> Any:
        self.older, self.state = self.state, torch.tanh(self.layer(self.state) + x + self.older)
        return self.state


class Normed(nn.Module):
    """Statistics that PyTorch changes without a trace, and a state of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.clear()

    def clear(self) -> None:
        self.norm.reset_running_stats()
        self.state = torch.zeros(3, 4)

    def forward(self, x: Any) -> Any:
        self.state = torch.tanh(self.norm(x + self.state))
        return self.state


class Spectral(nn.Module):
    """Vectors that a parametrization changes in place, without gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))
        self.vectors = {name: x.clone() for name, x in self.named_buffers()}

    def clear(self) -> None:
        self.load_state_dict(self.vectors, strict=False)

    def forward(self, x: Any) -> Any:
        return torch.tanh(self.layer(x))


MODULES: dict[str, Callable[[], Any]] = {
    "membrane": Membrane,
    "memories": Memories,
    "hidden": Hidden,
    "statistics": Statistics,
    "asking": Asking,
    "learnt": Learnt,
    "normed": Normed,
    "spectral norm": Spectral,
    "batch norm alone": lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)),
    "several": lambda: nn.Sequential(Membrane(), Memories(), Statistics()),
}


def clear(module: Any) -> None:
    for part in module.modules():
        if isinstance(part, nn.ModuleDict):  # `clear` would empty it
            continue
        getattr(part, "clear", getattr(part, "reset_running_stats", lambda: None))()


def tensors_kept(module: Any) -> dict[str, Any]:
    """All tensors in attributes, wherever they are, but for parameters."""
    found = dict[str, Any]()
    for name, part in module.named_modules():
        for key, value in {**part.__dict__, **part._buffers}.items():
            if key not in ("_parameters", "_buffers", "_modules"):
                leaves = [x for x in leaves_of(value) if isinstance(x, torch.Tensor)]
                found |= {f"{name}.{key}.{i}": x for i, x in enumerate(leaves)}
    return found


def trained(module: Any, run: Callable[..., Any], xs: Any, **options: Any) -> dict[str, Any]:
    """Outputs, gradients, and what is kept after two runs without clearing in between."""
    clear(module)
    module.zero_grad()
    xs = xs.clone().requires_grad_()
    ys, last = run(lambda x, s: (module(x), s), xs, (), **options)
    again, _ = run(lambda x, s: (module(x), s), xs[:4], (), **options)
    loss = (ys * torch.linspace(-1, 2, ys.numel()).view(ys.shape)).sum() + again.sum()
    kept = tensors_kept(module)
    loss = loss + sum(x.square().sum() for x in kept.values() if x.requires_grad)
    loss.backward()
    assert last == ()
    grads = {name: p.grad for name, p in module.named_parameters()}
    needs = {f"{name} needs": torch.tensor(x.requires_grad) for name, x in kept.items()}
    told = {"ys": ys, "again": again, "xs": xs.grad, **kept, **needs, **grads}
    return {name: x.detach().clone() for name, x in told.items() if x is not None}


def reversed_loop(cell: Any, xs: Any, state: Any) -> Any:
    ys, last = loop(cell, xs.flip(0), state)
    return ys.flip(0), last


@pytest.mark.parametrize("name", MODULES)
def test_as_a_loop(name: str) -> None:
    module = MODULES[name]()
    ours, theirs = trained(module, rt.scan, XS), trained(module, loop, XS)
    torch.testing.assert_close(ours, theirs, **CLOSE)
    assert len([key for key in ours if key.endswith("needs")]) > 0


@pytest.mark.parametrize("name", ["membrane", "hidden"])
def test_backwards_and_one_step(name: str) -> None:
    module = MODULES[name]()
    ours, theirs = trained(module, rt.scan, XS, reverse=True), trained(module, reversed_loop, XS)
    torch.testing.assert_close(ours, theirs, **CLOSE)
    for steps in (1, 2):
        ours, theirs = trained(module, rt.scan, XS[:steps]), trained(module, loop, XS[:steps])
        torch.testing.assert_close(ours, theirs, **CLOSE)


@pytest.mark.parametrize("name", MODULES)
def test_without_gradients(name: str) -> None:
    module, cell = MODULES[name](), lambda x, s: (module(x), s)
    found = list[Any]()
    for run in (rt.scan, loop):
        clear(module)
        with torch.no_grad():
            found.append([run(cell, XS, ())[0], *tensors_kept(module).values()])
    torch.testing.assert_close(*found, **CLOSE)


def test_a_buffer_that_is_changed_stays_the_same_tensor() -> None:
    module = Statistics()
    mean = module.mean
    rt.scan(lambda x, s: (module(x), s), XS, ())
    assert module.mean is mean and not mean.requires_grad and int(module.steps) == len(XS)


def test_batch_norm_that_is_not_trained() -> None:
    module = Normed().eval()
    cell = lambda x, h: (module.norm(x + h), h * 0.5)  # noqa: E731
    ours, theirs = (run(cell, XS, torch.ones(3, 4)) for run in (rt.scan, loop))
    torch.testing.assert_close(ours, theirs, **CLOSE)


class Halving(nn.Module):
    """Halves what it keeps behind autograd's back: right only where that has no gradient."""

    def __init__(self, detached: bool) -> None:
        super().__init__()
        self.total: Any
        self.register_buffer("total", torch.zeros(3, 4))
        self.detached = detached

    def clear(self) -> None:
        self.total = torch.zeros(3, 4)

    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            self.total.mul_(0.5)
        self.total.add_(x.detach() if self.detached else x)
        return x * self.total.clone()


def test_changes_without_gradients_of_what_has_none() -> None:
    module = Halving(detached=True)
    ours, theirs = trained(module, rt.scan, XS), trained(module, loop, XS)
    torch.testing.assert_close(ours, theirs, **CLOSE)
    module = Halving(detached=False)
    for total, xs in ((torch.zeros(3, 4), XS), (torch.zeros(3, 4, requires_grad=True) * 1, XS)):
        module.total = total
        with pytest.raises(CompileError, match=r"test_kept.py:\d+: .*without gradients"):
            rt.scan(lambda x, s: (module(x), s), xs.clone().requires_grad_(), ())
    module.total, module.detached = torch.zeros(3, 4, requires_grad=True) * 1, True
    with pytest.raises(CompileError, match=r"test_kept.py:\d+: .*without gradients"):
        rt.scan(lambda x, s: (module(x), s), XS, ())


def test_a_state_that_the_first_step_makes() -> None:
    """From None, as cells that make their own zeros have it."""
    cell, xs = nn.LSTMCell(4, 4), XS.clone().requires_grad_()

    def step(x: Any, state: Any) -> Any:
        state = cell(x, state)
        return {"h": state[0], "none": None}, state

    ys, last = rt.scan(step, xs, None)
    want, end = loop(lambda x, s: (step(x, s)[0]["h"], step(x, s)[1]), xs, None)
    torch.testing.assert_close((ys["h"], last), (want, end), **CLOSE)
    assert ys["none"] is None


def test_objects_that_are_no_modules() -> None:
    found = list[Any]()
    for run in (rt.scan, loop):
        plain, scale = Plain(), torch.tensor(0.5, requires_grad=True)
        for cell in (plain.step, partial(Plain.step, plain), lambda x, s, p=plain: p.step(x, s)):
            ys, _ = run(cell, XS, scale)
            ys.sum().backward(retain_graph=True)
        found.append([ys, plain.total, scale.grad])
    torch.testing.assert_close(*found, **CLOSE)


def test_alias_of_what_is_held_elsewhere() -> None:
    """The first step reads one tensor, and all others another."""
    module = nn.Module()
    module.first, module.others = torch.ones(3, 4), torch.zeros(3, 4)

    def cell(x: Any, h: Any) -> Any:
        h = h * 0.5 + x + module.first
        module.first = module.others
        return h, h

    ours = rt.scan(cell, XS, torch.zeros(3, 4))
    assert not module.first.any()
    module.first = torch.ones(3, 4)
    torch.testing.assert_close(ours, loop(cell, XS, torch.zeros(3, 4)), **CLOSE)


def test_what_is_held_by_another_name() -> None:
    found = list[Any]()
    for run in (rt.scan, loop):
        module = Caching()
        ys = [run(module, XS, torch.ones(3, 4))[0] for _ in range(2)]
        torch.stack(ys).sum().backward()
        found.append([*ys, module.weight.grad])
    torch.testing.assert_close(*found, **CLOSE)


class Shared(nn.Module):
    """Two names of one buffer, which is changed in place."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("one", torch.zeros(3, 4))
        self.other = self.one

    def forward(self, x: Any, h: Any) -> Any:
        self.one.add_(x)
        self.other = self.one
        return h + self.other, h


class Rows(nn.Module):
    """The last three rows, from the first step on or gathered by the steps."""

    def __init__(self, start: Any, add: str) -> None:
        super().__init__()
        self.layer, self.start, self.add = nn.Linear(4, 4), start, add
        self.clear()

    def clear(self) -> None:
        self.rows = self.start()

    def forward(self, x: Any) -> Any:
        getattr(self.rows, self.add)(self.layer(x))
        if len(self.rows) > 3:
            self.rows.pop(0)
        return sum(self.rows) * self.rows[0]


@pytest.mark.parametrize("add", ["append", "appendleft"])
@pytest.mark.parametrize("filled", [3, 1, 0])
def test_rows_in_a_deque_of_a_length(add: str, filled: int) -> None:
    """Which TorchDynamo takes for one that grows: all entries and one more would be summed up."""
    module = Rows(lambda: deque([torch.ones(3, 4)] * filled, maxlen=3), add)
    check_rows(module)
    assert module.rows.maxlen == 3


def test_rows_in_a_list_that_drops_the_first() -> None:
    check_rows(Rows(list, "append"))


def check_rows(module: Any) -> None:
    ours, theirs = (trained(module, run, XS) for run in (rt.scan, loop))
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, **CLOSE, msg=name)
