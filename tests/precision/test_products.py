"""One product with weights of low precision: exact integer sums, bf16 as fp32 of rounded values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.ir.precision import from_bf16, quantise_units, scaled_product, to_bf16
from rnncc.kern.library import Library
from rnncc.lowering.lower import lower
from rnncc.packaging.describe import describe
from rnncc.planning.layout import plan
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.precision.nets import CPUS, Low, can_run, drawn, product

SHAPES = [(1, 1), (2, 17), (3, 5), (5, 64), (16, 16), (33, 70), (130, 48), (701, 33)]
"""K and units; the deep ones are summed in runs, on the stack."""
ROWS = [0, 1, 2, 7, 97, 131]
"""The last two are more than are converted at a time."""

every_cpu = pytest.mark.parametrize("cpu", CPUS)
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


def of_int8(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return scaled_product(x, *quantise_units(weights.T))


@every_cpu
@every_shape
def test_int8_is_the_same_on_every_machine(shape: tuple[int, int], cpu: str) -> None:
    if not can_run(cpu):
        pytest.skip(f"{cpu} does not run here")
    weights = drawn(*shape)
    low = Low(product(weights), "int8", cpu)
    assert low.dtypes == {"u8" if low.target.byte_dot else "i8", "f32"}
    for rows in ROWS:
        inputs, sizes = {"x": drawn(rows + 1, shape[0])[:rows]}, {"T": rows}
        got = low.run(inputs, sizes)["y"]
        np.testing.assert_array_equal(got, of_int8(inputs["x"], weights))
        np.testing.assert_array_equal(low.meaning(inputs, sizes)["y"], got)


@every_cpu
@every_shape
def test_bf16_is_fp32_of_rounded_values(shape: tuple[int, int], cpu: str) -> None:
    if not can_run(cpu):
        pytest.skip(f"{cpu} does not run here")
    weights = drawn(*shape)
    rounded = from_bf16(to_bf16(weights))
    low, exact = Low(product(weights), "bf16", cpu), Low(product(rounded), "fp32", cpu)
    assert low.dtypes == {"bf16"}
    for rows in ROWS:
        x, sizes = drawn(rows + 1, shape[0])[:rows], {"T": rows}
        got = low.run({"x": x}, sizes)["y"]
        assert_close(low.meaning({"x": x}, sizes)["y"], got, x, rounded)
        if low.target.rounds_rows(shape[0]):
            halves = from_bf16(to_bf16(x))
            assert_close(exact.run({"x": halves}, sizes)["y"], got, x, rounded)
        else:
            np.testing.assert_array_equal(exact.run({"x": x}, sizes)["y"], got)


def assert_close(want: np.ndarray, got: np.ndarray, x: np.ndarray, weights: np.ndarray) -> None:
    """Within rounding of what is added up."""
    allowed = 1e-6 * (np.abs(x) @ np.abs(weights)) + 1e-30
    assert (np.abs(want - got) <= allowed).all()


@pytest.mark.parametrize("precision", ["bf16", "int8"])
@pytest.mark.parametrize("cpu", ["x86-64-v3", "native"])
@pytest.mark.parametrize("turned", [False, True])
def test_a_row_alone_gives_the_same_bits(precision: str, cpu: str, turned: bool) -> None:
    if not can_run(cpu):
        pytest.skip(f"{cpu} does not run here")
    low = Low(product(drawn(331, 70), turned), precision, cpu)

    def run(x: np.ndarray) -> np.ndarray:
        return low.run({"x": np.ascontiguousarray(x.T if turned else x)}, {"T": len(x)})["y"]

    x = drawn(110, 331)
    batch = run(x)
    for first, rows in ((0, 1), (3, 2), (90, 20), (1, 97), (109, 1)):
        np.testing.assert_array_equal(run(x[first : first + rows]), batch[first : first + rows])


@pytest.mark.parametrize("cpu", ["x86-64-v3", "native"])
@pytest.mark.parametrize("depth", [19, 83])
def test_rows_that_are_no_ordinary_numbers(cpu: str, depth: int) -> None:
    """They spoil no other row: inf and NaN give NaN, what is tiny counts as zero."""
    if not can_run(cpu):
        pytest.skip(f"{cpu} does not run here")
    weights, x = drawn(depth, 5), drawn(8, depth)
    x[1], x[2], x[3] = 0, 1e-38, 3e38
    x[4, 7], x[5, 18], x[6, 0] = np.nan, np.inf, -np.inf
    got = Low(product(weights), "int8", cpu).run({"x": x}, {"T": 8})["y"]
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_array_equal(got, of_int8(x, weights))
    assert np.isnan(got[4:7]).all()
    assert not got[1:3].any()
    assert np.isfinite(got[[0, 7]]).all()
    halves = Low(product(weights), "bf16", cpu).run({"x": x}, {"T": 8})["y"]
    assert np.isnan(halves[4]).all()
    assert not np.isfinite(halves[5:7]).any()
    assert np.isfinite(halves[[0, 1, 2, 7]]).all()


@pytest.mark.parametrize("depth", [19, 83])
def test_weights_that_are_no_ordinary_numbers(depth: int) -> None:
    weights, x = drawn(depth, 5), drawn(3, depth)
    weights[:, 1], weights[3, 2], weights[4, 3] = 0, np.nan, np.inf
    got = Low(product(weights), "int8").run({"x": x}, {"T": 3})["y"]
    assert np.isnan(got[:, 2:4]).all()
    assert not got[:, 1].any()
    assert np.isfinite(got[:, [0, 4]]).all()


def test_what_the_library_does_not_know_stays_fp32() -> None:
    program = product(drawn(20, 9))
    program.arrays.clear()
    low = Low(program, "int8")
    inputs = {"x": drawn(4, 20), "w": drawn(20, 9)}
    got = low.run(inputs, {"T": 4})["y"]
    np.testing.assert_allclose(got, inputs["x"] @ inputs["w"], 1e-5, 1e-5)
    assert low.dtypes == set()
    assert describe(Library.of(low.kernels), low.target)["precision"] == "fp32"


@pytest.mark.parametrize(("precision", "share"), [("bf16", 2), ("int8", 4)])
def test_the_library_holds_less(precision: str, share: int) -> None:
    sizes = {p: Low(product(drawn(512, 256)), p).kernels.weights for p in ("fp32", precision)}
    assert sizes[precision] <= sizes["fp32"] / share + 256 * 4 + 256


@pytest.mark.parametrize("shape", [(5, 64), (33, 70), (701, 33)], ids=str)
def test_sums_of_bytes_in_shorter_vectors(shape: tuple[int, int]) -> None:
    """As machines with AVX VNNI alone compute them."""
    own = resolve_target()
    if not own.byte_dot or own.lanes != 16:
        pytest.skip("no VNNI for shorter vectors here")
    target, weights = replace(own, lanes=8, registers=16, tiles=()), drawn(*shape)
    kernels = lower(product(weights), target, "int8")
    plan(kernels)
    bare = Bare(kernels, target)
    for rows in ROWS:
        x = drawn(rows + 1, shape[0])[:rows]
        with guards(end=True) as memory:
            got = bare.run({"x": x}, {"T": rows}, memory)["y"]
        np.testing.assert_array_equal(got, of_int8(x, weights))
