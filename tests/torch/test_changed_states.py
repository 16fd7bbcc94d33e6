"""States that steps change in place: as a loop in Python, the first state's tensors included."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from rnncc import CompileError
from tests.torch.cells import CLOSE, leaves_of, loop, nn, torch, with_gradients

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers

WEIGHT = 0.4 * torch.randn(4, 4, generator=torch.Generator().manual_seed(0))


def added(x: Any, h: Any, weight: Any) -> Any:
    h += x @ weight
    return h.clone(), h


def gated(x: Any, state: Any, weight: Any) -> Any:
    h, c = state
    c.mul_(torch.sigmoid(h @ weight)).add_(x)
    h = torch.tanh(c)
    return h, (h, c)


def shifted(x: Any, state: Any, weight: Any) -> Any:
    rows = state["rows"]
    rows[1:] = rows[:-1].clone()
    rows[0] = torch.tanh(x @ weight)[0]
    return rows.sum(0), state


def copied(x: Any, h: Any, weight: Any) -> Any:
    if x.sum() > 0:
        h.copy_(torch.tanh(x @ weight + h))
    return 2 * h, h


CELLS: dict[Callable[..., Any], Callable[[Any], Any]] = {
    added: lambda h: h,
    gated: lambda h: (h * 0.5, h),
    shifted: lambda h: {"rows": h},
    copied: lambda h: h,
}


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.__name__)
@pytest.mark.parametrize("batch", [3, 2])
def test_states_are_changed_as_by_a_loop(cell: Any, batch: int) -> None:
    found = list[Any]()
    for run in (loop, rt.scan):
        xs = torch.randn(6, batch, 4, generator=torch.Generator().manual_seed(1))
        weight, start = WEIGHT.clone().requires_grad_(), torch.linspace(-1, 1, 4 * batch)
        origin = start.view(batch, 4).requires_grad_()
        state = CELLS[cell](origin * 1.0)
        given = leaves_of(state)
        ys, last = run(partial(cell, weight=weight), xs.requires_grad_(), state)
        assert leaves_of(last)[-1] is given[-1]
        found.append(with_gradients([ys, last, given], [xs, weight, origin]))
    torch.testing.assert_close(found[1], found[0], **CLOSE)


def test_states_change_without_gradients_and_steps() -> None:
    xs, leaf = torch.ones(3, 2, 4), torch.zeros(2, 4, requires_grad=True)
    with torch.no_grad():
        last = rt.scan(lambda x, h: (None, h.add_(x)), xs, leaf)[1]
    assert last is leaf and leaf.is_leaf and leaf.tolist() == [[3.0] * 4] * 2
    none = rt.scan(lambda x, h: (None, h.add_(x)), xs[:0], last.detach())[1]
    assert none.tolist() == [[3.0] * 4] * 2
    assert rt.scan(lambda x, h: (None, h.add_(x)), xs[:0], leaf)[1] is leaf
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        rt.scan(lambda x, h: (None, h.add_(x)), xs, leaf)


def test_rows_of_one_tensor_are_changed_apart() -> None:
    both = torch.zeros(2, 3, 4)
    rt.scan(lambda x, s: gated(x, s, WEIGHT), torch.ones(5, 3, 4), tuple(both.unbind()))
    assert not both[0].any() and both[1].all()


def test_a_state_beside_one_that_changes_is_differentiated() -> None:
    """Both are of one tensor, whose changes PyTorch counts together."""
    found = list[Any]()
    for run in (loop, rt.scan):
        xs, origin = torch.ones(4, 3, 4, requires_grad=True), torch.ones(2, 3, 4)
        both = origin.requires_grad_() * 1.0
        state = both[0], both[1]

        def cell(x: Any, state: Any) -> Any:
            h, c = state
            h.add_(x @ WEIGHT)
            c = c + torch.tanh(h)
            return c, (h, c)

        ys, last = run(cell, xs, state)
        found.append(with_gradients([ys, last], [xs, origin]))
    torch.testing.assert_close(found[1], found[0], **CLOSE)


def test_flags_change_in_place() -> None:
    def cell(x: Any, h: Any) -> Any:
        h ^= x > 0
        h |= x > 1
        h &= x < 2
        return h.clone(), h

    xs, flags = torch.randn(9, 3, 4), [torch.zeros(3, 4, dtype=torch.bool) for _ in range(2)]
    expected, result = loop(cell, xs, flags[0]), rt.scan(cell, xs, flags[1])
    torch.testing.assert_close([*result, flags[1]], [*expected, flags[0]])


def test_instances_of_vmap_change_theirs() -> None:
    xs = torch.randn(5, 2, 3, 4)

    def total(x: Any) -> Any:
        return rt.scan(lambda x, h: added(x, h, WEIGHT), x, torch.zeros_like(x[0]))[1]

    single = torch.stack([total(x) for x in xs.unbind(1)])
    torch.testing.assert_close(torch.func.vmap(total, 1)(xs), single, **CLOSE)


def given_too(x: Any, h: Any) -> Any:
    h += x
    return h[:, :2], h


def another(x: Any, h: Any) -> Any:
    h *= 0.9
    h = h + x
    return None, h


def detached(x: Any, h: Any) -> Any:
    h += x
    return None, h.detach()


def detached_before(x: Any, h: Any) -> Any:
    h = h.detach()
    h += x
    return None, h


class Last(nn.Module):
    """Keeps the state that the next step changes."""

    def __init__(self) -> None:
        super().__init__()
        self.last: Any = None

    def forward(self, x: Any, h: Any) -> Any:
        y = torch.zeros_like(x) if self.last is None else self.last * 1
        h += x
        self.last = h
        return y, h


def changes_rows(x: Any, state: Any) -> Any:
    h, c = state
    c = torch.zeros(3, 4) if c is None else c
    x += 1
    return h + x, (h.add_(x), c)


def swapped(x: Any, state: Any) -> Any:
    a, b = state
    a += x
    return None, (b, a)


class Buffer(nn.Module):
    """Gives the buffer that it changes."""

    def __init__(self) -> None:
        super().__init__()
        self.mem: Any
        self.register_buffer("mem", torch.zeros(3, 4))

    def forward(self, x: Any, h: Any) -> Any:
        self.mem.mul_(0.9).add_(x)
        return self.mem, h


def _refused(cell: Any, state: Any, what: str) -> None:
    before = [x.clone() for x in leaves_of(state)]
    with pytest.raises(CompileError, match=what):
        rt.scan(cell, torch.ones(5, 3, 4), state)
    torch.testing.assert_close(leaves_of(state), before)


def test_what_a_loop_would_give_otherwise_is_refused() -> None:
    start, mean = torch.zeros(3, 4), Buffer()
    twice = r"test_changed_states.py:\d+: .* changes in place is given twice, .*h.clone\(\)"
    _refused(given_too, start, twice)
    _refused(mean, (), twice)
    _refused(another, start, "changes a state in place, and gives another tensor as the next")
    _refused(detached, start, "changes a state in place, and detaches it")
    _refused(detached_before, start, "changes a state in place, and detaches it")
    _refused(swapped, (start, start + 1), "and gives another tensor as the next one")
    _refused(lambda x, h: gated(x, h, WEIGHT), (start, start), "state 1 .* shares its memory")
    _refused(lambda x, h: (None, h.add_(x + start[0])), start, "state 0 .* shares its memory")
    _refused(
        lambda x, h: (h, h.detach_() + x),
        start,
        r"in place what it has not made \(h = h.detach\(\)",
    )


def test_what_is_refused_later_leaves_all_as_it_was() -> None:
    """PyTorch does the first step of cells that keep tensors: it is taken back."""
    _refused(Last(), torch.zeros(3, 4), "changes in place is given twice")
    xs, h = torch.ones(5, 3, 4), torch.zeros(3, 4)
    with pytest.raises(CompileError, match="changes a row in place"):
        rt.scan(changes_rows, xs, (h, None))
    assert xs.unique().tolist() == [1.0] and not h.any()
    weight, h = torch.ones(4, requires_grad=True), torch.zeros(3, 4)
    with pytest.raises(CompileError, match="is given twice"):
        rt.scan(Last(), xs * weight, h)
    assert not h.any() and not any(torch.autograd.grad(h.sum(), weight)[0])


def test_a_single_row_is_no_part_of_what_is_kept() -> None:
    cell = Buffer()
    (ys, _), other = rt.scan(cell, torch.ones(1, 3, 4), ()), rt.scan(cell, torch.ones(1, 3, 4), ())
    assert ys.unique().tolist() == [1.0] and other[0].unique().tolist() == pytest.approx([1.9])
