"""Kernels that stand more than once are one function, with the bits of those written in place."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import rnncc
from rnncc import cells
from rnncc.codegen.cpu import outlined
from rnncc.codegen.cpu.open_sizes import OpenedKernel
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.ir.builder import Builder
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of
from rnncc.kern.kernels import Reduce
from rnncc.nn.normalisation import softmax
from rnncc.options import Options
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.codegen.random_programs import as_it_is
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
    monkeypatch.setattr(outlined, "_is_long", lambda op: False)
    assert not functions(net, train=train)
    assert found == results(net, train)


def test_more_layers_need_no_more_functions() -> None:
    counts = [len(functions(cells.lstm(WIDTH, WIDTH, layers=n), train=True)) for n in (3, 4)]
    assert counts[0] == counts[1] > 0


def test_layers_of_their_own_are_written_in_place() -> None:
    assert not functions(cells.lstm(WIDTH, WIDTH))
    assert not functions(cells.lstm(WIDTH // 4, WIDTH // 4, layers=3))


def test_short_products_that_stand_often() -> None:
    counts = [len(functions(cells.lstm(24, 24, layers=n))) for n in (3, 9)]
    assert counts[0] == 0 < counts[1] < 9


def test_short_products_keep_their_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlined, "OFTEN", 2)
    net = cells.elman(WIDTH, 24, layers=3, seed=5)
    lines, found = functions(net, train=True), results(net, True)
    monkeypatch.setattr(outlined, "OFTEN", 1000)
    assert len(functions(net, train=True)) < len(lines)
    assert found == results(net, True)


WIDTHS = (3, 16, 17, 40, 70, 1, 128, 130, 5)
"""Of the layers of a net: panels of each number of vectors, whole ones and the rest of one."""


def of_many_sizes() -> Program:
    """Products of many sizes, with biases of their own, and a softmax after each."""
    b, rng = Builder.net("made"), np.random.default_rng(0)
    x = b.input("x", ("N", WIDTHS[0]))
    for before, width in pairwise(WIDTHS):
        w = b.constant(rng.standard_normal((before, width), np.float32) / before**0.5)
        bias = b.constant(rng.standard_normal(width, np.float32))
        x = b.tanh(b.add(b.matmul(x, w), bias))
        x = b.mul(x, softmax(b, x, 1))
    return b.finish({"y": x})


@pytest.mark.parametrize("cpu", [None, "x86-64-v3"])
def test_sizes_that_a_function_is_given(cpu: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    made, target = as_it_is(of_many_sizes()), resolve_target(None, cpu)
    x = np.random.default_rng(1).standard_normal((13, WIDTHS[0]), np.float32)
    found = list[list[bytes]]()
    for many in (1000, 0):
        monkeypatch.setattr(outlined, "MANY", many)
        code, of_batches = Bare(made, target), list[bytes]()
        for batch in (1, 2, 5, 13):
            with guards(True) as memory:
                y = code.run({"x": x[:batch]}, {"T": 1, "N": batch}, memory)["y"]
                of_batches.append(y.tobytes())
        found.append(of_batches)
    assert found[0] == found[1]


def test_functions_of_a_large_program_grow_with_its_kinds_of_kernels_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outlined, "MANY", 0)
    b = Builder.net("made")
    x = b.input("x", ("N", 40))
    for width in range(65, 81):
        x = b.tanh(b.matmul(x, b.input(f"w{width}", (int(dims_of(x)[-1]), width))))
    lines = functions(b.finish({"y": x}), target="x86_64-unknown-linux-gnu", cpu="x86-64-v4")
    packs, products = 16, 3  # of 40 into one panel; of one panel and a vector; the last as whole
    assert len(lines) <= packs + products


def test_terms_of_a_sum_keep_their_number() -> None:
    """Which tells how lanes lie: of queries and keys of heads they run across the keys."""
    b = Builder.net("made")
    q, k = b.input("q", [2, "N", 40]), b.input("k", [2, 37, 40])
    made = as_it_is(b.finish({"y": b.matmul(q, k, transpose_b=True)}))
    [op] = [op for op in made.func.walk() if isinstance(op, Reduce)]
    opened = OpenedKernel.of(resolve_target().of("f32"), op)
    assert opened is not None
    named = opened.kernel(op)
    assert isinstance(named, Reduce)
    *_, columns, terms = named.dims
    assert not columns.is_static and terms == 40


def test_what_stands_once_keeps_its_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlined, "MANY", 0)
    texts = list[str]()
    for widths in ((8,), (8, 24)):
        b = Builder.net("made")
        ys = {f"y{n}": b.tanh(b.input(f"x{n}", ("N", n))) for n in widths}
        net, options = b.finish(ys), {"cpu": "x86-64-v4"}
        texts.append(text_of(net, None, Options.of(net, options), "llvm"))
    # rows of 8 fill vectors of 8; of any size they leave a rest, which is masked
    assert ["masked" in text for text in texts] == [False, True]
