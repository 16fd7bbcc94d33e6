"""Makes two programs of a net, `forward` and `backward`, and the tape between them.

The passes are imported where they run: inference, which imports the whole pipeline, need not wait
for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from rnncc.errors import CompileError
from rnncc.ir.program import Program
from rnncc.ir.recompute import RULES
from rnncc.ir.types import FLOATS, dtype_of
from rnncc.kern.program import KernelProgram
from rnncc.options import Options
from rnncc.passes.gradients.rematerialise import rematerialise
from rnncc.passes.gradients.split_phases import split_phases
from rnncc.passes.loops.trip_counts import name_trip_counts, restore_trip_counts
from rnncc.sizes import all_sizes
from rnncc.stages import lowering
from rnncc.stages.compilation import Compilation

if TYPE_CHECKING:
    from rnncc.ir.ops.control import Scan
    from rnncc.passes.gradients.split_phases import Phases

GRADIENT = "grad_"
"""Names of gradients that are outputs of a net begin so, and those of what they are given."""


def prepare(compilation: Compilation) -> None:
    """Note what parameters start with, and give trip counts names.

    Raises:
        CompileError: as `lowering.check_training`.
    """
    c, program = compilation, compilation.programs["net"]
    lowering.check_training(c)
    arrays = program.arrays
    c.initial = {name: arrays[name] for name in _float_params(program) if name in arrays}
    c.trip_counts = name_trip_counts(program, _may_be_cut)


def _may_be_cut(scan: Scan) -> bool:
    """Whether checkpoints may pay for a loop whose trip count is a number.

    That depends on the net alone: bits of sums over time may depend on whether its length has a
    name, and neither options nor devices may change them.
    """
    from rnncc.passes.gradients.checkpointing.wide_states import STEPS, is_cheap

    return int(scan.steps) > STEPS and is_cheap(scan)


def add_gradients(compilation: Compilation) -> None:
    """With order 2, have the net give its gradients, which are differentiated like other outputs.

    Raises:
        CompileError: the options name an output that there is not; a name is taken; or a gradient
            of a user's own has no gradient that is known.
    """
    from rnncc.passes.gradients.gradient_program import gradient_program

    c, program = compilation, compilation.programs["net"]
    if c.options.order == 2:
        outputs, of = _differentiated_outputs(program, c.options), _float_sources(program)
        result = gradient_program(program, outputs, of, GRADIENT)
        gradients = [GRADIENT + name for name in of]
        c.options = replace(c.options, outputs_with_grads=[*outputs, *gradients])
        c.programs, c.inputs = {"net": result}, list(result.net.inputs)


def differentiate(compilation: Compilation) -> None:
    """Add the gradients; every float parameter but the fixed ones becomes an input.

    Raises:
        CompileError: the options name an output that there is not.
    """
    from rnncc.passes.gradients import differentiate

    c, program = compilation, compilation.programs["net"]
    of = _float_sources(program)
    for name in _float_params(program):
        # A parameter without an array is an input of the model.
        program.arrays.pop(name, None)
    outputs = _differentiated_outputs(program, c.options)
    c.programs = {"net": differentiate.differentiate(program, outputs, of)}


def split(compilation: Compilation) -> None:
    """Choose what forward saves, and cut the net in two.

    Raises:
        CompileError: the options name a value to compute again that there is not.
    """
    program = compilation.programs["net"]
    choice = rematerialise(program, _rule(program, compilation.options))
    compilation.set_phases(split_phases(program, choice))


def pack(compilation: Compilation) -> None:
    """Join what is saved side by side and replaced by its gradients."""
    from rnncc.passes.gradients.pack_tape import pack_tape

    compilation.set_phases(pack_tape(_phases(compilation)))


def checkpoint(compilation: Compilation) -> None:
    """Make room by checkpoints along time, if a budget asks for it, or states are that wide.

    Raises:
        CompileError: the budget is too small.
    """
    c, phases = compilation, _phases(compilation)
    if c.options.memory_budget is None:
        # on a GPU each step has its waits, so that repeating steps costs more than the memory
        if c.options.recompute == "auto" and c.target.device == "cpu":
            c.set_phases(_with_states_again(phases, c.trip_counts))
        return
    from rnncc.stages.budget import fit

    backward = phases.backward
    symbols, needed = (
        [symbol for symbol in group if symbol not in c.trip_counts]
        for group in (backward.symbols, backward.open_symbols)
    )
    sizes = all_sizes(c.options.plan_for, symbols, needed, "a budget of memory")

    def lower(phases: Phases) -> tuple[KernelProgram, KernelProgram]:
        trial = replace(c)
        trial.set_phases(numbered(phases, c.trip_counts))
        lowering.lower_and_plan(trial)
        return trial.kernels["forward"], trial.kernels["backward"]

    sizes = {**sizes, **c.trip_counts}
    c.set_phases(fit(phases, lower, c.options.memory_budget, sizes))


def _with_states_again(phases: Phases, trip_counts: Mapping[str, int]) -> Phases:
    """With checkpoints, where wide states are as fast to compute again as to keep."""
    from rnncc.passes.gradients.checkpointing.checkpoint import checkpoint as cut
    from rnncc.passes.gradients.checkpointing.wide_states import steps_between

    steps = steps_between(phases, trip_counts)
    with_checkpoints = None if steps is None else cut(phases, (steps,))
    description = (
        f"checkpoints every {steps} steps: states are wider than what a step reads and writes"
    )
    return (
        phases if with_checkpoints is None else replace(with_checkpoints, checkpoints=description)
    )


def number_trip_counts(compilation: Compilation) -> None:
    """Put the numbers back that `prepare` gave names to."""
    compilation.set_phases(numbered(_phases(compilation), compilation.trip_counts))


def numbered(phases: Phases, trip_counts: Mapping[str, int]) -> Phases:
    """Both halves with trip counts as numbers; copies, where there are any."""
    halves = (restore_trip_counts(half, trip_counts) for half in (phases.forward, phases.backward))
    forward, backward = halves
    return replace(phases, forward=forward, backward=backward)


def _phases(compilation: Compilation) -> Phases:
    assert compilation.phases is not None, "the net is not split yet"
    return compilation.phases


def _float_sources(program: Program) -> list[str]:
    """The inputs and parameters that have gradients."""
    inputs = [name for name, v in program.net.inputs.items() if dtype_of(v) in FLOATS]
    return [*inputs, *_float_params(program)]


def _float_params(program: Program) -> list[str]:
    """The parameters that training changes."""
    params = [name for name, p in program.params.items() if dtype_of(p.y) in FLOATS]
    return [name for name in params if name not in program.fixed]


def _differentiated_outputs(program: Program, options: Options) -> list[str]:
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
