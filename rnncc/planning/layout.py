"""Give every buffer its offset: in the workspace, or in the packed weights.

In: a kernel program. Out: the same program with `offset` on its buffers and the sizes of both
memories, and the `Plan` that says why.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import StringAttr

from rnncc.ir.attributes import dim_attr, get_dim
from rnncc.ir.dims import Dim
from rnncc.ir.types import ITEM_BYTES
from rnncc.kern.dialect import Buffer
from rnncc.kern.kernels import Gemm
from rnncc.kern.largest import Largest
from rnncc.kern.library import params_of, place_weights
from rnncc.kern.packing import WORD
from rnncc.kern.program import KernelProgram
from rnncc.planning.inplace import OWNED, inherited
from rnncc.planning.lifetimes import Lifetime, lifetimes
from rnncc.planning.offsets import PlannedBlock, place
from rnncc.planning.phases import NamedMemory, phases
from rnncc.planning.uses import Timeline, timeline
from rnncc.records import record

SEVERAL = 16
"""Bytes that the widest loads of a GPU read, at a multiple of as many."""


@record
class Planned:
    """One buffer's place. `shares`: the label of the buffer whose memory it takes over."""

    buffer: Buffer
    size: Dim
    lifetime: Lifetime
    offset: Largest
    shares: str | None = None


@record
class Plan:
    """Where everything is.

    Attributes:
        buffers: those that the workspace holds, in order of declaration.
        blocks: the memory they take; buffers that share it count once.
        params: those that the packed weights hold.
        workspace: bytes.
    """

    buffers: list[Planned]
    params: list[Planned]
    blocks: list[PlannedBlock]
    workspace: Largest

    def bound(self, sizes: Mapping[str, int]) -> int:
        """The most bytes alive at one position: no layout can take less."""
        live = [(b.lifetime, max(b.size.evaluate(sizes), 0)) for b in self.blocks]
        starts = {lifetime.first for lifetime, _ in live}
        return max((_alive(live, position) for position in starts), default=0)

    def peak(self, sizes: Mapping[str, int]) -> int:
        """The bytes that the workspace takes."""
        return self.workspace.evaluate(sizes)


def plan(program: KernelProgram, spread: bool = False) -> Plan:
    """Lay out workspace and weights; sets each buffer's `offset` and the program's sizes.

    The workspace holds scratch, state, and what stands in for absent outputs. It must start at a
    multiple of 64 bytes.

    Args:
        spread: whether to take more memory where that saves a GPU a wait between kernels, or parts
            of words.
    """
    program.spread = spread
    program.weights = place_weights([program])
    layout = make_plan(program)
    for buffer in program.buffers:
        if buffer.role.data in OWNED:
            buffer.offset = dim_attr(0)  # of those that hold nothing
    for planned in layout.buffers:
        planned.buffer.offset = StringAttr(str(planned.offset))
    program.workspace = layout.workspace
    return layout


def make_plan(program: KernelProgram) -> Plan:
    """The same plan, with nothing set: the same again for a program that is planned already.

    Packed weights are where they were put, if they were: programs may share one block of them.
    """
    line = timeline(program.func)
    always = Lifetime(0, line.end)
    params = [
        Planned(buffer, buffer.bytes, always, Largest([get_dim(buffer.offset)]))
        for buffer in params_of(program)
        if buffer.offset is not None
    ]
    buffers, blocks, workspace = _place_workspace(program, line)
    return Plan(buffers, params, blocks, workspace)


def workspace_bytes(buffer: Buffer) -> Dim:
    """What a buffer takes of the workspace: an output only what stands in for it."""
    if buffer.within is not None:
        return Dim.of(0)
    if buffer.role.data in OWNED:
        return buffer.bytes
    return buffer.fallback_size * ITEM_BYTES[buffer.dtype]


def _place_workspace(
    program: KernelProgram, line: Timeline
) -> tuple[list[Planned], list[PlannedBlock], Largest]:
    alive = lifetimes(line)
    buffers = [b for b in program.buffers if b in alive and workspace_bytes(b) != 0]
    heirs = inherited(line, alive)
    owners: dict[Buffer, Buffer] = {}
    for buffer in line.uses:  # in order of birth: a donor's owner is known by then
        owners[buffer] = owners[heirs[buffer]] if buffer in heirs else buffer
    spans: dict[Buffer, Lifetime] = {}
    for buffer in buffers:
        owner = owners[buffer]
        spans[owner] = spans.get(owner, alive[buffer]).joined(alive[buffer])
    if program.spread:
        spans = _through_phases(program, line, spans)
    blocks = {
        owner: PlannedBlock(workspace_bytes(owner), span, _grain(owner, program.spread))
        for owner, span in spans.items()
    }
    offsets, workspace = place(list(blocks.values()))
    starts = dict(zip(blocks, offsets, strict=True))
    placed = [
        Planned(b, workspace_bytes(b), alive[b], starts[owners[b]], _label(heirs.get(b)))
        for b in buffers
    ]
    return placed, list(blocks.values()), workspace


def _through_phases(
    program: KernelProgram, line: Timeline, spans: Mapping[Buffer, Lifetime]
) -> dict[Buffer, Lifetime]:
    """Lifetimes that begin and end with whole groups of kernels: their memory is shared by none."""
    positions = {use.op: use.position for uses in line.uses.values() for use in uses}
    first, last = dict[int, int](), dict[int, int]()
    for group in phases(program.func, NamedMemory.of(program.func, placed=False)).groups:
        own = [positions[op] for op in group]
        first |= dict.fromkeys(own, own[0])
        last |= dict.fromkeys(own, own[-1])
    return {
        buffer: Lifetime(first.get(span.first, span.first), last.get(span.last, span.last))
        for buffer, span in spans.items()
    }


def _grain(buffer: Buffer, spread: bool) -> int:
    """What it starts at a multiple of, in bytes."""
    products = [use.operation for use in buffer.y.uses if isinstance(use.operation, Gemm)]
    is_room = any(op.room is buffer.y for op in products)
    # Products read rows that they have converted, and packed weights of narrow numbers, by words;
    # where a plan is for a GPU by several, and packed bf16, too.
    if spread and (buffer.dtype == "bf16" or is_room):
        return SEVERAL
    by_words = is_room or any(op.weights is buffer.y for op in products)
    return max(ITEM_BYTES[buffer.dtype], WORD if by_words else 1)


def _label(buffer: Buffer | None) -> str | None:
    return None if buffer is None else buffer.label.data


def _alive(live: list[tuple[Lifetime, int]], position: int) -> int:
    return sum(size for lifetime, size in live if lifetime.first <= position <= lifetime.last)
