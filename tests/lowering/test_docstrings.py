"""The net that a rule's docstring shows, and the kernels that become of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from xdsl.ir import SSAValue

from rnncc.codegen import targets
from rnncc.ir.builder import Builder
from rnncc.ir.program import Program
from rnncc.lowering import (
    absent_inputs,
    absent_outputs,
    active_rows,
    chunks,
    compute,
    groups,
    loops,
    maps,
    moves,
    region,
    rounded_rows,
    rows,
    sums,
    weights,
    window_rows,
)
from rnncc.lowering.lower import lower
from rnncc.passes.cleanup.simplify import Simplify
from rnncc.passes.gradients.checkpointing.checkpoint import checkpoint
from rnncc.passes.loops.hoist import Hoist
from rnncc.passes.loops.mask_rows import MaskRows
from tests.lowering.notation import show as show_kernels
from tests.passes.notation import show, shown_in
from tests.passes.program_examples import decay, phases_of, program_of

Values = list[SSAValue]
TARGET = targets.resolve("x86-64-v3")


def dense_layer(b: Builder) -> Values:
    """A value that a kernel addresses, a product, what follows it."""
    x, w = b.exp(b.input("x", ["N", 3])), b.param("w", [3, 4])
    return [b.relu(b.add(b.matmul(x, w), b.broadcast(b.param("bias", [4]), ["N", 4], [1])))]


def views(b: Builder) -> Values:
    x = b.transpose(b.slice(b.input("x", [8, "N"]), 0, 4, 4), [1, 0])
    return [b.mul(x, b.broadcast(b.input("s", ["N"]), ["N", 4], [0]))]


def recurrent(b: Builder) -> Values:
    """A loop whose states are an output; x · w has left it."""
    x, h, w, u = b.input("x", ["T", "N", 3]), b.input("h", ["N", 4]), *parameters(b)

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        h = i.tanh(i.add(i.matmul(carry[0], consts[0]), i.matmul(rows[0], consts[1])))
        return [h], [h]

    return b.scan([u, w], [h], [x], step)[1]


def parameters(b: Builder) -> tuple[SSAValue, SSAValue]:
    return b.param("w", [3, 4]), b.param("u", [4, 4])


def masked(b: Builder) -> Values:
    h, u, mask = b.input("h", ["N", 4]), b.param("u", [4, 4]), b.input("mask", ["T", "N"], "i1")

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        new = i.matmul(carry[0], consts[0])
        return [i.select(i.broadcast(rows[0], ["N", 4], [0]), new, carry[0])], []

    return b.scan([u], [h], [mask], step)[0]


def masked_layer(b: Builder) -> Values:
    """The same with x · w, which is computed ahead, for the rows of many steps."""
    h, u, mask = b.input("h", [8, 4]), b.param("u", [4, 4]), b.input("mask", ["T", 8], "i1")
    x, w = b.input("x", ["T", 8, 3]), b.param("w", [3, 4])

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        new = i.add(i.matmul(carry[0], consts[0]), i.matmul(rows[1], consts[1]))
        return [i.select(i.broadcast(rows[0], [8, 4], [0]), new, carry[0])], []

    return b.scan([u, w], [h], [mask, x], step)[0]


def shifted(b: Builder) -> Values:
    """What a backward loop reads: the states before each step."""
    states, h, dy = b.input("s", ["T", "N"]), b.input("h", ["N"]), b.input("dy", ["N"])

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        return [i.mul(carry[0], rows[0])], []

    return b.scan([], [dy], [b.shift(states, h)], step, reverse=True)[0]


def states(b: Builder) -> Values:
    x, h = b.input("x", ["T", "N"]), b.input("h", ["N"])

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        h = i.mul(carry[0], rows[0])
        return [h], [h]

    return b.scan([], [h], [x], step)[1]


def gates(b: Builder) -> Values:
    s = b.matmul(b.input("x", ["N", 3]), b.param("w", [3, 8]))
    return [b.mul(b.exp(b.slice(s, 1, 0, 4)), b.relu(b.slice(s, 1, 4, 4)))]


def total(b: Builder) -> Values:
    return [b.reduce("sum", b.exp(b.input("x", ["N", 3])), [1])]


def scores(b: Builder) -> Values:
    return [b.matmul(b.input("q", ["N", 2, 3]), b.input("k", ["N", "S", 3]), transpose_b=True)]


def taps(b: Builder) -> Values:
    """A dilated convolution of one axis, whose windows lie in the input."""
    x = b.windows(b.input("x", ["N", 8, 2]), 1, 0, 3, 1, 3, 2)
    return [b.matmul(b.reshape(x, ["N", 3, 6]), b.param("w", [6, 4]))]


def product(b: Builder) -> Values:
    return [b.matmul(b.input("x", ["N", 3]), b.param("w", [3, 4]))]


def summed(b: Builder) -> Values:
    return [b.sum_rows(b.input("db", [4]), b.input("dy", ["N", 4]), False)]


def outer(b: Builder) -> Values:
    x, dy = b.input("x", ["N", 3]), b.input("dy", ["N", 4])
    return [b.contract(b.fill(0.0, [3, 4]), x, dy, False)]


def rounded() -> Program:
    def gradient(b: Builder) -> Values:
        dy = b.mul(b.input("dy", ["N", 8]), b.broadcast(b.param("w", [8]), ["N", 8], [1]))
        dw = b.contract(b.fill(0.0, [3, 8]), b.input("x", ["N", 3]), dy, False)
        return [dw]

    return program_of(gradient)


def beside(b: Builder) -> Values:
    x = b.input("x", ["N", 3])
    return [b.concat([b.relu(x), b.input("z", ["N", 2])], 1)]


def chosen(b: Builder) -> Values:
    return [b.gather(b.input("table", [9, 4]), b.input("index", ["N"], "i32"), 0)]


def counted(b: Builder) -> Values:
    init = b.input("table", [9, 4])
    return [b.scatter("sum", init, b.input("dy", ["N", 4]), b.input("index", ["N"], "i32"), 0)]


def turned(b: Builder) -> Values:
    return [b.reverse_segments(b.input("x", ["T", "N", 3]), b.input("lengths", ["N"], "i32"))]


def runs() -> Program:
    cut = checkpoint(phases_of(decay), (16,))
    assert cut is not None
    return cut.forward


def hoisted(values: Callable[[Builder], Values]) -> Callable[[], Program]:
    def make() -> Program:
        program = program_of(values)
        for one in (MaskRows(), Hoist(), Simplify()):
            one.rewrite(program.net)
        return program

    return make


def listed() -> Program:
    program = program_of(masked)
    MaskRows().rewrite(program.net)
    return program


def absent() -> Program:
    return replace(program_of(decay), zeros=frozenset(["x"]))


def net(values: Callable[[Builder], Values]) -> Callable[[], Program]:
    return lambda: program_of(values)


EXAMPLES: dict[Callable[..., Any], Callable[[], Program]] = {
    groups.schedule: net(dense_layer),
    maps.through_view: net(views),
    region.Region: net(gates),
    loops.emit_scan: hoisted(recurrent),
    active_rows.list_of: hoisted(masked_layer),
    compute.emit: listed,
    rows.place: net(shifted),
    chunks.emit_chunks: runs,
    sums.emit_reduce: net(total),
    sums.emit_batched: net(scores),
    sums.emit_sum_rows: net(summed),
    sums.emit_contract: net(outer),
    moves.emit_concat: net(beside),
    moves.emit_gather: net(chosen),
    moves.emit_scatter: net(counted),
    moves.emit_reverse: net(turned),
    weights.WeightTable: net(product),
    window_rows.left_operand: net(taps),
    absent_outputs.set_fallbacks: net(states),
    absent_inputs.set_default_zeros: absent,
}


def nets(rule: Callable[..., Any]) -> list[str]:
    """The net before it, and the kernels."""
    program = EXAMPLES[rule]()
    return [show(program), show_kernels(lower(program, TARGET))]


@pytest.mark.parametrize("rule", EXAMPLES, ids=lambda rule: rule.__name__)
def test_a_rule_does_what_it_shows(rule: Callable[..., Any]) -> None:
    assert shown_in(rule.__doc__) == nets(rule)


def test_rounded_sums_read_what_is_of_bf16() -> None:
    """The kernels before it, and after it."""
    program = lower(rounded(), targets.resolve("nvptx"), "bf16")
    before = show_kernels(program)
    rounded_rows.store_rounded(program)
    assert shown_in(rounded_rows.store_rounded.__doc__) == [before, show_kernels(program)]
