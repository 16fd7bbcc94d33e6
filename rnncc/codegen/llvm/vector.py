"""Arithmetic on one float vector as LLVM IR: the base that the elementary functions stand on.

In: values of `VectorEmitter.type` and an IRBuilder. Out: the results' values. Nothing here
branches, touches memory or calls a library, and no result depends on the lane count.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from math import isnan
from typing import Literal

from llvmlite import ir

from rnncc.codegen.llvm.text_builder import spread
from rnncc.codegen.llvm.values import declared
from rnncc.ir.types import ITEM_BYTES
from rnncc.platforms import architecture_of
from rnncc.records import record

Real = Literal["f32", "f64"]
"""The element types that there is arithmetic of."""
FORMATS: dict[Real, tuple[ir.Type, ir.IntType, str]] = {
    "f32": (ir.FloatType(), ir.IntType(32), "f"),
    "f64": (ir.DoubleType(), ir.IntType(64), "d"),
}
"""Element type -> that of LLVM, the integer of its bits, its letter in `struct`."""


SCALED_BYTES = 64
"""Of a vector that an instruction scales."""
ROUNDING_AS_SET = 4
"""To an AVX-512 instruction: the rounding that all others have."""
MANTISSA = {"f32": 23, "f64": 52}
"""Element type -> bits behind the point of a number from 1 to 2."""


def real_of(dtype: str) -> Real:
    """An element type that is a float."""
    assert dtype in FORMATS, f"{dtype} is no float"
    return dtype


@record
class Vector:
    """What arithmetic is emitted for.

    Args:
        lanes: elements in one value; 1 is a plain scalar.
        fma: the target has fused multiply-add; without it a*b + c is a multiply and an add.
        dtype: the element type.
        scales: the target multiplies 64 bytes of elements by powers of two in one instruction
            (AVX-512).
        rounds: element types that the target rounds to integers by instructions.
    """

    lanes: int
    fma: bool = True
    dtype: Real = "f32"
    scales: bool = False
    rounds: frozenset[str] = frozenset({"f32", "f64"})


class Splat(ir.Constant):
    """One value in every lane, of vectors; printed and parsed as one value, not as all lanes."""

    def get_reference(self) -> str:
        if isinstance(self.type, ir.VectorType):
            return f"splat ({self.constant[0]})"
        return super().get_reference()

    @property
    def is_nan(self) -> bool:
        """Whether it is a float that is no number."""
        value = self.constant[0].constant if isinstance(self.type, ir.VectorType) else self.constant
        return isinstance(value, float) and isnan(value)


class VectorEmitter:
    """Emits elementwise arithmetic into `module`; every method takes the builder first.

    `type` is the LLVM type of a value (a float or <lanes x float>, or double in place of float),
    `integer` the type of its bits.
    """

    def __init__(self, module: ir.Module, vector: Vector) -> None:
        self.module = module
        self.vector = vector
        element, bits, self._letter = FORMATS[vector.dtype]
        self.type, self.integer = self.like(element), self.like(bits)

    def like(self, element: ir.Type) -> ir.Type:
        """The type of as many lanes of `element`."""
        lanes = self.vector.lanes
        return ir.VectorType(element, lanes) if lanes > 1 else element

    def constant(self, type: ir.Type, value: float) -> ir.Constant:
        """`value` in every lane of `type`."""
        return Splat(type, value)

    def splat(self, value: float) -> ir.Constant:
        """The constant `value`, rounded to the element type, in every lane."""
        letter = self._letter
        return self.constant(self.type, struct.unpack(letter, struct.pack(letter, value))[0])

    def splat_bits(self, value: int) -> ir.Constant:
        """The integer `value`, of as many bits as an element, in every lane."""
        return self.constant(self.integer, value)

    def broadcast(self, b: ir.IRBuilder, scalar: ir.Value) -> ir.Value:
        """A run-time float in every lane."""
        return scalar if self.vector.lanes == 1 else spread(b, scalar, self.vector.lanes)

    def fma(self, b: ir.IRBuilder, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
        """x*y + z, rounded once where the target can, else twice."""
        if not self.vector.fma:
            return b.fadd(b.fmul(x, y), z)
        if architecture_of(self.module.triple).startswith("wasm"):
            return self._relaxed_madd(b, x, y, z)
        return self._intrinsic(b, "fma", x, y, z)

    @property
    def scales_whole(self) -> bool:
        """Whether `scaled` is there for these vectors."""
        return (
            self.vector.scales and self.vector.lanes * ITEM_BYTES[self.vector.dtype] == SCALED_BYTES
        )

    def scaled(self, b: ir.IRBuilder, x: ir.Value, n: ir.Value) -> ir.Value:
        """x * 2**n of integers n as floats, rounded once."""
        lanes = ir.IntType(self.vector.lanes)
        as_told = ir.IntType(32)
        kind = "ps" if self.vector.dtype == "f32" else "pd"
        name = f"llvm.x86.avx512.mask.scalef.{kind}.512"
        types = [self.type, self.type, self.type, lanes, as_told]
        operands = [x, n, ir.Constant(self.type, ir.Undefined), lanes(-1), as_told(ROUNDING_AS_SET)]
        return b.call(declared(self.module, name, self.type, types), operands)

    def polynomial(self, b: ir.IRBuilder, x: ir.Value, terms: Sequence[float]) -> ir.Value:
        """terms[0] + terms[1]*x + terms[2]*x**2 + ...

        Horner's rule; of many terms the even and the odd ones apart, which halves the chain of
        dependent operations and takes a product more: from five terms on, from seven on where a
        term is one operation.
        """
        if len(terms) < (7 if self.vector.fma else 5):
            return self._horner(b, x, terms)
        square = b.fmul(x, x)
        odd = self._horner(b, square, terms[1::2])
        return self.fma(b, odd, x, self._horner(b, square, terms[::2]))

    def minimum(self, b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
        """The smaller of two; NaN if either is. Which zero minimum(-0, 0) gives is open."""
        return self._extremum(b, "<", x, y)

    def maximum(self, b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
        """The larger of two; NaN if either is. Which zero maximum(-0, 0) gives is open."""
        return self._extremum(b, ">", x, y)

    def clamp(self, b: ir.IRBuilder, x: ir.Value, low: float, high: float) -> ir.Value:
        """x held within [low, high]; NaN stays."""
        return self.maximum(b, self.splat(low), self.minimum(b, self.splat(high), x))

    def function(self, name: str) -> Callable[..., ir.Value]:
        """The method that computes an op: builder and operands in, value out."""
        return getattr(self, name)

    def neg(self, b: ir.IRBuilder, x: ir.Value) -> ir.Value:
        """-x, exact."""
        return b.fneg(x)

    def add(self, b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
        """x + y, rounded once."""
        return b.fadd(x, y)

    def sub(self, b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
        """x - y, rounded once."""
        return b.fsub(x, y)

    def mul(self, b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
        """x * y, rounded once."""
        return b.fmul(x, y)

    def div(self, b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
        """x / y, rounded once."""
        return b.fdiv(x, y)

    def relu(self, b: ir.IRBuilder, x: ir.Value) -> ir.Value:
        """max(x, 0); NaN and -0 stay."""
        return self.maximum(b, x, self.splat(0.0))

    def sqrt(self, b: ir.IRBuilder, x: ir.Value) -> ir.Value:
        """The square root, correctly rounded; NaN below zero, sqrt(-0) = -0."""
        return self._intrinsic(b, "sqrt", x)

    def abs(self, b: ir.IRBuilder, x: ir.Value) -> ir.Value:
        """|x|, exact."""
        return self._intrinsic(b, "fabs", x)

    def round(self, b: ir.IRBuilder, x: ir.Value) -> ir.Value:
        """The nearest integer, ties to even (NumPy's rint)."""
        if self.vector.dtype in self.vector.rounds:
            return self._intrinsic(b, "roundeven", x)
        size = self.abs(b, x)
        most = self.splat(2.0 ** MANTISSA[self.vector.dtype])  # above, all numbers are whole
        near = b.fsub(b.fadd(size, most), most)
        return self.copy_sign(b, b.select(b.fcmp_ordered("<", size, most), near, size), x)

    def rounded(self, b: ir.IRBuilder, kind: str, x: ir.Value) -> ir.Value:
        """An integer near x: floor, ceil, even or trunc; exact."""
        if kind == "even":
            return self.round(b, x)
        if self.vector.dtype in self.vector.rounds:
            return self._intrinsic(b, kind, x)
        # LLVM would call functions of libm, which C compilers for boards come with or not.
        near, one, zero = self.round(b, x), self.splat(1.0), self.splat(0.0)
        size, whole = (self.abs(b, x), self.abs(b, near)) if kind == "trunc" else (x, near)
        order, step = ("<", b.fadd) if kind == "ceil" else (">", b.fsub)
        beyond = b.select(b.fcmp_ordered(order, whole, size), one, zero)
        return self.copy_sign(b, step(whole, beyond), x)

    def copy_sign(self, b: ir.IRBuilder, magnitude: ir.Value, sign: ir.Value) -> ir.Value:
        """|magnitude| with the sign of `sign`."""
        return self._intrinsic(b, "copysign", magnitude, sign)

    def bits(self, b: ir.IRBuilder, x: ir.Value) -> ir.Value:
        """The float's bits as an integer."""
        return b.bitcast(x, self.integer)

    def from_bits(self, b: ir.IRBuilder, x: ir.Value) -> ir.Value:
        """The float that has these bits."""
        return b.bitcast(x, self.type)

    def _horner(self, b: ir.IRBuilder, x: ir.Value, terms: Sequence[float]) -> ir.Value:
        result: ir.Value = self.splat(terms[-1])
        for term in reversed(terms[:-1]):
            result = self.fma(b, result, x, self.splat(term))
        return result

    def _extremum(self, b: ir.IRBuilder, order: str, x: ir.Value, y: ir.Value) -> ir.Value:
        """One instruction where either side is a constant: put first, since a NaN in y wins.

        x86 has that one alone. Of a NaN in x the sum stands for x there: LLVM would merge two
        choices of x into one, and compare twice in the place of taking the larger (a window of 3x3
        takes 0.77 of the time).
        """
        if isinstance(y, ir.Constant):
            x, y = y, x
        if isinstance(x, Splat) and x.is_nan:
            return x
        chosen = b.select(b.fcmp_ordered(order, x, y), x, y)
        if isinstance(x, ir.Constant):
            return chosen
        one = architecture_of(self.module.triple) == "x86_64"
        return b.select(b.fcmp_unordered("uno", x, x), b.fadd(x, x) if one else x, chosen)

    def _relaxed_madd(self, b: ir.IRBuilder, *operands: ir.Value) -> ir.Value:
        """WebAssembly has it of whole registers alone: a number by itself is a lane of one."""
        dtype = self.vector.dtype
        if self.vector.lanes > 1:
            return self._intrinsic(b, "wasm.relaxed.madd", *operands)
        whole = VectorEmitter(self.module, Vector(4 if dtype == "f32" else 2, dtype=dtype))
        wide = [whole.broadcast(b, operand) for operand in operands]
        return b.extract_element(whole.fma(b, wide[0], wide[1], wide[2]), ir.IntType(32)(0))

    def _intrinsic(self, b: ir.IRBuilder, name: str, *operands: ir.Value) -> ir.Value:
        lanes, dtype = self.vector.lanes, self.vector.dtype
        suffix = dtype if lanes == 1 else f"v{lanes}{dtype}"
        types = [self.type] * len(operands)
        return b.call(declared(self.module, f"llvm.{name}.{suffix}", self.type, types), operands)
