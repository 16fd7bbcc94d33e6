"""A loop over time, strip-mined: each iteration takes several steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, BoolAttr, IntAttr, StringAttr
from xdsl.ir import Block, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    AttrSizedResultSegments,
    irdl_op_definition,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsolatedFromAbove, RecursiveMemoryEffect

from rnncc.ir.attributes import dim_attr, get_dim, get_ints, ints_attr
from rnncc.ir.dims import Dim
from rnncc.ir.ops.base import Sized
from rnncc.ir.ops.checks import expect
from rnncc.ir.ops.control import row_type, terminator
from rnncc.ir.types import Tensor, dims_of, dtype_of, shape_text, tensor

Groups = tuple[Sequence[SSAValue], Sequence[SSAValue], Sequence[SSAValue], Sequence[SSAValue]]


@irdl_op_definition
class Chunks(Sized):
    """Run the body once for every `chunk` time steps, first ones first; last first with `reverse`.

    body: (consts..., carry..., segment of each of xs..., row of each of marks...) ->
    (carry..., segment of each of ys..., row of each of marked...).
    A segment has as many rows as the iteration has steps, the symbol `extent`; the run that is last
    in time may be shorter. `marks` and `marked` have one row an iteration. Traps at run time if any
    live-out listed in `limits`, the gates of loops inside, is true.
    """

    name = "rnn.chunks"
    SIZES: ClassVar[tuple[str, ...]] = ("length",)
    consts = var_operand_def()
    inits = var_operand_def()
    xs = var_operand_def()
    marks = var_operand_def()
    length = prop_def(StringAttr)
    chunk = prop_def(IntAttr)
    extent = prop_def(StringAttr)
    reverse = prop_def(BoolAttr)
    limits = prop_def(ArrayAttr)
    finals = var_result_def()
    ys = var_result_def()
    marked = var_result_def()
    body = region_def("single_block")
    irdl_options = (
        AttrSizedOperandSegments(as_property=True),
        AttrSizedResultSegments(as_property=True),
    )
    traits = traits_def(IsolatedFromAbove(), RecursiveMemoryEffect())

    def __init__(
        self,
        operands: Groups,
        body: Block,
        length: Dim,
        chunk: int,
        extent: str,
        reverse: bool = False,
        marked: int = 0,
        limits: Sequence[int] = (),
    ) -> None:
        """`operands`: consts, inits, xs, marks. `marked`: how many values the body yields last."""
        inits, values = operands[1], terminator(body)
        end = len(values) - marked
        ys, rows = values[len(inits) : end], values[end:]
        count = length.over(chunk)
        super().__init__(
            operands=[list(group) for group in operands],
            result_types=[
                [v.type for v in inits],
                [_sequence_of(v, length) for v in ys],
                [tensor([count, *dims_of(v)], dtype_of(v)) for v in rows],
            ],
            regions=[Region(body)],
            properties={
                "length": dim_attr(length),
                "chunk": IntAttr(chunk),
                "extent": StringAttr(extent),
                "reverse": BoolAttr.from_bool(reverse),
                "limits": ints_attr(limits),
            },
        )

    @property
    def steps(self) -> Dim:
        """How many time steps it takes."""
        return get_dim(self.length)

    @property
    def limited(self) -> list[SSAValue]:
        """The finals that must be false."""
        return [self.finals[i] for i in get_ints(self.limits)]

    @property
    def trip_count(self) -> Dim:
        """How often the body runs."""
        return self.steps.over(self.chunk.data)

    @property
    def groups(self) -> Groups:
        """The body's arguments for consts, carry, segments of xs and rows of marks."""
        args, ends, start = self.body.block.args, list[Sequence[SSAValue]](), 0
        for group in (self.consts, self.inits, self.xs, self.marks):
            ends.append(args[start : start + len(group)])
            start += len(group)
        return ends[0], ends[1], ends[2], ends[3]

    @property
    def yields(self) -> tuple[Sequence[SSAValue], Sequence[SSAValue], Sequence[SSAValue]]:
        """The body's values for the carry, the segments of ys and the rows of marked."""
        values, carry, end = terminator(self.body.block), len(self.inits), len(self.marked)
        split = len(values) - end
        return values[:carry], values[carry:split], values[split:]

    def verify_(self) -> None:
        extent = Dim.of(self.extent.data)
        expect(self.chunk.data > 0, f"chunks of {self.chunk.data} steps")
        for values, rows in ((self.xs, self.steps), (self.marks, self.trip_count)):
            for v in values:
                expect(dims_of(v)[:1] == (rows,), f"{shape_text(dims_of(v))} has not {rows} rows")
        consts, carry, segments, marks = self.groups
        actual, expected = [v.type for v in consts], [v.type for v in self.consts]
        actual += [v.type for v in (*carry, *segments, *marks)]
        expected += [v.type for v in self.inits] + [_sequence_of(x, extent) for x in self.xs]
        expected += [row_type(v) for v in self.marks]
        expect(actual == expected, f"the body takes {actual}, expected {expected}")
        after, ys, rows = self.yields
        expected = [v.type for v in self.inits] + [_sequence_of(y, extent) for y in self.ys]
        expected += [row_type(v) for v in self.marked]
        expect([v.type for v in (*after, *ys, *rows)] == expected, "the body yields other types")


def _sequence_of(value: SSAValue, rows: Dim) -> Tensor:
    """The type of a sequence or segment with so many rows."""
    return tensor([rows, *dims_of(value)[1:]], dtype_of(value))


OPS = [Chunks]
