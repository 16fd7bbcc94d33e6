"""The rows of a plan's report: what `rnncc plan` prints, writes as JSON, and draws."""

from __future__ import annotations

from dataclasses import field

from rnncc.records import record


@record
class BufferRow:
    """One buffer.

    Attributes:
        size: bytes, a formula; of an output or input, of the caller's memory.
        bytes: what it takes of the workspace or of the weights, at the report's sizes.
        first, last: the positions in the program at which it is in use, both included.
        offset: from the start of the workspace, or of the packed weights, a formula; None for
            memory of the caller that nothing stands in for.
        start: the offset in bytes, at the report's sizes.
        shares: the buffer whose memory it takes over, written in place.
        source: where the net says so: the file and node that its values come from.
    """

    name: str
    role: str
    dtype: str
    size: str
    bytes: int
    first: int
    last: int
    offset: str | None = None
    start: int | None = None
    shares: str | None = None
    source: str = ""


@record
class KernelRow:
    """A kernel, or a loop (from `position` to `last`), and the buffers that it writes."""

    position: int
    last: int
    name: str
    depth: int
    writes: list[str] = field(default_factory=list[str])


@record
class ProgramReport:
    """One program.

    Attributes:
        workspace: bytes, a formula.
        weights: bytes of packed weights.
        peak: the bytes that the workspace takes.
        bound: the most bytes that live at once; no layout takes less.
        ratio: peak over bound.
        end: past the last position.
    """

    title: str
    workspace: str
    weights: int
    peak: int
    bound: int
    ratio: float
    end: int
    kernels: list[KernelRow]
    buffers: list[BufferRow]


@record
class SlotRow:
    """A part of a shared block; offset and size are formulas, start and bytes what they give."""

    name: str
    role: str
    size: str
    bytes: int
    offset: str
    start: int


@record
class SharedReport:
    """A block that programs share."""

    title: str
    size: str
    bytes: int
    slots: list[SlotRow]


@record
class LaunchRow:
    """A program as a GPU computes it: one launch of a kernel.

    Attributes:
        threads: of a block.
        blocks: that have work, a formula; `at_most` is its value, and a device with less room at
            once gets fewer.
        shared: the most bytes of shared memory that a block has use for.
        registers: of a thread; None where no assembler tells.
        spills: bytes that do not fit into them.
    """

    program: str
    kernel: str
    threads: int
    blocks: str
    at_most: int
    shared: int
    registers: int | None = None
    spills: int | None = None


@record
class RamRow:
    """Memory that the caller of a library reserves; `size` is a formula, `bytes` what it gives."""

    what: str
    size: str
    sizes: dict[str, int]
    bytes: int


@record
class MachineReport:
    """What a library takes of a machine.

    Attributes:
        triple, cpu: as LLVM names them.
        flash: bytes of the object: code, weights, metadata, other constants.
        functions: bytes of those that linkers drop where nobody calls them.
        cycles: what those of a step go to, where the CPU's timings are known.
    """

    triple: str
    cpu: str
    flash: dict[str, int]
    functions: dict[str, int]
    ram: list[RamRow]
    cycles: dict[str, int] = field(default_factory=dict[str, int])
