"""The net that a pass's docstring shows before it, and after it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.ir import SSAValue

from rnncc import pipeline
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.rewriting import NetPass
from rnncc.passes.cleanup import simplify
from rnncc.passes.cleanup.canonicalize import Canonicalize
from rnncc.passes.cleanup.cse import Cse
from rnncc.passes.cleanup.dce import Dce
from rnncc.passes.cleanup.simplify import Simplify
from rnncc.passes.cleanup.simplify_scans import SimplifyScans
from rnncc.passes.gradients.strip_stop_gradient import StripStopGradient
from rnncc.passes.layouts.carry_layouts import CarryLayouts
from rnncc.passes.layouts.sink_transposes import SinkTransposes
from rnncc.passes.layouts.split_windows import SplitWindows
from rnncc.passes.layouts.stay_in_planes import StayInPlanes
from rnncc.passes.layouts.turn_states import TurnStates
from rnncc.passes.loops.accumulate import Accumulate
from rnncc.passes.loops.add_before_sums import AddBeforeSums
from rnncc.passes.loops.hoist import Hoist
from rnncc.passes.loops.mask_rows import MaskRows
from rnncc.passes.loops.merge_matmuls import MergeMatmuls
from rnncc.passes.loops.multiply_adds import MultiplyAdds
from rnncc.passes.loops.reassociate_sums import ReassociateSums
from rnncc.passes.loops.separate_parts import SeparateParts
from rnncc.passes.loops.sink import Sink
from rnncc.passes.loops.split_scans import SplitScans
from rnncc.passes.loops.sum_late import SumLate
from tests.passes.helpers import applied
from tests.passes.notation import show, shown_in
from tests.passes.program_examples import EXAMPLES as PROGRAMS

Values = list[SSAValue]


def stops(b: Builder) -> Values:
    x = b.input("x", ["N", 3])
    return [b.mul(b.stop_gradient(x), x)]


def windowed(b: Builder) -> Values:
    x = b.windows(b.input("x", ["N", 3, 4]), 1, 0, 3)
    return [b.relu(b.transpose(b.reduce("max", x, [2]), [0, 2, 1]))]


def summed_windows(b: Builder) -> Values:
    """A depthwise convolution of planes, as the front end writes it."""
    x = b.transpose(b.input("x", [1, 16, 48, 96]), [0, 2, 3, 1])
    rows = b.windows(b.windows(x, 1, 0, 24, 2, 2), 3, 0, 48, 2, 2)
    return [b.transpose(b.relu(b.reduce("sum", rows, [2, 4])), [0, 3, 1, 2])]


def convolved(b: Builder) -> Values:
    """A loop whose state has its channels in the middle, as ONNX has them."""
    h = b.input("h", ["N", 16, 8])

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        last = i.transpose(carry[0], [0, 2, 1])
        padded = i.concat([i.fill(0.0, ["N", 2, 16]), last], 1)
        most = i.reduce("max", i.windows(padded, 1, 0, 8, 1, 3), [2])
        y = i.mul(i.sigmoid(i.transpose(most, [0, 2, 1])), carry[0])
        return [y], [i.tanh(y)]

    (last,), ys = b.scan([], [h], [], step, length=Dim.of("T"))
    return [last, *ys]


def twins(b: Builder) -> Values:
    x = b.input("x", ["N", 3])
    return [b.add(b.exp(x), b.exp(x))]


def unused(b: Builder) -> Values:
    x = b.input("x", ["N", 3])
    b.exp(x)
    return [b.neg(x)]


def shared(b: Builder) -> Values:
    """A product that two sums read, one of them with what is made of it."""
    x, y, z = (b.input(name, ["N", 3]) for name in "xyz")
    product = b.mul(x, y)
    return [b.add(z, product), b.sub(product, b.relu(product))]


def gates(b: Builder) -> Values:
    x = b.input("x", ["N", 3])
    return [b.tanh(b.matmul(x, b.param("w", [3, 4]))), b.matmul(x, b.param("u", [3, 4]))]


def cell(b: Builder) -> Values:
    """h[t] = tanh(x[t] · w + h[t-1] · u)"""
    x, h = b.input("x", ["T", "N", 3]), b.input("h", ["N", 4])

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        h = i.add(i.matmul(rows[0], consts[0]), i.matmul(carry[0], consts[1]))
        return [i.tanh(h)], []

    return b.scan([b.param("w", [3, 4]), b.param("u", [4, 4])], [h], [x], step)[0]


def biases(b: Builder) -> Values:
    """The sum that front ends write: h · u + x + (bias, added last)"""
    x, h = b.input("x", ["T", "N", 4]), b.input("h", ["N", 4])

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        product = i.matmul(carry[0], consts[0])
        return [i.add(i.add(rows[0], product), i.broadcast(consts[1], ["N", 4], [1]))], []

    return b.scan([b.param("u", [4, 4]), b.param("bias", [4])], [h], [x], step)[0]


def stack(b: Builder) -> Values:
    """Two layers in one loop."""
    h, g = b.input("h", ["N", 4]), b.input("g", ["N", 4])
    x, w = b.input("x", ["T", "N", 4]), b.param("w", [4, 4])

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        h = i.add(rows[0], carry[0])
        return [h, i.add(i.matmul(h, consts[0]), carry[1])], []

    return [b.scan([w], [h, g], [x], step)[0][1]]


def masked(b: Builder) -> Values:
    """A row whose sequence has ended keeps its state."""
    h, u, lengths = b.input("h", ["N", 4]), b.param("u", [4, 4]), b.input("lengths", ["N"], "i32")

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        going = i.compare("lt", i.broadcast(rows[0], ["N"], []), consts[1])
        going = i.broadcast(going, ["N", 4], [0])
        return [i.select(going, i.matmul(carry[0], consts[0]), carry[0])], []

    return b.scan([u, lengths], [h], [b.iota(["T"], 0)], step)[0]


def gradient(b: Builder) -> Values:
    """A weight's gradient, step by step."""
    x, dy = b.input("x", ["T", "N", 3]), b.input("dy", ["T", "N", 4])

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        return [i.add(carry[0], i.matmul(rows[0], rows[1], transpose_a=True))], []

    return b.scan([], [b.fill(0.0, [3, 4])], [x, dy], step, reverse=True)[0]


def total(b: Builder) -> Values:
    return [b.reduce("sum", b.input("x", ["T", "N", 3]), [0, 1])]


def opposed(b: Builder) -> Values:
    """Two carries that sum up rows, added behind the loop."""
    x, y = b.input("x", ["T", "N", 4]), b.input("y", ["T", "N", 4])

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        both = zip(carry, rows, strict=True)
        return [i.add(total, i.reduce("sum", row, [0])) for total, row in both], []

    zeros = [b.fill(0.0, [4]), b.fill(0.0, [4])]
    one, other = b.scan([], zeros, [x, y], step, reverse=True)[0]
    return [b.add(one, other), other]


def copied(b: Builder) -> Values:
    """A loop that carries what never changes."""
    x, h, c = b.input("x", ["T", "N", 4]), b.input("h", ["N", 4]), b.input("c", ["N", 4])

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        return [i.add(i.mul(rows[0], carry[1]), carry[0]), carry[1]], []

    return [b.scan([], [h, c], [x], step)[0][0]]


def summed(b: Builder) -> Values:
    """A light loop that adds up the rows of each step."""
    h, x, c = b.input("h", ["N", 64]), b.input("x", ["T", "N", 64]), b.fill(0.0, [64])

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        h = i.mul(carry[0], rows[0])
        return [h, i.sum_rows(carry[1], h, True)], []

    return [b.scan([], [h, c], [x], step, reverse=True)[0][1]]


def contracted(b: Builder) -> Values:
    """A state of two numbers a unit, over which each step sums."""
    h, x = b.input("h", ["N", 64, 2]), b.input("x", ["T", "N", 64])

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        h = i.mul(carry[0], i.broadcast(rows[0], ["N", 64, 2], [0, 1]))
        return [h], [i.reduce("sum", h, [2])]

    return b.scan([], [h], [x], step)[1]


def twice(b: Builder) -> Values:
    """What naive front ends write: nothing is left of it but x."""
    x = b.input("x", ["N", 3])
    turned = b.transpose(b.mul(x, b.fill(1.0, ["N", 3])), [1, 0])
    return [b.neg(b.neg(b.transpose(turned, [1, 0])))]


def repeated(b: Builder) -> Values:
    """Each of the passes it is made of finds what another has left."""
    x, h, g = b.input("x", ["T", "N"]), b.input("h", ["N"]), b.input("g", ["N"])

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        h = i.add(i.neg(i.neg(carry[0])), rows[0])
        return [h, i.exp(carry[1])], [i.tanh(h)]

    (last, _), _ = b.scan([], [h, g], [x], step)
    return [b.mul(b.exp(last), b.exp(last))]


def taps(b: Builder) -> Values:
    """A dilated convolution of one axis."""
    x = b.windows(b.input("x", ["N", 8, 32]), 1, 0, 3, 1, 2, 2)
    w = b.param("w", [4, 64])
    return [b.matmul(b.reshape(x, ["N", 3, 64]), w, transpose_b=True)]


def gated(b: Builder) -> Values:
    """A step whose product leaves it, and whose gates stand together for what scales them."""
    h, x = b.input("h", ["N", 2]), b.input("x", ["T", "N", 4])

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        product = i.matmul(carry[0], consts[0])
        left, right = (i.slice(product, 1, start, 2) for start in (0, 2))
        gates = i.mul(i.concat([i.sigmoid(left), i.tanh(right)], 1), rows[0])
        return [i.mul(left, right)], [product, gates]

    return b.scan([b.param("w", [2, 4])], [h], [x], step)[1]


EXAMPLES: dict[type[NetPass], Callable[[Builder], Values]] = {
    Canonicalize: twice,
    Simplify: repeated,
    CarryLayouts: convolved,
    SinkTransposes: windowed,
    StayInPlanes: summed_windows,
    StripStopGradient: stops,
    Cse: twins,
    Dce: unused,
    MergeMatmuls: gates,
    MultiplyAdds: shared,
    Hoist: cell,
    ReassociateSums: biases,
    SplitScans: stack,
    SplitWindows: taps,
    SeparateParts: gated,
    MaskRows: masked,
    Sink: gradient,
    Accumulate: total,
    AddBeforeSums: opposed,
    SimplifyScans: copied,
    SumLate: summed,
    TurnStates: contracted,
}


def nets(kind: type[NetPass]) -> tuple[str, str]:
    """What goes into a pass, and what comes out."""
    b = Builder.net("example")
    values = EXAMPLES[kind](b)
    program = b.finish({f"y{i}": value for i, value in enumerate(values)})
    before = show(program)
    applied(kind())(program)
    return before, show(program)


def test_every_pass_has_an_example() -> None:
    """Those of the pipeline, and those that they are made of."""
    steps = (*pipeline.STREAMING, *pipeline.INFERENCE, *pipeline.TRAINING)
    kinds = {type(step.action) for step in steps if isinstance(step.action, NetPass)}
    assert kinds | set(map(type, simplify.PASSES)) == EXAMPLES.keys()


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.name)
def test_a_pass_does_what_it_shows(kind: type[NetPass]) -> None:
    assert shown_in(kind.__doc__) == list(nets(kind))


@pytest.mark.parametrize("action", PROGRAMS, ids=lambda action: action.__name__)
def test_a_change_of_programs_does_what_it_shows(action: Callable[..., object]) -> None:
    assert shown_in(action.__doc__) == list(PROGRAMS[action]())
