"""A schedule: the values of a block that get buffers, their groups, and the order of these."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from xdsl.ir import Block, Operation, SSAValue

from rnncc.ir.dims import Dim
from rnncc.ir.ops.control import Scan
from rnncc.ir.ops.linear import Matmul
from rnncc.ir.ops.shape import Concat
from rnncc.lowering.maps import Placed

MOST_RESULTS = 128
"""Values with a buffer of one kernel: LLVM's time grows with the square of the pointers that it
keeps at hand."""


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


def in_parts(group: Group) -> list[Group]:
    """A group, and kernels of their own for the copies that would be too many for one.

    Levels bound the values of a kernel, but neither the places of one value nor what is copied of
    arguments.
    """
    computed, copied, values = list[Item](), list[Item](), set[SSAValue]()
    for item in group.items:
        is_copy = item.value in values or isinstance(item.value.owner, Block)
        (copied if is_copy else computed).append(item)
        values.add(item.value)
    room = max(0, MOST_RESULTS - len(computed))
    if len(copied) <= room:
        return [group]
    starts = range(room, len(copied), MOST_RESULTS)
    later = [copied[start : start + MOST_RESULTS] for start in starts]
    first = replace(group, items=computed + copied[:room])
    return [first, *(Group(group.level, group.dims, items) for items in later)]
