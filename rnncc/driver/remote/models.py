"""Models that can be run, whichever machine they are for: in this process, or by an emulator."""

from __future__ import annotations

from typing import Any

from rnncc_runtime import Model, TrainableModel

from rnncc.codegen import targets
from rnncc.codegen.target import Target
from rnncc.driver import compiling, in_memory
from rnncc.driver.remote.calls import RemoteFunctions
from rnncc.driver.remote.runners import RemoteProgram, find_runner
from rnncc.errors import CompileError
from rnncc.options import Options


def compile_to_run(net: Any, init: Any, options: Options) -> Model | TrainableModel:
    """A model in this process, or of the machine that `options.target` names by an emulator.

    Raises:
        CompileError: the net cannot be compiled, or nothing here runs its code.
    """
    target = targets.resolve(options.target, options.cpu, options.tuning)
    if options.target is None or target.device != "cpu" or runs_here(target):
        return in_memory.compile_in_memory(net, init, options)
    return compile_remote(net, init, options)


def compile_remote(net: Any, init: Any, options: Options) -> Model | TrainableModel:
    """A model whose functions an emulator or an engine runs, each call in a new process.

    Raises:
        CompileError: the net cannot be compiled, or nothing here runs its code.
    """
    assert options.target is not None
    if options.threads:
        raise CompileError("--threads", "code for other machines is run by one thread")
    runner = find_runner(options.target)
    compiled = compiling.compile_object(net, init, options)
    program = RemoteProgram(runner, compiled)
    functions = RemoteFunctions(compiled.metadata, program.answer).functions()
    kind = TrainableModel if "trained" in compiled.metadata else Model
    return kind(compiled.metadata, functions, program)


def runs_here(target: Target) -> bool:
    """Whether code for a machine runs in this process."""
    try:
        target.check_runs_here()
    except CompileError:
        return False
    return True
