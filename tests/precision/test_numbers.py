"""Rounding to bf16 and to integers, and the order in which they are packed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnncc.ir.precision import from_bf16, quantise_rows, quantise_units, scaled_product, to_bf16
from rnncc.kern.packing import GROUP, PackedGeometry, pack, packed_depth, unpack

finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(finite)
def test_bf16_is_the_nearest_with_ties_to_even(x: float) -> None:
    [bits] = to_bf16(np.array([x], np.float32))
    steps = (np.array([bits], np.uint16) + np.arange(-1, 2)).astype(np.uint16)
    steps = steps[(steps & 0x7F80) != 0x7F80] if (bits & 0x7F80) != 0x7F80 else steps[1:2]
    off = np.abs(from_bf16(steps).astype(np.float64) - x)
    own = abs(float(from_bf16(np.array([bits], np.uint16))[0]) - x)
    if np.isfinite(own):
        assert own == off.min()
        assert (off == own).sum() == 1 or bits % 2 == 0 or own == 0
    else:
        assert abs(x) > 3.389e38


def test_bf16_of_what_is_no_number() -> None:
    x = np.array([np.inf, -np.inf, 0.0, -0.0], np.float32)
    np.testing.assert_array_equal(from_bf16(to_bf16(x)), x)
    quiet, loud = np.array([0x7FFFFFFF, 0x7F800001], np.uint32).view(np.float32)
    assert np.isnan(from_bf16(to_bf16(np.array([quiet, loud])))).all()


@given(st.lists(finite, min_size=1, max_size=20))
def test_integers_are_off_by_half_a_scale_at_most(values: list[float]) -> None:
    row = np.array([values], np.float32)
    whole, [scale] = quantise_rows(row)
    assert np.abs(whole).max() <= 127
    if np.abs(row).max() >= 2.0**-100:
        assert np.abs(whole).max() == 127
        assert np.abs(whole * np.float64(scale) - row).max() <= scale * 0.5001
    else:
        assert not whole.any()
    units, scales = quantise_units(row)
    assert units.dtype == np.int8
    np.testing.assert_array_equal(units, whole)
    assert scales[0] == scale


def test_products_of_integers_are_near() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((5, 300)), rng.standard_normal((40, 300))
    got = scaled_product(x.astype(np.float32), *quantise_units(w.astype(np.float32)))
    assert np.abs(got - x @ w.T).max() < 0.05 * np.abs(x @ w.T).max()


@pytest.mark.parametrize("group", [2, 4])
@given(data=st.data())
def test_unpack_inverts_pack(group: int, data: st.DataObject) -> None:
    slots, units, depth, panel = (data.draw(st.integers(1, most)) for most in (4, 20, 9, 8))
    matrices = list(np.arange(slots * units * depth).reshape(slots, units, depth))
    geometry = PackedGeometry(depth, slots, panel)
    flat = pack(matrices, geometry, 3, group)
    assert flat.size == slots * units * packed_depth(depth, group) + 3
    np.testing.assert_array_equal(unpack(flat, geometry, units, group), matrices)


def test_groups_of_k_stand_side_by_side() -> None:
    matrix = np.arange(6).reshape(2, 3)  # [units, k]
    assert pack([matrix], PackedGeometry(3, 1, 2), group=2).tolist() == [0, 1, 3, 4, 2, 0, 5, 0]
    assert GROUP == {"f32": 1, "f64": 1, "bf16": 2, "i8": 2, "u8": 4}
