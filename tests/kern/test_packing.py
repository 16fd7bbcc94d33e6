from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rnncc.kern.access import packed_elements
from rnncc.kern.packing import PackedGeometry, pack, unpack

sizes = st.integers(1, 9)


@given(slots=st.integers(1, 4), units=sizes, depth=sizes, panel=sizes, slack=st.integers(0, 16))
def test_unpack_inverts_pack(slots: int, units: int, depth: int, panel: int, slack: int) -> None:
    matrices = list(np.arange(slots * units * depth, dtype="f4").reshape(slots, units, depth))
    geometry = PackedGeometry(depth, slots, panel)
    flat = pack(matrices, geometry, slack)
    assert flat.size == packed_elements(slots, units, depth, slack)
    assert not flat[flat.size - slack :].any()
    np.testing.assert_array_equal(unpack(flat, geometry, units), matrices)


@given(slots=st.integers(1, 3), units=sizes, depth=sizes, panel=sizes)
def test_order_of_the_elements(slots: int, units: int, depth: int, panel: int) -> None:
    """Panel after panel; inside, k, then slot, then unit."""
    matrices = np.arange(slots * units * depth).reshape(slots, units, depth)
    want = [
        matrices[slot, unit, k]
        for first in range(0, units, panel)
        for k in range(depth)
        for slot in range(slots)
        for unit in range(first, min(first + panel, units))
    ]
    assert pack(list(matrices), PackedGeometry(depth, slots, panel)).tolist() == want


@given(data=st.data(), slots=st.integers(1, 4), units=sizes, depth=sizes, panel=sizes)
def test_stripes_stand_behind_each_other(
    data: st.DataObject, slots: int, units: int, depth: int, panel: int
) -> None:
    """Panel after panel; inside whole ones stripe after stripe, each k after k."""
    columns = slots * panel
    stripe = data.draw(st.sampled_from([n for n in range(1, columns + 1) if columns % n == 0]))
    matrices = np.arange(slots * units * depth).reshape(slots, units, depth)
    want = []
    for first in range(0, units, panel):
        places = [
            (slot, unit)
            for slot in range(slots)
            for unit in range(first, min(first + panel, units))
        ]
        at_once = stripe if len(places) == columns else len(places)
        for start in range(0, len(places), at_once):
            together = places[start : start + at_once]
            want += [matrices[slot, unit, k] for k in range(depth) for slot, unit in together]
    geometry = PackedGeometry(depth, slots, panel, stripe)
    flat = pack(list(matrices), geometry, 2)
    assert flat.tolist() == [*want, 0, 0]
    np.testing.assert_array_equal(unpack(flat, geometry, units), list(matrices))


def test_weights_of_no_depth_pack_to_slack() -> None:
    geometry = PackedGeometry(0, 1, 4)
    flat = pack([np.zeros((5, 0), "f4")], geometry, 8)
    assert flat.size == 8
    assert unpack(flat, geometry, 5)[0].shape == (5, 0)
