"""Users' functions of numbers: values, slopes, code, and what is refused."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rnncc
from rnncc import CompileError, cells
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.ir.builder import Builder
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.options import Options
from rnncc.packaging.elf import Elf
from rnncc.scalar import Scalar
from rnncc.universe import UNIVERSE
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.compiling import lower, text_of
from tests.passes.gradients import check_gradients

pytest.importorskip("numba")
ALPHA = 0.25


def piecewise(x: float, a: float) -> float:
    if x > 2:
        return 1.0
    return a * (math.exp(x) - 1) / (1 + x**2) if x < 0 else max(x, 0.5) * ALPHA


def power_loop(x: float) -> float:
    total = 0.0
    for k in range(1, 5):
        total = total + x**k / k
    return total


ONE: list[Callable[[float], float]] = [
    lambda x: x * 0.5 * (1 + math.erf(x * math.sqrt(0.5))),
    lambda x: math.tanh(x) + math.sin(3 * x) - math.cos(x),
    lambda x: math.log(x * x + 1) - math.log1p(abs(x)) + math.expm1(-x),
    lambda x: math.sqrt(x * x + 2) / (3 - x / 100),
    lambda x: 2 / (1 + x**2) - x**-2 + (+x) - (-x) ** 3,
    lambda x: min(x, 1.0) + max(0, x) + math.fabs(x),
    lambda x: 3.0,
    lambda x: 1 if x >= 1 else x if x != 0.25 and not x <= -1 else -x,
    power_loop,
]
X = np.linspace(-2.9, 2.9, 36)


@cache
def scalar(function: Callable[..., float]) -> Scalar:
    """A function compiled once for all tests."""
    return rnncc.elementwise(function)


@pytest.mark.parametrize("function", ONE)
def test_values_and_slopes(function: Callable[[float], float]) -> None:
    made, step = scalar(function), 1e-6
    want = [function(x) for x in X]
    np.testing.assert_allclose(made(X), want, 1e-12, 1e-12)
    slopes = [(function(x + step) - function(x - step)) / (2 * step) for x in X]
    np.testing.assert_allclose(made.partial(0)(X), slopes, 1e-6, 1e-6)


def net(function: Scalar, dims: tuple[Any, ...] = ("N", 5)) -> Program:
    b = Builder.net("net")
    xs = [b.input(f"x{i}", dims) for i in range(function.count)]
    return b.finish({"y": function(b, *xs)})


@pytest.mark.parametrize("function", [*ONE, piecewise])
@pytest.mark.parametrize("cpu", [None, "x86-64-v2"])
def test_code(function: Callable[..., float], cpu: str | None) -> None:
    """Each length of vector, and each bit of it whatever stands beside it."""
    made = scalar(function)
    target, rng = resolve_target(None, cpu), np.random.default_rng(0)
    b = Bare(lower(net(made), Options(cpu=cpu)), target)
    inputs = {f"x{i}": rng.uniform(-3, 3, (7, 5)).astype(np.float32) for i in range(made.count)}
    for end in (True, False):
        with guards(end=end) as memory:
            got = b.run(inputs, {"N": 7}, memory)["y"]
            rows = [{name: x[n : n + 1] for name, x in inputs.items()} for n in range(7)]
            alone = [b.run(row, {"N": 1}, memory)["y"] for row in rows]
    np.testing.assert_array_equal(np.concatenate(alone), got)
    np.testing.assert_allclose(got, made(*inputs.values()), 2e-5, 2e-6)


@pytest.mark.parametrize("function", [ONE[0], piecewise])
def test_gradients(function: Callable[..., float]) -> None:
    check_gradients(net(scalar(function)), {"N": 3})


def test_a_slope_that_is_given() -> None:
    @rnncc.elementwise(derivative=lambda x, y: (y * 10, x))
    def product(x: float, y: float) -> float:
        return x * y

    assert product.partial(0)(2.0, 3.0) == 30
    assert product.partial(1)(2.0, 3.0) == 2
    single = rnncc.elementwise(derivative=lambda x: 2 * x)(lambda x: x * x)
    assert single.partial(0)(4.0) == 8
    assert single.partial(0).partial(0)(4.0) == 2


def test_what_does_not_vary_has_no_slope() -> None:
    """0 times an infinite slope would be NaN."""
    made = rnncc.elementwise(lambda x, a: a * math.exp(x) + x / a)
    assert made.partial(1)(1000.0, 1.0) == np.inf
    assert made.partial(0)(0.0, 0.0) == np.inf


@pytest.mark.parametrize(("exponent", "slopes"), [(0, [0, 0]), (6, [np.inf, 192])])
def test_whole_powers_of_infinity(exponent: int, slopes: list[float]) -> None:
    """Of which no difference is 0, nor any product by a slope of 0."""
    raised = rnncc.elementwise(lambda x: x**exponent)
    x = np.array([np.inf, 2.0, np.nan])
    np.testing.assert_array_equal(raised(x), x ** np.float64(exponent))
    np.testing.assert_array_equal(raised.partial(0)(x[:2]), slopes)


def test_a_layer_trains() -> None:
    swish = rnncc.elementwise(lambda x: x / (1 + math.exp(-x)))
    layers = [cells.elman(3, 20, activation=name) for name in (swish, "swish")]
    x = np.random.default_rng(0).standard_normal((6, 2, 3), np.float32)
    results: list[dict[str, Any]] = []
    for layer in layers:
        model = rnncc.compile(layer, train=True, threads=True)
        outputs, tape = model.forward({"x": x})
        results.append({**outputs, **model.backward(tape, {"y": outputs["y"]})})
    for name, array in results[0].items():
        np.testing.assert_allclose(array, results[1][name], 1e-5, 1e-6, err_msg=name)


def test_a_library_needs_libc_alone(tmp_path: Path) -> None:
    made = scalar(ONE[0])
    library = rnncc.build(net(made), out=tmp_path).library
    assert library is not None
    named = {symbol.name for symbol in Elf(library.read_bytes()).dynamic_symbols}
    assert not {name for name in named if not name.startswith("net_")} - {"", "memcpy", "memset"}


def test_code_for_another_machine() -> None:
    made = scalar(piecewise)
    text = text_of(net(made), None, Options(target=ARM), "asm")
    assert isinstance(text, str)
    assert "expf" not in text
    assert ".4s" in text


ARM = "aarch64-linux-gnu"


def sinh(x: float) -> float:
    return math.sinh(x)


def local(x: float) -> float:
    return x + unknown  # noqa: F821 # type: ignore[unknown-name]


def raises(x: float) -> float:
    if x > 3:
        raise ValueError
    return x


def list_of(x: float) -> Any:
    return [x]


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (sinh, r"function 'sinh': line \d+: numba cannot type it: .*sinh"),
        (local, "function 'local': numba cannot type it: .*unknown"),
        (raises, "function 'raises': may raise an exception"),
        (list_of, "function 'list_of': .*numba cannot type it"),
    ],
)
def test_what_is_refused(function: Callable[[float], float], why: str) -> None:
    with pytest.raises(CompileError, match=why) as caught:
        rnncc.compile(net(rnncc.elementwise(function)))
    assert "\n" not in str(caught.value)


def test_arguments() -> None:
    with pytest.raises(CompileError, match="takes other than positional arguments"):
        rnncc.elementwise(lambda *x: x[0])
    with pytest.raises(CompileError, match="its derivative takes other than 1 arguments"):
        rnncc.elementwise(derivative=lambda x, y: x)(lambda x: x)
    with pytest.raises(CompileError, match="takes 1 values, not 2"):
        b = Builder.net("net")
        b.apply(rnncc.elementwise(lambda x: x), b.input("x", [3]), b.input("y", [3]))
    with pytest.raises(TypeError, match="takes 1 arguments, not 2"):
        rnncc.elementwise(lambda x: x)(1.0, 2.0)
    with pytest.raises(CompileError, match="has no second derivative"):
        rnncc.elementwise(lambda x: x).partial(0).partial(0)


def test_the_interpreter_computes_it() -> None:
    made = scalar(piecewise)
    x, a = np.random.default_rng(0).uniform(-3, 3, (2, 4, 5))
    got = run(net(made), {"x0": x, "x1": a}, np.float64)["y"]
    np.testing.assert_array_equal(got, made(x, a))


def test_text_names_the_code() -> None:
    text = str(net(rnncc.elementwise(ONE[0])))
    assert "rnn.apply" in text
    assert "scalar._lambda_." in text
    assert "rnn.function" in {a.name for a in UNIVERSE.all_dialects["rnn"]().attributes}


def test_without_numba() -> None:
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "import rnncc\nf = rnncc.elementwise(lambda x: x)\n"
        "try: f(1.0)\nexcept rnncc.CompileError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "function '<lambda>': needs numba (pip install 'rnncc[numba]')\n"
