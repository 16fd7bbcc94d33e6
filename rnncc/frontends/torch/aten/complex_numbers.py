# pyright: basic, reportMissingImports=false
"""aten's operators on complex numbers, which are pairs of values here.

What acts on each part by itself is translated as it is for floats, once for each part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch.utils import _pytree as pytree
from xdsl.ir import SSAValue

from rnncc.frontends.torch.node_context import (
    NodeContext,
    Table,
    Translation,
    Value,
    common_type,
    rank_of,
)
from rnncc.ir.dims import Dim
from rnncc.ir.types import FLOATS, dims_of
from rnncc.nn import complex_numbers as cn
from rnncc.nn.arithmetic import times
from rnncc.nn.axes import move_axis
from rnncc.nn.complex_numbers import Complex
from rnncc.records import record

LARGEST_TRANSFORM = 256
"""A Fourier transform along an axis of more numbers is refused: its matrix would be large."""
NORMS: tuple[Callable[[int], float], ...] = (lambda _: 1.0, lambda n: n**-0.5, lambda n: 1 / n)
"""What a transform of n numbers is multiplied by, by aten's number for it."""


def is_complex(args: Any) -> bool:
    """Whether there is a complex number among arguments."""
    return any(isinstance(leaf, (Complex, complex)) for leaf in pytree.tree_leaves(args))


@record
class PartsOperator:
    """An operator on the parts: the one of floats.

    Attributes:
        data: the numbers of its arguments that are tensors of what it computes with; numbers there
            have an imaginary part of 0.
    """

    data: Sequence[int] = (0,)

    def __call__(self, translation: Translation, at: NodeContext, *args: Any, **kwargs: Any) -> Any:
        """What it gives for the real parts, and for the imaginary ones."""
        if is_complex(kwargs):
            at.refuse("a complex factor here is not supported", "multiply by it before")
        promoted = [_promoted(at, x) if i in self.data else x for i, x in enumerate(args)]
        parts = (
            pytree.tree_map(lambda x, k=k: _part(x, k), (promoted, kwargs), is_leaf=_is_pair)
            for k in range(2)
        )
        (res, re_options), (ims, im_options) = parts
        re, im = at.call(translation, *res, **re_options), at.call(translation, *ims, **im_options)
        if isinstance(re, (tuple, list)):
            return type(re)(Complex(*pair) for pair in zip(re, im, strict=True))
        return Complex(re, im)


def _is_pair(x: object) -> bool:
    return isinstance(x, Complex)


def _part(x: Any, number: int) -> Any:
    if isinstance(x, Complex):
        return x.im if number else x.re
    if isinstance(x, complex):
        return x.imag if number else x.real
    return x


def _promoted(at: NodeContext, x: Any) -> Any:
    if isinstance(x, (tuple, list)):
        return type(x)(_promoted(at, one) for one in x)
    if isinstance(x, SSAValue):
        return _complex(at, x)
    return complex(x) if isinstance(x, (int, float)) else x


def _complex(at: NodeContext, x: Any) -> Complex:
    """An operand as a pair of values of the result's element type."""
    if isinstance(x, complex):
        return Complex(*(at.b.fill(part, (), at.dtype) for part in (x.real, x.imag)))
    if isinstance(x, Complex):
        return _each(NodeContext.value, at, x)
    held = at.value(x)
    return Complex(held, at.b.full_like(held, 0.0))


def _each(function: Callable[..., Value], at: NodeContext, z: Complex, *rest: Any) -> Complex:
    return Complex(function(at, z.re, *rest), function(at, z.im, *rest))


def _bilinear(translation: Translation, at: NodeContext, z: Any, w: Any) -> Complex:
    """A product of any kind; a real factor has one part alone."""
    if isinstance(z, Complex) and isinstance(w, Complex):
        re = at.b.sub(translation(at, z.re, w.re), translation(at, z.im, w.im))
        return Complex(re, at.b.add(translation(at, z.re, w.im), translation(at, z.im, w.re)))
    if isinstance(z, Complex):
        held = at.value(w)
        return Complex(translation(at, z.re, held), translation(at, z.im, held))
    held = at.value(z)
    return Complex(translation(at, held, w.re), translation(at, held, w.im))


def product(translation: Translation, at: NodeContext, z: Any, w: Any) -> Complex:
    """z · w: of numbers, or of matrices"""
    pair = (_complex(at, x) if isinstance(x, complex) else x for x in (z, w))
    return _bilinear(translation, at, *pair)


def affine(
    translation: Translation, at: NodeContext, z: Any, weight: Any, bias: Any = None
) -> Complex:
    """z · weightᵀ + bias"""
    product = _bilinear(translation, at, z, weight)
    if bias is None:
        return product
    added = _complex(at, bias)
    return Complex(at.b.add(product.re, added.re), at.b.add(product.im, added.im))


def added_product(
    translation: Translation,
    at: NodeContext,
    c: Any,
    z: Any,
    w: Any,
    *,
    beta: Any = 1,
    alpha: Any = 1,
) -> Complex:
    """beta · c + alpha · z · w"""
    product = _bilinear(lambda at, a, b: at.b.matmul(a, b), at, z, w)
    scaled = cn.multiply(at.b, product, _complex(at, complex(alpha)))
    kept = cn.multiply(at.b, _complex(at, c), _complex(at, complex(beta)))
    return Complex(at.b.add(kept.re, scaled.re), at.b.add(kept.im, scaled.im))


def divided(_: Translation, at: NodeContext, z: Any, w: Any) -> Complex:
    """z / w"""
    if isinstance(w, (Complex, complex)):
        return cn.divide(at.b, _complex(at, z), _complex(at, w))
    held = at.value(w)
    return _each(lambda at, part: at.b.div(part, held), at, _complex(at, z))


def raised(_: Translation, at: NodeContext, z: Any, exponent: Any) -> Complex:
    """z to a power"""
    known = isinstance(exponent, (int, float))
    return cn.power(at.b, _complex(at, z), exponent if known else _complex(at, exponent))


def unary(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of one number"""
    return lambda _, at, z, **__: function(at.b, z)


def same(kind: str) -> Callable[..., Value]:
    """Whether both parts are equal, or one is not"""

    def translate(translation: Translation, at: NodeContext, z: Any, w: Any) -> Value:
        common = common_type(*(x.re if isinstance(x, Complex) else x for x in (z, w)))
        dtype = common if common in FLOATS else "f32"
        one, other = (_complex_float(at, x, dtype) for x in (z, w))
        parts = (at.b.compare(kind, *pair) for pair in zip(one, other, strict=True))
        return at.b.logical("and" if kind == "eq" else "or", *parts)

    return translate


def _complex_float(at: NodeContext, x: Any, dtype: str) -> tuple[Value, Value]:
    if isinstance(x, Complex):
        return at.b.cast(x.re, dtype), at.b.cast(x.im, dtype)
    if isinstance(x, SSAValue):
        return at.b.cast(x, dtype), at.b.fill(0.0, (), dtype)
    number = complex(x)
    return at.b.fill(number.real, (), dtype), at.b.fill(number.imag, (), dtype)


def joined(at: NodeContext, re: Value, im: Value) -> Complex:
    """re + i · im"""
    return Complex(at.widened(at.value(re)), at.widened(at.value(im)))


def of_polar(at: NodeContext, size: Value, turn: Value) -> Complex:
    """The number of a size and an angle"""
    z = cn.polar(at.b, at.value(size), at.value(turn))
    return _each(NodeContext.widened, at, z)


def from_pairs(at: NodeContext, x: Value) -> Complex:
    """A tensor whose last axis holds the parts, as complex numbers"""
    return cn.unpacked(at.b, x)


def to_pairs(_: Translation, at: NodeContext, z: Complex) -> Value:
    """The other way round"""
    return cn.packed(at.b, z)


def norm(translation: Translation, at: NodeContext, z: Complex, *args: Any, **kwargs: Any) -> Value:
    """That of the sizes"""
    return translation(at, cn.absolute(at.b, z), *args, **kwargs)


def copied(_: Translation, at: NodeContext, z: Complex, **__: Any) -> Complex | Value:
    """As another dtype; the real part, where that is no complex one"""
    return _each(NodeContext.value, at, z) if at.is_complex else at.value(z.re)


def overwritten(translation: Translation, at: NodeContext, x: Any, new: Any, *_: Any) -> Any:
    """What is copied there, of which a float keeps the real part"""
    if at.is_complex:
        return PartsOperator((0, 1))(translation, at, x, new)
    return translation(at, x, _part(new, 0))


def widened_to_complex(at: NodeContext, x: Any, **_: Any) -> Complex:
    """A float as a complex number"""
    return _complex(at, x)


def filled(number: complex) -> Callable[..., Complex]:
    """One number everywhere"""
    return lambda at, *_, **__: full(at, (), number)


def full(at: NodeContext, size: Any, value: Any, **_: Any) -> Complex:
    """A given number everywhere"""
    return _each(NodeContext.widened, at, _complex(at, value))


def scalar_tensor(at: NodeContext, value: Any, **_: Any) -> Complex:
    """A number as a tensor of rank 0"""
    return _complex(at, value)


def complex_transform(
    _: Translation, at: NodeContext, z: Complex, axes: Sequence[int], norm: int, forward: bool
) -> Complex:
    """Fourier transforms along axes"""
    for axis in axes:
        moved, size = _last(at, z, axis)
        z = _back(at, cn.transform(at.b, moved, forward), axis, NORMS[norm](size))
    return z


def real_transform(
    at: NodeContext, x: Value, axes: Sequence[int], norm: int, onesided: bool
) -> Complex:
    """The same of floats; half of the results along the last of the axes, if one side is enough"""
    *others, axis = axes
    moved, size = _last(at, Complex(x, x), axis)
    count = size // 2 + 1 if onesided else size
    spectrum = cn.transform(at.b, moved.re, True, count)
    z = _back(at, spectrum, axis, NORMS[norm](size))
    return complex_transform(real_transform, at, z, others, norm, True)


def inverse_real_transform(
    _: Translation, at: NodeContext, z: Complex, axes: Sequence[int], norm: int, size: int
) -> Value:
    """The floats whose transform is z"""
    *others, axis = axes
    z = complex_transform(_, at, z, others, norm, False)
    moved, _size = _last(at, z, axis)
    _check_size(at, Dim.of(size))
    kept = size // 2 + 1
    moved = _each(lambda at, x: at.b.slice(x, rank_of(x) - 1, 0, kept), at, moved)
    signal = times(at.b, cn.real_inverse(at.b, moved, size), NORMS[norm](size))
    return move_axis(at.b, signal, rank_of(signal) - 1, at.axis(axis, rank_of(signal)))


def _last(at: NodeContext, z: Complex, axis: int) -> tuple[Complex, int]:
    rank = rank_of(z.re)
    size = dims_of(z.re)[at.axis(axis, rank)]
    _check_size(at, size)
    moved = _each(lambda at, x: move_axis(at.b, x, at.axis(axis, rank), rank - 1), at, z)
    return moved, int(size)


def _back(at: NodeContext, z: Complex, axis: int, factor: float) -> Complex:
    rank = rank_of(z.re)
    return _each(
        lambda at, x: times(at.b, move_axis(at.b, x, rank - 1, at.axis(axis, rank)), factor), at, z
    )


def _check_size(at: NodeContext, size: Dim) -> None:
    if not size.is_static or not 0 < int(size) <= LARGEST_TRANSFORM:
        at.refuse(
            f"a Fourier transform of {size} numbers is not supported",
            f"at most {LARGEST_TRANSFORM}",
        )


PARTWISE = (
    "alias clone contiguous detach expand view _unsafe_view reshape permute transpose t squeeze "
    "unsqueeze select slice narrow index index_select gather flip roll repeat unfold split "
    "split_with_sizes chunk unbind diagonal cat stack sum mean cumsum neg lift_fresh_copy tril "
    "triu diag_embed _unsafe_index lift_fresh lift squeeze_copy unsqueeze_copy"
)
OPERATORS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(PARTWISE.split(), PartsOperator()),
    **dict.fromkeys("add sub rsub".split(), PartsOperator((0, 1))),
    "copy": overwritten,
    "where": PartsOperator((1, 2)),
    "masked_fill": PartsOperator((0, 2)),
    "select_scatter": PartsOperator((0, 1)),
    "slice_scatter": PartsOperator((0, 1)),
    **dict.fromkeys(("index_put", "constant_pad_nd"), PartsOperator((0, 2))),
    **dict.fromkeys(("index_add", "scatter_add"), PartsOperator((0, 3))),
    **dict.fromkeys("mul mm bmm matmul mv dot".split(), product),
    **dict.fromkeys("addmm baddbmm".split(), added_product),
    "linear": affine,
    "div": divided,
    "pow": raised,
    "_conj": unary(cn.conjugate),
    "_conj_physical": unary(cn.conjugate),
    "reciprocal": unary(lambda b, z: cn.divide(b, cn.one_like(b, z), z)),
    "abs": unary(cn.absolute),
    "angle": unary(cn.angle),
    "eq": same("eq"),
    "ne": same("ne"),
    "linalg_vector_norm": norm,
    "view_as_real": to_pairs,
    "_to_copy": copied,
    "_fft_c2c": complex_transform,
    "_fft_c2r": inverse_real_transform,
    **{f.__name__: unary(f) for f in (cn.exp, cn.log, cn.sqrt, cn.sin, cn.cos)},
    **{f.__name__: unary(f) for f in (cn.tanh, cn.sigmoid)},
}
"""Operator -> function of the translation for floats, the site and the operands."""
MAKING: Table = {
    "complex": joined,
    "polar": of_polar,
    "view_as_complex": from_pairs,
    "_to_copy": widened_to_complex,
    "_fft_r2c": real_transform,
    **dict.fromkeys("zeros zeros_like new_zeros empty empty_like new_empty".split(), filled(0)),
    **dict.fromkeys("ones ones_like new_ones".split(), filled(1)),
    **dict.fromkeys("full full_like fill".split(), full),
    "scalar_tensor": scalar_tensor,
}
"""What makes complex numbers of floats."""
