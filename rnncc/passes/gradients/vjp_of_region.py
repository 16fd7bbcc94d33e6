"""The gradient of a part of a block, for front ends whose nets hold gradient operators.

Where `differentiate` makes a net with gradients of a net without, this adds the gradients of some
values by others while the block is still being built, by the same reverse mode.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from xdsl.ir import Operation, SSAValue

from rnncc.ir.builder import Builder
from rnncc.passes.gradients.activity import active_values
from rnncc.passes.gradients.backprop import Backprop


def vjp_of_region(
    b: Builder,
    seeds: Sequence[tuple[SSAValue, SSAValue]],
    inputs: Sequence[SSAValue],
    sources: Collection[SSAValue],
) -> list[SSAValue]:
    """The gradients of some values, built with `b`, which stands behind all ops of the part.

    Loops that it goes through are rebuilt, with more results: the old ones are replaced in all
    their uses. With dz as the gradient of v2, that of v1:

    Before:

        v1 = mul(x, w)
        v2 = tanh(v1)
        return v2

    After:

        v1 = mul(x, w)
        v2 = tanh(v1)
        v3 = mul(v2, v2)
        v4 = sub(1, v3)
        v5 = mul(dz, v4)
        return v2, v5

    Args:
        seeds: values of the block, each with its outside gradient of the same type.
        inputs: what to differentiate by, of `sources`.
        sources: where the part begins; what stands before them is left alone.
    Returns:
        a gradient for each value asked for, of its type; zeros where nothing given depends on it.
    """
    ends = [value for value, _ in seeds]
    ops = ops_between(sources, ends)
    backprop = Backprop(b, active_values(ops, inputs, ends))
    for value, gradient in seeds:
        backprop.add(value, gradient)
    backprop.run(ops)
    return [backprop.take_or_zeros(value) for value in inputs]


def ops_between(sources: Collection[SSAValue], ends: Iterable[SSAValue]) -> list[Operation]:
    """The ops that compute some values from others of the same block, operands before users."""
    begin = set(sources)
    order, seen = list[Operation](), set[Operation]()
    work = [(op, False) for op in _makers(ends, begin)]
    while work:
        op, ready = work.pop()
        if ready:
            order.append(op)
        elif op not in seen:
            seen.add(op)
            work.append((op, True))
            work += [(maker, False) for maker in _makers(op.operands, begin)]
    return order


def _makers(values: Iterable[SSAValue], begin: set[SSAValue]) -> Iterator[Operation]:
    for value in values:
        if value not in begin and isinstance(value.owner, Operation):
            yield value.owner
