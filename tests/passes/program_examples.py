"""Small nets for the docstrings of passes that make programs of programs: `test_docstrings.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.program import Program
from rnncc.passes.cleanup.dce import Dce
from rnncc.passes.cleanup.fold_constants import fold_constants
from rnncc.passes.cleanup.rows_by_number import find_rows
from rnncc.passes.cleanup.simplify import Simplify
from rnncc.passes.gradients.checkpointing.checkpoint import checkpoint
from rnncc.passes.gradients.concat_slice_grads import concat_slice_grads
from rnncc.passes.gradients.differentiate import differentiate
from rnncc.passes.gradients.gradient_program import gradient_program
from rnncc.passes.gradients.pack_tape import pack_tape
from rnncc.passes.gradients.rematerialise import AllSteps, Recomputation, rematerialise
from rnncc.passes.gradients.split_phases import Phases, split_phases
from rnncc.passes.gradients.tangents import tangents
from rnncc.passes.gradients.unread_ends import stop_unread_ends
from rnncc.passes.gradients.vjp_of_region import vjp_of_region
from rnncc.passes.instances import instances
from rnncc.passes.loops.trip_counts import name_trip_counts
from rnncc.passes.outputs import stop_other_outputs
from rnncc.passes.streams.explicit_state import make_state_explicit
from rnncc.passes.streams.streaming import split_stream
from tests.passes.notation import show, titled

Values = list[SSAValue]
Example = tuple[str, str]
"""What goes into a pass, and what comes out."""


def program_of(values: Callable[[Builder], Values], *arrays: str) -> Program:
    """A net with outputs `y`, `y1`, ..., and ones as the arrays of some parameters."""
    b = Builder.net("example")
    outputs = {f"y{i or ''}": value for i, value in enumerate(values(b))}
    return b.finish(outputs, {name: np.ones((3, 4), np.float32) for name in arrays})


def decay(b: Builder) -> Values:
    x, h = b.input("x", ["T", "N"]), b.input("h", ["N"])

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        return [i.mul(carry[0], rows[0])], []

    return b.scan([], [h], [x], step)[0]


def late(b: Builder) -> Values:
    """The sequence of states before each step."""
    x, h = b.input("x", ["T", "N"]), b.input("h", ["N"])

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        return [i.log(i.add(carry[0], rows[0]))], [carry[0]]

    finals, ys = b.scan([], [h], [x], step)
    return [*ys, *finals]


def two(b: Builder) -> Values:
    x = b.input("x", ["N"])
    return [b.tanh(x), b.log(x)]


def gated(b: Builder) -> Values:
    """Two gates that are slices of one sum."""
    x, h = b.input("x", ["T", "N", 8]), b.input("h", ["N", 4])

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        s = i.add(i.matmul(carry[0], consts[0]), rows[0])
        return [i.mul(i.exp(i.slice(s, 1, 0, 4)), i.exp(i.slice(s, 1, 4, 4)))], []

    return b.scan([b.param("u", [4, 8])], [h], [x], step)[0]


def joined(b: Builder) -> Values:
    x = b.input("x", ["N", 3])
    return [b.matmul(x, b.concat([b.param("w", [3, 4]), b.param("u", [3, 4])], 1))]


def one_step(b: Builder) -> Values:
    return [b.mul(b.input("h", ["N"]), b.input("x", ["N"]))]


def numbered(b: Builder) -> Values:
    """A loop over a tensor that it reads by the step's number."""
    x, h = b.input("x", ["T", "N"]), b.input("h", ["N"])

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        return [i.mul(carry[0], i.gather(consts[0], rows[0], 0))], []

    return b.scan([x], [h], [b.iota(["T"], 0)], step)[0]


def counted(b: Builder) -> Values:
    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        return [i.tanh(carry[0])], []

    return b.scan([], [b.input("h", ["N"])], [], step, length=Dim.of(10))[0]


def stopped(b: Builder) -> Values:
    x = b.input("x", ["N"])
    return [b.mul(x, b.stop_gradient(x))]


def wave(b: Builder) -> Values:
    x = b.tanh(b.matmul(b.input("x", ["N", 3]), b.param("w", [3, 4])))
    return [b.sin(b.mul(x, x))]


def made(values: Callable[[Builder], Values], run: Callable[[Program], str]) -> Example:
    """A net before it, and what a pass makes of it."""
    program = program_of(values)
    return show(program), run(program)


def folded() -> Example:
    program = program_of(joined, "w", "u")
    before = show(program)
    fold_constants(program)
    return before, show(program)


def named() -> Example:
    program = program_of(counted)
    before = show(program)
    name_trip_counts(program)
    return before, show(program)


def simplified(program: Program) -> str:
    Simplify().rewrite(program.net)
    return show(program)


def partly_differentiated() -> Example:
    """The gradient of a value within a net by that of the output."""

    def build(b: Builder) -> tuple[SSAValue, SSAValue, SSAValue]:
        x, w, dz = (b.input(name, ["N"]) for name in ("x", "w", "dz"))
        y = b.mul(x, w)
        return y, b.tanh(y), dz

    def after(b: Builder) -> Values:
        y, z, dz = build(b)
        return [z, *vjp_of_region(b, [(z, dz)], [y], [y])]

    return show(program_of(lambda b: [build(b)[1]])), show(program_of(after))


def streamed(program: Program) -> str:
    cut = split_stream(program)
    return titled(init=cut.init, step=cut.step)


def explicit(program: Program) -> str:
    cut = make_state_explicit(program, {"h": "y"})
    return titled(init=cut.init, step=cut.step)


def chosen() -> Example:
    """What backward reads, and what it computes again."""
    both = differentiate(program_of(wave), ["y"], ["x"])
    before, choice = show(both), rematerialise(both)
    names = {op.results[0]: f"v{i}" for i, op in enumerate(_results(both), 1)}
    return before, "\n".join(_told(choice, names))


def _results(program: Program) -> list[Any]:
    return [op for op in program.net.body.block.ops if op.results and op.operands]


def _told(choice: Recomputation, names: dict[SSAValue, str]) -> list[str]:
    groups = {"save": choice.saved, "compute again": choice.repeated}
    return [
        f"{word} {names[node]}"
        for word, nodes in groups.items()
        for node in nodes
        if not isinstance(node, AllSteps) and node in names
    ]


def phases_of(values: Callable[[Builder], Values]) -> Phases:
    both = differentiate(program_of(values), ["y"], ["x"])
    return split_phases(both, rematerialise(both))


def halves(phases: Phases) -> str:
    return titled(forward=phases.forward, backward=phases.backward)


def split() -> Example:
    return show(differentiate(program_of(decay), ["y"], ["x"])), halves(phases_of(decay))


def packed() -> Example:
    phases = phases_of(gated)
    return halves(phases), halves(pack_tape(phases))


def cut() -> Example:
    phases = phases_of(decay)
    runs = checkpoint(phases, (16,))
    assert runs is not None
    return halves(phases), halves(runs)


def side_by_side() -> Example:
    def sides(join: bool) -> Callable[[Builder], Values]:
        def build(b: Builder) -> Values:
            parts = [b.input("df", ["N", 4]), b.input("dg", ["N", 4])]
            gap = b.fill(-0.0, ["N", 4])
            values = [b.concat([parts[0], gap], 1), b.concat([gap, parts[1]], 1)]
            return concat_slice_grads(b, values) if join else [b.add(*values)]

        return build

    after = program_of(sides(join=True))
    Dce().rewrite(after.net)
    return show(program_of(sides(join=False))), show(after)


EXAMPLES: dict[Callable[..., Any], Callable[[], Example]] = {
    differentiate: lambda: made(decay, lambda p: show(differentiate(p, ["y"], ["x"]))),
    gradient_program: lambda: made(
        stopped, lambda p: show(gradient_program(p, ["y"], ["x"], "grad_"))
    ),
    stop_other_outputs: lambda: made(two, lambda p: show(stop_other_outputs(p, ["y"]))),
    stop_unread_ends: lambda: made(late, lambda p: show(stop_unread_ends(p, ["y"]))),
    tangents: lambda: made(decay, lambda p: show(tangents(p, ["x"], "t:"))),
    instances: lambda: made(decay, lambda p: show(instances(p, ["x"], "I"))),
    fold_constants: folded,
    name_trip_counts: named,
    split_stream: lambda: made(decay, streamed),
    make_state_explicit: lambda: made(one_step, explicit),
    concat_slice_grads: side_by_side,
    find_rows: lambda: made(numbered, simplified),
    vjp_of_region: partly_differentiated,
    rematerialise: chosen,
    split_phases: split,
    pack_tape: packed,
    checkpoint: cut,
}
