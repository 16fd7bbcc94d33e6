"""What a cell may not keep in objects of its own, and what keeps nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rnncc import CompileError
from tests.torch.cells import CLOSE, loop, nn, torch
from tests.torch.keeping_cells import XS, Caching, Membrane, Plain

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


GATHERED: list[Any] = []
OUTSIDE = torch.zeros(3, 4)


def appends(x: Any, h: Any) -> Any:
    GATHERED.append(x * 2)
    return h, h


def keeps_globally(x: Any, h: Any) -> Any:
    global OUTSIDE
    h, OUTSIDE = h + OUTSIDE, x
    return h, h


def keeps_in_a_closure() -> Any:
    before = torch.zeros(3, 4)

    def cell(x: Any, h: Any) -> Any:
        nonlocal before
        h, before = h + before, x
        return h, h

    return cell


class Growing(Plain):
    def step(self, x: Any, scale: Any) -> Any:
        self.total = torch.cat([self.total, x])
        return x, scale


class Parameters(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3, 4))

    def forward(self, x: Any, h: Any) -> Any:
        with torch.no_grad():
            self.weight.add_(x)
        return h * self.weight, h


class Naming(Caching):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))


class AsksOfNumber(nn.Module):
    """Asks what a tensor in the place of its number could not answer."""

    def __init__(self, asked: Callable[[int], bool]) -> None:
        super().__init__()
        self.asked, self.t = asked, 0

    def forward(self, x: Any, h: Any) -> Any:
        h = h + x * (2 if self.asked(self.t) else 3)
        self.t += 1
        return h, h


COUNTS = "a step changes a number of Python's that the next one reads"
ASKED: dict[str, Callable[[int], bool]] = {
    "a set's key": lambda t: t in {0, 2},
    "a dict's key": lambda t: t % 3 in {2: 1},
    "its text": lambda t: f"{t}" in {"1": 0},
    "its type": lambda t: isinstance(t, int),
    "its very type": lambda t: type(t) is int,
    "no tensor": torch.is_tensor,
}


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    **{name: (lambda ask=ask: AsksOfNumber(ask), COUNTS) for name, ask in ASKED.items()},
    "appends": (lambda: appends, "a step appends tensors to a list"),
    "a global": (lambda: keeps_globally, "a tensor leaves the cell by other ways"),
    "a closure": (keeps_in_a_closure, "a tensor leaves the cell by other ways"),
    "growing": (
        lambda: Growing().step,
        "Growing.total is f32 6 x 4 before a step and f32 9",
    ),
    "a name for a parameter": (Naming, "a step changes the parameter cache"),
    "a parameter": (Parameters, "changes the parameter weight|detached self or without gradients"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    make, message = REFUSED[name]
    cell = make()
    with pytest.raises(CompileError, match=message) as caught:
        rt.scan(cell, XS.repeat(3, 1, 1), torch.zeros(3, 4))
    assert "\n" not in str(caught.value)


def test_what_is_refused_leaves_lists_as_they_were() -> None:
    GATHERED[:] = [torch.ones(3, 4)]
    with pytest.raises(CompileError, match="appends tensors"):
        rt.scan(appends, XS.repeat(3, 1, 1), torch.zeros(3, 4))
    assert len(GATHERED) == 1


def test_what_is_refused_leaves_attributes_as_they_were() -> None:
    grows = Growing()
    before = grows.total
    with pytest.raises(CompileError):
        rt.scan(grows.step, XS, torch.zeros(()))
    assert grows.total is before


def test_what_is_refused_leaves_buffers_as_they_were() -> None:
    norm = nn.BatchNorm1d(4)
    norm.register_buffer("total", torch.zeros(4))

    def cell(x: Any, h: Any) -> Any:
        norm.total.add_(x.sum(0))
        return torch.linalg.eigvalsh(norm(x)[:, :1] * x[:, 0]), h

    with pytest.raises(CompileError, match="eigh"):
        rt.scan(cell, XS.repeat(3, 1, 1), torch.zeros(3, 4))
    assert not norm.total.any() and not norm.running_mean.any() and norm.num_batches_tracked == 0


class Sums(nn.Module):
    """A cell that is refused where its buffers are one memory, which it shows many times."""

    def __init__(self, is_known: bool) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(1, 4))
        self.register_buffer("shown", (torch.zeros(1, 4) if is_known else self.total).expand(3, 4))

    def forward(self, x: Any, h: Any) -> Any:
        self.total.add_(x.sum())
        return x + h, h


def test_refused_after_another_of_its_class_that_was_compiled() -> None:
    xs, state = XS.repeat(3, 1, 1), torch.zeros(3, 4)
    rt.scan(Sums(is_known=True), xs, state)
    refused = Sums(is_known=False)
    with pytest.raises(CompileError, match="kept elsewhere"):
        rt.scan(refused, xs, state)
    assert not refused.total.any() and not refused.shown.any()


def test_what_is_refused_writes_to_no_buffer_that_has_not_changed() -> None:
    """It may be a file that was opened to be read."""
    cell, written = Sums(is_known=True), list[Any]()

    class Watched(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, _: Any, args: Any, kwargs: Any) -> Any:
            written.extend(args[:1] if function._schema.is_mutable else ())
            return function(*args, **(kwargs or {}))

    with pytest.raises(CompileError, match="needs a step"), Watched():
        rt.scan(cell, XS[:0], torch.zeros(3, 4))
    assert not written


def test_no_step_at_all() -> None:
    module = Membrane()
    with pytest.raises(CompileError, match="needs a step"):
        rt.scan(lambda x, s: (module(x), s), XS[:0], None)


class Answering:
    """As wrappers of libraries: whatever is asked for is there."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        return lambda *_: name


def test_what_answers_every_name_keeps_nothing() -> None:
    layer = nn.Linear(4, 4)
    layer.library, layer.compiled = Answering(), rt.compile(nn.Linear(4, 4), (XS[0],))
    made: dict[str, Any] = {}
    exec("def scale(x):\n    return 2 * x", made)  # of no module

    def cell(x: Any, h: Any) -> Any:
        h = torch.tanh(layer(x) + made["scale"](h))
        return h, h

    state = torch.zeros(3, 4)
    ys, last = rt.scan(cell, XS, state)
    for got, want in zip((ys, last), loop(cell, XS, state), strict=True):
        torch.testing.assert_close(got, want, **CLOSE)
    module = rt.compile(nn.Sequential(layer, nn.Tanh()), (XS[0],))
    torch.testing.assert_close(module(XS[0]), torch.tanh(layer(XS[0])), **CLOSE)
