"""Element types of counters: a NetDef may nowhere say that what a loop counts are integers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rnncc.frontends.caffe2.blobs import Blob
from rnncc.frontends.caffe2.control import Control
from rnncc.frontends.caffe2.operator import Operator
from rnncc.frontends.caffe2.shapes import Shapes

COUNTING = {"Add", "Sub", "Sum", "Copy", "LT", "LE", "GT", "GE", "EQ", "NE"}
"""What may be done with a counter."""


def assume_counters(s: Shapes, ops: Sequence[Operator]) -> None:
    """State that single elements are int64 which a While writes and which are only added,
    subtracted and compared, where nothing shows their type."""
    loops = [op for op in ops if op.op.type == "While"]
    if not loops:
        return
    groups = defaultdict[Blob, list[Blob]](list)
    for blob in s.untyped():
        groups[s.leader(blob)].append(blob)
    others = {
        s.leader(blob)
        for op in ops
        if op.op.type not in COUNTING and not isinstance(op, Control)
        for blob in (*op.xs, *op.ys)
    }
    for op in loops:
        s.enter(op.location)
        for blob in op.produced():
            leader = s.leader(blob)
            open_ = blob.dtype is None and leader not in others
            if open_ and all(_is_single(s, other) for other in groups[leader]):
                s.expect_dtype(blob, "i64")


def _is_single(s: Shapes, blob: Blob) -> bool:
    dims = s.dims(blob)
    return dims is None or all(d == 1 for d in dims)
