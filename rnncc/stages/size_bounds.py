"""What sizes must be for no size of any program, as passes leave it, to be negative.

In: a `Compilation`. Out: its bounds, completed. Gradients have sizes that the net has not, and
passes make others; where one is negative, code writes beside its arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rnncc.errors import CompileError
from rnncc.ir.bounds import sizes_in, smallest
from rnncc.ir.dims import Dim
from rnncc.ir.ops.chunks import Chunks
from rnncc.ir.program import Program
from rnncc.ir.size_proofs import is_natural
from rnncc.sizes import TIME
from rnncc.stages.compilation import Compilation


def complete(compilation: Compilation) -> None:
    """Have calls refused for which a size of a program as it is now is negative.

    Raises:
        CompileError: as `completed`.
    """
    c = compilation
    c.bounds = completed(c.bounds, c.programs.values(), c.trip_counts)
    if "step" in c.programs:
        # a bound on T is one on a whole sequence, which a stream takes in pieces
        known = [bound for bound in c.bounds if TIME not in bound.symbols]
        needed = completed(known, [c.programs["step"]], c.trip_counts)
        c.piece_bounds = tuple(bound for bound in needed if TIME in bound.symbols)


def completed(
    bounds: Iterable[Dim], programs: Iterable[Program], trip_counts: Mapping[str, int]
) -> tuple[Dim, ...]:
    """Some bounds, and those that sizes of some programs need besides.

    Raises:
        CompileError: a size is negative in each call, or in some that no bound can refuse: in a run
            of steps between checkpoints.
    """
    known, needed = tuple(bounds), list[Dim]()
    for program in programs:
        runs = _runs(program)
        facts = *known, *(fact for both in runs.values() for fact in both)
        for size in dict.fromkeys(size.substitute(trip_counts) for size in sizes_in(program.net)):
            if is_natural(size, facts):
                continue
            if size.is_static or not size.symbols.isdisjoint(runs):
                raise CompileError(program.source, f"a size {size} is negative")
            needed.append(size)
    return smallest([*known, *needed])


def _runs(program: Program) -> dict[str, tuple[Dim, Dim]]:
    """What holds of the lengths of runs between checkpoints: name -> how much shorter than the
    longest one is, and how much longer than the shortest, of one step."""
    chunks = (op for op in program.net.walk() if isinstance(op, Chunks))
    lengths = ((op.extent.data, op.chunk.data) for op in chunks)
    return {name: (most - Dim.of(name), Dim.of(name) - 1) for name, most in lengths}
