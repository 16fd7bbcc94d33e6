"""The passes of training, in order, each with why it stands there.

In: a net. Out: the library of two programs, `forward` and `backward`, and the tape between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rnncc.ir.kernel_program import Port
from rnncc.ir.library import Library
from rnncc.ir.program import Program
from rnncc.ir.training import GRAD, KEPT, SAVED, Initial, Training
from rnncc.ir.types import FLOATS, dtype_of
from rnncc.options import Options
from rnncc.passes.choose_saved import RULES, Choice, choose_saved
from rnncc.passes.differentiate import differentiate
from rnncc.passes.merge_matmuls import MergeMatmuls
from rnncc.passes.simplify import Simplify
from rnncc.passes.sink import Sink
from rnncc.passes.split_phases import Phases, split_phases
from rnncc.passes.split_scans import SplitScans

if TYPE_CHECKING:
    from rnncc.ir.rewriting import NetPass


def before_differentiation() -> list[NetPass]:
    """Gradients are taken of few ops, and of one product where that is possible."""
    return [
        Simplify(),  # front ends may be naive
        SplitScans(),  # each layer's loop gets a backward loop of its own
        Simplify(),  # each loop keeps what is its own
        MergeMatmuls(),  # one product for all gates has one product as its gradient
        Simplify(),
    ]


def before_backward() -> list[NetPass]:
    """Ahead of the passes that every program goes through."""
    return [
        Simplify(),  # what the choice left behind
        Sink(),  # a weight's gradient becomes one product over all rows
    ]


def make_phases(program: Program, options: Options) -> tuple[Phases, Choice]:
    """Differentiate a net, choose what is saved, and split it; the program is used up.

    Every float parameter becomes an input of both halves.

    Raises:
        CompileError: an output or a value named by the options is unknown.
    """
    for step in before_differentiation():
        step.rewrite(program.net)
    params = _float_params(program)
    inputs = [name for name, v in program.net.inputs.items() if dtype_of(v) in FLOATS]
    for name in params:
        program.arrays.pop(name, None)
    both = differentiate(program, _wanted(program, options), [*inputs, *params])
    choice = choose_saved(both, _rule(options))
    phases = split_phases(both, choice)
    for step in before_backward():
        step.rewrite(phases.backward.net)
    return phases, choice


def train(program: Program, options: Options) -> Library:
    """The planned programs of training, and the tape."""
    from rnncc.pipeline import lower

    values = {n: program.arrays[n] for n in _float_params(program) if n in program.arrays}
    phases, _ = make_phases(program, options)
    folder = options.dump_ir
    forward, backward = (
        lower(half, replace(options, dump_ir=folder and folder / name))
        for half, name in ((phases.forward, "forward"), (phases.backward, "backward"))
    )
    known = {port.name: port for port in (*backward.inputs, *forward.inputs)}
    initial = [Initial(known[name], array) for name, array in values.items() if name in known]
    given = [p for p in forward.inputs if p.name not in values]
    ports = {port.name: port for port in forward.outputs}
    slots, tape = Training.lay_out(phases.kept, [ports[name] for name in phases.saved])
    training = Training(
        inputs=given,
        outputs=[p for p in forward.outputs if not p.name.startswith(SAVED)],
        initial=initial,
        output_grads=_renamed([p for p in backward.inputs if p.name.startswith(GRAD)]),
        grads=_renamed(backward.outputs),
        kept=[name.removeprefix(KEPT) for name in phases.kept],
        slots=slots,
        tape=tape,
    )
    programs = {"forward": forward, "backward": backward}
    return Library(program.name, program.source, programs, training=training)


def _float_params(program: Program) -> list[str]:
    return [name for name, p in program.params.items() if dtype_of(p.y) in FLOATS]


def _wanted(program: Program, options: Options) -> list[str]:
    """The outputs that have outside gradients."""
    if options.outputs_with_grads is not None:
        return list(options.outputs_with_grads)
    return [name for name, v in program.net.outputs.items() if dtype_of(v) in FLOATS]


def _rule(options: Options) -> str | frozenset[str]:
    return options.recompute if options.recompute in RULES else options.recompute_names


def _renamed(ports: Sequence[Port]) -> list[Port]:
    return [replace(port, name=port.name.removeprefix(GRAD)) for port in ports]
