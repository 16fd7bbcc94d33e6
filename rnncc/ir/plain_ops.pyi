"""Written by `tools/write_plain_ops.py` from the classes of the ops; do not edit."""

from abc import ABC, abstractmethod

from xdsl.ir import Attribute, SSAValue

from rnncc.ir.ops.base import RnnOp

PLAIN: list[type[RnnOp]]

def flags_of(op: type[RnnOp]) -> dict[str, bool]: ...

class PlainOps(ABC):
    @abstractmethod
    def broadcast_together(self, *values: SSAValue) -> list[SSAValue]: ...
    @abstractmethod
    def append(
        self, op: type[RnnOp], *operands: SSAValue, **properties: Attribute
    ) -> SSAValue: ...
    def neg(self, x: SSAValue) -> SSAValue:
        """y = -x"""
    def abs(self, x: SSAValue) -> SSAValue:
        """y = |x|"""
    def relu(self, x: SSAValue) -> SSAValue:
        """y = max(x, 0); -0 stays"""
    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """y = a + b"""
    def sub(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """y = a - b"""
    def mul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """y = a · b"""
    def multiply_add(self, kind: str, a: SSAValue, b: SSAValue, c: SSAValue) -> SSAValue:
        """y = a · b + c (add), a · b - c (sub) or c - a · b (from), rounded once where machines can"""
    def div(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """y = a / b; of integers towards zero, where a / 0 is 0"""
    def share(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """y = a · (1 / b), rounded twice: many shares of one sum, which is divided by once"""
    def maximum(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """y = max(a, b); NaN if either is"""
    def minimum(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """y = min(a, b); NaN if either is"""
    def rem(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """y = a - b · trunc(a / b), exactly; if b is 0, NaN, and a of integers"""
    def round(self, kind: str, x: SSAValue) -> SSAValue:
        """y = an integer near x: floor, ceil, even (the nearest, of two the even one) or trunc"""
    def compare(self, kind: str, a: SSAValue, b: SSAValue) -> SSAValue:
        """y = a ? b as i1, with ? one of lt, le, gt, ge, eq, ne; only ne holds for NaN"""
    def logical(self, kind: str, a: SSAValue, b: SSAValue) -> SSAValue:
        """y = a ? b over i1, with ? one of and, or, xor"""
    def bits(self, kind: str, a: SSAValue, b: SSAValue) -> SSAValue:
        """y = a ? b over the bits of integers, with ? one of and, or, xor, left, right"""
    def select(self, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        """y = a where the condition holds, else b"""
    def stop_gradient(self, x: SSAValue) -> SSAValue:
        """y = x, and no gradient flows back to x"""
    def bitcast(self, x: SSAValue) -> SSAValue:
        """y = x's bits as float32 for int32, float64 for int64, and the other way"""
    def sqrt(self, x: SSAValue) -> SSAValue:
        """y = √x; NaN below zero"""
    def exp(self, x: SSAValue) -> SSAValue:
        """y = eˣ"""
    def log(self, x: SSAValue) -> SSAValue:
        """y = ln x; -∞ at zero, NaN below"""
    def log1p(self, x: SSAValue) -> SSAValue:
        """y = ln(1 + x), accurate near 0; -∞ at -1, NaN below"""
    def expm1(self, x: SSAValue) -> SSAValue:
        """y = eˣ - 1, accurate near 0"""
    def tanh(self, x: SSAValue) -> SSAValue:
        """y = tanh x"""
    def sigmoid(self, x: SSAValue) -> SSAValue:
        """y = 1 / (1 + e⁻ˣ)"""
    def erf(self, x: SSAValue) -> SSAValue:
        """y = 2/√π ∫₀ˣ e^(-t²) dt"""
    def sin(self, x: SSAValue) -> SSAValue:
        """y = sin x; of float64 NaN from |x| = 2⁶³ on"""
    def cos(self, x: SSAValue) -> SSAValue:
        """y = cos x; of float64 NaN from |x| = 2⁶³ on"""
    def uniform(self, seed: SSAValue, index: SSAValue, stream: int) -> SSAValue:
        """y = one of the multiples of 2⁻²⁴ in [0, 1), each as likely: Philox-2x32-10 of index and seed"""
    def reverse_segments(self, x: SSAValue, lengths: SSAValue) -> SSAValue:
        """y[t, n] = x[len[n] - 1 - t, n] for t < len[n], else x[t, n]; lengths beyond T are an error"""
    def shift(self, x: SSAValue, init: SSAValue, reverse: bool = ...) -> SSAValue:
        """y[0] = init, y[t] = x[t - 1]; with `reverse` y[T - 1] = init, y[t] = x[t + 1]"""
    def gather(self, x: SSAValue, index: SSAValue, axis: int, counts: bool = ...) -> SSAValue:
        """y[a..., j..., c...] = x[a..., index[j...], c...]; an index outside of x is an error"""
    def scatter(self, kind: str, init: SSAValue, x: SSAValue, index: SSAValue, axis: int) -> SSAValue:
        """y = init, where y[a..., index[j...], c...] is folded with x[a..., j..., c...], j upwards"""
    def matmul(self, a: SSAValue, b: SSAValue, transpose_a: bool = ..., transpose_b: bool = ...) -> SSAValue:
        """y[..., m, n] = Σₖ a[..., m, k] · b[..., k, n]"""
    def contract(self, init: SSAValue, a: SSAValue, b: SSAValue, reverse: bool = ...) -> SSAValue:
        """y[m, n] = init[m, n] + Σₖ a[k, m] · b[k, n], one multiply-add after another"""
    def sum_rows(self, init: SSAValue, x: SSAValue, reverse: bool = ...) -> SSAValue:
        """y = init + Σₖ x[k], one after another"""
