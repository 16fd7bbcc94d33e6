"""Models whose code runs elsewhere: the classes of `rnncc_runtime` over an emulator."""

from __future__ import annotations

from typing import Any

from rnncc_runtime import Model, TrainableModel

from rnncc.driver import compiling
from rnncc.driver.remote.calls import RemoteFunctions
from rnncc.driver.remote.runners import Program, find_runner
from rnncc.options import Options


def compile_remote(net: Any, init: Any, options: Options) -> Model | TrainableModel:
    """A model of a net for a machine that an emulator or an engine runs.

    Raises:
        CompileError: the net cannot be compiled, or nothing here runs its code.
    """
    assert options.target is not None
    compiled = compiling.compile_object(net, init, options)
    program = Program(find_runner(options.target, compiled.triple), compiled)
    functions = RemoteFunctions(compiled.metadata, program.answer).functions()
    kind = TrainableModel if "trained" in compiled.metadata else Model
    return kind(compiled.metadata, functions, program)
