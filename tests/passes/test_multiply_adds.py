"""Which sums round a product with them, and which may rely on its rounded value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from xdsl.ir import SSAValue

import rnncc
from rnncc.ir.builder import Builder
from rnncc.ir.program import Program
from rnncc.passes.loops.multiply_adds import FAR, MultiplyAdds

Make = Callable[[Builder, SSAValue, SSAValue], SSAValue]
DIMS = ["N", 8]


def program(make: Make) -> Program:
    """Of a product of two inputs, and a third one."""
    b = Builder.net("sums")
    x, y, z = (b.input(name, DIMS) for name in "xyz")
    return b.finish({"out": make(b, b.mul(x, y), z)})


def fused(made: Program) -> int:
    MultiplyAdds().rewrite(made.net)
    made.net.verify()
    return Counter(op.name for op in made.net.walk())["rnn.multiply_add"]


def without_the_largest(b: Builder, s: SSAValue, z: SSAValue) -> SSAValue:
    return b.sub(s, b.broadcast(b.reduce("max", s, [1]), DIMS, [0]))


def viewed(b: Builder, s: SSAValue, z: SSAValue) -> SSAValue:
    turned = b.transpose(s, [1, 0])
    return b.sub(turned, b.tanh(turned))


def through_another_product(b: Builder, s: SSAValue, z: SSAValue) -> SSAValue:
    """Its factor, which is made of s, is viewed anew for the first sum."""
    row = b.reduce("sum", b.relu(s), [1])
    other = b.broadcast(b.mul(row, row), DIMS, [0])
    return b.sub(b.add(other, z), s)


@pytest.mark.parametrize("make", [without_the_largest, viewed, lambda b, s, z: b.sub(s, s)])
def test_a_sum_with_what_is_made_of_a_product_reads_it_rounded(make: Make) -> None:
    assert fused(program(make)) == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda b, s, z: b.add(b.sub(z, s), b.relu(s)),
        lambda b, s, z: b.add(z, b.stop_gradient(s)),
        lambda b, s, z: b.add(b.transpose(s, [1, 0]), b.transpose(z, [1, 0])),
        through_another_product,
    ],
)
def test_other_sums_are_one_op_with_a_product(make: Make) -> None:
    assert fused(program(make)) == 1


@pytest.mark.parametrize(("length", "count"), [(FAR, 1), (FAR + 1, 0)])
def test_what_is_made_of_too_much_counts_as_made_of_the_product(length: int, count: int) -> None:
    def make(b: Builder, s: SSAValue, z: SSAValue) -> SSAValue:
        other = z
        for _ in range(length):
            other = b.tanh(other)
        return b.add(b.add(s, other), b.tanh(s))

    assert fused(program(make)) == count


def test_the_largest_of_products_less_the_largest_is_zero() -> None:
    model = rnncc.compile(program(without_the_largest))
    rng = np.random.default_rng(0)
    inputs = {name: rng.standard_normal((99, 8), np.float32) for name in "xyz"}
    assert (model.run({n: inputs[n] for n in model.inputs})["out"].max(1) == 0).all()


def test_training_rounds_what_is_no_way_for_gradients_as_inference_does() -> None:
    def make(b: Builder, s: SSAValue, z: SSAValue) -> SSAValue:
        return b.tanh(b.add(b.stop_gradient(s), z))

    rng = np.random.default_rng(0)
    inputs = {name: rng.standard_normal((99, 8), np.float32) for name in "xyz"}
    known = rnncc.compile(program(make)).run(inputs)["out"]
    outputs, _ = rnncc.compile(program(make), train=True).forward(inputs)
    np.testing.assert_array_equal(outputs["out"], known)
