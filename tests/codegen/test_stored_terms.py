"""Maps in one pass with the sums of what they write: the bits of two passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.ir import Operation, SSAValue

from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.codegen.cpu.sums import stored_terms
from rnncc.codegen.cpu.sums.stored_terms import StoredTerms
from rnncc.ir.builder import Builder
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of
from rnncc.kern.dialect import Buffer
from rnncc.kern.kernels import Map, Reduce
from rnncc.kern.program import KernelProgram
from rnncc.nn.convolution import convolution
from rnncc.nn.normalisation import softmax
from rnncc.nn.reduction import reduce_keepdims
from rnncc.nn.windows import Window
from rnncc.options import Options
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.compiling import lower

Net = Callable[[Builder, SSAValue], SSAValue]


def net_of(make: Net, width: int) -> Program:
    b = Builder.net("terms")
    return b.finish({"y": make(b, b.input("x", ("N", width)))})


def _of_sums(b: Builder, x: SSAValue) -> SSAValue:
    """The map reads scratch that nobody reads any more."""
    weights = b.input("w", (8, int(dims_of(x)[1])))
    return softmax(b, b.matmul(b.matmul(x, weights, transpose_b=True), weights), 1)


def _twice(b: Builder, x: SSAValue) -> SSAValue:
    return softmax(b, b.sin(softmax(b, x, 1)), 1)


def _largest(b: Builder, x: SSAValue) -> SSAValue:
    waves = b.sin(x)
    return b.mul(waves, reduce_keepdims(b, "max", waves, [1]))


def fused(kernels: KernelProgram) -> int:
    pairs: list[tuple[Operation, Operation | None]] = [
        (op, op.next_op) for op in kernels.func.walk()
    ]
    return sum(StoredTerms.of(*pair) is not None for pair in pairs)


@pytest.mark.parametrize("cpu", [None, "x86-64-v3"])
@pytest.mark.parametrize("width", [256, 259, 1000])
@pytest.mark.parametrize(
    ("make", "count"),
    [(lambda b, x: softmax(b, x, 1), 1), (_of_sums, 1), (_twice, 2), (_largest, 1)],
)
def test_bits(
    make: Net, count: int, width: int, cpu: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels, draw = lower(net_of(make, width), Options()), np.random.default_rng(2)
    assert fused(kernels) == count
    x = draw.standard_normal((18, width), np.float32)
    inputs: dict[str, Any] = {"w": draw.standard_normal((8, width), np.float32)}
    found = list[list[bytes]]()
    for least in (256, 10_000):
        monkeypatch.setattr(stored_terms, "LONG", least)
        code = Bare(kernels, resolve_target(None, cpu))
        with guards(end=True) as memory:
            every = [code.run({**inputs, "x": x[:n]}, {"N": n}, memory)["y"] for n in (1, 4, 18)]
        found.append([y.tobytes() for y in every])
    assert found[0] == found[1]


def test_results_in_the_way() -> None:
    """Where the sums lie in what the map has yet to read, all of it is read first."""
    kernels = lower(net_of(_of_sums, 256), Options())
    [pair] = [
        (op, op.next_op)
        for op in kernels.func.walk()
        if isinstance(op, Map) and StoredTerms.of(op, op.next_op)
    ]
    first, then = pair
    assert isinstance(then, Reduce)
    scores, sums = first.ins[0].owner, then.outs[0].owner
    assert isinstance(scores, Buffer) and isinstance(sums, Buffer)
    assert scores.role.data == "scratch"
    sums.offset = scores.offset
    assert StoredTerms.of(first, then) is None


@pytest.mark.parametrize("cpu", [None, "x86-64-v2"])
def test_maps_that_turn_what_they_read(cpu: str | None) -> None:
    """Shares of the places of an image, of which each has its channels beside each other."""
    b = Builder.net("places")
    x, w = b.input("x", ("N", 4, 16, 16)), b.input("w", (8, 4, 3, 3))
    scores = convolution(b, x, w, None, [Window(3, pads=(1, 1))] * 2, 1)
    terms = b.exp(b.tanh(b.reshape(scores, ["N", 8, 256])))
    shares = b.div(terms, reduce_keepdims(b, "sum", terms, [2]))
    image = b.reshape(shares, ["N", 8, 16, 16])
    program = b.finish({"y": b.concat([image, b.neg(image)], 1)})
    rng = np.random.default_rng(3)
    shapes = {"x": (3, 4, 16, 16), "w": (8, 4, 3, 3)}
    singles = {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    expected = run(program, singles, np.float64, {"N": 3})["y"]
    code = Bare(lower(program, Options()), resolve_target(None, cpu))
    with guards(end=True) as memory:
        y = code.run(singles, {"N": 3}, memory)["y"]
    np.testing.assert_allclose(y, expected, 1e-5, 1e-7)


def test_short_rows_are_left_alone() -> None:
    assert fused(lower(net_of(lambda b, x: softmax(b, x, 1), 255), Options())) == 0
