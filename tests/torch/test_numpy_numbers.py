"""Numbers of NumPy's that cells read are constants, with NumPy's types and rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rnncc import CompileError
from tests.torch.cells import torch

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers


class Held:
    v: Any = np.float64(0.5)
    n: Any = np.int64(0)


HELD = Held()
ROWS, FIRST = torch.linspace(-1, 2, 8).reshape(2, 4), torch.linspace(1, 2, 4)


def stepped(cell: Callable[..., Any]) -> Any:
    h, ys = FIRST, []
    for row in ROWS:
        y, h = cell(row, h)
        ys.append(y)
    return torch.stack(ys) if isinstance(ys[0], torch.Tensor) else ys


def asking(x: Any, h: Any) -> Any:
    """Asks for the number itself, and computes with it as NumPy does."""
    v, many = HELD.v, h
    for number in range(int(v * 3)):
        many = many * number + x
    y = {
        "item": h * v.item() + float(v) * x,
        "arithmetic": h.double() * (1 - v / 3 + v * v),
        "functions": h.double() * float(np.exp(-1 / v)) + math.sqrt(v),
        "types": h.double() * (np.float32(0.1) * np.float32(v)),
        "cast": h.double() * v.astype(np.float32),
        "branch": (h if v > 0.2 else x) * (1 if v else 2),
        "inverse": h * float(~(v > 0.2)),
        "kind": h * (2 if isinstance(v, float) else 3),
        "range": many,
    }
    return y, h


def giving(x: Any, h: Any) -> Any:
    """Gives the number to operators of PyTorch."""
    v = HELD.v
    y = {
        "alpha": torch.add(h, x, alpha=v),
        "filled": torch.full_like(h, v) + h.new_full((4,), v),
        "typed": torch.tensor(v) + torch.zeros(1, dtype=torch.int8),
        "typed by name": torch.tensor(data=v) + torch.zeros(1, dtype=torch.int8),
        "mere": (h > 1) * v,
        "of integers": (h > 1).int() * v,
    }
    return y, h


VALUES = np.float64(0.7), np.float32(0.7), np.int64(3), np.bool_(True)


@pytest.mark.parametrize("cell", [asking, giving])
def test_numbers_are_constants(cell: Callable[..., Any]) -> None:
    for HELD.v in VALUES:
        ys, _ = rt.scan(cell, ROWS, FIRST)
        for t, expected in enumerate(stepped(cell)):
            for name, y in expected.items():
                assert ys[name].dtype == y.dtype, (HELD.v, name)
                tolerance = 1e-14 if y.dtype == torch.float64 else 1e-6
                assert torch.allclose(ys[name][t], y, rtol=tolerance), (HELD.v, name)


def test_changed_numbers_are_seen() -> None:
    """In attributes, lists and what a function closes over; NaN is equal to itself."""
    held: list[Any] = [np.float64(0.3)]

    def cell(x: Any, h: Any) -> Any:
        return h * float(HELD.v) * float(held[0]) * (1 if HELD.v == HELD.v else 2), h

    for HELD.v, listed in zip([*VALUES, np.float64("nan")], [*VALUES[::-1], held[0]], strict=True):
        held[0] = listed
        ys, _ = rt.scan(cell, ROWS, FIRST)
        assert torch.allclose(ys, stepped(cell), equal_nan=True)


def test_the_sign_of_a_zero_is_seen() -> None:
    def cell(x: Any, h: Any) -> Any:
        return x * 0 + 1 / torch.full_like(x, HELD.v[1] if isinstance(HELD.v, tuple) else HELD.v), h

    for HELD.v in (0.0, -0.0, np.float32(0), np.float32(-0.0), (1, 0.0), (1, -0.0), -0.0, 0.0):
        assert torch.equal(rt.scan(cell, ROWS, FIRST)[0], stepped(cell)), HELD.v


def test_float_that_steps_change() -> None:
    def cell(x: Any, h: Any) -> Any:
        HELD.v = HELD.v * 0.9 + np.float64(0.1)
        return h * HELD.v, h

    HELD.v = np.float64(0.25)
    expected, last = stepped(cell), HELD.v
    HELD.v = np.float64(0.25)
    ys, _ = rt.scan(cell, ROWS, FIRST)
    assert torch.allclose(ys, expected)
    assert HELD.v == last
    assert type(HELD.v) is np.float64


def test_refused() -> None:
    """What would have another value or type."""

    def counting(x: Any, h: Any) -> Any:
        HELD.n += 1
        return h * int(HELD.n), h

    HELD.n = np.int64(0)
    with pytest.raises(CompileError, match=r"a number of NumPy's in an object, of type int64"):
        rt.scan(counting, ROWS, FIRST)
    setattr(HELD, "v", np.float32(0.5))  # noqa: B010
    with pytest.raises(CompileError, match=r"several NumPy numbers \(state its type"):
        rt.scan(lambda x, h: (h + torch.tensor([HELD.v] * 4), h), ROWS, FIRST)
    with pytest.raises(CompileError, match="cannot be interpreted as an integer"):
        rt.scan(lambda x, h: (h + len(range(HELD.v)), h), ROWS, FIRST)
