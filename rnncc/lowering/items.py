"""A schedule: the values of a block that get buffers, their groups, and the order of these."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from rnncc.ir.dims import Dim
from rnncc.ir.ops.control import Scan
from rnncc.ir.ops.linear import Matmul
from rnncc.ir.ops.shape import Concat
from rnncc.lowering.maps import Placed


@dataclass
class Item:
    """A value that gets a buffer; `dest` where one is given already.

    `part`: the concatenation that it is a part of, and where it starts there, if that is its place.
    """

    value: SSAValue
    dest: Placed | None = None
    part: tuple[Concat, Dim] | None = None


@dataclass
class Group:
    """Values of one shape and level, computed by one kernel, with at most one product in it."""

    level: int
    dims: tuple[Dim, ...]
    items: list[Item] = field(default_factory=list[Item])
    product: Matmul | None = None
    alone: bool = False
    """Whether it only stores its product."""


@dataclass
class Schedule:
    """What to emit, in order; `chunked`: a scan -> groups computed in its chunks of time."""

    steps: list[Operation | Group]
    chunked: dict[Scan, list[Group]]
