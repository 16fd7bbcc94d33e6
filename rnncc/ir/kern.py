"""The `kern` dialect: how a net is computed, as a few kernels over buffers in loops over time.

Sizes, offsets and strides are formulas (`Dim`) over the net's symbols and the indices of the
enclosing loops. Regions hold the `rnn` dialect's elementwise ops on rank-0 tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, BoolAttr, IntAttr, StringAttr
from xdsl.ir import (
    Attribute,
    Block,
    Dialect,
    Operation,
    ParametrizedAttribute,
    Region,
    SSAValue,
    TypeAttribute,
)
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    param_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure

from rnncc.ir.dims import Dim
from rnncc.ir.ops.base import dim_attr, dims_attr, expect, get_dim, get_dims
from rnncc.ir.ops.control import terminator
from rnncc.ir.types import ITEM_BYTES, tensor

ROLES = ("input", "output", "param", "state", "scratch")


@dataclass(frozen=True)
class Access:
    """Which element a point of a domain reads or writes: offset + Σ strides[d] · index[d]."""

    offset: Dim
    strides: tuple[Dim, ...]

    def shifted(self, by: Dim | int) -> Access:
        return Access(self.offset + by, self.strides)


@irdl_attr_definition
class BufferType(ParametrizedAttribute, TypeAttribute):
    """A block of elements of one type: `!kern.buffer<"f32">`"""

    name = "kern.buffer"
    dtype: StringAttr = param_def()


def buffer_type(dtype: str) -> BufferType:
    """The type of a buffer of such elements."""
    return BufferType(StringAttr(dtype))


def buffer_dtype(value: SSAValue) -> str:
    """The element type of a buffer."""
    assert isinstance(value.type, BufferType)
    return value.type.dtype.data


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
    default: of an input, the `param` buffer that takes its place when the caller's pointer is null.
    offset: bytes from the start of the workspace (or of the packed weights), given by planning.
    """

    name = "kern.buffer"
    label = prop_def(StringAttr)
    role = prop_def(StringAttr)
    size = prop_def(StringAttr)
    ring = opt_prop_def(IntAttr)
    fallback = opt_prop_def(StringAttr)
    default = opt_prop_def(StringAttr)
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
    def stand_in(self) -> Dim:
        """Elements of workspace that an absent output takes."""
        return Dim.of(0) if self.fallback is None else get_dim(self.fallback)


@irdl_op_definition
class Row(IRDLOperation):
    """Row `index` of a sequence whose rows are `stride` elements apart"""

    name = "kern.row"
    buffer = operand_def(BufferType)
    index = prop_def(StringAttr)
    stride = prop_def(StringAttr)
    y = result_def(BufferType)
    traits = traits_def(Pure())

    def __init__(self, buffer: SSAValue, index: Dim, stride: Dim) -> None:
        super().__init__(
            operands=[buffer],
            properties={"index": dim_attr(index), "stride": dim_attr(stride)},
            result_types=[buffer.type],
        )


@irdl_op_definition
class For(IRDLOperation):
    """Count `index` from `start`, `count` times (downwards with `reverse`).

    Buffers may be carried from one turn to the next: the block takes them, its yield gives the
    next ones, the results are the last. With `chunk` each turn covers a run of steps: `index` is
    the first, the symbol `extent` their number: as many as make about `chunk` rows of `rows` a
    step, at least one.
    """

    name = "kern.for"
    inits = var_operand_def(BufferType)
    index = prop_def(StringAttr)
    start = prop_def(StringAttr)
    count = prop_def(StringAttr)
    reverse = prop_def(BoolAttr)
    extent = opt_prop_def(StringAttr)
    chunk = opt_prop_def(IntAttr)
    rows = opt_prop_def(StringAttr)
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
        super().__init__(
            operands=[list(inits)],
            properties=properties,
            result_types=[[v.type for v in inits]],
            regions=[Region(body)],
        )

    @property
    def yields(self) -> tuple[SSAValue, ...]:
        return terminator(self.body.block)


@irdl_op_definition
class Index(IRDLOperation):
    """The point's index along one axis of the kernel's domain"""

    name = "kern.index"
    axis = prop_def(IntAttr)
    y = result_def()
    traits = traits_def(Pure())

    def __init__(self, axis: int, dtype: str) -> None:
        super().__init__(properties={"axis": IntAttr(axis)}, result_types=[tensor((), dtype)])


class Kernel(IRDLOperation):
    """What kernels share: inputs and outputs accessed over a domain, and a region.

    `accesses` holds one access an input, then one an output, over the domain's axes.
    """

    ins = var_operand_def(BufferType)
    outs = var_operand_def(BufferType)
    domain = prop_def(ArrayAttr)
    accesses = prop_def(ArrayAttr)
    body = region_def("single_block")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @property
    def dims(self) -> tuple[Dim, ...]:
        return get_dims(self.domain)

    @property
    def in_accesses(self) -> list[Access]:
        return [get_access(a) for a in self.accesses.data[: len(self.ins)]]

    def read_at(self, operand: int) -> Access | None:
        """The access of the operand of that number, None where it is not one of `ins`."""
        number = operand - (len(self.operands) - len(self.ins) - len(self.outs))
        return self.in_accesses[number] if 0 <= number < len(self.ins) else None

    @property
    def out_accesses(self) -> list[Access]:
        return [get_access(a) for a in self.accesses.data[len(self.ins) :]]

    @property
    def yields(self) -> tuple[SSAValue, ...]:
        return terminator(self.body.block)


@irdl_op_definition
class Map(Kernel):
    """outs[i...] = body(ins[i...]) at every point of the domain"""

    name = "kern.map"

    def __init__(
        self,
        domain: Sequence[Dim],
        ins: Sequence[tuple[SSAValue, Access]],
        outs: Sequence[tuple[SSAValue, Access]],
        body: Block,
    ) -> None:
        super().__init__(
            operands=[[b for b, _ in ins], [b for b, _ in outs]],
            properties={
                "domain": dims_attr(domain),
                "accesses": ArrayAttr(access_attr(a) for _, a in (*ins, *outs)),
            },
            regions=[Region(body)],
        )


@irdl_op_definition
class Reduce(Kernel):
    """out[i...] = sum, max or min over j... of body(ins[i..., j...])

    The domain ends in the `reduced` axes that are summed over, in order, one after another.
    """

    name = "kern.reduce"
    kind = prop_def(StringAttr)
    reduced = prop_def(IntAttr)

    def __init__(
        self,
        kind: str,
        reduced: int,
        domain: Sequence[Dim],
        ins: Sequence[tuple[SSAValue, Access]],
        out: tuple[SSAValue, Access],
        body: Block,
    ) -> None:
        super().__init__(
            operands=[[b for b, _ in ins], [out[0]]],
            properties={
                "kind": StringAttr(kind),
                "reduced": IntAttr(reduced),
                "domain": dims_attr(domain),
                "accesses": ArrayAttr(access_attr(a) for _, a in (*ins, out)),
            },
            regions=[Region(body)],
        )


@irdl_op_definition
class Gemm(Kernel):
    """outs[r..., u] = body(z₀, z₁, ..., ins[r..., u]) with z_s = Σₖ a[r..., k] · weights[s, u, k]

    The domain is the rows' axes, then the units. k runs from 0 up, one fused multiply-add a
    step, whatever the tile. Weights are packed by `kern.pack` with the same `depth`, `slots` and
    `panel`. The body takes the slots' sums, then the inputs.
    """

    name = "kern.gemm"
    a = operand_def(BufferType)
    weights = operand_def(BufferType)
    depth = prop_def(IntAttr)
    slots = prop_def(IntAttr)
    panel = prop_def(IntAttr)
    a_access = prop_def(ArrayAttr)

    def __init__(
        self,
        domain: Sequence[Dim],
        a: tuple[SSAValue, Access],
        weights: SSAValue,
        geometry: tuple[int, int, int],
        ins: Sequence[tuple[SSAValue, Access]],
        outs: Sequence[tuple[SSAValue, Access]],
        body: Block,
    ) -> None:
        """`a` is accessed over the rows' axes and k; `geometry`: depth, slots, panel."""
        depth, slots, panel = geometry
        super().__init__(
            operands=[a[0], weights, [b for b, _ in ins], [b for b, _ in outs]],
            properties={
                "domain": dims_attr(domain),
                "depth": IntAttr(depth),
                "slots": IntAttr(slots),
                "panel": IntAttr(panel),
                "a_access": access_attr(a[1]),
                "accesses": ArrayAttr(access_attr(access) for _, access in (*ins, *outs)),
            },
            regions=[Region(body)],
        )

    @property
    def units(self) -> int:
        return int(self.dims[-1])


@irdl_op_definition
class Pack(IRDLOperation):
    """Weights in the order in which `kern.gemm` reads them.

    Source s gives weights[s, u, k] over the axes (u, k). The units are cut into panels of
    `panel` units, the last one as wide as what is left; a panel holds, for each k, for each slot,
    its units side by side. One vector of slack follows the last panel.
    """

    name = "kern.pack"
    ins = var_operand_def(BufferType)
    out = operand_def(BufferType)
    depth = prop_def(IntAttr)
    units = prop_def(IntAttr)
    panel = prop_def(IntAttr)
    accesses = prop_def(ArrayAttr)

    def __init__(
        self,
        sources: Sequence[tuple[SSAValue, Access]],
        out: SSAValue,
        depth: int,
        units: int,
        panel: int,
    ) -> None:
        super().__init__(
            operands=[[b for b, _ in sources], out],
            properties={
                "depth": IntAttr(depth),
                "units": IntAttr(units),
                "panel": IntAttr(panel),
                "accesses": ArrayAttr(access_attr(a) for _, a in sources),
            },
        )

    @property
    def in_accesses(self) -> list[Access]:
        return [get_access(a) for a in self.accesses.data]


@irdl_op_definition
class Reverse(IRDLOperation):
    """out[t, n, i] = x[len[n] - 1 - t, n, i] for t < len[n], else x[t, n, i]; all dense

    A length outside 0..T ends the call with error 3.
    """

    name = "kern.reverse"
    x = operand_def(BufferType)
    lengths = operand_def(BufferType)
    out = operand_def(BufferType)
    dims = prop_def(ArrayAttr)

    def __init__(
        self, x: SSAValue, lengths: SSAValue, out: SSAValue, dims: tuple[Dim, Dim, Dim]
    ) -> None:
        super().__init__(operands=[x, lengths, out], properties={"dims": dims_attr(dims)})


def access_attr(access: Access) -> ArrayAttr[StringAttr]:
    """An access as an attribute: its offset, then its strides."""
    return dims_attr([access.offset, *access.strides])


def get_access(attribute: Attribute) -> Access:
    """The access that an attribute holds."""
    offset, *strides = get_dims(attribute)
    return Access(offset, tuple(strides))


def dense(dims: Sequence[Dim]) -> tuple[Dim, ...]:
    """The row-major strides of a dense tensor."""
    strides = [Dim.of(1)]
    for size in reversed(dims[1:]):
        strides.append(strides[-1] * size)
    return tuple(reversed(strides)) if dims else ()


def packed_elements(slots: int, units: int, depth: int, lanes: int) -> int:
    """How many elements packed weights take, with the slack of one vector."""
    return slots * units * depth + lanes


OPS: list[type[Operation]] = [Func, Buffer, Row, For, Index, Map, Reduce, Gemm, Pack, Reverse]
KERN = Dialect("kern", OPS, [BufferType])
