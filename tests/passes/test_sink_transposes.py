"""Convolutions one behind another: they are computed channels last, transposed at the edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.ir import SSAValue

from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.ir.attributes import get_ints
from rnncc.ir.builder import Builder, Values
from rnncc.ir.dims import Dim
from rnncc.ir.interpreter import run
from rnncc.ir.ops.control import Scan
from rnncc.ir.ops.gradients import WithGradient
from rnncc.ir.ops.shape import Broadcast, Transpose
from rnncc.ir.ops.source import Constant
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of
from rnncc.nn.convolution import convolution
from rnncc.nn.pooling import max_pool
from rnncc.nn.reduction import mean
from rnncc.nn.windows import Window
from rnncc.passes.gradients.differentiate import differentiate
from rnncc.passes.layouts.sink_transposes import SinkTransposes
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.compiling import lower
from tests.passes.helpers import whole_sequence

Arrays = dict[str, np.ndarray[Any, Any]]
SAME, HALF = Window(3, pads=(1, 1)), Window(2, 2)
DILATED = Window(3, dilation=2, pads=(2, 2))


def _conv(b: Builder, x: SSAValue, outputs: int, window: Window, groups: int = 1) -> SSAValue:
    rng, inputs = np.random.default_rng(outputs), int(dims_of(x)[1]) // groups
    w = rng.standard_normal((outputs, inputs, window.taps, window.taps), np.float32)
    bias = b.constant(rng.standard_normal(outputs, np.float32))
    return convolution(b, x, b.constant(w / w[0].size ** 0.5), bias, [window, window], groups)


def assert_equal(found: Arrays, want: Arrays) -> None:
    for name, array in want.items():
        np.testing.assert_allclose(found[name], array, 1e-4, 1e-5)


def chain(batch: Dim | int | str) -> Program:
    """A stem, a pool, a residual block, a depthwise convolution, branches, means of channels."""
    b = Builder.net("made")
    x = b.input("x", (batch, 2, 12, 20))
    y = max_pool(b, b.relu(_conv(b, x, 16, SAME)), [HALF, HALF])
    y = b.relu(b.add(y, _conv(b, b.relu(_conv(b, y, 17, SAME)), 16, SAME)))
    y = b.sigmoid(_conv(b, y, 16, SAME, groups=16))
    y = b.concat([_conv(b, y, 20, DILATED), b.slice(_conv(b, y, 24, Window(1)), 1, 2, 7)], 1)
    scale = b.constant(np.linspace(1, 2, 27, dtype=np.float32).reshape(1, 27, 1, 1))
    y = b.mul(y, scale)
    return b.finish({"y": y, "mean": mean(b, y, [2, 3])})


def _inputs(batch: int) -> Arrays:
    return {"x": np.random.default_rng(1).standard_normal((batch, 2, 12, 20), np.float32)}


@pytest.mark.parametrize("cpu", [None, "x86-64-v2"])
@pytest.mark.parametrize("batch", [1, 3])
def test_chain(batch: int, cpu: str | None) -> None:
    program, inputs = chain("N"), _inputs(batch)
    want = run(program, inputs)
    after = chain("N")
    whole_sequence(after)
    kernels = lower(chain("N"))
    with guards(True) as memory:
        code = Bare(kernels, resolve_target(None, cpu))
        found = code.run(inputs, {"T": 1, "N": batch}, memory)
        assert_equal(run(after, inputs), want)
        assert_equal(found, want)


def test_gradients_that_are_stated_take_layouts_in() -> None:
    """Of pools between convolutions: nothing is transposed but in front of the first product, and
    behind the last one."""
    rng = np.random.default_rng(0)
    b = Builder.net("made")
    y = b.relu(max_pool(b, _conv(b, b.input("x", ("N", 2, 12, 20)), 16, SAME), [HALF, HALF]))
    y = max_pool(b, _conv(b, y, 20, SAME), [HALF, HALF])
    program = b.finish({"y": y})
    plain = program.copy()
    SinkTransposes(for_gradients=True).rewrite(program.net)
    marked = [op for op in program.net.walk() if isinstance(op, WithGradient)]
    assert [dims_of(op.y)[-1] for op in marked] == [16, 20]
    inputs = {"x": rng.integers(-1, 2, (3, 2, 12, 20)).astype(np.float32)}
    inputs["grad:y"] = rng.standard_normal((3, 20, 3, 5), np.float32)
    found, want = (run(differentiate(p, ["y"], ["x"]), inputs) for p in (program, plain))
    assert_equal(found, want)


def test_only_the_end_is_transposed() -> None:
    """The input has few channels, which stay planes."""
    program = chain("N")
    whole_sequence(program)
    found = [op for op in program.net.walk() if isinstance(op, Transpose)]
    of_images = [op for op in found if not isinstance(op.x.owner, Constant | Broadcast)]
    assert len([op for op in of_images if get_ints(op.perm)[-1] != len(op.perm) - 1]) == 1


def loop(channels: int) -> Program:
    """A convolutional LSTM, whose loop has its channels in the middle."""
    b = Builder.net("made")
    x, start = b.input("x", ("T", "N", 2, 5, 6)), b.fill(0.0, ("N", channels, 5, 6))

    def step(i: Builder, _: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        z = _conv(i, i.concat([rows[0], carry[0]], 1), 4 * channels, SAME)
        gates = (i.slice(z, 1, at * channels, channels) for at in range(4))
        forget, enter, out, new = (i.tanh(gate) for gate in gates)
        c = i.add(i.mul(forget, carry[1]), i.mul(enter, new))
        h = i.mul(out, i.tanh(c))
        return [h, c], [h]

    (_, last), (y,) = b.scan([], [start, start], [x], step)
    return b.finish({"y": y, "last": last})


def test_states_of_a_loop_are_carried_in_the_layout_of_its_convolutions() -> None:
    inputs = {"x": np.random.default_rng(2).standard_normal((3, 2, 2, 5, 6), np.float32)}
    want, after = run(loop(9), inputs), loop(9)
    whole_sequence(after)
    (scan,) = (op for op in after.net.walk() if isinstance(op, Scan))
    assert {dims_of(init)[1:] for init in scan.inits} == {(5, 6, 9)}
    turned = [op for op in scan.walk() if isinstance(op, Transpose)]
    turned = [op for op in turned if get_ints(op.perm)[-1] != len(op.perm) - 1]
    assert all(dims_of(op.x)[1] == 2 for op in turned)
    assert_equal(run(after, inputs), want)
    with guards(True) as memory:
        code = Bare(lower(loop(9)), resolve_target(None, None))
        assert_equal(code.run(inputs, {"T": 3, "N": 2}, memory), want)


def test_few_channels_stay_in_the_middle() -> None:
    """Functions of a step run along an image's rows, which fill vectors better."""
    program = loop(3)
    whole_sequence(program)
    (scan,) = (op for op in program.net.walk() if isinstance(op, Scan))
    assert {dims_of(init)[1:] for init in scan.inits} == {(3, 5, 6)}
