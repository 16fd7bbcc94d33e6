"""From a library to the code of a machine."""

from __future__ import annotations

from rnncc.codegen import llvm
from rnncc.codegen.cpu.entries import add_exports, emit_module
from rnncc.codegen.cpu.supported import supported_text
from rnncc.packaging.describe import describe as metadata_of
from rnncc.stages.compilation import Compilation
from rnncc.stages.threads import beside


def describe(compilation: Compilation) -> None:
    """Write down what the library tells of itself."""
    compilation.metadata = metadata_of(compilation.planned, compilation.target)


def write_llvm(compilation: Compilation) -> None:
    """Write LLVM IR; of a library for linkers with the functions that users call."""
    c = compilation
    c.code = emit_module(c.planned, c.target, c.metadata)
    if not c.in_memory:
        add_exports(c.code, c.planned)


def optimise(compilation: Compilation) -> None:
    """Run LLVM's passes, in a thread, as the main one then ends at once when interrupted."""
    c, code = compilation, compilation.code
    assert code is not None, "no code is written yet"
    text, weights = str(code.module), None
    if not c.in_memory:
        text += supported_text(c.planned.name, c.metadata["features"], c.target)
        weights = c.planned.name, c.planned.weights_block()
    wait = beside(
        lambda: llvm.optimise(text, c.target, c.in_memory, weights=weights, linked=code.linked)
    )
    if c.meanwhile is not None:
        c.meanwhile()
    c.optimised = wait()


def write_object(compilation: Compilation) -> None:
    """Write machine code, in a thread as above."""
    optimised = compilation.optimised
    assert optimised is not None, "LLVM's passes have not run yet"
    compilation.object_code = beside(lambda: optimised.object_code)()
