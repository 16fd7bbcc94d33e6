# pyright: basic, reportMissingImports=false
"""What the nodes of a loop's body are, and the leaves of their arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.fx import Node

from rnncc.frontends.torch.unrolled.places import Sweep
from rnncc.frontends.torch.unrolled.view import Path
from rnncc.records import record


@record
class Same:
    """One value, or one node from outside, in all repeats."""

    value: Any


@record
class Numbers:
    """A number that differs from repeat to repeat."""

    values: tuple[int | float, ...]


@record
class Inner:
    """A result of another node of the body: in the same repeat, or in the one `lag` before.

    Attributes:
        inits: what stands for it in the first `lag` repeats, from outside.
    """

    number: int
    path: Path
    lag: int = 0
    inits: tuple[Node, ...] = ()


@record
class OwnInputs:
    """An input of the graph's own in each repeat, as the entries of a list are."""

    inputs: tuple[Node, ...]


Role = Same | Numbers | Inner | Sweep | OwnInputs


@record
class BodyNode:
    """A node of the body, and the roles of the leaves of its arguments."""

    roles: tuple[Role, ...]


@record
class PlacedNode(BodyNode):
    """A node that reads or replaces one place of a tensor, at another number in each repeat.

    The roles are those of the tensor, and of what is put there, if anything is.

    Attributes:
        axis: where the place is one of many; all other axes are whole.
        numbers: of the place, in each repeat.
        drops: whether what is read, or put, is without this axis.
    """

    axis: int
    numbers: Numbers
    drops: bool


@record
class Read:
    """A row of a tensor from outside."""

    sweep: Sweep


@record
class Write:
    """A tensor, of which a row is replaced in each repeat; nothing else looks at it meanwhile."""

    sweep: Sweep
    init: Node
    source: Role


@record
class Invariant:
    """What all repeats compute alike, of tensors from outside: the first one's serves all."""


Kind = BodyNode | Read | Write | Invariant


@record
class Repeats:
    """Repeats that are one body.

    Attributes:
        rows: the nodes of each repeat.
        body: what each node of a repeat is.
    """

    rows: Sequence[Sequence[Node]]
    body: Sequence[Kind]
