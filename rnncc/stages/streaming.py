"""Cuts a net into what is done once and what is done with every few steps."""

from __future__ import annotations

from rnncc.errors import CompileError
from rnncc.passes.streams.explicit_state import make_state_explicit
from rnncc.passes.streams.streaming import NotCausal, split_stream
from rnncc.stages.compilation import Compilation


def cut(compilation: Compilation) -> None:
    """The programs `init` and `step`, of which `NAME_run` is made too; else `run` alone.

    Raises:
        CompileError: `options.state` names what the net has not.
    """
    c, program = compilation, compilation.programs["net"]
    state = c.options.state
    if c.counts:
        what = "the run decides how many rows an output has"
        if state:
            raise CompileError(c.origin, f"state given for a net of which {what}")
        c.refusal, c.programs = what, {"run": program}
        return
    try:
        c.streamed = make_state_explicit(program, state) if state else split_stream(program)
    except NotCausal as reason:
        c.refusal, c.programs = str(reason), {"run": program}
        return
    c.programs = {"init": c.streamed.init, "step": c.streamed.step}
