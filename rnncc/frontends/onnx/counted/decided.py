"""Sizes that the run decides, such as the largest of some lengths, where they must be others.

A mask is as long as the longest sequence, and what it masks as long as the batch: of a model that
adds the two, these are equal, and each call checks it. The size is a symbol of its own until the
rest of the model shows what it is equal to; if nothing does, it is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.ir import Block, Operation, SSAValue

from rnncc.frontends.onnx.errors import NeedsValue
from rnncc.frontends.onnx.formulas.elements import elements_of
from rnncc.frontends.onnx.formulas.learning import PREFIX, Learnt
from rnncc.frontends.onnx.formulas.offsets import integers_behind, parted, unless_negative
from rnncc.frontends.onnx.values import EXACT
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim, product
from rnncc.ir.ops.indexing import Gather
from rnncc.ir.ops.linear import Reduce
from rnncc.ir.ops.shape import Reshape
from rnncc.ir.ops.source import Fill
from rnncc.ir.types import dims_of, dtype_of

if TYPE_CHECKING:
    from rnncc.frontends.onnx.node import Node


def decided_sizes(n: Node, index: int) -> list[Dim] | None:
    """The vector of sizes that an input is, where the run decides some; None where it is known, or
    made of other than the largest of some numbers, numbers of the model's inputs, and formulas.
    They may be cast to floats, which calls check that these hold."""
    value = n.value(index)
    if value.made is None or value.rank > 1 or not all(d.is_static for d in value.dims):
        return None
    integers = integers_behind(value.made)
    if dtype_of(integers) not in ("i32", "i64"):
        return None
    numbers = elements_of(n.b, n.b.cast(n.b.reshape(integers, (product(value.dims),)), "i64"))
    sizes = [_size(n, number) for number in numbers]
    known = [size for size in sizes if size is not None]
    held = EXACT.get(value.dtype)
    if len(known) < len(sizes) or not (held is None or n.scope.model.within(held, known)):
        return None
    return known


def _size(n: Node, number: Dim | SSAValue) -> Dim | None:
    if isinstance(number, Dim):
        return number
    base, more = parted(unless_negative(number))
    if base is None:
        return more
    size = decided_size(n, base)
    return None if size is None else size + more


def decided_size(n: Node, number: SSAValue) -> Dim | None:
    """The size that the largest of some numbers is, or an input of the model; None of any other
    number, and where it is known that nothing tells which one it is."""
    model = n.scope.model
    if not _may_decide(n, number.owner):
        return None
    if number not in model.decided:
        symbol = f"{PREFIX}{len(model.decided) + 1}"
        if symbol not in {*model.known.sizes, *model.known.counted}:
            model.symbols.append(symbol)
        model.decided[number] = model.known.sizes.get(symbol, Dim.of(symbol))
    size = model.decided[number]
    return size if model.known.counted.isdisjoint(size.symbols) else None


def _may_decide(n: Node, owner: Operation | Block) -> bool:
    """Whether it is the largest of some numbers, or an input of the model."""
    if isinstance(owner, Reduce):
        return owner.kind.data == "max"
    return any(value.owner is owner for value in n.scope.model.inputs)


def count_decided(n: Node, index: int) -> None:
    """Where a size that an input holds is one that the run decides, and nothing has shown yet which
    size it is, have its rows counted, if a bound is given: no formula can take its place here.

    Raises:
        Learnt: that the size is counted.
    """
    model = n.scope.model
    if model.max_iterations is None or model.training:
        return
    for size in decided_sizes(n, index) or ():
        for symbol in sorted(size.symbols):
            if symbol.startswith(PREFIX):
                raise Learnt(counted=symbol)


def is_undecided(size: Dim) -> bool:
    """Whether the run decides it, and nothing has shown yet which size it is."""
    return any(symbol.startswith(PREFIX) for symbol in size.symbols)


def settled(n: Node, index: int, x: SSAValue) -> SSAValue:
    """x, where the numbers of an input are the sizes that they must be: else the run fails."""
    b, value = n.b, n.value(index)
    assert value.made is not None
    expected = decided_sizes(n, index)
    assert expected is not None
    if undecided := [size for size in expected if is_undecided(size)]:
        what = "takes a size that the run decides, and nothing shows which of the others it is"
        inputs = n.scope.model.inputs_behind(value)
        error = NeedsValue(
            n.location, what, "--bind gives it, or --max-iterations bounds it", inputs
        )
        for size in undecided:
            symbols = [symbol for symbol in sorted(size.symbols) if symbol.startswith(PREFIX)]
            n.scope.model.undecided |= dict.fromkeys(symbols, error)
        return x
    return where_equal(b, x, b.reshape(b.cast(value.made, "i64"), (len(expected),)), expected)


def where_equal(b: Builder, x: SSAValue, numbers: SSAValue, expected: Sequence[Dim]) -> SSAValue:
    """x, where a vector holds some sizes: else the run fails."""
    sizes = b.concat([b.reshape(b.size(size), (1,)) for size in expected], 0)
    same = b.compare("eq", numbers, sizes)
    # the one row there is, or one that is not there
    row = b.select(same, b.fill(0, (len(expected),), "i64"), b.fill(1, (len(expected),), "i64"))
    row = b.reduce("max", row, [0])
    flat = b.reshape(x, (1, product(dims_of(x))))
    return b.reshape(b.gather(flat, b.reshape(row, (1,)), 0), dims_of(x))


def decided_already(n: Node, number: SSAValue) -> Dim | None:
    """The size that a number is taken for, if it is for one."""
    base, more = parted(number)
    model = n.scope.model
    size = None if base is None else model.decided.get(base)
    if size is None or not model.known.counted.isdisjoint(size.symbols):
        return None
    return size + more


def one_number(x: SSAValue) -> float | None:
    """The number that all elements are, where a fill says so, behind what settles its sizes too."""
    while isinstance(x.owner, Gather | Reshape):
        x = x.owner.operands[0]
    return x.owner.value.value.data if isinstance(x.owner, Fill) else None
