"""The kernels of the `kern` dialect that compute, and what they share.

Regions hold the `rnn` dialect's elementwise ops on rank-0 tensors.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, BoolAttr, IntAttr, StringAttr, UnitAttr
from xdsl.ir import (
    Attribute,
    Block,
    Region,
    SSAValue,
)
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure

from rnncc.ir.attributes import dim_attr, dims_attr, get_dim, get_dims
from rnncc.ir.dims import Dim
from rnncc.ir.ops.control import terminator
from rnncc.ir.ops.elementwise import Mul
from rnncc.ir.types import tensor
from rnncc.kern.access import Access, BufferType, access_attr, get_access
from rnncc.kern.active_rows import ListedRows, chosen
from rnncc.kern.packing import PackedGeometry
from rnncc.records import record


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

    `accesses` holds one access an input, then one an output, over the domain's axes. With `rows`
    only some of the rows are computed: see `kern.list_rows`.
    """

    rows = opt_operand_def(BufferType)
    ins = var_operand_def(BufferType)
    outs = var_operand_def(BufferType)
    domain = prop_def(ArrayAttr)
    accesses = prop_def(ArrayAttr)
    row_axes = opt_prop_def(IntAttr)
    where = opt_prop_def(BoolAttr)
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
        # Operands that some kernels lack, such as `init` and `rows`, stand in front of ins.
        ins, outs = len(self.ins), len(self.outs)
        number = operand - (len(self.operands) - ins - outs)
        return get_access(self.accesses.data[number]) if 0 <= number < ins else None

    def written_at(self, operand: int) -> Access | None:
        """As `read_at`, of `outs`."""
        number = operand - len(self.operands)
        return get_access(self.accesses.data[number]) if number >= -len(self.outs) else None

    @property
    def out_accesses(self) -> list[Access]:
        return [get_access(a) for a in self.accesses.data[len(self.ins) :]]

    @property
    def active_rows(self) -> ListedRows | None:
        """The rows that are computed; None where all are."""
        if self.rows is None:
            return None
        assert self.row_axes is not None and self.where is not None
        return ListedRows(self.rows, self.row_axes.data, bool(self.where))

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
        some: ListedRows | None = None,
    ) -> None:
        rows, row_properties = chosen(some)
        super().__init__(
            operands=[rows, [b for b, _ in ins], [b for b, _ in outs]],
            properties={
                **row_properties,
                "domain": dims_attr(domain),
                "accesses": ArrayAttr(access_attr(a) for _, a in (*ins, *outs)),
            },
            regions=[Region(body)],
        )


@irdl_op_definition
class Reduce(Kernel):
    """out[i...] = sum, max or min over j... of body(ins[i..., j...])

    The domain ends in the `reduced` axes. A sum's order is `any`, or one term after another, j
    counting `up` or `down`; then it may start at what `init` holds, accessed as out is, which may
    be the same memory. With `fused` the body ends in a product, which is added to a sum in one
    rounding.
    """

    name = "kern.reduce"
    init = opt_operand_def(BufferType)
    kind = prop_def(StringAttr)
    order = prop_def(StringAttr)
    reduced = prop_def(IntAttr)
    fused = opt_prop_def(UnitAttr)

    def __init__(
        self,
        kind: str,
        reduced: int,
        domain: Sequence[Dim],
        ins: Sequence[tuple[SSAValue, Access]],
        out: tuple[SSAValue, Access],
        body: Block,
        order: str = "any",
        init: SSAValue | None = None,
        some: ListedRows | None = None,
        fused: bool = False,
    ) -> None:
        start = [] if init is None else [init]
        rows, row_properties = chosen(some)
        super().__init__(
            operands=[start, rows, [b for b, _ in ins], [out[0]]],
            properties={
                **row_properties,
                "kind": StringAttr(kind),
                "order": StringAttr(order),
                "reduced": IntAttr(reduced),
                "fused": UnitAttr() if fused else None,
                "domain": dims_attr(domain),
                "accesses": ArrayAttr(access_attr(a) for _, a in (*ins, out)),
            },
            regions=[Region(body)],
        )

    @property
    def term(self) -> tuple[SSAValue, ...]:
        """What the body computes of a term: a value, or the factors of a fused product."""
        [value] = self.yields
        if self.fused is None:
            return (value,)
        assert isinstance(value.owner, Mul)
        return value.owner.a, value.owner.b


@irdl_op_definition
class Gemm(Kernel):
    """outs[r..., u] = body(z₀, z₁, ..., ins[r..., u]) with z_s = Σₖ a[r..., k] · weights[s, u, k]

    The domain is the rows' axes, then the units. k runs from 0 up, one fused multiply-add a
    step, whatever the tile. Weights are packed by `kern.pack` with the same `depth`, `slots`,
    `panel` and `stripe`. The body takes the slots' sums, then the inputs.

    With `k_sizes` a row is what a window holds, such as taps and channels: k counts through these
    axes, the last one fastest, and a is accessed over the rows' axes and them.

    Weights of bf16 are widened as they are read; with `room`, scratch for rows, the rows of a are
    rounded to bf16 too, if they are not of bf16 already. Weights of i8 or u8 come with room and
    with `scales`, one a unit and slot, packed as weights of depth 1: each row of a becomes integers
    with a scale of its own, the sums are exact, and z_s is such a sum times both scales. Where a is
    of i8 there are no scales: rows are taken as they are, and z_s is their exact sum, an i32.
    """

    name = "kern.gemm"
    a = operand_def(BufferType)
    weights = operand_def(BufferType)
    scales = opt_operand_def(BufferType)
    room = opt_operand_def(BufferType)
    depth = prop_def(IntAttr)
    slots = prop_def(IntAttr)
    panel = prop_def(IntAttr)
    stripe = prop_def(IntAttr)
    a_access = prop_def(ArrayAttr)
    k_sizes = opt_prop_def(ArrayAttr)

    def __init__(
        self,
        domain: Sequence[Dim],
        a: tuple[SSAValue, Access],
        weights: SSAValue,
        geometry: PackedGeometry,
        ins: Sequence[tuple[SSAValue, Access]],
        outs: Sequence[tuple[SSAValue, Access]],
        body: Block,
        converted: tuple[SSAValue | None, SSAValue | None] = (None, None),
        some: ListedRows | None = None,
        k_sizes: Sequence[Dim] = (),
    ) -> None:
        """`a` is accessed over the rows' axes and k.

        `converted`: the scales and the room. `k_sizes`: of the axes that k runs along, if several.
        """
        extra = [[] if v is None else [v] for v in converted]
        rows, row_properties = chosen(some)
        super().__init__(
            operands=[a[0], weights, *extra, rows, [b for b, _ in ins], [b for b, _ in outs]],
            properties={
                **row_properties,
                "domain": dims_attr(domain),
                "depth": IntAttr(geometry.depth),
                "slots": IntAttr(geometry.slots),
                "panel": IntAttr(geometry.panel),
                "stripe": IntAttr(geometry.stripe),
                "a_access": access_attr(a[1]),
                "accesses": ArrayAttr(access_attr(access) for _, access in (*ins, *outs)),
                "k_sizes": dims_attr(k_sizes) if k_sizes else None,
            },
            regions=[Region(body)],
        )

    @property
    def units(self) -> int:
        return int(self.dims[-1])

    @property
    def geometry(self) -> PackedGeometry:
        """How the weights are packed."""
        cut = self.panel.data, self.stripe.data
        return PackedGeometry(self.depth.data, self.slots.data, *cut)

    @property
    def k_dims(self) -> tuple[Dim, ...]:
        """The sizes of the axes that k runs along, the outermost first."""
        return (Dim.of(self.depth.data),) if self.k_sizes is None else get_dims(self.k_sizes)


@record
class ShiftedRows:
    """The rows that an operand of `kern.contract` is shifted by: see there."""

    rows: SSAValue
    count: Dim
    late: bool
    of_b: bool


@irdl_op_definition
class Contract(IRDLOperation):
    """out[m, n] = init[m, n] + Σₖ a[k, m] · b[k, n], one fused multiply-add after another

    k runs upwards, downwards with `reverse`, whatever the tile. `sizes` are those of k, m and n;
    the accesses, over (k, m) and (k, n), have dense rows. init and out are dense and may be the
    same memory; without init the sums start at zero. `scratch` has `room` elements to pack into.
    With `first`, its `shift` dense rows stand in front of a's, and a's last ones are not read;
    with `late` they stand behind a's, and a's first ones are not read; with `of_b`, b's instead.
    With `rounded` both operands are of bf16, in rows at multiples of eight elements, and there are
    no `first`; products are added up in fp32 in an order that the target states.
    """

    name = "kern.contract"
    a = operand_def(BufferType)
    b = operand_def(BufferType)
    out = operand_def(BufferType)
    scratch = operand_def(BufferType)
    init = opt_operand_def(BufferType)
    first = opt_operand_def(BufferType)
    sizes_ = prop_def(ArrayAttr, prop_name="sizes")
    a_access = prop_def(ArrayAttr)
    b_access = prop_def(ArrayAttr)
    reverse = prop_def(BoolAttr)
    room_ = prop_def(IntAttr, prop_name="room")
    shift = opt_prop_def(StringAttr)
    late = prop_def(BoolAttr)
    of_b = prop_def(BoolAttr)
    rounded = opt_prop_def(UnitAttr)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        sizes: tuple[Dim, Dim, Dim],
        a: tuple[SSAValue, Access],
        b: tuple[SSAValue, Access],
        out: SSAValue,
        scratch: tuple[SSAValue, int],
        init: SSAValue | None = None,
        reverse: bool = False,
        first: ShiftedRows | None = None,
        rounded: bool = False,
    ) -> None:
        """`scratch`: with its elements."""
        properties: dict[str, Attribute | None] = {
            "sizes": dims_attr(sizes),
            "a_access": access_attr(a[1]),
            "b_access": access_attr(b[1]),
            "reverse": BoolAttr.from_bool(reverse),
            "room": IntAttr(scratch[1]),
            "shift": dim_attr(first.count) if first else None,
            "late": BoolAttr.from_bool(first is not None and first.late),
            "of_b": BoolAttr.from_bool(first is not None and first.of_b),
            "rounded": UnitAttr() if rounded else None,
        }
        before = [] if first is None else [first.rows]
        start = [] if init is None else [init]
        super().__init__(
            operands=[a[0], b[0], out, scratch[0], start, before], properties=properties
        )

    @property
    def sizes(self) -> tuple[Dim, ...]:
        return get_dims(self.sizes_)

    @property
    def outs(self) -> tuple[SSAValue]:
        return (self.out,)

    @property
    def room(self) -> Dim:
        return Dim.of(self.room_.data)

    @property
    def shifted_by(self) -> Dim:
        """How many rows of `first` there are."""
        return Dim.of(0) if self.shift is None else get_dim(self.shift)
