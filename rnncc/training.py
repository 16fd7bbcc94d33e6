"""The passes of training, in order, each with why it stands there.

In: a net. Out: the library of two programs, `forward` and `backward`, and the tape between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rnncc.errors import CompileError
from rnncc.ir.kernel_program import KernelProgram, Port
from rnncc.ir.library import Array, Library
from rnncc.ir.program import Program
from rnncc.ir.training import GRAD, KEPT, SAVED, Initial, Training
from rnncc.ir.types import FLOATS, dtype_of
from rnncc.options import RULES, Options
from rnncc.passes.accumulate import Accumulate
from rnncc.passes.choose_saved import Choice, choose_saved
from rnncc.passes.differentiate import differentiate
from rnncc.passes.drop_stops import DropStops
from rnncc.passes.hoist import Hoist
from rnncc.passes.merge_matmuls import MergeMatmuls
from rnncc.passes.pack_tape import pack_tape
from rnncc.passes.regroup_sums import RegroupSums
from rnncc.passes.simplify import Simplify
from rnncc.passes.sink import Sink
from rnncc.passes.split_phases import Phases, split_phases
from rnncc.passes.split_scans import SplitScans
from rnncc.passes.turns import name_turns, number_turns
from rnncc.sizes import all_sizes
from rnncc.stages import timed

if TYPE_CHECKING:
    from rnncc.ir.rewriting import NetPass


def before_differentiation() -> list[NetPass]:
    """All that changes how sums are grouped: what is computed again later has the same bits."""
    return [
        Simplify(),  # front ends may be naive
        SplitScans(),  # each layer's loop gets a backward loop of its own
        Simplify(),  # each loop keeps what is its own
        MergeMatmuls(),  # one product for all gates has one product as its gradient
        RegroupSums(),  # what a step's sums hold of x_t stands together
        Hoist(),  # the input projection is half of the arithmetic
        RegroupSums(),  # biases that came out of the loop meet those that were outside
        Simplify(),  # what the others left behind
    ]


def after_split() -> list[NetPass]:
    """Of each half; none changes a bit."""
    return [
        DropStops(),  # they have done their work
        Simplify(),  # what the choice left behind
        Sink(),  # a weight's gradient becomes one sum over all rows
        Accumulate(),  # so do the gradients of what stands outside of loops
        Simplify(),  # loops that have less to carry
        MergeMatmuls(),  # gates that are computed again
        Hoist(functions=False),  # products that are computed again, for all steps at once
        Simplify(),
    ]


def make_phases(program: Program, options: Options) -> tuple[Phases, Choice]:
    """Both halves of training, with checkpoints if a budget asks for them, as they are lowered.

    Raises:
        CompileError: an output or a value named by the options is unknown; the budget is too small.
    """
    phases, choice, turns = split_net(program, options)
    return _within_budget(phases, options, turns), choice


def split_net(program: Program, options: Options) -> tuple[Phases, Choice, dict[str, int]]:
    """Differentiate a net, choose what is saved, and split it; the program is used up.

    Every float parameter becomes an input of both halves. The turns of loops have names, which
    are returned with their numbers.
    """
    turns = name_turns(program)  # a count of turns is a size like T, not a width
    _run(before_differentiation(), program)
    params = _float_params(program)
    inputs = [name for name, v in program.net.inputs.items() if dtype_of(v) in FLOATS]
    for name in params:
        program.arrays.pop(name, None)
    both = differentiate(program, _wanted(program, options), [*inputs, *params])
    choice = choose_saved(both, _rule(program, options))
    phases = split_phases(both, choice)
    halves = phases.forward, phases.backward
    for half in halves:
        _run(after_split(), half)
    phases = pack_tape(phases)  # what is saved side by side is replaced by its gradients
    for half in halves:
        Simplify().rewrite(half.net)
    return phases, choice, turns


def numbered(phases: Phases, turns: Mapping[str, int]) -> Phases:
    """Both halves with the turns of loops as numbers; copies, where there are any."""
    forward, backward = (number_turns(half, turns) for half in (phases.forward, phases.backward))
    return replace(phases, forward=forward, backward=backward)


def _run(steps: Sequence[NetPass], program: Program) -> None:
    for step in steps:
        step.rewrite(program.net)


def _within_budget(phases: Phases, options: Options, turns: Mapping[str, int]) -> Phases:
    """With checkpoints, if a budget asks for them."""
    if options.memory_budget is None:
        return numbered(phases, turns)
    from rnncc.budget import fit

    quiet = replace(options, dump_ir=None, time_passes=False)
    symbols = [symbol for symbol in phases.backward.symbols if symbol not in turns]
    sizes = all_sizes(options.plan_for, symbols, "a budget of memory")
    fitting = fit(
        phases,
        lambda made: lower_halves(numbered(made, turns), quiet),
        options.memory_budget,
        {**sizes, **turns},
    )
    return numbered(fitting, turns)


def lower_halves(phases: Phases, options: Options) -> tuple[KernelProgram, KernelProgram]:
    """Both halves, planned."""
    from rnncc.lowering.stand_ins import take_stand_ins
    from rnncc.pipeline import lower_kernels
    from rnncc.planning.tape_reuse import reuse_tape

    folder = options.dump_ir
    forward, backward = (
        lower_kernels(
            half,
            replace(options, dump_ir=folder and folder / name),
            lambda kernels, adjust=adjust: adjust(kernels, phases.saved),
        )
        for half, name, adjust in (
            (phases.forward, "forward", take_stand_ins),
            (phases.backward, "backward", reuse_tape),
        )
    )
    return forward, backward


def train(program: Program, options: Options) -> Library:
    """The planned programs of training, and the tape."""
    values = start_values(program)
    with timed(options.time_passes, "differentiate"):
        phases, _ = make_phases(program, options)
    return assemble(program, values, phases, options)


def start_values(program: Program) -> dict[str, Array]:
    """What the parameters that are trained start with."""
    return {n: program.arrays[n] for n in _float_params(program) if n in program.arrays}


def assemble(
    program: Program, values: Mapping[str, Array], phases: Phases, options: Options
) -> Library:
    """The library of both halves of a program whose parameters start with some values."""
    forward, backward = lower_halves(phases, options)
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
        checkpoints=phases.checkpoints,
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


def _rule(program: Program, options: Options) -> str | frozenset[str]:
    """The net's own list goes before our choice, and the user's word before both."""
    if options.recompute in RULES:
        own = options.recompute == "auto" and program.recompute
        return own or options.recompute
    if program.recompute:
        return program.recompute  # the names as the front end knows them
    hints = {v.name_hint for op in program.net.walk() for v in op.results}
    if unknown := sorted(options.recompute_names - hints):
        raise CompileError(
            program.source, f"nothing is named {', '.join(unknown)} to compute again"
        )
    return options.recompute_names


def _renamed(ports: Sequence[Port]) -> list[Port]:
    return [replace(port, name=port.name.removeprefix(GRAD)) for port in ports]
