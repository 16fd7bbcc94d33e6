"""From nets to a library: kernels over buffers, their memory, and how programs work together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rnncc.errors import CompileError
from rnncc.kern.library import Library
from rnncc.kern.program import Port
from rnncc.kern.streaming import Streaming
from rnncc.kern.training import Initial, Training
from rnncc.lowering.absent_outputs import drop_fallbacks
from rnncc.lowering.lower import lower as lower_net
from rnncc.lowering.prepack import PACK, separate_packing
from rnncc.lowering.rounded_rows import copy_inputs, store_rounded
from rnncc.lowering.window_rows import reads_windows
from rnncc.planning.layout import plan as plan_memory
from rnncc.planning.replaced_states import in_place
from rnncc.planning.tape_reuse import reuse_tape as take_over_slots
from rnncc.sizes import TIME
from rnncc.stages.compilation import Compilation
from rnncc.stages.size_bounds import complete

if TYPE_CHECKING:
    from rnncc.passes.gradients.split_phases import Phases
    from rnncc.passes.streams.streaming import Streamed


def copies_windows(compilation: Compilation) -> bool:
    """Whether no kernel of a product reads windows in runs where they lie."""
    c = compilation
    return not reads_windows(c.target, c.options.precision)


def waits_are_dear(compilation: Compilation) -> bool:
    """Whether memory is spent so that kernels need not wait for each other."""
    return compilation.target.waits_are_dear


def lower(compilation: Compilation) -> None:
    """Turn every net into kernels, of sizes that are never negative.

    Raises:
        CompileError: as `check_training` and `complete`.
    """
    c = compilation
    complete(c)
    if c.phases is not None:
        check_training(c)  # a half-compiled net's options may have changed since it was read
    c.kernels = {
        name: lower_net(program, c.target, c.options.precision, c.options.max_steps)
        for name, program in c.programs.items()
    }


def check_training(c: Compilation) -> None:
    """Raise `CompileError` where the target has no code that trains in the precision asked for."""
    if c.options.precision != "fp32" and not c.target.packs_bf16:
        what = f"training in {c.options.precision} is for NVIDIA GPUs; elsewhere it is in fp32"
        raise CompileError("--precision", what, "compile for a GPU, or train without it")


def round_rows(compilation: Compilation) -> None:
    """Let rounded sums read what is of bf16 already."""
    for kernels in compilation.kernels.values():
        store_rounded(kernels)
        if compilation.phases is not None:
            copy_inputs(kernels)


def absent_outputs(compilation: Compilation) -> None:
    """Let forward write nothing where a caller of training wants no output."""
    if compilation.phases is not None:
        drop_fallbacks(compilation.kernels["forward"], compilation.phases.saved)


def reuse_tape(compilation: Compilation) -> None:
    """Let backward write over slots of the tape that it has read."""
    if compilation.phases is not None:
        dear = compilation.target.waits_are_dear
        take_over_slots(compilation.kernels["backward"], compilation.phases.saved, dear)


def prepack(compilation: Compilation) -> None:
    """Give what depends on parameters alone to a program of its own, where that is asked for."""
    if compilation.options.prepack:
        compilation.kernels[PACK] = separate_packing(compilation.kernels, compilation.initial)


def plan(compilation: Compilation) -> None:
    """Give every buffer its place in memory."""
    for kernels in compilation.kernels.values():
        plan_memory(kernels, compilation.target.waits_are_dear)


def lower_and_plan(compilation: Compilation) -> None:
    """All of the above; parts that are not separate take no less memory than those that are."""
    for step in (lower, round_rows, absent_outputs, reuse_tape, prepack, plan):
        step(compilation)


def assemble(compilation: Compilation) -> None:
    """Make one library of the planned programs.

    Raises:
        CompileError: the target has no such programs, or steps are limited of a net without T.
    """
    c = compilation
    if c.counts and c.target.device != "cpu":
        raise CompileError(c.origin, "the run decides how many rows an output has: for CPUs alone")
    if c.texts and c.target.device != "cpu":
        raise CompileError(c.origin, "has texts as inputs or outputs: for CPUs alone")
    c.library = Library(
        c.options.name,
        c.origin,
        c.kernels,
        training=None if c.phases is None else _training(c, c.phases),
        streaming=None if c.streamed is None else _streaming(c, c.streamed),
        refusal=c.refusal,
        shared=c.options.threads,
        bounds=c.bounds,
        step_bounds=c.piece_bounds,
        counts=c.counts,
        texts=c.texts,
        flushes=c.options.flush_denormals or c.target.flushes,
        max_steps=c.options.max_steps,
    ).link()
    if c.options.max_steps is not None and TIME not in c.library.open_symbols:
        raise CompileError(c.origin, "max_steps given for a net without T", "leave it out")


def _streaming(c: Compilation, streamed: Streamed) -> Streaming:
    for kernels in c.kernels.values():
        kernels.symbols = c.symbols  # every function takes all sizes, in the same order
    init, step = c.kernels["init"], c.kernels["step"]
    over = in_place(step, {k.name: k.next for k in streamed.state if k.next is not None})
    state = [(kept.name, kept.next, kept.initial_input) for kept in streamed.state]
    return Streaming.of(init, step, state, streamed.defaults, c.inputs, over, c.target.line)


def _training(c: Compilation, phases: Phases) -> Training:
    forward, backward = c.kernels["forward"], c.kernels["backward"]
    read = {port.name: port for port in (*backward.inputs, *forward.inputs)}
    initial = [Initial(read[name], array) for name, array in c.initial.items() if name in read]
    written = {port.name: port for port in forward.outputs}
    slots, tape = Training.lay_out(phases.kept, [written[name] for name in phases.saved])
    return Training(
        inputs=[p for p in forward.inputs if p.role is None and p.name not in c.initial],
        outputs=[port for port in forward.outputs if port.role is None],
        initial=initial,
        output_grads=[_gradient(port) for port in backward.inputs if port.kind == "grad"],
        grads=[_gradient(port) for port in backward.outputs],
        kept=[read[name].of for name in phases.kept],
        slots=slots,
        tape=tape,
        checkpoints=phases.checkpoints,
        packed=Training.pack(c.kernels[PACK].outputs) if c.options.prepack else None,
    )


def _gradient(port: Port) -> Port:
    """The port by the name of what it is the gradient of."""
    return replace(port, name=port.of, role=None)
