"""The `kern` dialect: how a net is computed, as a few kernels over buffers in loops over time.

Sizes, offsets and strides are formulas (`Dim`) over the net's symbols and the indices of the
enclosing loops. Regions hold the `rnn` dialect's elementwise ops on rank-0 tensors.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, BoolAttr, IntAttr, StringAttr, UnitAttr
from xdsl.ir import (
    Attribute,
    Block,
    Dialect,
    Operation,
    Region,
    SSAValue,
)
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure

from rnncc.ir.attributes import dim_attr, get_dim
from rnncc.ir.dims import Dim
from rnncc.ir.ops.checks import expect
from rnncc.ir.ops.control import Yield, terminator
from rnncc.ir.types import ITEM_BYTES
from rnncc.kern.access import BufferType, buffer_dtype, buffer_type
from rnncc.kern.kernels import Contract, Gemm, Index, Map, Reduce
from rnncc.kern.moves import Gather, ListRows, Pack, Reverse, Scatter

ROLES = ("input", "output", "param", "state", "scratch")


@irdl_op_definition
class Func(IRDLOperation):
    """One entry point of the library: the whole net, over buffers declared at its start"""

    name = "kern.func"
    sym_name = prop_def(StringAttr)
    symbols = prop_def(ArrayAttr)
    body = region_def("single_block")

    def __init__(self, name: str, symbols: Sequence[str], body: Block) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "symbols": ArrayAttr(StringAttr(s) for s in symbols),
            },
            regions=[Region(body)],
        )


@irdl_op_definition
class Buffer(IRDLOperation):
    """A block of `size` elements.

    role: `input`, `output` (the caller's; an output may be absent), `param` (a constant packed
    into the library), `state` (carried by a loop), `scratch`.
    ring: where given, only this many rows of a sequence are kept, row t in place t mod ring; of
    an output: only when the caller's pointer is null, a stand-in ring in the workspace.
    fallback: of an output, the elements that stand in for it when it is null; 0: the kernels that
    write nothing else are skipped.
    default: of an input, the `param` or `scratch` buffer that takes its place when the caller's
    pointer is null; with a ring of one row, for each row.
    of_state: of a port, that a stream's state is there, before a step or behind it: next values may
    take the memory of those before.
    within: of scratch, the input buffer whose memory it takes: a part of the tape.
    offset: bytes from the start of the workspace (or of the packed weights), given by planning: the
    largest of some formulas.
    """

    name = "kern.buffer"
    label = prop_def(StringAttr)
    role = prop_def(StringAttr)
    size = prop_def(StringAttr)
    ring = opt_prop_def(IntAttr)
    fallback = opt_prop_def(StringAttr)
    default = opt_prop_def(StringAttr)
    of_state = opt_prop_def(UnitAttr)
    within = opt_prop_def(StringAttr)
    offset = opt_prop_def(StringAttr)
    y = result_def(BufferType)

    def __init__(self, label: str, role: str, dtype: str, size: Dim) -> None:
        expect(role in ROLES, f"role {role!r} is not one of {', '.join(ROLES)}")
        super().__init__(
            properties={
                "label": StringAttr(label),
                "role": StringAttr(role),
                "size": dim_attr(size),
            },
            result_types=[buffer_type(dtype)],
        )

    @property
    def dtype(self) -> str:
        return buffer_dtype(self.y)

    @property
    def elements(self) -> Dim:
        return get_dim(self.size)

    @property
    def bytes(self) -> Dim:
        return self.elements * ITEM_BYTES[self.dtype]

    @property
    def rows_kept(self) -> int | None:
        return None if self.ring is None else self.ring.data

    @property
    def fallback_size(self) -> Dim:
        """Elements of workspace that an absent output takes."""
        return Dim.of(0) if self.fallback is None else get_dim(self.fallback)


@irdl_op_definition
class Row(IRDLOperation):
    """Row `index` of a sequence whose rows are `stride` apart, and at most `rows` from there on"""

    name = "kern.row"
    buffer = operand_def(BufferType)
    index = prop_def(StringAttr)
    stride = prop_def(StringAttr)
    rows = prop_def(IntAttr)
    y = result_def(BufferType)
    traits = traits_def(Pure())  # an address: the kernel that takes it reads or writes

    def __init__(self, buffer: SSAValue, index: Dim, stride: Dim, rows: int = 1) -> None:
        super().__init__(
            operands=[buffer],
            properties={
                "index": dim_attr(index),
                "stride": dim_attr(stride),
                "rows": IntAttr(rows),
            },
            result_types=[buffer.type],
        )


@irdl_op_definition
class ShiftedRow(IRDLOperation):
    """Row `index` + `step` of a sequence; at the index `edge`, where there is none, `init`"""

    name = "kern.shifted_row"
    buffer = operand_def(BufferType)
    init = operand_def(BufferType)
    index = prop_def(StringAttr)
    stride = prop_def(StringAttr)
    edge = prop_def(StringAttr)
    step = prop_def(IntAttr)
    y = result_def(BufferType)
    traits = traits_def(Pure())

    def __init__(
        self, buffer: SSAValue, init: SSAValue, index: Dim, stride: Dim, edge: Dim, step: int
    ) -> None:
        super().__init__(
            operands=[buffer, init],
            properties={
                "index": dim_attr(index),
                "stride": dim_attr(stride),
                "edge": dim_attr(edge),
                "step": IntAttr(step),
            },
            result_types=[buffer.type],
        )


@irdl_op_definition
class For(IRDLOperation):
    """Count `index` from `start`, `count` times (downwards with `reverse`).

    Buffers may be loop-carried: the block takes them, its yield gives the next ones, the results
    are the last. With `chunk` an iteration covers a run of steps: `index` is the first, the symbol
    `extent` their number, as many as make about `chunk` rows of `rows` a step, at least one. The
    symbol `iteration` is the run's number in the order of steps.
    """

    name = "kern.for"
    inits = var_operand_def(BufferType)
    # Symbols, not arguments of the block: offsets and trip counts inside are formulas over them.
    index = prop_def(StringAttr)
    start = prop_def(StringAttr)
    count = prop_def(StringAttr)
    reverse = prop_def(BoolAttr)
    extent = opt_prop_def(StringAttr)
    chunk = opt_prop_def(IntAttr)
    rows = opt_prop_def(StringAttr)
    iteration = opt_prop_def(StringAttr)
    finals = var_result_def(BufferType)
    body = region_def("single_block")

    def __init__(
        self,
        index: str,
        start: Dim,
        count: Dim,
        inits: Sequence[SSAValue],
        body: Block,
        reverse: bool = False,
        chunk: tuple[str, int, Dim] | None = None,
        iteration: str | None = None,
    ) -> None:
        """`chunk`: the extent's symbol, about how many rows, rows a step."""
        properties: dict[str, Attribute] = {
            "index": StringAttr(index),
            "start": dim_attr(start),
            "count": dim_attr(count),
            "reverse": BoolAttr.from_bool(reverse),
        }
        if chunk:
            extent, target, rows = chunk
            properties |= {
                "extent": StringAttr(extent),
                "chunk": IntAttr(target),
                "rows": dim_attr(rows),
            }
        if iteration:
            properties["iteration"] = StringAttr(iteration)
        super().__init__(
            operands=[list(inits)],
            properties=properties,
            result_types=[[v.type for v in inits]],
            regions=[Region(body)],
        )

    @property
    def yields(self) -> tuple[SSAValue, ...]:
        return terminator(self.body.block)

    @property
    def kernels(self) -> list[Operation]:
        """What an iteration does, but for saying where rows are and what it yields."""
        ops = self.body.block.ops
        return [op for op in ops if not isinstance(op, Row | ShiftedRow | Yield)]

    @property
    def edges(self) -> tuple[Dim, Dim]:
        """The index in the first iteration and in the last one, if there are any."""
        low = get_dim(self.start)
        high = low + get_dim(self.count) - 1
        return (high, low) if bool(self.reverse) else (low, high)


@irdl_op_definition
class Gate(IRDLOperation):
    """In a loop's body: skips the rest of the iteration where the flag is false

    What the loop carries stays as it was; with `last`, the loop ends too.
    """

    name = "kern.gate"
    flag = operand_def(BufferType)
    last = prop_def(BoolAttr)

    def __init__(self, flag: SSAValue, last: bool) -> None:
        super().__init__(operands=[flag], properties={"last": BoolAttr.from_bool(last)})


@irdl_op_definition
class Limit(IRDLOperation):
    """End the call with an error where the flag, a loop's gate, is true after its last iteration"""

    name = "kern.limit"
    flag = operand_def(BufferType)

    def __init__(self, flag: SSAValue) -> None:
        super().__init__(operands=[flag])


OPS: list[type[Operation]] = [
    Func,
    Buffer,
    Row,
    ShiftedRow,
    For,
    Gate,
    Limit,
    Index,
    Map,
    Reduce,
    Gemm,
    Pack,
    Reverse,
    Gather,
    Scatter,
    Contract,
    ListRows,
]
KERN = Dialect("kern", OPS, [BufferType])
