"""What operators with an argument `order` share: the channels of X come second, or last."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from rnncc.frontends.caffe2.blobs import Blob
from rnncc.frontends.caffe2.graph import Resolver
from rnncc.frontends.caffe2.operator import Emitter, Operator
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.dims import Dim, Dims
from rnncc.nn.convolution import channels_first, channels_last

PLANE = ("h", "w")
"""How arguments tell the axes of an image apart."""
SIDES = ("t", "l", "b", "r")
"""How they tell pads apart: above, left, below and right."""


class OfChannels(Operator):
    """An operator on X [N, C, ...], or where `order` is NHWC on [N, ..., C]: it sees the former."""

    def setup(self, maker: Resolver) -> None:
        self.channels_last = self.has_channels_last()

    def numbers(self, name: str, ends: Sequence[str], default: int | None, count: int) -> list[int]:
        """An argument's number for each axis or side, as Caffe2 finds them: those of `names`, else
        `name` for all, else `name_h` and the others where all of them are there."""
        if f"{name}s" in self.args:
            numbers = [int(n) for n in self.args.ints(f"{name}s")]
            name = f"{name}s"
        elif name in self.args:
            numbers = [self.args.int(name, 0)] * count
        elif all(f"{name}_{end}" in self.args for end in ends):
            numbers = [self.args.int(f"{name}_{end}", 0) for end in ends]
            name = f"{name}_{ends[0]}"
        elif default is None:
            raise self.error(f"lacks the argument {name!r}")
        else:
            numbers = [default] * count
        if default is not None and len(numbers) != count:
            raise self.error(f"argument {name!r} has {len(numbers)} numbers, expected {count}")
        return numbers

    def dims(self, s: Shapes, blob: Blob) -> Dims | None:
        """A blob's shape as in NCHW."""
        dims = s.dims(blob)
        if dims is None or not self.channels_last or len(dims) < 2:
            return dims
        return dims[0], dims[-1], *dims[1:-1]

    def expect(self, s: Shapes, blob: Blob, dims: Sequence[Dim | int]) -> None:
        """State a blob's shape, told as in NCHW."""
        if self.channels_last and len(dims) > 1:
            dims = (dims[0], *dims[2:], dims[1])
        s.expect(blob, dims)

    def operand(self, e: Emitter, blob: Blob) -> SSAValue:
        """A blob's value as in NCHW."""
        return channels_first(e.b, e[blob]) if self.channels_last else e[blob]

    def give(self, e: Emitter, blob: Blob, y: SSAValue) -> None:
        """Set a result, which is as in NCHW."""
        e[blob] = channels_last(e.b, y) if self.channels_last else y
