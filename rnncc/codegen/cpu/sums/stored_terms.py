"""A map and the reduction of what it writes, in one pass: each term is stored as it is added.

Such are exp and its sum in a softmax: the sum waits for its last term meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Operation, SSAValue

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.sums.one_pass import is_read_in_time, is_scratch
from rnncc.codegen.cpu.sums.reduce import ReduceCode
from rnncc.codegen.cpu.sums.shared_rows import ResultIndices
from rnncc.codegen.cpu.sums.totals import Totals
from rnncc.codegen.llvm.reductions import Lanes, lanes_of
from rnncc.codegen.llvm.values import Pointer, Value
from rnncc.kern.access import Access
from rnncc.kern.dialect import Buffer
from rnncc.kern.kernels import Map, Reduce
from rnncc.records import record

LONG = 256
"""Terms of a row that are worth it. Where it has fewer, the rest of a vector counts, which is
stored under a mask, and reaches the next kernel late."""


@record
class StoredTerms:
    """A reduction that computes its terms by itself, and stores them.

    Attributes:
        first, then: the kernels that it stands for.
        op: as a kernel that stores none; whoever is done with it drops it.
    """

    first: Map
    then: Reduce
    op: Reduce

    @staticmethod
    def of(first: Operation, then: Operation | None) -> StoredTerms | None:
        """None for kernels that have to run one after the other."""
        if not isinstance(first, Map) or not isinstance(then, Reduce):
            return None
        if not _fit(first, then) or lanes_of(then) is not Lanes.ALONG or not _is_apart(first, then):
            return None
        body = first.body.clone()
        block = body.block
        body.detach_block(block)
        ins = list(zip(first.ins, first.in_accesses, strict=True))
        out = then.outs[0], then.out_accesses[0]
        op = Reduce(then.kind.data, then.reduced.data, first.dims, ins, out, block)
        if lanes_of(op) is not Lanes.ALONG:
            # The map reads along another axis than it writes: other lanes, and other bits.
            op.erase()
            return None
        return StoredTerms(first, then, op)

    @staticmethod
    def are(first: Operation | None, then: Operation | None) -> bool:
        """Whether two kernels may be one."""
        terms = None if first is None else StoredTerms.of(first, then)
        if terms is not None:
            terms.op.erase()
        return terms is not None

    def write(self, emit: CpuEmit, pointers: Mapping[SSAValue, Pointer]) -> None:
        """Write the loops."""
        ins, [out] = ([pointers[v] for v in values] for values in (self.op.ins, self.op.outs))
        [value], [access] = self.first.outs, self.first.out_accesses
        totals = _StoringTotals(emit, self.op, ins, out, (pointers[value], access))
        ReduceCode(totals).over_rows(None)


class _StoringTotals(Totals):
    """Totals whose terms are stored: from a pointer on, where an access says."""

    def __init__(
        self,
        emit: CpuEmit,
        op: Reduce,
        ins: list[Pointer],
        out: Pointer,
        terms: tuple[Pointer, Access],
    ) -> None:
        super().__init__(emit, op, ins, out, None)
        pointer, access = terms
        self.terms, self.strides = emit.at(pointer, emit.dim(access.offset)), access.strides

    def term(self, place: ResultIndices, reduced: list[Value]) -> list[Value]:
        [term] = super().term(place, reduced)
        at = self.emit.along(self.terms, self.strides, [*place.indices, *reduced])
        self.emit.store(term, at, self.lanes, place.mask)
        return [term]


def _fit(first: Map, then: Reduce) -> bool:
    """Whether one reduces just what the other writes, in any order."""
    if first.rows is not None or then.rows is not None or then.init is not None:
        return False
    whole = then.yields == tuple(then.body.block.args)
    if then.fused is not None or then.order.data != "any" or not whole:
        return False
    written, read = list(first.outs), list(then.ins)
    same = written == read and first.dims == then.dims
    if not same or first.out_accesses != then.in_accesses:
        return False
    if not then.dims[-1].is_static or int(then.dims[-1]) < LONG:
        return False
    return all(is_scratch(value) for value in (*first.outs, *then.outs))


def _is_apart(first: Map, then: Reduce) -> bool:
    """Whether no result of the reduction lies where the map has yet to read.

    The results may have the memory of what the map is the last to read: row by row then.
    """
    out, by_row = then.outs[0].owner, then.out_accesses[0]
    assert isinstance(out, Buffer)
    return all(
        is_read_in_time(value, access, out, by_row)
        for value, access in zip(first.ins, first.in_accesses, strict=True)
    )
