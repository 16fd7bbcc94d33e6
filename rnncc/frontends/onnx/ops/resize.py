"""Tensors of other sizes: what images, spectra and sequences are scaled by."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.counted.decided import decided_sizes, settled
from rnncc.frontends.onnx.counted.rows import MOST_COUNTED, counted_along
from rnncc.frontends.onnx.node import FLOATS, Node, OnnxOperator
from rnncc.frontends.onnx.ops.computed_sizes import bounded_number, is_computed
from rnncc.frontends.onnx.values import Value, sizes_value
from rnncc.ir.dims import Dim
from rnncc.ir.types import dims_of, dtype_of, shape_text
from rnncc.nn.grid_sampling import PADDINGS, affine_grid, grid_sample
from rnncc.nn.resizing import COORDINATES, ROUNDINGS, Resizing, resize

MODES = ("nearest", "linear", "cubic")
INTEGERS_SUMMED = ("u8", "i8", "i32")
"""Types of integers that are weighted and added up."""
NONE: Mapping[int, SSAValue] = MappingProxyType({})
POLICIES = ("stretch", "not_larger", "not_smaller")
FINEST = 64
"""The largest denominator of a scale of an axis whose size is open."""
FEWEST = 1024
"""The most elements of which a smaller axis has one."""
LARGEST = 1 << 22
"""The most elements that an axis of open size may have which is scaled: products are below the
numbers from which on float32 has too few places behind the point."""
NEAREST = Fraction(1, 1 << 25)
"""Half of what float32 leaves between 1 and the number below it."""
Axis = tuple[int, Dim, float | None]
"""An axis that changes, its new size, and its scale if that is known."""


def _resize(n: Node) -> SSAValue | Value:
    """X with other sizes: the nearest elements, or sums of neighbours by linear or cubic weights.

    Refused: scales that are computed at run time, and sizes, but two, in inference, that must be
    sizes of something else, or that `--max-iterations` bounds; of axes of open size antialias,
    and scales that are no fractions by 2, 4, ... 64, nor 1/k; align_corners with a scale that gives
    no whole size, and tf_crop_and_resize with scales, of which the standard and ONNX Runtime think
    differently; linear of elements other than floats, int8, uint8, int32, and of these antialias;
    cubic of elements other than floats.
    """
    if n.opset < 11:
        return _upsample(n)
    how = _how(n)
    dims = n.dims()
    axes = resized_axes(n, len(dims))
    if not (n.has(3) and is_computed(n, 3)):
        return _resized(n, how, axes)
    if (decided := decided_sizes(n, 3)) is not None:
        numbers, n.inputs[3] = n.inputs[3], sizes_value(decided)
        resized, n.inputs[3] = _resized(n, how, axes), numbers
        return settled(n, 3, resized)
    return _to_computed(n, how, axes)


def _resized(
    n: Node,
    how: Resizing,
    axes: list[int],
    counts: Mapping[int, SSAValue] = NONE,
    before: Mapping[int, SSAValue] = NONE,
) -> SSAValue:
    """X with all axes of other sizes.

    Args:
        counts: axes of which the run decides how many elements they have, and this number.
        before: those of which it decides how many elements they had.
    """
    x = n.x() if how.mode == "nearest" else _floats(n, how)
    for at, (axis, size, scale) in _cheap_first(enumerate(_changes(n, how, axes))):
        own = replace(how, region=_region(n, at, len(axes)))
        scale = None if axis in counts or axis in before else scale
        x = resize(n.b, x, axis, size, scale, own, counts.get(axis), before.get(axis))
    own = n.value(0).dtype
    return n.b.cast(x, own) if dtype_of(x) in FLOATS and own in INTEGERS_SUMMED else x


def _to_computed(n: Node, how: Resizing, axes: list[int]) -> Value:
    """The same with one size or two that the run decides, and that something bounds."""
    places, counts, sizes = n.places(3), dict[int, SSAValue](), list[Dim]()
    if not is_stretched(n) or how.antialias or len(places) != len(axes):
        n.known(3)
    for axis, place in zip(axes, places, strict=True):
        if isinstance(place, SSAValue):
            bounded = bounded_number(n, place)
            if bounded is None or len(counts) == MOST_COUNTED:
                n.known(3)
            assert bounded is not None, "of what nothing bounds the numbers are asked for"
            counts[axis], place = bounded
        sizes.append(place)
    n.inputs[3] = sizes_value(sizes)
    resized = n.scope.value(n, 0, _resized(n, how, axes, counts))
    return counted_along(resized, counts)


def resized_axes(n: Node, rank: int) -> list[int]:
    """The axes that sizes and scales are of."""
    return n.axes(n.integers("axes"), rank) if n.given("axes") else [*range(rank)]


def is_stretched(n: Node) -> bool:
    """Whether sizes are those of the result, of all axes."""
    return n.opset < 18 or n.one_of("keep_aspect_ratio_policy", POLICIES) == POLICIES[0]


def resized_rows(
    n: Node, axes: list[int], places: Sequence[Dim | SSAValue], at: int, rows: SSAValue
) -> Value | None:
    """X, of which so many rows along an axis count, behind which the last of them stands again,
    with another number of rows; None where nothing bounds this, or weights see where rows end.

    Args:
        axes: those that have new sizes, which are `places`; `at` of them is that of the rows.
    """
    how, number = _how(n), places[at]
    if how.antialias or how.exclude_outside:
        return None
    bounded = bounded_number(n, number) if isinstance(number, SSAValue) else (None, number)
    if bounded is None:
        return None
    count, most = bounded
    sizes = [*places[:at], most, *places[at + 1 :]]
    n.inputs[3] = sizes_value([size for size in sizes if isinstance(size, Dim)])
    counts = {} if count is None else {axes[at]: count}
    value = n.scope.value(n, 0, _resized(n, how, axes, counts, {axes[at]: rows}))
    return counted_along(value, counts) if counts else value


def _floats(n: Node, how: Resizing) -> SSAValue:
    """X as floats; of integers, sums of neighbours are rounded towards zero in the end, as by ONNX
    Runtime: where they are integers themselves, the last bit decides."""
    if n.value(0).dtype not in INTEGERS_SUMMED or how.mode != "linear" or how.antialias:
        return n.x(0, FLOATS)
    return n.b.cast(n.x(0, ("i32",)), "f32")


def _upsample(n: Node) -> SSAValue:
    """X larger by factors: each element repeated, or sums of neighbours by linear weights.

    Refused: scales that are computed at run time; of axes of open size scales that are no
    fractions by 2, 4, ... 64, nor 1/k; linear of elements other than floats; opset 6.
    """
    mode = n.one_of("mode", MODES[:2])
    x = n.x() if mode == "nearest" else n.x(0, FLOATS)
    scales: list[float] = n.reals("scales") if n.opset < 9 else n.numbers(1).tolist()
    return enlarged(n, x, scales, mode, "asymmetric")


def enlarged(
    n: Node, x: SSAValue, scales: Sequence[float], mode: str, coordinates: str
) -> SSAValue:
    """x with each axis scaled by a factor."""
    dims = dims_of(x)
    _check_count(n, scales, dims)
    changes = [(a, _scaled(n, dims[a], scale), scale) for a, scale in enumerate(scales)]
    for axis, (_, size, scale) in _cheap_first(enumerate(changes)):
        rounding = "ceil" if scales[axis] < 1 else "floor"  # which the standard leaves open
        x = resize(n.b, x, axis, size, scale, Resizing(mode, coordinates, rounding))
    return x


def _cheap_first(changes: Iterable[tuple[int, Axis]]) -> list[tuple[int, Axis]]:
    """Axes that shrink, from the first on; then those that grow, of which the last costs most for
    an element, from there on."""

    def order(change: tuple[int, Axis]) -> tuple[bool, int]:
        axis, _, scale = change[1]
        grows = scale is None or scale >= 1
        return grows, -axis if grows else axis

    return sorted(changes, key=order)


def _how(n: Node) -> Resizing:
    mode = n.one_of("mode", MODES)
    coordinates = n.one_of("coordinate_transformation_mode", COORDINATES)
    antialias = n.opset >= 18 and n.flag("antialias")
    if antialias and mode == "nearest":
        raise n.error("has antialias = 1 with the mode nearest")
    return Resizing(
        mode,
        coordinates,
        n.one_of("nearest_mode", ROUNDINGS),
        n.real("cubic_coeff_a"),
        antialias,
        n.flag("exclude_outside"),
        outside=n.real("extrapolation_value"),
    )


def _region(n: Node, at: int, count: int) -> tuple[float, float]:
    """Of tf_crop_and_resize, where an axis starts and ends; of others all of it."""
    if n.text("coordinate_transformation_mode") != "tf_crop_and_resize":
        return 0.0, 1.0
    region = n.numbers(1).reshape(-1)
    if region.size != 2 * count:
        raise n.error(f"has a roi of {region.size} numbers for {count} axes")
    return float(region[at]), float(region[at + count])


def _changes(n: Node, how: Resizing, axes: list[int]) -> list[Axis]:
    dims = [n.dims()[axis] for axis in axes]
    by_scales = n.has(2) and n.dims(2) != (0,)
    if by_scales == n.has(3):
        raise n.error("has both scales and sizes" if by_scales else "has neither scales nor sizes")
    if not by_scales:
        return _to_sizes(n, how, axes, dims)
    scales = np.asarray(n.numbers(2), np.float32).reshape(-1).tolist()
    _check_count(n, scales, dims)
    sizes = [_scaled(n, size, scale) for size, scale in zip(dims, scales, strict=True)]
    for old, new, scale in zip(dims, sizes, scales, strict=True):
        _check_scale(n, how, old, new, scale)
    return list(zip(axes, sizes, scales, strict=True))


def _check_scale(n: Node, how: Resizing, old: Dim, new: Dim, scale: float) -> None:
    """Raise `CompileError` where coordinates by a scale are not the same to all."""
    whole = Dim.of(Fraction(scale).numerator) * old == new * Fraction(scale).denominator
    mode = how.coordinates
    if scale != 1 and (mode == "tf_crop_and_resize" or (mode == "align_corners" and not whole)):
        what = f"scales {old} elements by {scale} with {mode}, which is not supported"
        raise n.unsupported(what, "sizes instead of scales")
    _check_open(n, how, old, new)


def _check_open(n: Node, how: Resizing, old: Dim, new: Dim) -> None:
    if how.antialias and old != new and not (old.is_static and new.is_static):
        what = f"resizes an axis of {old} elements to {new} with antialias"
        raise n.unsupported(f"{what}, which is not supported", "--shape gives an input's sizes")


def _to_sizes(n: Node, how: Resizing, axes: list[int], dims: list[Dim]) -> list[Axis]:
    sizes = n.sizes(3)
    _check_count(n, sizes, dims)
    policy = n.one_of("keep_aspect_ratio_policy", POLICIES) if n.opset >= 18 else POLICIES[0]
    if policy != POLICIES[0]:
        return _in_ratio(n, how, axes, dims, sizes, policy)
    for old, new in zip(dims, sizes, strict=True):
        _check_open(n, how, old, new)
    return [(a, new, _ratio(new, old)) for a, new, old in zip(axes, sizes, dims, strict=True)]


def _in_ratio(
    n: Node, how: Resizing, axes: list[int], dims: list[Dim], sizes: list[Dim], policy: str
) -> list[Axis]:
    """All axes by one scale: the largest or smallest for which none is larger or smaller."""
    scales = [_ratio(new, old) for new, old in zip(sizes, dims, strict=True)]
    known = [scale for scale in scales if scale is not None]
    if len(known) < len(scales):
        what = f"keeps the ratio of open sizes, {shape_text(dims)}, which is not supported"
        raise n.unsupported(what, "--shape gives an input's sizes")
    scale = min(known) if policy == "not_larger" else max(known)
    scaled = [Dim.of(math.floor(np.float32(scale) * np.float32(int(d)) + 0.5)) for d in dims]
    for old, new in zip(dims, scaled, strict=True):
        _check_scale(n, how, old, new, scale)
    return [(axis, size, scale) for axis, size in zip(axes, scaled, strict=True)]


def _ratio(new: Dim, old: Dim) -> float | None:
    """The quotient of two known sizes, as float32."""
    if not (new.is_static and old.is_static) or old == 0:
        return None
    return float(np.float32(int(new)) / np.float32(int(old)))


def _scaled(n: Node, size: Dim, scale: float) -> Dim:
    """⌊size · scale⌋, which readers of the format compute in float32."""
    if not scale > 0 or math.isinf(scale):
        raise n.error(f"has the scale {scale}")
    if size.is_static:
        return Dim.of(int(np.float32(scale) * np.float32(int(size))))
    exact = simple_ratio(scale)
    unsure = exact is None or exact.denominator > FINEST
    if exact is None or (unsure and not n.scope.model.within(LARGEST, [size])):
        what = f"scales an axis of {size} elements, which is open, by {scale}"
        raise n.unsupported(what, "--shape gives an input's sizes")
    return (size * exact.numerator).under(exact.denominator)


def simple_ratio(scale: float) -> Fraction | None:
    """The fraction by which up to `LARGEST` elements are multiplied, where it is that of few parts,
    or 1/k, to which float32 is so near that products with it are rounded to integers."""
    if not 0 < scale < math.inf:
        return None
    exact = Fraction(scale)
    if exact.denominator <= FINEST:
        return exact
    parts = round(1 / scale)
    near = 1 < parts <= FEWEST and float(np.float32(1 / parts)) == scale
    return Fraction(1, parts) if near and exact * parts >= 1 - NEAREST else None


def _check_count(n: Node, values: Sequence[Any], dims: Sequence[Dim]) -> None:
    if len(values) != len(dims):
        raise n.error(f"has {len(values)} scales or sizes for {len(dims)} axes")


def grid_sampled(n: Node) -> SSAValue:
    """X at the places that a grid holds: the nearest elements, or sums of neighbours.

    Refused: elements other than floats.
    """
    x, grid = n.x(0, FLOATS), n.x(1, FLOATS)
    dims, shape = n.dims(), n.dims(1)
    shown = f"has data of shape {shape_text(dims)} and a grid of shape {shape_text(shape)}"
    if len(dims) != len(shape) or len(dims) < 3:
        raise n.error(shown)
    expected = (dims[0], Dim.of(len(dims) - 2))
    if (shape[0], shape[-1]) != expected:
        raise n.differ((shape[0], shape[-1]), expected, shown)
    names = {"bilinear": "linear", "bicubic": "cubic"} if n.opset < 20 else {}
    modes, usual = ((*names, "nearest"), "bilinear") if names else (MODES, None)
    mode, padding = n.one_of("mode", modes, usual), n.one_of("padding_mode", PADDINGS, "zeros")
    return grid_sample(n.b, x, grid, names.get(mode, mode), padding, n.flag("align_corners"))


def _affine_grid(n: Node) -> SSAValue:
    """Where the elements of a tensor of a given size lie from -1 to 1, moved by matrices.

    Refused: elements other than floats.
    """
    theta, size, dims = n.x(0, FLOATS), n.sizes(1), n.dims()
    rank = len(size) - 2
    shown = f"has matrices of shape {shape_text(dims)} for a tensor of shape {shape_text(size)}"
    if rank not in (2, 3):
        raise n.error(shown)
    expected = (size[0], Dim.of(rank), Dim.of(rank + 1))
    if dims != expected:
        raise n.differ(dims, expected, shown)
    return affine_grid(n.b, theta, size[2:], n.flag("align_corners"))


OPERATORS: dict[str, OnnxOperator] = {
    "AffineGrid": OnnxOperator(_affine_grid),
    "Resize": OnnxOperator(_resize),
    "Upsample": OnnxOperator(_upsample),
    "GridSample": OnnxOperator(grid_sampled),
}
