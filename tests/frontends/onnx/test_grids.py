"""A fixed draw of each grid of attributes against ONNX Runtime; all of it where that is asked for.

python -m tests.frontends.onnx.grids
"""

from __future__ import annotations

import pytest

from tests.frontends.onnx.grids import compare, grids, sample

pytestmark = pytest.mark.peers
pytest.importorskip("onnxruntime")


@pytest.mark.parametrize("name", grids())
def test_sample(name: str) -> None:
    counts, failures = compare(sample(name, 16), machine=16)
    assert not failures, failures[0]
    assert counts["compared"] >= 4, counts


@pytest.mark.slow
@pytest.mark.parametrize("name", grids())
def test_all(name: str) -> None:
    _, failures = compare(grids()[name](), machine=50)
    assert not failures, failures[:5]
