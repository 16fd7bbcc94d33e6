"""Cells whose steps count in Python."""

from __future__ import annotations

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
)

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers


class Counting(nn.Module):
    """Counts steps in one of Python's objects, or keeps flags there."""

    def __init__(self, count: Any) -> None:
        super().__init__()
        self.linear, self.count = nn.Linear(WIDTH, UNITS), count
        self.steps, self.listed, self.ready, self.share = 0, [0], False, 1.0

    def forward(self, x: Any, h: Any) -> Any:
        h = torch.tanh(self.linear(x) + h) * self.count(self)
        return h, h

    def numbers(self) -> Any:
        return self.steps, self.listed, self.ready, pytest.approx(self.share)


def by_attribute(m: Any) -> Any:
    m.steps += 1
    return 0.9**m.steps


def now_and_then(m: Any) -> Any:
    m.listed[0] += 1
    return 2 if m.listed[0] % 4 == 0 else 1


def at_first(m: Any) -> Any:
    was, m.ready = m.ready, True
    return 1 if was else m.linear.bias


def by_bool(m: Any) -> Any:
    m.ready = not m.ready
    return 2 if m.ready else 1


def by_float(m: Any) -> Any:
    m.share *= 0.75
    return m.share


def unused(m: Any) -> Any:
    m.steps += 2
    return 1


def by_filling(m: Any) -> Any:
    """Tensors of one number have its type: a float would be no condition."""
    m.steps += 1
    kept = torch.full((UNITS,), m.steps % 2 == 0)
    odd = torch.full_like(kept, m.steps % 3, dtype=torch.float32)
    return torch.where(kept, odd, 0.5) + kept.new_full((UNITS,), m.steps > 2)


@pytest.mark.parametrize(
    "count", [by_filling, by_attribute, now_and_then, at_first, by_bool, by_float, unused]
)
@pytest.mark.parametrize("reverse", [False, True])
def test_steps_that_are_counted_in_python(count: Any, reverse: bool) -> None:
    """The numbers go from step to step, and end as those of a loop in Python do."""
    cell, own = Counting(count), Counting(count)
    own.load_state_dict(cell.state_dict())
    xs, start = sequence(9), torch.zeros(3, UNITS)
    for _ in range(2):
        ys, _ = rt.scan(cell, xs, start, reverse=reverse)
        wanted, _ = loop(own, xs.flip(0) if reverse else xs, start)
        torch.testing.assert_close(ys.flip(0) if reverse else ys, wanted, **CLOSE)
        assert cell.numbers() == own.numbers()
        slopes = [
            torch.autograd.grad(y.sum(), m.linear.weight)[0] for y, m in ((ys, cell), (wanted, own))
        ]
        most = slopes[1].abs().max().item()  # hundreds, with the rounding errors of all steps
        torch.testing.assert_close(*slopes, rtol=1e-4, atol=2e-5 + 1e-5 * most)


def by_size(m: Any) -> Any:
    m.steps += 1
    return torch.ones(m.steps).sum()


def by_entry(m: Any) -> Any:
    m.steps += 1
    return (1, 2)[m.steps % 2]


def by_halves(m: Any) -> Any:
    """Of an integer and a float in one place, a tensor can be neither."""
    m.steps += 1
    m.listed[0] = 0.5 if m.steps > 3 else 1
    return m.listed[0]


@pytest.mark.parametrize("count", [by_size, by_entry, by_halves])
def test_counted_numbers_that_cannot_be_tensors(count: Any) -> None:
    """A refused call leaves the numbers as they were."""
    cell = Counting(count)
    with pytest.raises(rnncc.CompileError, match=r"test_counting_cells.py:\d+: "):
        rt.scan(cell, sequence(9), torch.zeros(3, UNITS))
    assert cell.numbers() == Counting(count).numbers()


def both(m: Any) -> Any:
    m.steps += 1
    m.share *= 0.75
    return m.share


def test_cells_of_one_class_that_count_in_several_ways() -> None:
    for count in (by_attribute, both):
        cell, own = Counting(count), Counting(count)
        rt.scan(cell, sequence(9), torch.zeros(3, UNITS))
        loop(own, sequence(9), torch.zeros(3, UNITS))
        assert cell.numbers() == own.numbers()


def corrected(m: Any) -> Any:
    m.steps += 1
    return 1e-3 / (1 - 0.9999**m.steps) + m.steps / 7 + m.steps * 0.1


def test_counted_numbers_are_as_exact_as_pythons() -> None:
    cell, own = Counting(corrected).double(), Counting(corrected).double()
    own.load_state_dict(cell.state_dict())
    xs, start = sequence(9).double(), torch.zeros(3, UNITS, dtype=torch.float64)
    ys, _ = rt.scan(cell, xs, start)
    torch.testing.assert_close(ys, loop(own, xs, start)[0], rtol=1e-12, atol=1e-14)


def test_flags_that_steps_set() -> None:
    """The size of a batch among them, which is open elsewhere."""

    def count(m: Any) -> Any:
        if not m.ready:
            m.ready = True
        return 2

    def cell(x: Any, h: Any) -> Any:
        own.steps = x.shape[0]
        return own(x, h)

    own = Counting(count)
    xs, start = sequence(5), torch.zeros(3, UNITS)
    ys, _ = rt.scan(cell, xs, start)
    assert (own.ready, own.steps) == (True, 3)
    torch.testing.assert_close(ys, loop(cell, xs, start)[0], **CLOSE)
