"""Operators that take rows whose number the run decides as a batch, or work along other axes than
that of the rows; and those whose result of the first rows the others do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce

from rnncc.frontends.onnx.counted.counts import same_count
from rnncc.frontends.onnx.counted.rows import Crossed, Partial, crossed
from rnncc.frontends.onnx.counted_ops.sums import with_others
from rnncc.frontends.onnx.node import Node, OnnxOperator
from rnncc.frontends.onnx.ops.recurrent import LENGTHS
from rnncc.frontends.onnx.values import Value
from rnncc.ir.dims import Dim

Operands = Sequence[Value | None]
Axes = int | Sequence[int] | None
"""Along which axis the rows of the results lie, or of each; None where they are no such rows."""


def only(inputs: Operands, index: int = 0) -> Partial | None:
    """The tensor, where an input is the only one of its kind."""
    value = inputs[index] if index < len(inputs) else None
    others = (v for at, v in enumerate(inputs) if at != index)
    alone = not any(isinstance(v, Partial) for v in others)
    return value if isinstance(value, Partial) and alone else None


def _batch(n: Node, inputs: Operands) -> Axes:
    """Each element of the first axis by itself."""
    x = only(inputs)
    return 0 if x is not None and x.axis == 0 and not n.flag("training_mode", 0) else None


def _normalised(n: Node, inputs: Operands) -> Axes:
    """By the last axes, from one on."""
    x = only(inputs)
    if x is None or x.axis >= n.axis(n.integer("axis", -1), x.rank):
        return None
    return x.axis


def _skipped(n: Node, inputs: Operands) -> Axes:
    """The same of a sum of two tensors, both of such rows."""
    x, skip = inputs[:2]
    if not isinstance(x, Partial) or not isinstance(skip, Partial) or x.axis != skip.axis:
        return None
    return x.axis if x.axis < x.rank - 1 and x.rank == skip.rank else None


def _beside(axis_of: Callable[[Node], int]) -> Callable[[Node, Operands], Axes]:
    """Along one axis, all of them of as many rows; each row of another by itself."""

    def rule(n: Node, inputs: Operands) -> Axes:
        x = only(inputs)
        return None if x is None or n.axis(axis_of(n), x.rank) == x.axis else x.axis

    return rule


def _cumulated(n: Node, inputs: Operands) -> Axes:
    """Along another axis; or along the rows, backwards from those that change nothing."""
    x = only(inputs)
    if x is None:
        return None
    if n.axis(int(n.scalar(1)), x.rank) == x.axis and n.flag("reverse", 0):
        n.inputs[0] = with_others(n, x, n.op.op_type == "CumProd")
    return x.axis


def _padded(n: Node, inputs: Operands) -> Axes:
    """Nothing before and behind the rows."""
    x = only(inputs)
    return x.axis if x is not None and pads_around(n, x) in ((), (0, 0)) else None


def pads_around(n: Node, x: Partial) -> tuple[Dim, ...] | None:
    """How much a Pad puts before the rows and behind them, if it pads their axis."""
    pads = [Dim.of(v) for v in n.integers("pads")] if n.opset < 11 else n.sizes(1)
    axes = n.axes(n.known_integers(3), x.rank) if n.has(3) else [*range(x.rank)]
    if len(pads) != 2 * len(axes):
        return None
    return tuple(pads[at] for at, axis in enumerate(2 * axes) if axis == x.axis)


def _sliced(n: Node, inputs: Operands) -> Axes:
    """All rows."""
    x = only(inputs)
    if x is None:
        return None
    axes = n.integers("axes") if n.opset < 10 else n.known_integers(3) if n.has(3) else []
    return x.axis if axes and x.axis not in n.axes(axes, x.rank) else None


def _gathered(n: Node, inputs: Operands) -> Axes:
    """By as many rows of places, along another axis; by so many in a tensor of known size."""
    x, places = inputs
    if not isinstance(places, Partial):
        return None
    if not isinstance(x, Partial):
        return places.axis
    if x.axis != places.axis:
        return None
    return None if n.axis(n.integer("axis", 0), x.rank) == x.axis else x.axis


def _recurrent(n: Node, inputs: Operands) -> Axes:
    """A batch of so many sequences; or one batch of so many steps, which is their length."""
    x = inputs[0]
    counted = [v for v in inputs if isinstance(v, Partial)]
    if not isinstance(x, Partial) or (n.opset >= 14 and n.flag("layout", 0)):
        return None
    if x.axis == 0 and len(counted) == 1 and not n.has(LENGTHS) and x.count is not None:
        n.inputs += [None] * (LENGTHS + 1 - len(n.inputs))
        length = n.b.broadcast(n.b.cast(x.count, "i32"), x.dims[1:2], [])
        n.inputs[LENGTHS] = Value("i32", x.dims[1:2], made=length)
        return (0, -1, -1)
    weights = [v for v in inputs[1:4] if isinstance(v, Partial)]
    states = all(v.axis == 1 for v in inputs[5:7] if isinstance(v, Partial))
    whole = [v for v in inputs[4:7] if v is not None and not isinstance(v, Partial)]
    return (2, 1, 1) if x.axis == 1 and not weights and not whole and states else None


def layered(n: Node, operator: OnnxOperator, x: Crossed, inputs: Operands) -> list[Value] | None:
    """A batch of so many sequences, each of so many steps."""
    counts, states = dict(zip(x.axes, x.counts, strict=True)), [v for v in inputs[5:7] if v]
    rows = [v for v in states if isinstance(v, Partial) and v.axis == 1 and v.count is not None]
    weights = [v for v in inputs[1:4] if v is not None and not v.is_tensor]
    turned = n.opset >= 14 and n.flag("layout", 0)
    if {*counts} != {0, 1} or len(rows) < len(states) or n.has(LENGTHS) or weights or turned:
        return None
    batch = reduce(partial(same_count, n.b), [v.count for v in rows if v.count], counts[1])
    n.inputs += [None] * (LENGTHS + 1 - len(n.inputs))
    lengths = n.b.broadcast(n.b.cast(counts[0], "i32"), x.dims[1:2], [])
    n.inputs[LENGTHS] = Value.computed(lengths)
    y, *last = n.results_of(operator)
    steps = Partial.counted(y, 0, counts[0])
    results = [crossed(steps, Partial.counted(y, 2, batch))]
    return [*results, *(Partial.counted(state, 1, batch) for state in last)]


def fill_places(n: Node, inputs: Operands) -> None:
    """What is behind the places that count is one that there is."""
    places = inputs[1]
    if isinstance(places, Partial):
        n.inputs[1] = with_others(n, places, 0)


_OF_BATCHES = (
    *("Conv", "ConvTranspose", "ConvInteger", "MaxPool", "AveragePool", "LpPool"),
    *("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", "DepthToSpace", "SpaceToDepth", "LRN"),
    *("BatchNormalization", "InstanceNormalization"),
    *("QLinearConv", "com.microsoft.FusedConv", "com.microsoft.QLinearAveragePool"),
    "com.microsoft.QLinearGlobalAveragePool",
)
_NORMALISING = ("LayerNormalization", "RMSNormalization", "com.microsoft.QLinearSoftmax")

BATCHES: dict[str, Callable[[Node, Operands], Axes]] = {
    **dict.fromkeys(_OF_BATCHES, _batch),
    **dict.fromkeys(_NORMALISING, _normalised),
    "com.microsoft.SkipLayerNormalization": _skipped,
    **dict.fromkeys(("LpNormalization", "TopK"), _beside(lambda n: n.integer("axis", -1))),
    "Split": _beside(lambda n: n.integer("axis", 0)),
    **dict.fromkeys(("CumSum", "CumProd"), _cumulated),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
    "Pad": _padded,
    "Slice": _sliced,
    "GatherElements": _gathered,
}
