"""Code generation: from a planned library to the code of a target."""

from __future__ import annotations

from rnncc.packaging.describe import describe as metadata_of
from rnncc.stages.compilation import Compilation
from rnncc.stages.threads import beside


def describe(compilation: Compilation) -> None:
    """Write the library's metadata."""
    compilation.metadata = metadata_of(compilation.planned, compilation.target)


def write(compilation: Compilation) -> None:
    """Write code: for a CPU LLVM IR; for linkers with the functions that users call."""
    c = compilation
    c.code = c.target.write(c.planned, c.metadata, c.in_memory)


def optimise(compilation: Compilation) -> None:
    """Run LLVM's passes, in a thread, so that Ctrl-C ends the main one at once."""
    c, code = compilation, compilation.code
    assert code is not None, "no code is written yet"
    wait = beside(code.finish)
    if c.meanwhile is not None:
        c.meanwhile()
    c.forms = wait()


def make_product(compilation: Compilation) -> None:
    """Make what files are made of: for a CPU machine code, in a thread as above."""
    product = beside(compilation.form(compilation.target.product))()
    compilation.product = product if isinstance(product, bytes) else product.encode()
