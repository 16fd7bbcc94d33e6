"""How much arithmetic and how many bytes a net takes, from its kernels.

In: a kernel program and sizes. Out: phases: kernels that run one after another, and how often.
Gates in loops are taken as open, loops that may end early as run to their end, rows as listed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from llvmlite import ir
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from rnncc.codegen.cpu.target import CpuTarget
from rnncc.codegen.llvm.emit import Emit
from rnncc.codegen.llvm.region import RegionCode
from rnncc.codegen.llvm.values import I64, VALUE, Value, vector_type
from rnncc.ir.attributes import get_dims
from rnncc.ir.dims import Dim
from rnncc.ir.types import ITEM_BYTES, dtype_of
from rnncc.kern.access import buffer_dtype
from rnncc.kern.dialect import Buffer, For, Gate, Limit, Row, ShiftedRow
from rnncc.kern.kernels import Contract, Gemm, Kernel
from rnncc.kern.moves import IndexedMove, Pack, Reverse
from rnncc.kern.program import KernelProgram
from rnncc.planning.uses import data_accesses
from rnncc.records import record

FREE = {"bitcast", "ret", "insertelement", "shufflevector"}
"""Instructions that cost nothing next to arithmetic, or stand outside of the loop."""
MULTIPLY = {"fmul", "fdiv", "llvm.fma", "llvm.sqrt"}
"""Those of multipliers, which other units of a core do not do."""
Sizes = Mapping[str, int]


@dataclass
class Phase:
    """Kernels that run one after another, `times` times; the other figures are of one time.

    Attributes:
        looped: whether they are in a loop over single steps.
        kernels: how many.
        flops: of products, two a multiply-add, by the weights' element type.
        vectors: vector instructions of everything elementwise.
        read: bytes read, each kernel's once.
        weights: those of them that are the same each time: matrices.
        footprint: bytes touched before the same are read again.
        multiplied: those of the vector instructions that multiply or divide.
    """

    times: int
    looped: bool
    kernels: int = 0
    flops: dict[str, int] = field(default_factory=dict[str, int])
    vectors: int = 0
    read: int = 0
    weights: int = 0
    footprint: int = 0
    multiplied: int = 0

    @property
    def all_flops(self) -> int:
        return sum(self.flops.values())


def phases(program: KernelProgram, sizes: Sizes, target: CpuTarget) -> list[Phase]:
    """The phases of a program, in order; those that never run are left out."""
    walk = _Walk(target)
    walk.block(program.func.body.block, 1, False, dict(sizes))
    return _merged(walk.phases)


def _merged(phases: Sequence[Phase]) -> list[Phase]:
    """Phases that differ in nothing but `times` become one: the steps of all chunks."""
    merged: list[Phase] = []
    for phase in phases:
        same = next((p for p in merged if replace(p, times=phase.times) == phase), None)
        if same is None:
            merged.append(phase)
        else:
            same.times += phase.times
    return merged


def product_flops(phases: Sequence[Phase]) -> int:
    """Of all products of a whole run."""
    return sum(phase.times * phase.all_flops for phase in phases)


class _Walk:
    def __init__(self, target: CpuTarget) -> None:
        self.target = target
        self.phases: list[Phase] = []
        self._bodies: dict[Operation, tuple[int, int]] = {}

    def block(self, block: Block, times: int, looped: bool, sizes: dict[str, int]) -> None:
        phase = Phase(times, looped, footprint=sum(_touched(block, sizes).values()))
        for op in block.ops:
            if isinstance(op, For):
                for iterations, inner in _iterations(op, sizes):
                    steps = looped or op.chunk is None
                    self.block(op.body.block, times * iterations, steps, inner)
            elif uses := _uses(op, sizes):
                phase.kernels += 1
                phase.read += sum(use.bytes for use in uses if not use.written)
                phase.weights += sum(use.bytes for use in uses if use.weights)
                dtype, flops = _flops(op, sizes)
                phase.flops[dtype] = phase.flops.get(dtype, 0) + flops
                vectors, multiplied = self._elementwise(op, sizes)
                phase.vectors += vectors
                phase.multiplied += multiplied
        if phase.kernels and times:
            self.phases.append(phase)

    def _elementwise(self, op: Operation, sizes: Sizes) -> tuple[int, int]:
        """Vector instructions of a body over its domain, or of moves; those that multiply."""
        if isinstance(op, Kernel):
            if op not in self._bodies:
                self._bodies[op] = instructions(op.body.block, self.target)
            extents = [d.evaluate(sizes) for d in op.dims] or [1]
            points = prod(extents[:-1]) * -(-extents[-1] // self.target.lanes)
            vectors, multiplied = self._bodies[op]
            return points * vectors, points * multiplied
        if isinstance(op, Pack | Reverse | IndexedMove):
            written = sum(use.elements for use in _uses(op, sizes) if use.written)
            return written // self.target.lanes, 0
        return 0, 0


def instructions(body: Block, target: CpuTarget) -> tuple[int, int]:
    """How many arithmetic instructions the code of a kernel's body has; those that multiply."""
    values = [VALUE[dtype_of(argument)] for argument in body.args]
    types = [vector_type(value, target.lanes) for value in values]
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), types), "body")
    emit = Emit.begin(function, target, [])
    emit.symbols = _AnySize()
    code = RegionCode(emit, body, body.args)
    by_operand: dict[SSAValue, Value] = dict(zip(body.args, function.args, strict=True))
    scalars = code.invariants({}, lambda axis: I64(0))
    code.vectors(scalars, by_operand, lambda axis: emit.splat(I64(0), target.lanes), target.lanes)
    lines: list[Value] = function.entry_basic_block.instructions
    texts = [str(line).rpartition(" = ")[2] for line in lines]
    kinds = [text.split()[0] for text in texts]
    called = [re.search(r'@"?(llvm\.[a-z]+)', text) for text in texts]
    names = [call[1] if call else kind for kind, call in zip(kinds, called, strict=True)]
    return sum(kind not in FREE for kind in kinds), sum(name in MULTIPLY for name in names)


class _AnySize(dict[str, ir.Constant]):
    """Sizes whose values do not matter."""

    def __missing__(self, key: str) -> ir.Constant:
        return I64(1)


def _iterations(op: For, sizes: dict[str, int]) -> list[tuple[int, dict[str, int]]]:
    """How often a loop's body runs, with the sizes it has then."""
    count = Dim.parse(op.count.data).evaluate(sizes)
    sizes = {**sizes, op.index.data: 0}
    if op.iteration is not None:
        sizes[op.iteration.data] = 0
    if op.chunk is None or op.rows is None or op.extent is None:
        return [(max(count, 0), {**sizes, op.extent.data: 1} if op.extent else sizes)]
    most = max(1, op.chunk.data // max(Dim.parse(op.rows.data).evaluate(sizes), 1))
    full, rest = divmod(count, most)
    iterations = [(full, {**sizes, op.extent.data: most})] if full else []
    return iterations + ([(1, {**sizes, op.extent.data: rest})] if rest else [])


@record
class _Use:
    """What a kernel reads or writes of one buffer, and from where on: None is from its start."""

    value: SSAValue
    elements: int
    written: bool
    weights: bool = False
    offset: Dim | None = None

    @property
    def bytes(self) -> int:
        return self.elements * ITEM_BYTES[buffer_dtype(self.value)]


def _uses(op: Operation, sizes: Sizes) -> list[_Use]:
    """What a kernel reads and writes beside its scratch; nothing for what is no kernel."""
    if isinstance(op, Gate | Limit) or (isinstance(op, Kernel) and _is_idle(op)):
        return []
    uses = list[_Use]()
    for value, written, access, dims in data_accesses(op):
        moving = [d for d, s in zip(dims, access.strides, strict=True) if s != 0]
        elements = prod(d.evaluate(sizes) for d in moving)
        if isinstance(op, IndexedMove):  # of the rows that there are it touches those with a number
            elements = min(elements, prod(d.evaluate(sizes) for d in get_dims(op.dims)))
        weights = isinstance(op, Gemm) and value is op.weights
        uses.append(_Use(value, elements, written, weights, access.offset))
    return uses


def _is_idle(op: Kernel) -> bool:
    """Whether a kernel computes the rows that another one leaves out."""
    some = op.active_rows
    return some is not None and not some.where and not isinstance(op, Gemm)


def _flops(op: Operation, sizes: Sizes) -> tuple[str, int]:
    """The element type that products read, and their arithmetic."""
    match op:
        case Gemm():
            points = prod(d.evaluate(sizes) for d in op.dims)
            return buffer_dtype(op.weights), 2 * points * op.slots.data * op.depth.data
        case Contract():
            return buffer_dtype(op.a), 2 * prod(d.evaluate(sizes) for d in op.sizes)
        case _:
            return "f32", 0


def _touched(block: Block, sizes: dict[str, int]) -> dict[Buffer, int]:
    """Bytes of each buffer that one run of a block touches."""
    touched: dict[Buffer, int] = {}
    for op in block.ops:
        if isinstance(op, For):
            for iterations, inner in _iterations(op, sizes):
                for buffer, size in _touched(op.body.block, inner).items():
                    most = buffer.bytes.evaluate(sizes)
                    touched[buffer] = max(touched.get(buffer, 0), min(most, iterations * size))
        for buffer, size in _places(_uses(op, sizes)).items():
            most = buffer.bytes.evaluate(sizes)
            touched[buffer] = max(touched.get(buffer, 0), min(most, size))
    return touched


def _places(uses: Sequence[_Use]) -> dict[Buffer, int]:
    """Bytes of each buffer that a kernel touches; the same place counts once."""
    places: dict[tuple[Buffer, Dim | None], int] = {}
    for use in uses:
        key = _buffer(use.value), use.offset
        places[key] = max(places.get(key, 0), use.bytes)
    total: dict[Buffer, int] = {}
    for (buffer, _), size in places.items():
        total[buffer] = total.get(buffer, 0) + size
    return total


def _buffer(value: SSAValue) -> Buffer:
    """The buffer that a value is, or is a row of; of what loops carry, the first."""
    if isinstance(value, BlockArgument):
        loop = value.block.parent_op()
        assert isinstance(loop, For)
        return _buffer(loop.inits[value.index])
    assert isinstance(value, OpResult)
    match op := value.owner:
        case Buffer():
            return op
        case Row() | ShiftedRow():
            return _buffer(op.buffer)
        case For():
            return _buffer(op.yields[value.index])
        case _:
            raise AssertionError(f"{op} gives no buffer")
