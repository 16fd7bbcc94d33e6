"""Kernels that stand more than once are one function, with the bits of those written in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rnncc
from rnncc import cells
from rnncc.codegen.cpu import shared
from rnncc.options import Options
from tests.compiling import text_of

WIDTH = 64
"""Units, and inputs: enough for products to be shared."""


def functions(net: Any, **options: Any) -> list[str]:
    """The lines that define shared kernels."""
    text = text_of(net, None, Options.of(net, options), "llvm")
    assert isinstance(text, str)
    return [line for line in text.splitlines() if line.startswith("define") and "_kernel_" in line]


def results(net: Any, train: bool) -> list[bytes]:
    """What a net computes of random inputs: outputs and, when it trains, gradients."""
    model: Any = rnncc.compile(net, train=train)
    arrays: list[Any] = []
    for batch in (1, 5):
        x = np.random.default_rng(3).standard_normal((9, batch, WIDTH), np.float32)
        if not train:
            arrays += model.run({"x": x}).values()
            continue
        outputs, tape = model.forward({"x": x})
        grads = model.backward(tape, {name: np.cos(y) for name, y in outputs.items()})
        arrays += [*outputs.values(), *grads.values()]
    return [array.tobytes() for array in arrays]


@pytest.mark.parametrize(
    ("build", "direction", "train"),
    [
        (cells.lstm, "forward", False),
        (cells.lstm, "backward", True),
        (cells.gru, "forward", True),
    ],
)
def test_equal_layers(
    build: Any, direction: str, train: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = build(WIDTH, WIDTH, layers=2, direction=direction, seed=5)
    assert functions(net, train=train)
    found = results(net, train)
    monkeypatch.setattr(shared, "_is_long", lambda op: False)
    assert not functions(net, train=train)
    assert found == results(net, train)


def test_more_layers_need_no_more_functions() -> None:
    counts = [len(functions(cells.lstm(WIDTH, WIDTH, layers=n), train=True)) for n in (3, 4)]
    assert counts[0] == counts[1] > 0


def test_layers_of_their_own_are_written_in_place() -> None:
    assert not functions(cells.lstm(WIDTH, WIDTH))
    assert not functions(cells.lstm(WIDTH // 4, WIDTH // 4, layers=3))
