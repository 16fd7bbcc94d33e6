"""States of cells: nests, attributes, and what steps change in place."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import pytest

import rnncc
from tests.torch.cells import (
    CLOSE,
    UNITS,
    WIDTH,
    loop,
    nn,
    sequence,
    torch,
    with_gradients,
)

rt: Any = pytest.importorskip("rnncc.torch")
tracing: Any = pytest.importorskip("rnncc.torch.tracing")
checkpoint: Any = torch.utils.checkpoint.checkpoint
pytestmark = pytest.mark.peers


def test_nests_of_tensors() -> None:
    """Rows that are not read, a state that stays, two of one tensor, nothing in a place of ys."""

    def cell(rows: Any, state: Any) -> Any:
        h = state["h"] + rows["a"][0]
        return {"twice": (h * 2, None)}, {"h": h, "same": state["same"], "other": state["h"]}

    xs, one = sequence(3), torch.zeros(3, WIDTH)
    ys, state = rt.scan(cell, {"a": [xs], "unread": xs}, {"h": one, "same": one, "other": one})
    torch.testing.assert_close(ys["twice"][0], 2 * xs.cumsum(0))
    assert ys["twice"][1] is None
    assert torch.equal(state["same"], one)
    torch.testing.assert_close(state["other"], xs[:2].sum(0))


@dataclass
class Several:
    """A state of several tensors."""

    sum: Any
    double: Any
    less: Any


@dataclass(frozen=True)
class Fixed:
    """A part of it, which becomes another."""

    h: Any


def test_states_that_are_attributes() -> None:
    """Dynamo gives an object's attributes in another order than they have in it."""

    def cell(x: Any, state: Any) -> Any:
        return state.less, Several(state.sum + x, state.double * 2, state.less - x)

    xs = sequence(3)
    one = torch.ones_like(xs[0])
    ys, last = rt.scan(cell, xs, Several(one, one, one))
    torch.testing.assert_close(ys, 1 - (xs.cumsum(0) - xs))
    torch.testing.assert_close(last.sum, 1 + xs.sum(0))
    torch.testing.assert_close(last.double, 8 * one)
    torch.testing.assert_close(last.less, 1 - xs.sum(0))


def test_states_whose_keys_come_in_another_order() -> None:
    def cell(x: Any, state: Any) -> Any:
        h, (m, n) = state["h"], state["pair"]
        z = torch.tanh(x + h - 0.5 * m)
        return z * n, {"pair": [n + z, 0.9 * m], "h": h * z}

    class Whole(torch.nn.Module):
        def forward(self, xs: Any, start: Any) -> Any:
            y, last = rt.scan(cell, xs, start)
            return y, last["h"], *last["pair"]

    torch.manual_seed(0)
    start = {"h": torch.rand(3, UNITS), "pair": [torch.rand(3, UNITS), torch.rand(3, UNITS)]}
    xs = torch.randn(4, 3, UNITS)
    (y, last), (want, right) = rt.scan(cell, xs, start), loop(cell, xs, start)
    torch.testing.assert_close((y, last), (want, {key: right[key] for key in last}), **CLOSE)
    exported = torch.export.export(Whole(), (xs, start)).module()
    torch.testing.assert_close(exported(xs, start), (y, last["h"], *last["pair"]), **CLOSE)


def rewrite(x: Any, state: Any) -> Any:
    x["x"] = x.pop("x") * 2
    state["h"] = torch.tanh(x["x"] + state["h"])
    state["counts"][0] = state["counts"][0] + 1
    state["pair"] = state["pair"][1][0], (state["h"], state["pair"][0])
    several = state["several"]
    several.sum, several.less = several.sum + state["h"], Fixed(several.less.h * 0.5 + x["x"])
    several.double[0] = several.double[0][1], state["h"]
    return state["h"] + several.less.h, state


class Rewriting(nn.Module):
    """What it gives a loop is what the loop gives back."""

    def __init__(self, run: Any) -> None:
        super().__init__()
        self.run = run

    def forward(self, xs: Any) -> Any:
        one = xs[0] * 0
        state = {"h": one, "counts": [torch.zeros(())], "pair": (one, (one, one))}
        state["several"] = Several(one, [(one, one)], Fixed(one))
        ys, last = self.run(rewrite, {"x": xs}, state)
        inside = [x for part in (last, state) for x in in_parts(part)]
        return ys, *inside


def in_parts(state: Any) -> list[Any]:
    several, (a, (b, c)) = state["several"], state["pair"]
    own = [several.sum, *several.double[0], several.less.h]
    return [state["h"], state["counts"][0], a, b, c, *own]


def loop_over_dicts(cell: Any, xs: Any, state: Any) -> Any:
    return loop(lambda x, state: cell({"x": x}, state), xs["x"], state)


def test_dicts_and_lists_that_steps_change() -> None:
    """The rows' are each step's own; the state's holds what a loop leaves there."""
    xs = torch.randn(5, 2, 3)
    want = Rewriting(loop_over_dicts)(xs)
    for run in (Rewriting(rt.scan), rt.compile(Rewriting(rt.scan), (xs,))):
        torch.testing.assert_close(run(xs), want, **CLOSE)


def test_orders_of_ordered_dicts() -> None:
    def step(x: Any, state: Any) -> Any:
        new = {key: torch.tanh(x * (key == "a") + value) for key, value in state.items()}
        return new["a"], OrderedDict(reversed(new.items()))

    start = OrderedDict(a=torch.zeros(2, 3), b=torch.ones(2, 3))
    ours, theirs = (run(step, torch.randn(4, 2, 3) * 0 + 1, start) for run in (rt.scan, loop))
    torch.testing.assert_close(ours[0], theirs[0], **CLOSE)
    torch.testing.assert_close(dict(ours[1]), dict(theirs[1]), **CLOSE)


def test_unread_rows_of_other_types() -> None:
    """What a cell does not read may differ from call to call."""

    def cell(x: Any, h: Any) -> Any:
        return h, h + 1

    for xs in (torch.zeros(3, 2), torch.zeros(2, 5), torch.zeros(4, 2, dtype=torch.int64)):
        assert rt.scan(cell, xs, torch.zeros(2))[1].tolist() == [len(xs)] * 2


def test_settings_are_changed_to_read_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What PyTorch is while it reads a cell, it is not in calls that read nothing."""
    entered, contexts = list[int](), tracing._contexts

    def counted() -> Any:
        entered.append(1)
        return contexts()

    monkeypatch.setattr(tracing, "_contexts", counted)

    def cell(x: Any, h: Any) -> Any:
        return x * scale, h + x

    scale, start = 2.0, torch.zeros(3)
    for scale, times in [(2.0, 1), (2.0, 1), (3.0, 2), (3.0, 2)]:
        ys, _ = rt.scan(cell, torch.ones(2, 3), start)
        assert ys.tolist() == [[scale] * 3] * 2
        assert len(entered) == times


def test_sizes_of_unread_rows() -> None:
    """They do not count: the product of all is more than a call may have."""
    xs, start = [torch.randn(3, 2, 16, 16, requires_grad=True) for _ in range(6)], torch.zeros(2)

    def cell(rows: Any, h: Any) -> Any:
        h = h + rows[3].sum((1, 2))
        return h, h

    ys, _ = rt.scan(cell, xs, start)
    torch.testing.assert_close(ys, xs[3].sum((2, 3)).cumsum(0), **CLOSE)
    ys.sum().backward()
    assert [x.grad is None for x in xs] == [i != 3 for i in range(6)]


def test_changes_within_a_step() -> None:
    def cell(x: Any, h: Any) -> Any:
        h = h + x
        h[:, 0] = 1.0
        h[:, 1:3] *= x[:, 1:3]
        h.mul_(0.5)
        mask = h > 0
        mask &= x < 1
        mask |= x < -1
        mask ^= h < 0.1
        count = mask.int()
        count <<= 2
        count >>= 1
        return h * count, h

    xs, start = sequence(4), torch.ones(3, WIDTH)
    torch.testing.assert_close(rt.scan(cell, xs, start), loop(cell, xs, start), **CLOSE)


SAME: dict[str, Any] = {
    "type_as": lambda x, h: x.type_as(h),
    "atleast_2d": lambda x, h: torch.atleast_2d(x),
    "atleast_3d": lambda x, h: torch.atleast_3d(x),
    "sum_to_size": lambda x, h: x.sum_to_size(x.shape),
    "conj_physical": lambda x, h: x.conj_physical(),
    "alpha_dropout": lambda x, h: torch.nn.functional.alpha_dropout(x),
    "no dropout": lambda x, h: torch.nn.functional.dropout(x, 0.0),
    "dropout in inference": lambda x, h: torch.dropout(x, 0.5, train=False).type_as(h),
    "broadcast_tensors": lambda x, h: torch.broadcast_tensors(x, h[:1])[0],
}


@pytest.mark.filterwarnings("error:rnncc leaves it")
@pytest.mark.parametrize("way", ["scan", "module", "back end"])
def test_what_gives_its_argument_back_changes_with_it(way: str) -> None:
    """Functionalization knows aliases by schemas alone, which do not tell these."""
    several = list(SAME.values())[: 1 if way == "back end" else None]

    def cell(x: Any, h: Any) -> Any:
        ys = []
        for number, same in enumerate(several):
            y = x * (number + 1)
            same(y, h)[:, 1] = 5
            z = h + number
            result = same(z, h)
            z[:, 2] = 3
            ys.append(y * result.reshape(z.shape))
        h = torch.tanh(sum(ys)) * 0.5
        return torch.stack(ys), h

    class Loop(nn.Module):
        def forward(self, xs: Any, h: Any) -> Any:
            return loop(cell, xs, h)

    xs, start = sequence(4), torch.ones(3, WIDTH)
    run: Any = {
        "scan": lambda: rt.scan(cell, xs, start),
        "module": lambda: rt.compile(Loop(), (xs, start))(xs, start),
        "back end": lambda: torch.compile(Loop(), backend="rnncc")(xs, start),
    }[way]
    torch.testing.assert_close(run(), loop(cell, xs, start), **CLOSE)


def test_views_that_no_schema_tells() -> None:
    """What is changed before `einsum` gives a view of it may be; what is changed later not."""

    def early(x: Any, h: Any) -> Any:
        x = x.clone()
        x[:, 0] = 1.0
        return torch.einsum("ij->ji", x).sum(0)[:, None] + h, h

    def late(x: Any, h: Any) -> Any:
        x = x.clone()
        view = torch.einsum("ij->ji", x)
        x[:, 0] = 1.0
        return view.sum(0)[:, None] + h, h

    xs, start = sequence(4), torch.ones(3, WIDTH)
    torch.testing.assert_close(rt.scan(early, xs, start), loop(early, xs, start), **CLOSE)
    with pytest.raises(rnncc.CompileError, match="einsum gives a view of what is changed"):
        rt.scan(late, xs, start)


def test_changes_of_what_a_step_writes_down() -> None:
    """Constants that rows and states go into have their gradients, in parts of their own too."""

    def part(x: Any) -> Any:
        total = x.new_tensor([0.5] * WIDTH)
        total[1:].add_(x.sum(0)[1:])
        return total

    def cell(x: Any, h: Any) -> Any:
        scale = torch.tensor(0.3)
        scale.add_(x.mean())
        matrix = torch.outer(x[0], x[1])
        matrix.fill_diagonal_(0.5)
        h = torch.tanh(h * scale) @ matrix + checkpoint(part, x, use_reentrant=False)
        return h, h

    sources = [sequence(4).requires_grad_(), torch.ones(3, WIDTH, requires_grad=True)]
    ours, theirs = (with_gradients(run(cell, *sources), sources) for run in (rt.scan, loop))
    torch.testing.assert_close(ours, theirs, **CLOSE)


@dataclass
class Optional:
    """A state of which the first step makes a part."""

    h: Any
    size: Any = None


def test_what_the_first_step_puts_into_a_dataclass() -> None:
    def cell(x: Any, state: Any) -> Any:
        size = state.h.abs() if state.size is None else state.size
        return x * size, Optional(torch.tanh(state.h + x), 0.5 * size + x.abs())

    torch.manual_seed(0)
    xs, h = torch.randn(5, 3, 4, requires_grad=True), torch.randn(3, 4)
    results = [run(cell, xs, Optional(h)) for run in (rt.scan, loop)]
    for part in ("h", "size"):
        ours, theirs = (getattr(last, part) for _, last in results)
        torch.testing.assert_close(ours, theirs, **CLOSE)
    grads = [torch.autograd.grad(ys.sum() + last.size.sum(), xs)[0] for ys, last in results]
    torch.testing.assert_close(*grads, **CLOSE)


def test_dicts_that_are_changed_within_a_tuple() -> None:
    """The dict and the list are the ones that were given; another dict stays as it was."""

    def cell(x: Any, state: Any) -> Any:
        memory, (past, other) = state
        memory["sum"] = 0.5 * memory["sum"] + x
        past.append(past.pop(0) + x)
        return past[0] * memory["sum"], (memory, (past, {"n": other["n"] + 1}))

    xs, starts = sequence(3), list[Any]()
    for run in (rt.scan, loop):
        h = torch.zeros(3, WIDTH)
        start = {"sum": h}, ([h, h + 1], {"n": torch.zeros(())})
        ys, (memory, (past, other)) = run(cell, xs, start)
        assert memory is start[0]
        assert past is start[1][0]
        assert other is not start[1][1]
        assert start[1][1]["n"] == 0
        starts.append((ys, start, other))
    torch.testing.assert_close(*starts, **CLOSE)


def into_the_other(x: Any, state: Any) -> Any:
    first, second = state
    first["sum"] = first["sum"] + x
    return second["sum"], state


def as_the_other(x: Any, state: Any) -> Any:
    first, second = state
    first["sum"] = first["sum"] + x
    return second["sum"], (first, first)


@pytest.mark.parametrize("exports", [True, False])
@pytest.mark.parametrize("cell", [into_the_other, as_the_other])
def test_a_dict_that_stands_twice(cell: Any, exports: bool) -> None:
    """Steps are given a copy of each, of which a change of one leaves the other."""

    class Looping(nn.Module):
        def forward(self, xs: Any) -> Any:
            memory = {"sum": xs[0]}
            start = memory, (memory if cell is into_the_other else dict(memory))
            return rt.scan(cell, xs, start)[0]

    net = Looping()
    with pytest.raises(rnncc.errors.CompileError, match=r"stands twice|changes the nest"):
        rt.compile(net, (sequence(3),)) if exports else net(sequence(3))


def test_a_dict_that_stands_twice_unchanged() -> None:
    def cell(x: Any, state: Any) -> Any:
        new = [{"h": memory["h"] + x} for memory in state]
        return new[0]["h"], new

    xs = sequence(3)
    start = [{"h": xs[0]}] * 2
    torch.testing.assert_close(rt.scan(cell, xs, start), loop(cell, xs, start), **CLOSE)


@pytest.mark.parametrize("trains", [True, False])
def test_running_means_over_all_steps(trains: bool) -> None:
    """`momentum=None`, which divides by the number of steps so far."""
    norm = nn.BatchNorm1d(4, momentum=None).train(trains)
    first = {name: x.clone() for name, x in norm.state_dict().items()}
    xs, results = torch.linspace(-2, 3, 48).square().view(4, 3, 4).requires_grad_(), []
    for run in (rt.scan, loop):
        norm.load_state_dict(first)
        ys, _ = run(lambda x, h: (norm(x) + h, h), xs, torch.zeros(3, 4))
        grads = torch.autograd.grad(ys.square().sum(), [xs, *norm.parameters()])
        results.append([ys, *grads, *(x.clone() for x in norm.buffers())])
    torch.testing.assert_close(*results, **CLOSE)
