"""Parts of a compilation, as tests take them out of the pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rnncc import pipeline
from rnncc.driver import compiling
from rnncc.driver.trace import run
from rnncc.ir.program import Program
from rnncc.kern.library import Library
from rnncc.kern.program import KernelProgram
from rnncc.options import Options
from rnncc.passes.gradients.split_phases import Phases
from rnncc.stages import lowering, training
from rnncc.stages.compilation import Compilation, Step

PASSES: Sequence[Step] = (*pipeline.STREAMING[:-1], *pipeline.INFERENCE)
"""Of inference, where a net is compiled whole, not cut for streams."""


def _whole(program: Program, options: Options) -> Compilation:
    c = Compilation(options, programs={"run": program}, symbols=program.symbols)
    run(c, PASSES)
    return c


def optimise(program: Program, options: Options | None = None) -> Program:
    """Run the passes of inference on a program, in place."""
    return _whole(program, options or Options()).programs["run"]


def lower(program: Program, options: Options | None = None) -> KernelProgram:
    """The planned kernels of a program that is used up."""
    c = _whole(program, options or Options())
    lowering.lower_and_plan(c)
    return c.kernels["run"]


def training_of(program: Program, options: Options, last: str | None = None) -> Compilation:
    """A program after the steps of training, up to the last that is named."""
    c = Compilation(options, program)
    steps = [*pipeline.IMPORT, *pipeline.TRAINING]
    names = [step.name for step in steps]
    run(c, steps[: names.index(last) + 1] if last else steps)
    return c


def phases_of(program: Program, options: Options) -> Phases:
    """Both halves of training, as they are lowered."""
    phases = training_of(program, options).phases
    assert phases is not None
    return phases


def trained_library(c: Compilation, phases: Phases) -> Library:
    """The library of other halves of the same net."""
    c.set_phases(training.numbered(phases, c.trip_counts))
    run(c, pipeline.LOWERING)
    return c.planned


def text_of(net: Any, init: Any, options: Options, kind: str) -> str:
    """One form of a net, if that is text."""
    content = compiling.emit(net, init, options, kind).content
    assert isinstance(content, str)
    return content


def bytes_of(net: Any, init: Any, options: Options) -> bytes:
    """A net's object code."""
    return compiling.compile_object(net, init, options).code
