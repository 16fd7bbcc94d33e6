"""Training within a memory budget: chooses the distance of checkpoints along time.

In: the halves of training and the bytes that tape and workspace may take together at given sizes.
Out: those with the fewest checkpoints that fit; runs that are long keep products large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from rnncc.errors import CompileError
from rnncc.ir.dims import Dim
from rnncc.ir.ops.control import Scan
from rnncc.kern.largest import Largest
from rnncc.kern.program import KernelProgram
from rnncc.kern.training import Training
from rnncc.passes.gradients.checkpointing.checkpoint import checkpoint
from rnncc.passes.gradients.split_phases import Phases
from rnncc.records import record

Chunks = tuple[int, ...]
"""Steps between checkpoints on the tape; then, if any, of those within such a run."""
Lower = Callable[[Phases], tuple[KernelProgram, KernelProgram]]

PROBES = (4, 16)
"""Lengths of runs that are planned first; estimates for others are on the line through them."""
TRIES = 4
"""Plans made of the candidates with the least estimates; each plan lowers both halves anew."""
SLACK = 1.1
"""How much more than the budget an estimate may be for its candidate to be planned."""


@record
class Halves:
    """Two planned programs and the tape between them.

    Attributes:
        chunks: the checkpoints; empty: none.
    """

    phases: Phases
    forward: KernelProgram
    backward: KernelProgram
    chunks: Chunks = ()

    @staticmethod
    def of(phases: Phases, lower: Lower, chunks: Chunks = ()) -> Halves:
        """Plan both."""
        return Halves(phases, *lower(phases), chunks)

    @property
    def tape(self) -> Dim:
        """Bytes of the tape."""
        ports = {port.name: port for port in self.forward.outputs}
        return Training.lay_out(self.phases.kept, [ports[n] for n in self.phases.saved])[1]

    @property
    def workspace(self) -> Largest:
        """Bytes of the workspace."""
        both = (self.forward.workspace, self.backward.workspace)
        return Largest(formula for program in both for formula in program.formulas)

    def bytes(self, sizes: Mapping[str, int]) -> int:
        """Of tape and workspace."""
        return self.tape.evaluate(sizes) + self.workspace.evaluate(sizes)


def fit(phases: Phases, lower: Lower, budget: int, sizes: Mapping[str, int]) -> Phases:
    """The halves as they are where they fit, else with checkpoints.

    Args:
        sizes: of every symbol, that at which the budget is to hold.

    Raises:
        CompileError: no checkpoints make them fit; it names the least that they take.
    """
    whole = Halves.of(phases, lower)
    planned = [whole]
    if whole.bytes(sizes) > budget:
        planned += _BudgetSearch(phases, lower, sizes).run(budget)
    if planned[-1].bytes(sizes) <= budget:
        return replace(planned[-1].phases, checkpoints=_description(planned[-1], budget, sizes))
    least = min(one.bytes(sizes) for one in planned)
    at = ", ".join(f"{name}={size}" for name, size in sizes.items())
    what = f"a budget of {budget} bytes cannot be met at {at}: the least is {least}"
    raise CompileError("memory_budget", what)


class _BudgetSearch:
    """Plans with checkpoints, made as they are asked for."""

    def __init__(self, phases: Phases, lower: Lower, sizes: Mapping[str, int]) -> None:
        self.phases, self.lower, self.sizes = phases, lower, sizes
        self.steps = _steps(phases, sizes)
        self.tried: dict[Chunks, Halves | None] = {}

    def run(self, budget: int) -> list[Halves]:
        """All that were planned; the last one fits, if any does."""
        estimate = self._estimate()
        if estimate is None:
            return []
        # the first that fits is the best, by the candidates' order; the least are for the message
        likely = [c for c in self._candidates() if estimate(c) <= budget * SLACK]
        least = sorted(self._candidates(), key=estimate)[:TRIES]
        for chunks in [*likely[: 2 * TRIES], *least]:
            halves = self._plan(chunks)
            if halves is not None and halves.bytes(self.sizes) <= budget:
                return [*self._done(), halves]
        return self._done()

    def _done(self) -> list[Halves]:
        return [halves for halves in self.tried.values() if halves is not None]

    def _plan(self, chunks: Chunks) -> Halves | None:
        if chunks not in self.tried:
            cut = checkpoint(self.phases, chunks)
            self.tried[chunks] = None if cut is None else Halves.of(cut, self.lower, chunks)
        return self.tried[chunks]

    def _candidates(self) -> Iterator[Chunks]:
        """One level before two; then long runs first, those within them above all."""
        powers = [2**i for i in range(self.steps.bit_length() + 1)]
        for chunk in reversed(powers):
            yield (chunk,)
        for inner in reversed(powers):
            for outer in reversed(powers):
                if inner < outer < self.steps:
                    yield (outer, inner)

    def _estimate(self) -> Callable[[Chunks], float] | None:
        """Bytes that checkpoints take: a line through two plans, and a carry for each run."""
        few, many = (self._plan((chunk,)) for chunk in PROBES)
        if few is None or many is None:
            return None
        ends = [plan.workspace.evaluate(self.sizes) for plan in (few, many)]
        slope = (ends[1] - ends[0]) / (PROBES[1] - PROBES[0])
        base = ends[0] - slope * PROBES[0]
        tapes = [plan.tape.evaluate(self.sizes) for plan in (few, many)]
        runs = [-(-self.steps // chunk) for chunk in PROBES]
        carry = (tapes[0] - tapes[1]) / max(runs[0] - runs[1], 1)
        fixed = tapes[0] - carry * runs[0]

        def estimate(chunks: Chunks) -> float:
            outer, inner = chunks[0], chunks[-1]
            marks = -(-self.steps // outer) + (outer // inner if len(chunks) > 1 else 0)
            return base + slope * inner + fixed + carry * marks

        return estimate


def _steps(phases: Phases, sizes: Mapping[str, int]) -> int:
    """The most steps that a loop takes."""
    blocks = [half.net.body.block for half in (phases.forward, phases.backward)]
    scans = (op for block in blocks for op in block.ops if isinstance(op, Scan))
    return max((op.steps.evaluate(sizes) for op in scans), default=0)


def _description(halves: Halves, budget: int, sizes: Mapping[str, int]) -> str:
    """What was chosen, in one line."""
    tape, workspace = halves.tape.evaluate(sizes), halves.workspace.evaluate(sizes)
    total = f"tape {tape} and workspace {workspace} of {budget} bytes"
    if not halves.chunks:
        return f"no checkpoints: {total}"
    every = f"checkpoints every {halves.chunks[0]} steps"
    if len(halves.chunks) > 1:
        every += f", within a run every {halves.chunks[1]}"
    return f"{every}: {total}"
