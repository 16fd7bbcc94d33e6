"""The library of inference.

In: a net. Out: the programs `init` and `step`, where the net can be computed as time goes on, of
which `NAME_run` is made too; else the one program `run`.
"""

from __future__ import annotations

from dataclasses import replace

from rnncc.ir.library import Library
from rnncc.ir.program import Program
from rnncc.ir.streaming import Streaming
from rnncc.options import Options
from rnncc.passes.drop_stops import DropStops
from rnncc.passes.kept_states import keep_states
from rnncc.passes.simplify import Simplify
from rnncc.passes.streaming import NotCausal, split_stream
from rnncc.planning.replaced_states import in_place


def infer(program: Program, options: Options) -> Library:
    """The planned kernel programs of a net, and how they work together.

    Raises:
        CompileError: the net has what rnncc does not support.
    """
    from rnncc.pipeline import lower

    for a_pass in (DropStops(), Simplify()):  # what remains decides what is kept of a sequence
        a_pass.rewrite(program.net)
    try:
        cut = keep_states(program, options.state) if options.state else split_stream(program)
    except NotCausal as reason:
        return Library.of(lower(program, options), str(reason))
    apart = replace(options, dump_ir=options.dump_ir and options.dump_ir / "init")
    parts = {"init": lower(cut.init, apart), "step": lower(cut.step, options)}
    for kernels in parts.values():
        kernels.symbols = program.symbols
    state = [(kept.name, kept.next, kept.given) for kept in cut.state]
    order = list(program.net.inputs)
    over = in_place(parts["step"], {k.name: k.next for k in cut.state if k.next is not None})
    streaming = Streaming.of(parts["init"], parts["step"], state, cut.defaults, order, over)
    return Library(program.name, program.source, parts, streaming=streaming)
