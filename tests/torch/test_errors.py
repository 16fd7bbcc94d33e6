"""What a scan refuses: one line that names the user's line, where there is one."""

from __future__ import annotations

import math
import random
import time
from typing import Any

import numpy as np
import pytest

from rnncc import CompileError
from tests.torch.asserting import asserts_alone
from tests.torch.cells import MinimalGated, torch

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers
X, H = torch.zeros(3, 2, 4), torch.zeros(2, 4)
BUFFER = torch.zeros(4)
KEPT: list[Any] = []


def unsupported(x: Any, h: Any) -> Any:
    return torch.linalg.svd(h)[0], h


def branches(x: Any, h: Any) -> Any:
    return x, h * sum(bool(row.sum() > 0) for row in h)


def drops(x: Any, h: Any) -> Any:
    return torch.poisson(h), h


def changes(x: Any, h: Any) -> Any:
    BUFFER.add_(1)
    return h, h


def changes_its_row(x: Any, h: Any) -> Any:
    x += h
    return h, x


def reads(x: Any, h: Any) -> Any:
    scaled = lambda y: y * y.sum().item()  # noqa: E731
    return scaled(h), h


def catches(x: Any, h: Any) -> Any:
    try:
        if (h < 0).any():
            raise ValueError("negative")
    except ValueError:
        h = h * 2
    return h, h


def raises(x: Any, h: Any) -> Any:
    raise ValueError("my own words")


def mismatched(x: Any, h: Any) -> Any:
    return x @ h, h


def shrinks(x: Any, h: Any) -> Any:
    return h, h[:1]


def widens(x: Any, h: Any) -> Any:
    return h, h.double()


def doubles(x: Any, h: Any) -> Any:
    return h, (h, h)


def alone(x: Any, h: Any) -> Any:
    return (h,)


def number(x: Any, h: Any) -> Any:
    return 3, h


def scans(x: Any, h: Any) -> Any:
    return rt.scan(lambda row, s: (s, s + row), x, h[0])[0], h


def keeps(x: Any, h: Any) -> Any:
    KEPT.append(h * 2)
    return h, h


def draws(x: Any, h: Any) -> Any:
    return h * random.random(), h


def takes(x: Any, h: Any) -> Any:
    return math.exp(-1 / x[0, 0].item()) * h, h


def chooses(x: Any, h: Any) -> Any:
    return h * [0.1, 0.2, 0.3][int(x[0, 0]) % 3], h


def draws_by_numpy(x: Any, h: Any) -> Any:
    return h * np.random.rand(), h


def times(x: Any, h: Any) -> Any:
    return h * time.time(), h


CELLS = {
    keeps: "a step appends tensors to a list that it keeps",
    unsupported: r"test_errors.py:\d+: aten._linalg_svd.default: operator is not supported",
    branches: r"test_errors.py:\d+: branches: Python code depends on whether a tensor is true",
    drops: r"test_errors.py:\d+: .*draw the numbers outside and give them as inputs",
    changes: r"test_errors.py:\d+: .*: a tensor that is given from outside is changed in place",
    changes_its_row: r"a step changes a row in place, .*x = x \+ 1, not x \+= 1",
    reads: r"computes with a number that was in a tensor",
    asserts_alone: r"asserting.py:\d+: .* no result could be NaN where they are wrong",
    catches: r"test_errors.py:\d+: catches: Python code depends on whether a tensor is true",
    raises: r"test_errors.py:\d+: raises: ValueError\('my own words'\)",
    mismatched: r"test_errors.py:\d+: mismatched: .*same reduction dim",
    shrinks: "state 0 is f32 2 x 4 before a step and f32 1 x 4 after it",
    widens: "state 0 is f32 2 x 4 before a step and f64 2 x 4 after it",
    doubles: "the state has 1 tensors before a step and 2 after it",
    alone: "alone: a cell returns a pair, what goes out and the next state: `return h, h`",
    number: "number: what a cell returns first holds something that is no tensor",
    draws: r"test_errors.py:\d+: draws: .*: Random.random \(torch.rand draws in cells\)$",
    takes: r"asks for a number that was in a tensor, .*keep it a tensor, as torch.exp computes",
    chooses: r"chooses: an integer .* is an index of a list, .*torch.stack\(xs\)\[i\]",
    draws_by_numpy: r"number that .* NumPy drew \(keep it a tensor, .* torch.rand draws\)$",
    times: r"test_errors.py:\d+: times: .*: time.time \(call it outside of the cell\)$",
    scans: r"test_errors.py:\d+: scans: scan is not supported within a step; a loop of Python is",
}


def test_a_call_in_an_exported_cell() -> None:
    class Drawing(torch.nn.Module):
        def forward(self, x: Any, h: Any) -> Any:
            return rt.scan(draws, x, h)[0]

    with pytest.raises(CompileError, match=CELLS[draws].replace(": draws:", ": scan:")):
        torch.export.export(Drawing(), (X, H))


@pytest.mark.parametrize("cell", CELLS)
def test_cell(cell: Any) -> None:
    xs = torch.zeros(12, 2, 4)  # more than the steps that PyTorch may do of a list that grows
    with pytest.raises(CompileError, match=CELLS[cell]) as caught:
        rt.scan(cell, xs, H)
    assert "\n" not in str(caught.value)


GIVEN = {
    "xs: int 3 stands where a tensor should .torch.tensor": (3, H),
    "the state: str 'h' stands": (X, "h"),
    "xs holds no tensor": ((), H),
    "the first sizes must be one T": ((X, X[:2]), H),
    "uint16 is not supported .use int64": (X.to(torch.uint16), H),
    "only dense ones on the CPU and NVIDIA GPUs": (X.to("meta"), H),
}


@pytest.mark.parametrize("message", GIVEN)
def test_tensors(message: str) -> None:
    xs, state = GIVEN[message]
    with pytest.raises(CompileError, match=message):
        rt.scan(lambda x, h: (h, h), xs, state)


def test_a_scan_within_a_step_of_a_module() -> None:
    module = torch.nn.Module()
    module.forward = lambda x, h: rt.scan(scans, x, h)
    with pytest.raises(CompileError, match=r"within a step; a loop of Python is: .*row in rows$"):
        rt.compile(module, (X, H))


WITHIN: dict[str, tuple[Any, str]] = {
    "keeps": (
        lambda x: KEPT.append(x) or x,
        r"test_errors.py:\d+: scan: .* \(in exported modules a cell keeps nothing in objects",
    ),
    "cannot be read": (
        lambda x: torch.nn.Parameter(x),
        r"test_errors.py:\d+: scan: .*`torch.nn.Parameter\(\)`.*not support this$",
    ),
    "other sizes": (
        lambda x: x + torch.ones(3),
        r"test_errors.py:\d+: scan: RuntimeError\('.* at non-singleton dimension 1\)'\)$",
    ),
}


class Counting(torch.nn.Module):
    def __init__(self, change: Any) -> None:
        super().__init__()
        self.change = change
        self.register_buffer("count", torch.zeros(()))

    def forward(self, xs: Any, h: Any) -> Any:
        def cell(x: Any, h: Any) -> Any:
            self.change(self)
            return h, x + self.count

        return rt.scan(cell, xs, h)


@pytest.mark.parametrize(
    "change", [lambda m: m.count.add_(1), lambda m: setattr(m, "count", m.count + 1)]
)
def test_buffers_that_cells_within_modules_change(change: Any) -> None:
    message = r"scan: a step changes a buffer, .*in exported modules a cell keeps nothing"
    with pytest.raises(CompileError, match=message):
        rt.compile(Counting(change), (X, H))


@pytest.mark.parametrize("name", WITHIN)
def test_in_cells_within_modules(name: str) -> None:
    function, message = WITHIN[name]
    module = torch.nn.Module()
    module.forward = lambda x, h: rt.scan(lambda a, b: (a, function(b)), x, h)
    with pytest.raises(CompileError, match=message):
        rt.compile(module, (X, H))


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_another_structure() -> None:
    with pytest.raises(CompileError, match=r"before a step and .* after it"):
        rt.scan(lambda x, s: (x, {"b": s["a"]}), X, {"a": H})


def change(x: Any, state: Any) -> Any:
    state["a"] = x + state["a"]
    return x, dict(state)


def test_changed_states_that_are_not_returned() -> None:
    """Who gives the dict would find other values there after a loop."""
    module = torch.nn.Module()
    module.forward = lambda x, h: rt.scan(change, x, {"a": h})
    for run in (module, lambda x, h: rt.compile(module, (x, h))):
        with pytest.raises(
            CompileError, match="changes the nest of its state, and returns another"
        ):
            run(X, H)


def test_batch_first_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    """In one line, without PyTorch's own traces; not where the first axis may well be time."""
    with pytest.raises(CompileError, match="the first axis of xs is time, not the batch") as caught:
        rt.scan(MinimalGated(4, 4, 2), torch.zeros(2, 5, 4), H)
    assert "\n" not in str(caught.value)
    assert "Traceback" not in capfd.readouterr().err
    with pytest.raises(CompileError) as caught:
        rt.scan(raises, torch.zeros(2, 2, 4), H)
    assert "time" not in str(caught.value)


def test_batch_first_without_features() -> None:
    with pytest.raises(CompileError, match="the first axis of xs is time, not the batch"):
        rt.scan(lambda x, h: (0.9 * h + x,) * 2, torch.zeros(2, 5), torch.zeros(2))


class LastStep(torch.nn.Module):
    """The last valid steps of [T, N, 3], in ways that compile or are refused."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.gru, self.way = torch.nn.GRU(3, 5), way

    def forward(self, x: Any, n: Any) -> Any:
        y, _ = self.gru(x)
        rows = torch.arange(x.shape[1])
        if self.way == "one by one":
            return torch.stack([y[n[i] - 1, i] for i in rows])
        if self.way == "a number":
            return y[int(n.max()) - 1]
        if self.way == "a mask":
            return y[torch.arange(x.shape[0])[:, None] == n - 1]
        return y[n - 1, rows]


def test_a_refusal_of_the_last_valid_step_names_its_recipe() -> None:
    given = torch.zeros(6, 2, 3), torch.tensor([6, 2])
    with pytest.raises(CompileError, match=r"docs/recipes.md#the-last-valid-step") as caught:
        rt.compile(LastStep("a mask"), given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("way", ["one by one", "a number", "as the recipe says"])
def test_ways_to_the_last_valid_step(way: str) -> None:
    module = LastStep(way)
    compiled = rt.compile(module, (torch.zeros(6, 2, 3), torch.tensor([6, 2])))
    x, n = torch.randn(6, 2, 3), torch.tensor([3, 4])
    torch.testing.assert_close(compiled(x, n), module(x, n))


def test_a_tensor_with_two_rows_is_no_pair() -> None:
    with pytest.raises(CompileError, match="a cell returns a pair"):
        rt.scan(lambda x, h: torch.tanh(x + h), X, H)


def test_arguments_of_the_wrong_kind() -> None:
    """Texts counted as true, or an error of Python's told of an attribute."""

    def cell(x: Any, h: Any) -> Any:
        return h, h

    module = torch.nn.Linear(4, 4)
    nested = torch.nested.nested_tensor([X[0], X[1]])
    for call, told in (
        (lambda: rt.scan(cell, X, H, reverse="no"), "reverse 'no' is not true or false"),
        (lambda: rt.scan(cell, nested, H), "a tensor on cpu (nested): only dense ones"),
        (lambda: rt.compile(module, (H,), frozen="no"), "frozen 'no' is not true or false"),
        (lambda: rt.compile(cell, (H, H)), "is no module of PyTorch"),
    ):
        with pytest.raises(CompileError) as caught:
            call()
        assert told in str(caught.value)


@pytest.mark.parametrize("call", [rt.compile, rt.build, rt.export])
def test_examples_are_tuples_and_dicts(call: Any) -> None:
    x = torch.zeros(2, 3)
    with pytest.raises(CompileError, match="a tuple, not Tensor"):
        call(torch.nn.GRU(3, 4), x)
    with pytest.raises(CompileError, match="a dict, not str"):
        call(torch.nn.GRU(3, 4), (x,), "folder")
