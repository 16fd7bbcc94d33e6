"""The memory that a layer takes, beside what Deeplearning4j's formulas say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rnncc.cells.layer import Layer
from rnncc.driver import compiling
from rnncc.errors import CompileError
from rnncc.options import Options
from rnncc.records import record
from rnncc.sizes import BATCH, TIME

if TYPE_CHECKING:
    from rnncc.ir.dims import Dim
    from rnncc.kern.largest import Largest
    from rnncc.kern.library import Library

FLOAT = 4
INFERENCE, CACHED, FORWARD, BACKWARD = WHAT = (
    "inference, working",
    "training, cached",
    "forward, working",
    "backward, working",
)


@record
class MemoryRow:
    """The bytes that something takes beyond inputs, outputs and parameters.

    Attributes:
        theirs: by that library's formula; None where it has none.
        ours: what the plan takes; None where that is not planned.
        formula: of ours, in bytes.
    """

    what: str
    theirs: int | None
    ours: int | None
    formula: str = ""


@record
class MemoryReport:
    """A layer's memory at some size; prints as a table."""

    kind: str
    steps: int
    batch: int
    rows: list[MemoryRow]

    def __str__(self) -> str:
        lines = [f"{self.kind}, T = {self.steps}, N = {self.batch}: bytes"]
        lines.append(f"{'':<24}{'Deeplearning4j':>16}{'rnncc':>16}  rnncc's formula")
        for row in self.rows:
            theirs, ours = ("-" if n is None else f"{n:,}" for n in (row.theirs, row.ours))
            lines.append(f"{row.what:<24}{theirs:>16}{ours:>16}  {row.formula}".rstrip())
        return "\n".join(lines)


def memory_report(
    layer: Layer, *, steps: int, batch: int = 1, libraries: Sequence[Library] | None = None
) -> MemoryReport:
    """A layer's memory at T = steps and N = batch, beyond inputs, outputs and parameters.

    That library's LSTM takes, in floats an example: to infer 4·T·H, cached for training 6·T·H, to
    go back 9·T·H with peepholes and 6·T·H without; two directions take twice that.

    Args:
        libraries: what was planned of the layer, for inference, for training, or both; without
            them it is planned here, for this machine, with the default options.

    Raises:
        CompileError: steps or batch is below 1.
    """
    if min(steps, batch) < 1:
        raise CompileError(layer.kind, f"steps = {steps}, batch = {batch}: expected at least 1")
    reference = _theirs(layer, steps * batch * layer.n_out * FLOAT)
    planned: dict[str, Dim | Largest] = {}
    for library in _planned(layer) if libraries is None else libraries:
        planned |= _ours(library)
    rows: list[MemoryRow] = []
    for what in WHAT:
        formula = planned.get(what)
        total = None if formula is None else formula.evaluate({TIME: steps, BATCH: batch})
        rows.append(
            MemoryRow(what, reference.get(what), total, "" if total is None else str(formula))
        )
    return MemoryReport(layer.kind, steps, batch, rows)


def _theirs(layer: Layer, unit: int) -> dict[str, int]:
    """That library's formulas, where it has the layer, in multiples of T·N·H floats."""
    if layer.kind not in ("graves_lstm", "lstm"):
        return {}
    unit *= layer.settings.layers * len(layer.settings.directions)
    return {INFERENCE: 4 * unit, CACHED: 6 * unit, BACKWARD: (9 if layer.peepholes else 6) * unit}


def _ours(library: Library) -> dict[str, Dim | Largest]:
    """The workspaces of a library, and the tape between forward and backward."""
    if library.training is None:
        return {INFERENCE: library.workspace}
    programs = library.programs
    return {
        CACHED: library.training.tape,
        FORWARD: programs["forward"].workspace,
        BACKWARD: programs["backward"].workspace,
    }


def _planned(layer: Layer) -> list[Library]:
    every = (Options(name=layer.name, train=train) for train in (False, True))
    return [compiling.build_library(layer, None, options) for options in every]
