"""Long nets: no stage recurses along them, and what each does is linear in their length."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest
from rnncc_runtime import Pool

import rnncc
from rnncc.ir.order import post_order
from rnncc.options import Options
from tests.chains import FAMILIES, build, caffe2_net
from tests.compiling import text_of

Array = np.ndarray[Any, Any]
FRAMES = 150
"""Calls inside of calls that a net of any length may take."""
TRAINED = ("views", "residual", "layers")


def check(net: Callable[[int], Any], length: int, **options: Any) -> None:
    """Shallow, and of twice the length at most a little more than twice the calls."""
    build(net(3), **options)  # what is imported or remembered the first time
    counts = [calls(net(n), **options) for n in (length, 2 * length)]
    assert counts[1] < 2.25 * counts[0]


def calls(net: Any, **options: Any) -> int:
    """How many calls of Python functions a net takes."""
    count = 0

    def seen(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + FRAMES)
    sys.setprofile(seen)
    try:
        build(net, **options)
    finally:
        sys.setprofile(None)
        sys.setrecursionlimit(before)
    return count


@pytest.mark.parametrize("name", FAMILIES)
def test_onnx(name: str) -> None:
    check(FAMILIES[name].model, FAMILIES[name].length)


@pytest.mark.parametrize("name", TRAINED)
def test_training(name: str) -> None:
    check(FAMILIES[name].model, FAMILIES[name].length // 2, train=True)


def test_caffe2() -> None:
    check(caffe2_net, 40, shapes={"x": ("N", 4)})


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("name", "length", "link"),
    [("residual", 105, lambda x: x + np.maximum(x, 0)), ("softmax", 40, softmax)],
)
def test_kernels_of_a_large_program(
    name: str, length: int, link: Callable[[Array], Array], threads: int
) -> None:
    """They are functions, one for all that are alike, and give what they gave where they stood."""
    net = FAMILIES[name].model(length)
    x = np.linspace(-1, 1, 40, dtype=np.float32).reshape(10, 4) * np.float32(2.0**-length)
    want = x
    for _ in range(length):
        want = link(want)
    with Pool(threads) as pool:
        got = rnncc.compile(net, threads=threads > 1).run({"x": x}, pool=pool)["y"]
    np.testing.assert_allclose(got, want, 1e-5)
    text = text_of(net, None, Options(name="m"), "llvm")
    assert isinstance(text, str)
    kernels = text.count("define internal void @m_kernel_")
    assert 1 <= kernels <= 6 and text.count("@m_kernel_") > 100


def test_a_long_chain_gives_each_once_behind_its_needs() -> None:
    order = list(post_order(100_000, lambda n: [n - 1, n // 2] if n else []))
    assert order == list(range(100_001))
