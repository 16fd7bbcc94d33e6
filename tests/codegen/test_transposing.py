"""Maps that transpose, and vectors of elements that are a few apart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.ir import SSAValue

from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.interpreter import run
from rnncc.ir.types import NUMPY, dims_of
from rnncc.kern import interpreter as kern_interpreter
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.codegen.random_programs import as_it_is

CPUS = [None, "x86-64-v3", "x86-64-v2"]
Make = Callable[[Builder, SSAValue], SSAValue]


def check(
    cpu: str | None,
    shape: tuple[Dim | int | str, ...],
    sizes: dict[str, int],
    make: Make,
    dtype: str = "f32",
) -> None:
    """A program of one input, in front of unmapped pages and behind them."""
    b = Builder.net("made")
    x = b.input("x", shape, dtype)
    program = b.finish({"y": make(b, x)})
    dims = [d.evaluate(sizes) for d in dims_of(x)]
    numbers = np.random.default_rng(0).standard_normal(dims, np.float32)
    inputs = {"x": numbers if dtype == "f32" else (9 * numbers).astype(np.int64) % 2**7}
    inputs["x"] = inputs["x"].astype(NUMPY[dtype])
    [want] = run(program, inputs).values()
    made = as_it_is(program)
    [found] = kern_interpreter.run(made, inputs, sizes).values()
    np.testing.assert_allclose(found, want, 1e-5, 1e-5)
    code = Bare(made, resolve_target(None, cpu))
    for end in (True, False):
        with guards(end) as memory:
            [y] = code.run(inputs, {"T": 1, "N": 1, **sizes}, memory).values()
            np.testing.assert_allclose(y, want, 1e-5, 1e-5)


def turned(perm: list[int]) -> Make:
    def make(b: Builder, x: SSAValue) -> SSAValue:
        y = b.transpose(x, perm)
        size = dims_of(y)[1]
        bias = np.arange(int(size) if size.is_static else 1, dtype=np.float32)
        bias = b.constant(bias.reshape(-1, *[1] * (len(perm) - 2)))
        return b.add(b.mul(b.add(y, bias), y), b.iota(dims_of(y), len(perm) - 1, "f32"))

    return make


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize(
    ("shape", "perm"),
    [
        ((37, 19), [1, 0]),
        ((32, 16), [1, 0]),
        ((2, 3, 5, 40), [0, 2, 3, 1]),
        ((2, 7, 33, 3), [0, 3, 1, 2]),
        ((2, 19, 33, 37), [0, 2, 3, 1]),  # planes that are pages apart
        ((19, 1037), [1, 0]),
        (("N", 7, 2), [0, 2, 1]),
        (("N", 5, 18), [1, 2, 0]),
    ],
)
def test_transposed(cpu: str | None, shape: tuple[int | str, ...], perm: list[int]) -> None:
    check(cpu, shape, {"N": 21} if "N" in shape else {}, turned(perm))


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("dtype", ["i8", "i1", "f16", "f64", "i64"])
def test_transposed_elements_of_other_sizes(cpu: str | None, dtype: str) -> None:
    """As they are, known and open sizes, and through a body that is too long for registers."""
    for shape in ((37, 19), ("N", 33)):
        check(cpu, shape, {"N": 21}, lambda b, x: b.transpose(x, [1, 0]), dtype)
    if dtype == "i64":
        for shape in ((37, 19), (19, 1037)):
            check(cpu, shape, {}, turned_in_a_long_body, dtype)


def turned_in_a_long_body(b: Builder, x: SSAValue) -> SSAValue:
    y = b.transpose(x, [1, 0])
    for number in range(5):
        y = b.add(b.mul(y, y), b.full_like(y, number))
    return y


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("dtype", ["i8", "f16", "i1", "f32"])
def test_moved(cpu: str | None, dtype: str) -> None:
    """Elements that nothing computes with, more than a lane holds one of: windows, and fills."""

    def make(b: Builder, x: SSAValue) -> SSAValue:
        size = dims_of(x)[2]
        rows = b.reshape(b.windows(x, 1, 0, 3, 1, 2), (3, 3, 2, size))
        return b.concat([rows, b.fill(1, (3, 3, 1, size), dtype)], 2)

    for columns in (5, 64, 205, "N"):
        check(cpu, (3, 4, columns), {"N": 93}, make, dtype)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("times", [2, 3, 4, 7, 8])
@pytest.mark.parametrize("dtype", ["f32", "i8", "f64"])
def test_repeated(cpu: str | None, times: int, dtype: str) -> None:
    """Each element several times, as of an image that grows; known and open sizes."""

    def make(b: Builder, x: SSAValue) -> SSAValue:
        dims = (*dims_of(x), times)
        y = b.broadcast(x, dims, (0, 1))
        return y if dtype == "i8" else b.add(b.mul(y, y), b.iota(dims, 2, dtype))

    for columns in (5, 32, 37, "N"):
        check(cpu, (3, columns), {"N": 21}, make, dtype)


@pytest.mark.parametrize("cpu", CPUS)
def test_put_between_each_other(cpu: str | None) -> None:
    """Planes, whose elements become neighbours; and one pair for all."""

    def make(b: Builder, x: SSAValue) -> SSAValue:
        pairs = b.transpose(x, (1, 2, 0))
        same = b.slice(b.slice(x, 1, 0, 1), 2, 0, 1)
        one = b.broadcast(b.reshape(same, (4,)), dims_of(pairs), (2,))
        return b.concat([b.add(b.exp(pairs), b.iota(dims_of(pairs), 1, "f32")), one], 0)

    for columns in (19, "N"):
        check(cpu, (4, 3, columns), {"N": 37}, make)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("stride", [2, 3, 4])
@pytest.mark.parametrize("kind", ["sum", "max", "map"])
def test_apart(cpu: str | None, stride: int, kind: str) -> None:
    def make(b: Builder, x: SSAValue) -> SSAValue:
        x = b.windows(x, 1, 0, 37, stride, 2)
        return b.mul(x, x) if kind == "map" else b.reduce(kind, x, [2])

    check(cpu, (3, 36 * stride + 2), {}, make)
