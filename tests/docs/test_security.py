"""docs/security.md: its limits are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

from rnncc import arrays, sources
from rnncc.driver import cache
from rnncc.frontends.onnx import reading
from rnncc.netdef import files, fills

TEXT = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
GIB = 1 << 30


def test_limits() -> None:
    rows = dict(re.findall(r"^\| (\d[^|]*) \| ([^|]*) \|$", TEXT, re.MULTILINE))
    assert list(rows)[:3] == ["2 GiB, or `--max-input`", "2 GiB, protobuf's own", "1 GiB"]
    assert (sources.LIMIT, sources.MAX_MESSAGE) == (2 * GIB, 2 * GIB - 1)
    assert (fills.MAX_BYTES, cache.LARGEST_NET, cache.LARGEST_ENTRY) == (GIB, GIB, GIB)
    assert f"{reading.MAX_STORED:,}" in rows
    assert f"{files.MAX_NESTING}, {reading.MAX_DEPTH}" in rows
    assert f"{sources.MAX_NAME:,}" in rows
    assert f"{arrays.MAX_ARRAYS:,}" in rows
