"""Quantised tensors: x = (numbers - zero) · scale, and exact products of the numbers.

Numbers are stored narrow; zero points and sums are i32, of rank 0 or of shapes that broadcast.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.types import dims_of, dtype_of
from rnncc.nn.cells import CellWeights
from rnncc.nn.convolution import are_sums, convolution
from rnncc.nn.linear import matmul
from rnncc.nn.reduction import reduce_keepdims
from rnncc.nn.steps import Named
from rnncc.nn.windows import Window
from rnncc.records import record

LIMITS = {"u8": (0, 255), "i8": (-128, 127), "u16": (0, 65535), "i16": (-32768, 32767)}
"""The least and the largest number of each type."""
SHIFT = 128
"""Between an uint8 and the int8 that products are made of."""
Zero = SSAValue | None
"""A zero point; None for 0."""


def quantise(b: Builder, x: SSAValue, scale: SSAValue, zero: Zero, dtype: str) -> SSAValue:
    """x / scale + zero as the nearest integer, ties to even, within the type's limits."""
    return b.cast(level(b, b.div(x, scale), zero, dtype), dtype)


def level(b: Builder, x: SSAValue, zero: Zero, dtype: str) -> SSAValue:
    """x as the nearest integer, ties to even, + zero, within the type's limits: still a float.

    NaN is the least number, as ONNX Runtime has it: rows that a mask takes out later must not
    spread it.
    """
    low, high = (b.fill(limit, (), "f32") for limit in LIMITS[dtype])
    number = b.round("even", x)
    number = number if zero is None else b.add(number, b.cast(zero, "f32"))
    number = b.select(b.compare("gt", number, low), number, low)
    return b.select(b.compare("lt", number, high), number, high)


def dequantise(b: Builder, x: SSAValue, scale: SSAValue, zero: Zero) -> SSAValue:
    """(x - zero) · scale, of integers or of integers held as floats"""
    if dtype_of(x) != "f32":
        return b.mul(b.cast(without_zero(b, x, zero), "f32"), scale)
    return b.mul(x if zero is None else b.sub(x, b.cast(zero, "f32")), scale)


def without_zero(b: Builder, x: SSAValue, zero: Zero) -> SSAValue:
    """x - zero as i32"""
    wide = b.cast(x, "i32")
    return wide if zero is None else b.sub(wide, zero)


def range_of(b: Builder, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """The scale, and the zero point 0..255, for which uint8 reach from x's least to its largest.

    0 is among them; the scale of zeros alone is 1, as ONNX Runtime has it.
    """
    axes, zero, one = range(len(dims_of(x))), b.fill(0, ()), b.fill(1, ())
    least = b.minimum(b.reduce("min", x, axes), zero)
    most = b.maximum(b.reduce("max", x, axes), zero)
    span = b.sub(most, least)
    scale = b.select(b.compare("eq", span, zero), one, b.div(span, b.fill(255, ())))
    return scale, b.cast(level(b, b.div(b.neg(least), scale), None, "u8"), "i32")


def signed(b: Builder, x: SSAValue, zero: Zero) -> tuple[SSAValue, Zero]:
    """i8 or u8 numbers as i8, and their zero point."""
    if dtype_of(x) == "i8":
        return x, zero
    shift = b.fill(SHIFT, (), "i32")
    moved = b.fill(-SHIFT, (), "i32") if zero is None else b.sub(zero, shift)
    return b.cast(b.sub(b.cast(x, "i32"), shift), "i8"), moved


def integer_matmul(b: Builder, x: SSAValue, x_zero: Zero, w: SSAValue, w_zero: Zero) -> SSAValue:
    """Σₖ (x - x_zero) (w - w_zero), exact, as i32: NumPy's matmul of both.

    Args:
        x, w: i8 or u8, of two axes at least.
        x_zero: for all of x, or one a row: [..., m, 1].
        w_zero: for all of w, or one a column: [..., 1, n].
    Raises:
        CompileError: as of `rnncc.nn.linear.matmul`.
    """
    (x, x_zero), (w, w_zero) = signed(b, x, x_zero), signed(b, w, w_zero)
    y = matmul(b, x, w)
    if x_zero is not None:
        y = b.sub(y, b.mul(x_zero, _column_sums(b, w)))
    if w_zero is not None:
        y = b.sub(y, b.mul(w_zero, _sums(b, x, len(dims_of(x)) - 1)))
    if x_zero is not None and w_zero is not None:
        y = b.add(y, b.mul(b.mul(x_zero, w_zero), b.size(dims_of(x)[-1], "i32")))
    return y


def integer_convolution(
    b: Builder,
    x: tuple[SSAValue, Zero],
    weights: tuple[SSAValue, Zero],
    bias: SSAValue | None,
    windows: Sequence[Window],
    groups: int,
) -> SSAValue:
    """The convolution of numbers less their zero points, exact, as i32, plus a bias of i32.

    Args:
        x, weights: as `rnncc.nn.convolution.convolution` takes them, i8 or u8; with a zero point
            for all, of weights also one for each of the M: [M, 1...].
    """
    (numbers, x_zero), (kernel, w_zero) = signed(b, *x), signed(b, *weights)
    several = w_zero is not None and len(dims_of(w_zero)) > 0
    units, channels = map(int, dims_of(kernel)[:2])
    if groups > 1 and (several or are_sums(channels, units // groups, groups)):
        wide = without_zero(b, numbers, x_zero), without_zero(b, kernel, w_zero)
        return convolution(b, *wide, bias, windows, groups, product=_wide_product)
    pad = 0.0 if x_zero is None else b.cast(x_zero, "i8")
    columns = b.reshape(w_zero, (units,)) if several and w_zero is not None else w_zero

    def product(b: Builder, rows: SSAValue, own: SSAValue) -> SSAValue:
        return integer_matmul(b, rows, x_zero, b.transpose(own, (1, 0)), columns)

    return convolution(b, numbers, kernel, bias, windows, groups, pad, product)


def _wide_product(b: Builder, rows: SSAValue, own: SSAValue) -> SSAValue:
    """Rows [..., K] times weights [M, K], of i32."""
    *lead, depth = dims_of(rows)
    terms = b.mul(b.reshape(rows, (*lead, 1, depth)), own)
    return b.reduce("sum", terms, [len(lead) + 1])


def _column_sums(b: Builder, w: SSAValue) -> SSAValue:
    """Σₖ w: of one matrix a product, which is known wherever w is."""
    if len(dims_of(w)) > 2:
        return _sums(b, w, len(dims_of(w)) - 2)
    return b.matmul(b.fill(1, (1, dims_of(w)[0]), "i8"), w)


def _sums(b: Builder, x: SSAValue, axis: int) -> SSAValue:
    """Sums along an axis, which stays as 1."""
    return reduce_keepdims(b, "sum", b.cast(x, "i32"), [axis])


def dynamic_matmul(
    b: Builder, x: SSAValue, w: SSAValue, w_scale: SSAValue, w_zero: Zero
) -> SSAValue:
    """x times the floats that w stands for, x quantised to uint8 by its own range."""
    scale, zero = range_of(b, x)
    numbers = quantise(b, x, scale, zero, "u8")
    y = integer_matmul(b, numbers, zero, w, w_zero)
    return b.mul(b.cast(y, "f32"), b.mul(scale, w_scale))


@record
class IntegerWeights(CellWeights):
    """Weights of integers; x is quantised over all steps, h in each step.

    Attributes:
        scales: of w and of u, of rank 0 or [kH].
        zeros: their zero points, likewise.
    """

    scales: tuple[SSAValue, SSAValue] | None = None
    zeros: tuple[Zero, Zero] = (None, None)

    def project(self, b: Builder, x: SSAValue) -> SSAValue:
        assert self.scales is not None
        y = dynamic_matmul(b, x, self._columns(b, self.w), self.scales[0], self.zeros[0])
        return b.add(y, reduce(b.add, self.biases)) if self.biases else y

    def shared(self) -> dict[str, SSAValue]:
        assert self.scales is not None
        zero = {} if self.zeros[1] is None else {"u_zero": self.zeros[1]}
        return {**super().shared(), "u_scale": self.scales[1], **zero}

    def product(self, b: Builder, shared: Named, h: SSAValue) -> SSAValue:
        u, zero = self._columns(b, shared["u"]), shared.get("u_zero")
        return dynamic_matmul(b, h, u, shared["u_scale"], zero)

    def _columns(self, b: Builder, w: SSAValue) -> SSAValue:
        """[I, kH] or [H, kH]"""
        return b.transpose(w, (1, 0)) if self.by_unit else w
