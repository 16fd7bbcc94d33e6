"""Features of regions of images."""

from __future__ import annotations

from xdsl.ir import SSAValue

from rnncc.frontends.onnx.node import FLOATS, INTEGERS, Node, OnnxOperator
from rnncc.ir.types import shape_text
from rnncc.nn.regions import roi_align

FRAMES = {"half_pixel": True, "output_half_pixel": False}
"""Of opset 16 on: whether boxes count from the edges of elements; before they do not."""
MOST_SAMPLES = 64
"""Of a cell along an axis."""


def _roi_align(n: Node) -> SSAValue:
    """Boxes of images in cells, of each the mean of interpolated samples.

    Refused: elements other than floats; the mode max, which readers do not agree on.
    """
    x, boxes, images = n.x(0, FLOATS), n.x(1, FLOATS), n.x(2, INTEGERS)
    shown = ", ".join(shape_text(n.dims(index)) for index in range(3))
    count = n.dims(2)[:1]
    if len(n.dims()) != 4 or len(n.dims(1)) != 2 or len(count) != 1 or n.dims(1)[1] != 4:
        raise n.error(f"has images, boxes and their images of shapes {shown}")
    if n.dims(1)[:1] != count:
        raise n.differ(n.dims(1)[:1], count, f"has images, boxes and their images of {shown}")
    if n.one_of("mode", ("avg", "max"), "avg") == "max":
        raise n.unsupported("takes the largest sample, which readers do not agree on")
    name = "coordinate_transformation_mode"
    half = n.opset >= 16 and FRAMES[n.one_of(name, tuple(FRAMES), "half_pixel")]
    cells = n.integer("output_height", 1), n.integer("output_width", 1)
    samples, scale = n.integer("sampling_ratio", 0), n.real("spatial_scale", 1.0)
    if min(cells) < 1 or not 0 <= samples <= MOST_SAMPLES:
        raise n.error(f"has {cells[0]} x {cells[1]} cells of {samples} samples")
    images = n.b.cast(images, "i64")
    return roi_align(n.b, x, boxes, images, cells, samples, scale, half)


OPERATORS: dict[str, OnnxOperator] = {"RoiAlign": OnnxOperator(_roi_align)}
