"""What every importer class is: one Caffe2 operator's shape rule and its translation to `rnn`."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from xdsl.ir import OpResult, SSAValue

from rnncc.errors import CompileError, Location
from rnncc.frontends.caffe2.blobs import Blob
from rnncc.frontends.caffe2.constants import RULES, Known
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim, Dims
from rnncc.ir.types import FLOATS
from rnncc.netdef import Arguments, OperatorDef

if TYPE_CHECKING:
    from rnncc.frontends.caffe2.forward_index import ForwardIndex
    from rnncc.frontends.caffe2.graph import Resolver

Array = np.ndarray[Any, np.dtype[Any]]

_UNPRINTABLE = re.compile(r"[^A-Za-z0-9_]")

ANY = 1 << 30
"""No upper bound on a number of operands."""


def hint_of(name: str) -> str:
    """What a blob's values are called in the IR."""
    hint = _UNPRINTABLE.sub("_", name[:64])
    return hint if hint[0].isalpha() else f"v{hint}"  # xDSL drops a number at the end


@dataclass
class Emitter:
    """A builder with the values of the blobs built so far."""

    b: Builder
    shapes: Shapes
    values: dict[Blob, SSAValue] = field(default_factory=dict[Blob, SSAValue])
    told_apart: dict[Operator, dict[Blob, SSAValue]] = field(
        default_factory=dict["Operator", dict[Blob, SSAValue]]
    )
    called: set[SSAValue] = field(default_factory=set[SSAValue])
    """The values that have a blob's name."""

    def build(self, op: Operator) -> None:
        """Translate an operator; where its gradient is wanted, one value read as two blobs becomes
        two values, so that each has a gradient of its own."""
        self.b.loc = op.location
        apart = self._apart(op) if op.has_gradient else {}
        if not apart:
            op.build(self)
            return
        values = {**self.values, **apart}
        inner = Emitter(self.b, self.shapes, values, self.told_apart, self.called)
        op.build(inner)
        self.told_apart[op] = apart
        self.values |= {y: inner.values[y] for y in op.produced() if y in inner.values}

    def read(self, op: Operator, blob: Blob) -> SSAValue:
        """The value of a blob as an operator that was built reads it."""
        apart = self.told_apart.get(op, {})
        return apart[blob] if blob in apart else self[blob]

    def _apart(self, op: Operator) -> dict[Blob, SSAValue]:
        read = dict.fromkeys(op.captured())
        floats = [x for x in read if x in self.values and x.dtype in FLOATS]
        seen, apart = set[SSAValue](), dict[Blob, SSAValue]()
        for blob in floats:
            value, dims = self.values[blob], self.dims(blob)
            if value in seen:
                # The same elements as another value; `Simplify` removes both reshapes once
                # gradients are built.
                apart[blob] = self.b.reshape(self.b.reshape(value, (1, *dims)), dims)
            seen.add(value)
        return apart

    def __getitem__(self, blob: Blob) -> SSAValue:
        """The value of a blob; a vector of sizes is built when first asked for."""
        if blob not in self.values:
            self.values[blob] = self._sizes(blob)
        return self.values[blob]

    def __setitem__(self, blob: Blob, value: SSAValue) -> None:
        """Blobs have the user's names, whatever a formula calls what it computes."""
        self.values[blob] = value
        self.name(value, blob.name)

    def name(self, value: SSAValue, blob: str) -> None:
        """Call a value as a blob, unless it is an argument or has the name of another."""
        if value.name_hint is None or (isinstance(value, OpResult) and value not in self.called):
            value.name_hint = hint_of(blob)
        self.called.add(value)

    def dims(self, blob: Blob) -> Dims:
        """A blob's shape."""
        return self.shapes.known(blob)

    def _sizes(self, blob: Blob) -> SSAValue:
        sizes = self.shapes.value(blob)
        assert sizes is not None, f"{blob.name} was not built"
        dtype = blob.dtype or "i64"
        if not sizes:
            what = f'"{blob.name}" holds the sizes of a scalar, which are none'
            raise CompileError(self.shapes.location, what)
        parts = [self.b.reshape(self.b.size(size, dtype), (1,)) for size in sizes]
        return self.b.concat(parts, 0)


class Operator(ABC):
    """One operator of a net.

    Subclasses say how many inputs and outputs there may be, read their arguments in `setup`,
    state their shapes in `infer` (called until nothing new follows) and translate in `build`.
    """

    inputs: ClassVar[tuple[int, int]] = (1, 1)
    outputs: ClassVar[tuple[int, int]] = (1, 1)
    is_gradient: ClassVar[bool] = False
    """Whether it may read what only gradient operators need."""
    takes_opaque: ClassVar[bool] = False
    """Whether its inputs may be blobs that hold no tensor."""
    takes_ends: ClassVar[bool] = False
    """Whether its first input may end where a run decides."""

    size_hint: ClassVar[str | None] = None
    """What may tell a size of its output that nothing tells."""
    shares_memory: ClassVar[bool] = False
    """Whether its output is another name for the memory of its input."""

    def __init__(
        self,
        op: OperatorDef,
        inputs: Sequence[Blob],
        outputs: Sequence[Blob],
        location: Location,
        maker: Resolver,
    ) -> None:
        self.op = op
        self.xs = list(inputs)
        self.ys = list(outputs)
        self.reads = self.xs
        """The blobs it reads; where one stands twice, `xs` has copies instead."""
        self.has_gradient = self.implied = False
        self.beside: dict[str, Blob] = {}
        """What names stand for after it that are none of its outputs."""
        self.location = location
        self.args = Arguments(op, location)
        for kind, blobs, (least, most) in (
            ("inputs", inputs, self.inputs),
            ("outputs", outputs, self.outputs),
        ):
            if not least <= len(blobs) <= most:
                raise self.error(f"has {len(blobs)} {kind}, expected {range_text(least, most)}")
        self.setup(maker)

    @property
    def text(self) -> str:
        """It in messages about another operator of the same net: `op 3 (FC "y")`."""
        return self.location.node.rpartition(": ")[2]

    def setup(self, maker: Resolver) -> None:  # noqa: B027, by default nothing
        """Read the arguments; raises `CompileError` where they are wrong."""

    def find_forward(self, earlier: ForwardIndex) -> None:  # noqa: B027, by default nothing
        """Find the operator that this one is the gradient of, if it is one."""

    @abstractmethod
    def infer(self, s: Shapes) -> None:
        """State what follows about the shapes of inputs and outputs from each other."""

    def assume(self, s: Shapes, level: int) -> None:  # noqa: B027, by default nothing
        """Where inference is stuck, choose: level 0 ranks of sequences, 1 of rows, 2 the rest,
        3 conditions."""

    def extent(self, s: Shapes) -> tuple[Dim | None, Dim | None]:
        """The sizes that this operator shows to be time (T) and batch (N)."""
        return None, None

    def fixed(self, s: Shapes) -> Iterable[Dim]:
        """The sizes that must be numbers, not symbols."""
        return ()

    def defaults(self, s: Shapes) -> Iterable[tuple[Blob, Array]]:
        """What inputs hold by Caffe2's own conventions where nobody fills them."""
        return ()

    @abstractmethod
    def build(self, e: Emitter) -> None:
        """Emit ops and set the outputs' values."""

    def nested(self) -> Sequence[Operator]:
        """The operators of nets inside, in order."""
        return ()

    def captured(self) -> Sequence[Blob]:
        """The blobs whose values `build` reads."""
        return self.xs

    def produced(self) -> Sequence[Blob]:
        """The blobs whose values `build` sets."""
        return self.ys

    def evaluate(self, values: Sequence[Known | None]) -> Known | None:
        """Its output, where that is one integer or bool and follows from such inputs."""
        rule = RULES.get(self.op.type)
        return None if rule is None else rule(values)

    def error(self, what: str, hint: str | None = None) -> CompileError:
        """An error at this operator."""
        return CompileError(self.location, what, hint)

    def unknown_content(self, blob: Blob) -> CompileError:
        """An error: what a blob holds decides sizes, and only a run shows it."""
        hint = "an init net or --bind can give it"
        return self.error(
            f'needs the content of "{blob.name}", which is not known at compile time', hint
        )

    def require_content(self, s: Shapes, level: int, blob: Blob) -> None:
        """At level 2 of `assume` raise where it is not known what a blob holds."""
        if level == 2 and s.value(blob) is None:
            raise self.unknown_content(blob)

    def expect_rows(self, dims: Dims | None) -> None:
        """Raise `CompileError` where data has no axes, and so no rows."""
        if dims is not None and not dims:
            raise self.error("data without axes, expected rows")

    def expect_indices(self, blob: Blob) -> None:
        """Raise `CompileError` where a blob holds no integers that number rows."""
        if blob.dtype not in (None, "i32", "i64"):
            raise self.error(f'"{blob.name}" is {blob.dtype}, expected int32 or int64')

    def has_channels_last(self) -> bool:
        """Whether the argument `order` says that channels are the last axis, not axis 1."""
        order = self.args.str("order", "NCHW")
        if order not in ("NCHW", "NHWC"):
            raise self.error(f"argument 'order' is {order!r}, expected NCHW or NHWC")
        return order == "NHWC"

    def axis(self, name: str, default: int, rank: int, extra: int = 0) -> int:
        """An axis argument, counted from the front; `extra` more positions than axes."""
        axis = self.args.int(name, default)
        if not -rank - extra <= axis < rank + extra:
            raise self.error(f"argument {name!r} is {axis}, but the tensor has rank {rank}")
        return axis + rank + extra if axis < 0 else axis


def range_text(least: int, most: int) -> str:
    """How many there may be, in words."""
    if least == most:
        return str(least)
    return f"at least {least}" if most == ANY else f"{least} to {most}"
