"""A run of kernels place by place of outer axes (`planning/place_runs.py`).

A thread's places take turns in the parts, of what nothing else reads, that its first one has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Operation, SSAValue

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.machine.core import Core
from rnncc.codegen.cpu.map import emit_map
from rnncc.codegen.cpu.sums.reduce import emit_reduce
from rnncc.codegen.cpu.sums.shared_rows import has_few_taps, rows_together
from rnncc.codegen.cpu.sums.stored_terms import StoredTerms
from rnncc.codegen.llvm.reductions import Lanes, lanes_of
from rnncc.codegen.llvm.values import I64, Pointer, Value
from rnncc.ir.attributes import dims_attr
from rnncc.kern.access import Access, access_attr
from rnncc.kern.kernels import Map, Reduce
from rnncc.planning.place_runs import PlaceRun, PlaceRunKernel

Pointers = Mapping[SSAValue, Pointer]


def keeps_code(target: Core, run: PlaceRun) -> bool:
    """Whether sums have the order, and share what they read, as one kernel of all places has it."""
    for part in run.kernels:
        if not isinstance(part.op, Reduce):
            continue
        op = without_places(part)
        assert isinstance(op, Reduce)
        same = lanes_of(op) is lanes_of(part.op) and _shared(target, op) == _shared(target, part.op)
        op.erase()
        if not same:
            return False
    return True


def _shared(target: Core, op: Reduce) -> int:
    kept = len(op.dims) - op.reduced.data
    across = lanes_of(op) is Lanes.ACROSS
    return rows_together(target, op, kept, has_few_taps(op, kept)) if across else 1


def without_places(part: PlaceRunKernel) -> Map | Reduce:
    """A kernel of one place; whoever is done with it drops it."""
    op = part.op.clone()
    accesses = [
        Access(access.offset, tuple(access.strides[axis] for axis in part.beside))
        for _, access in part.operands
    ]
    op.properties["domain"] = dims_attr([op.dims[axis] for axis in part.beside])
    op.properties["accesses"] = ArrayAttr(map(access_attr, accesses))
    return op


class PlaceRunCode:
    """The code of a run.

    Args:
        pointers: of whole buffers.
        unwanted: whether nobody wants what a kernel writes.
    """

    def __init__(
        self,
        emit: CpuEmit,
        run: PlaceRun,
        pointers: Pointers,
        unwanted: Callable[[Operation], Value | None],
    ) -> None:
        self.emit, self.run, self.pointers = emit, run, pointers
        self.unwanted = [unwanted(part.op) for part in run.kernels]
        self.kernels = [without_places(part) for part in run.kernels]
        self.sizes = [emit.dim(size) for size in run.places]

    def write(self) -> None:
        """Write the loop over places."""
        emit, b, team = self.emit, self.emit.b, self.emit.team
        count: Value = I64(1)
        for size in self.sizes:
            count = b.mul(count, size)
        first, mine = (I64(0), count) if team is None else team.share(count)
        local: dict[SSAValue, Pointer] = {
            buffer.y: emit.at(self.pointers[buffer.y], b.mul(first, I64(step)))
            for buffer, step in self.run.local.items()
        }

        def place(i: Value, carried: list[Value]) -> list[Value]:
            self._place(self._indices(b.add(first, i)), local)
            return []

        emit.team = None  # what a place does is one thread's
        emit.loop(mine, place)
        emit.team = team
        for op in self.kernels:
            op.erase()

    def _indices(self, number: Value) -> list[Value]:
        """Of a place, along each axis."""
        b, indices = self.emit.b, list[Value]()
        for size in reversed(self.sizes[1:]):
            indices.append(b.srem(number, size))
            number = b.sdiv(number, size)
        return [number, *reversed(indices)]

    def _place(self, indices: Sequence[Value], local: Pointers) -> None:
        """All kernels of a place; a map and the sum of what it writes in one pass."""
        here = [self._operands(part, indices, local) for part in self.run.kernels]
        number = 0
        while number < len(self.kernels):
            terms = self._terms(number)
            unwanted = self.unwanted[number]
            with nullcontext() if unwanted is None else self.emit.when(self.emit.b.not_(unwanted)):
                if terms is not None:
                    terms.write(self.emit, here[number] | here[number + 1])
                    terms.op.erase()
                else:
                    self._kernel(self.kernels[number], here[number])
            number += 1 if terms is None else 2

    def _terms(self, number: int) -> StoredTerms | None:
        if self.unwanted[number : number + 2] != [self.unwanted[number]] * 2:
            return None
        return StoredTerms.of(*self.kernels[number : number + 2])

    def _operands(
        self, part: PlaceRunKernel, indices: Sequence[Value], local: Pointers
    ) -> dict[SSAValue, Pointer]:
        """Where a place has what a kernel reads and writes."""
        emit, b, here = self.emit, self.emit.b, dict[SSAValue, Pointer]()
        for value, access in part.operands:
            ahead: Value = I64(0)
            for index, stride in zip(indices, part.along(access), strict=True):
                ahead = b.add(ahead, b.mul(index, emit.dim(stride)))
            moved = replace(emit.at(self.pointers[value], ahead), ring=None)
            here[value] = local.get(value) or moved
        return here

    def _kernel(self, op: Map | Reduce, here: Pointers) -> None:
        ins, outs = ([here[value] for value in values] for values in (op.ins, op.outs))
        if isinstance(op, Map):
            emit_map(self.emit, op, ins, outs)
        else:
            emit_reduce(self.emit, op, ins, outs, None)
