"""Kernels of a loop over time whose domains begin with the same axes: their frame.

What each place of the frame computes may then be done for a run of steps before the next place.
"""

from __future__ import annotations

from functools import cached_property

from xdsl.ir import SSAValue

from rnncc.ir.dims import Dim
from rnncc.kern.access import Access
from rnncc.kern.kernels import Map, Reduce
from rnncc.records import record

Strides = tuple[Dim, ...]


@record(eq=False)
class FramedKernel:
    """A kernel of such a loop.

    Attributes:
        axes: of its domain, those of the frame.
    """

    op: Map | Reduce
    axes: tuple[int, ...]

    @cached_property
    def operands(self) -> list[tuple[SSAValue, Access]]:
        """What the kernel reads, then what it writes."""
        op = self.op
        return [
            *zip(op.ins, op.in_accesses, strict=True),
            *zip(op.outs, op.out_accesses, strict=True),
        ]

    def along(self, access: Access) -> Strides:
        """An access's strides along the frame."""
        return tuple(access.strides[axis] for axis in self.axes)
