"""The operators before one in a net, by what they read and write: where gradients look."""

from __future__ import annotations

from collections.abc import Iterable

from rnncc.frontends.caffe2.blobs import Blob
from rnncc.frontends.caffe2.operator import Operator


class ForwardIndex:
    """Operators by type and blob."""

    def __init__(self, operators: Iterable[Operator] = ()) -> None:
        self.operators = list[Operator]()
        self._by_blob: dict[tuple[str, Blob], list[Operator]] = {}
        for op in operators:
            self.add(op)

    def add(self, op: Operator) -> None:
        """One more operator, the last so far."""
        self.operators.append(op)
        for blob in dict.fromkeys((*op.reads, *op.ys)):
            self._by_blob.setdefault((op.op.type, blob), []).append(op)

    def of(self, kind: str, blob: Blob) -> list[Operator]:
        """The operators of a type that read or write a blob, in order."""
        return self._by_blob.get((kind, blob), [])

    def namesake(self, kind: str, name: str) -> Operator | None:
        """The last operator of a type that reads or writes some version of a blob."""
        for op in reversed(self.operators):
            if op.op.type == kind and name in (*op.op.input, *op.op.output):
                return op
        return None
