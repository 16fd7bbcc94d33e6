"""What a library takes of a machine: flash by the sections of its object, RAM by its formulas."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from rnncc import pipeline
from rnncc.codegen import targets
from rnncc.driver.trace import run
from rnncc.ir.dims import Dim
from rnncc.kern.largest import Largest
from rnncc.kern.library import Library
from rnncc.options import Options
from rnncc.planning.rows import MachineReport, RamRow
from rnncc.sizes import TIME
from rnncc.stages.compilation import Compilation


def machine_report(
    library: Library, options: Options, sizes: Mapping[str, int]
) -> MachineReport | None:
    """Compile a planned library for the target that is named; None where that makes no object.

    Args:
        sizes: those of the plan, for what is no stream.
    """
    if targets.row_of(options.target).footprint is None:
        return None
    c = Compilation(options, library=library)
    run(c, pipeline.CODE)
    taken = targets.footprint(
        options.target, c.target, c.planned, c.product, lambda: str(c.form("asm")())
    )
    assert taken is not None
    metadata = len(json.dumps(c.metadata)) + 1
    flash = {
        "code": taken.code,
        "weights": library.weights,
        "metadata": metadata,
        "constants": taken.constants - library.weights - metadata,
    }
    ram = list(_ram(library, sizes))
    return MachineReport(
        c.target.triple, c.target.cpu, flash, dict(taken.functions), ram, dict(taken.cycles)
    )


def _ram(library: Library, sizes: Mapping[str, int]) -> Iterator[RamRow]:
    """What the caller reserves: for a stream, of a batch of one."""
    ones = dict.fromkeys(library.symbols, 1)
    if library.streaming is None:
        if library.training is not None:
            yield _row("tape", library.training.tape, sizes)
        yield _row("workspace", library.workspace, sizes)
        return
    workspace = library.stream_workspace
    yield _row("state", library.streaming.bytes, ones)
    yield _row("workspace of a step", workspace, ones)
    if (most := library.max_steps or 1) > 1:
        yield _row(f"workspace of {most} steps", workspace, {**ones, TIME: most})


def _row(what: str, size: Dim | Largest, sizes: Mapping[str, int]) -> RamRow:
    used = {symbol: sizes[symbol] for symbol in sizes if symbol in size.symbols}
    return RamRow(what, str(size), used, size.evaluate(sizes))
