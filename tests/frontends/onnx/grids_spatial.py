"""Grids of convolutions and pooling."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from tests.frontends.onnx.grids import Case, floats, ints

AUTO = ("SAME_UPPER", "SAME_LOWER", "VALID")


def _paddings(rank: int) -> list[dict[str, Any]]:
    """Explicit pads, and each way of automatic ones."""
    ends = ((0, 0), (1, 0), (0, 2), (1, 1)) if rank == 1 else ((0, 0), (1, 0), (1, 2))
    pads = [{"pads": [before] * rank + [behind] * rank} for before, behind in ends]
    if rank > 1:
        pads.append({"pads": [1, 0, 2, 0, 1, 1, 0, 2][: 2 * rank]})
    return [{}, *pads, *({"auto_pad": auto} for auto in AUTO)]


def _conv() -> Iterator[Case]:
    for size, taps, stride, dilation, pads, group, bias in product(
        (1, 4, 7), (1, 2, 3), (1, 2, 3), (1, 2), _paddings(1), (1, 2, 4), (False, True)
    ):
        attributes = {"strides": [stride], "dilations": [dilation], "group": group, **pads}
        inputs = {"x": floats(2, 4, size), "w": floats(4, 4 // group, taps)}
        if bias:
            inputs["b"] = floats(4)
        yield Case("Conv", inputs, attributes, ["w", "b"][: 1 + bias])
    kernels = ([1, 3], [2, 2], [3, 2], [2, 1, 2])
    for kernel, pads, group in product(kernels, [*_paddings(2), *_paddings(3)], (1, 2)):
        rank = len(kernel)
        if len(pads.get("pads", [0] * 2 * rank)) != 2 * rank:
            continue
        for strides, dilations in product(([1, 2, 1], [2, 1, 3]), ([1, 1, 1], [2, 1, 2])):
            attributes = {"strides": strides[:rank], "dilations": dilations[:rank], "group": group}
            inputs = {"x": floats(2, 4, *[5, 4, 3][:rank]), "w": floats(4, 4 // group, *kernel)}
            yield Case("Conv", inputs, {**attributes, **pads}, ["w"])


def _conv_transpose() -> Iterator[Case]:
    for size, taps, stride, dilation, extra, pads, group in product(
        (1, 4), (1, 2, 3, 4), (1, 2, 3), (1, 2), (0, 1), _paddings(1), (1, 2)
    ):
        attributes = {"strides": [stride], "dilations": [dilation], "output_padding": [extra]}
        inputs = {"x": floats(2, 2, size), "w": floats(2, 3, taps)}
        attributes |= {"group": group, **pads}
        yield Case("ConvTranspose", inputs, attributes, ["w"])
        natural = (size - 1) * stride + (taps - 1) * dilation + 1 + extra
        if pads and "pads" in pads:
            continue
        for result in range(max(natural - 3, 1), natural + 3):
            yield Case("ConvTranspose", inputs, {**attributes, "output_shape": [result]}, ["w"])
    kernels = ([2, 3], [3, 1], [2, 1, 2])
    for kernel, pads, group, less in product(
        kernels, [*_paddings(2), *_paddings(3)], (1, 2), (None, 0, 1, 2)
    ):
        rank = len(kernel)
        if len(pads.get("pads", [0] * 2 * rank)) != 2 * rank:
            continue
        for strides, dilations in product(([1, 2, 1], [2, 1, 3]), ([1, 1, 1], [2, 1, 2])):
            strides, dilations = strides[:rank], dilations[:rank]
            sizes = [4, 3, 2][:rank]
            attributes = {"strides": strides, "dilations": dilations, "group": group, **pads}
            if less is not None:
                steps = zip(sizes, kernel, strides, dilations, strict=True)
                naturals = [(x - 1) * s + (k - 1) * d + 1 for x, k, s, d in steps]
                attributes["output_shape"] = [max(n - less, 1) for n in naturals]
            inputs = {"x": floats(2, 4, *sizes), "w": floats(4, 2, *kernel), "b": floats(2 * group)}
            yield Case("ConvTranspose", inputs, attributes, ["w", "b"])


def _pool(op: str, extra: list[dict[str, Any]], opsets: tuple[int, ...]) -> Any:
    def cases() -> Iterator[Case]:
        for size, taps, stride, dilation, pads, up, more, opset in product(
            (3, 4, 7), (1, 2, 3), (1, 2, 3), (1, 2), _paddings(1), (0, 1), extra, opsets
        ):
            attributes = {"kernel_shape": [taps], "strides": [stride], **pads, **more}
            attributes |= {"dilations": [dilation]} if dilation > 1 else {}
            attributes |= {"ceil_mode": up} if up else {}
            yield Case(op, {"x": floats(2, 2, size)}, attributes, opset=opset)
        for kernel, pads, up, more in product(
            ([2, 3], [3, 2], [2, 1, 2]), [*_paddings(2), *_paddings(3)], (0, 1), extra
        ):
            rank = len(kernel)
            if len(pads.get("pads", [0] * 2 * rank)) == 2 * rank:
                attributes = {"kernel_shape": kernel, "strides": [2, 1, 2][:rank], **pads, **more}
                attributes |= {"ceil_mode": up} if up else {}
                x = floats(1, 2, *[5, 4, 3][:rank])
                yield Case(op, {"x": x}, attributes, opset=opsets[-1])

    return cases


COORDINATES = (
    *("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"),
)
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def _resize() -> Iterator[Case]:
    none = np.zeros(0, np.float32)
    kinds = [{"mode": "nearest", "nearest_mode": rounding} for rounding in NEAREST]
    kinds += [{"mode": "linear"}, {"mode": "cubic"}, {"mode": "cubic", "cubic_coeff_a": -0.5}]
    kinds += [{"mode": "cubic", "exclude_outside": 1}]
    factors = (0.25, 0.5, 0.6, 1.0, 1.5, 2.0, 3.0, 3.7)
    for coordinates, kind, high, wide in product(COORDINATES, kinds, factors, factors):
        attributes = {"coordinate_transformation_mode": coordinates, **kind}
        x = floats(1, 2, 4, 7)
        inputs = {"x": x, "r": none, "s": np.array([1, 1, high, wide], np.float32)}
        yield Case("Resize", inputs, attributes, ["r", "s"])
        sizes = ints(1, 2, max(int(4 * high), 1), max(int(7 * wide), 1))
        inputs = {"x": x, "r": None, "s": None, "n": sizes}
        yield Case("Resize", inputs, attributes, ["n"])
    smaller = [k for k in kinds if k["mode"] != "nearest"]
    for coordinates, kind, high, wide in product(COORDINATES, smaller, (2, 3, 8), (1, 3, 9)):
        attributes = {"coordinate_transformation_mode": coordinates, **kind, "antialias": 1}
        inputs = {"x": floats(1, 1, 5, 8), "r": None, "s": None, "n": ints(1, 1, high, wide)}
        yield Case("Resize", inputs, attributes, ["n"], opset=18)
    for policy, sizes, kind in product(("not_larger", "not_smaller"), ([7, 8], [2, 9]), kinds):
        attributes = {"keep_aspect_ratio_policy": policy, "axes": [2, 3], **kind}
        inputs = {"x": floats(1, 2, 4, 5), "r": None, "s": None, "n": ints(*sizes)}
        yield Case("Resize", inputs, attributes, ["n"], opset=18)
    for region, kind, sizes in product(
        ([0.2, 0.1, 0.9, 0.7], [-0.2, 0.5, 1.4, 0.5]), kinds, ([3, 6], [1, 1], [7, 2])
    ):
        attributes = {"coordinate_transformation_mode": "tf_crop_and_resize", **kind}
        attributes |= {"extrapolation_value": 9.0}
        roi = np.array([0, 0, *region[:2], 1, 1, *region[2:]], np.float32)
        inputs = {"x": floats(1, 2, 4, 5), "r": roi, "s": None, "n": ints(1, 2, *sizes)}
        yield Case("Resize", inputs, attributes, ["r", "n"])


def _upsample() -> Iterator[Case]:
    factors = (0.25, 0.5, 0.6, 1.0, 1.5, 2.0, 3.0)
    for mode, high, wide, rank in product(("nearest", "linear"), factors, factors, (2, 4)):
        x, scales = floats(*[1, 2][: rank - 2], 4, 7), [1.0, 1.0, high, wide][-rank:]
        inputs = {"x": x, "s": np.array(scales, np.float32)}
        for op, opset in (("Resize", 10), ("Upsample", 9)):
            yield Case(op, inputs, {"mode": mode}, ["s"], opset=opset)
        yield Case("Upsample", {"x": x}, {"mode": mode, "scales": scales}, opset=7)


def _grid_sample() -> Iterator[Case]:
    for mode, padding, corners, opset in product(
        ("nearest", "linear", "cubic"), ("zeros", "border", "reflection"), (0, 1), (16, 20)
    ):
        old = {"linear": "bilinear", "cubic": "bicubic"} if opset < 20 else {}
        attributes = {"mode": old.get(mode, mode), "padding_mode": padding}
        attributes |= {"align_corners": corners}
        for sizes, points in (((4, 5), (3, 2)), ((1, 3), (2, 4)), ((3, 2, 4), (2, 1, 3))):
            grid = floats(2, *points, len(sizes), seed=1)
            inputs = {"x": floats(2, 3, *sizes), "g": grid}
            yield Case("GridSample", inputs, attributes, opset=opset)
            yield Case("GridSample", inputs, attributes, ["g"], opset=opset)


def _affine_grid() -> Iterator[Case]:
    for corners, batch, sizes in product(
        (0, 1), (1, 2), ((4, 5), (1, 3), (2, 1), (3, 2, 4), (2, 1, 3))
    ):
        theta = floats(batch, len(sizes), len(sizes) + 1)
        inputs = {"t": theta, "s": ints(batch, 3, *sizes)}
        yield Case("AffineGrid", inputs, {"align_corners": corners}, ["s"], opset=20)


def _roi_align() -> Iterator[Case]:
    boxes = np.array([[0, 0, 3, 4], [-2, 0.5, 9, 9], [3, 3, 3, 3], [4.5, 2, 30, 1]], np.float32)
    inputs = {"x": floats(2, 3, 5, 6), "boxes": boxes, "images": ints(0, 1, 1, 0)}
    for samples, scale, frame in product(
        (0, 1, 3), (0.5, 1.0), (None, "half_pixel", "output_half_pixel")
    ):
        attributes: dict[str, Any] = {"output_height": 2, "output_width": 3}
        attributes |= {"sampling_ratio": samples, "spatial_scale": scale}
        if frame is not None:
            attributes["coordinate_transformation_mode"] = frame
        yield Case("RoiAlign", inputs, attributes, opset=10 if frame is None else 16)


def _deform_conv() -> Iterator[Case]:
    for kernel, stride, dilation, pad, (groups, parts), has_mask in product(
        ((3, 3), (1, 2)), (1, 2), (1, 2), (0, 1), ((1, 1), (2, 1), (1, 2), (2, 4)), (False, True)
    ):
        taps = kernel[0] * kernel[1]
        counts = [
            (size + 2 * pad - dilation * (k - 1) - 1) // stride + 1
            for size, k in zip((6, 7), kernel, strict=True)
        ]
        inputs = {
            "x": floats(2, 4, 6, 7),
            "w": floats(6, 4 // groups, *kernel, seed=1),
            "offset": 2 * floats(2, parts * taps * 2, *counts, seed=2),
            "b": floats(6, seed=3),
        }
        if has_mask:
            inputs["mask"] = floats(2, parts * taps, *counts, seed=4)
        attributes = {"strides": [stride] * 2, "dilations": [dilation] * 2, "pads": [pad] * 4}
        attributes |= {"group": groups, "offset_group": parts}
        yield Case("DeformConv", inputs, attributes, ["w", "b"], opset=19)


PADDED = [{}, {"count_include_pad": 1}]
POWERS = [{"p": 1}, {"p": 2}, {"p": 3}]
GRIDS: dict[str, Callable[[], Iterator[Case]]] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "MaxPool": _pool("MaxPool", [{}], (11, 17)),
    "AveragePool": _pool("AveragePool", PADDED, (11, 19)),
    "LpPool": _pool("LpPool", POWERS, (11, 18)),
    "Resize": _resize,
    "Upsample": _upsample,
    "GridSample": _grid_sample,
    "AffineGrid": _affine_grid,
    "RoiAlign": _roi_align,
    "DeformConv": _deform_conv,
}
