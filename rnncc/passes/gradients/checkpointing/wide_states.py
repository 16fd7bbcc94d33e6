"""Whether states are so wide that backward computes them again as fast as it would read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from xdsl.ir import SSAValue

from rnncc.ir.dims import product
from rnncc.ir.ops.control import Net, Scan
from rnncc.ir.ops.linear import Contract, Matmul
from rnncc.ir.rewriting import scans_of
from rnncc.ir.types import ITEM_BYTES, dims_of, dtype_of
from rnncc.passes.dependence import kinds_of
from rnncc.passes.gradients.split_phases import Phases
from rnncc.passes.loops.light_loops import is_light

STEPS = 32
"""Of a run: about the root of a thousand, where marks and the states of a run take the least."""
WIDER = 4
"""How much wider than its rows a step's saved states must be: to write and read them takes then
about as long as to compute them again, as measured with a selective scan of 16 states a unit."""
SIZE = 64
"""The value of every symbol: the batch is a factor of both sides."""


def steps_between(phases: Phases, trip_counts: Mapping[str, int]) -> int | None:
    """The steps between checkpoints that pay without a budget; None: what is saved stays.

    They do where forward is cheap, light loops and no product, and what it leaves for each step
    is mostly states that are far wider than the rows that the step reads and writes: matrices, or
    several numbers a unit.

    Args:
        trip_counts: of loops whose lengths are numbers, which the halves have symbols for.
    """
    net = phases.forward.net
    loops = list(scans_of(net.body.block))
    if not loops or not all(map(is_cheap, loops)):
        return None
    if any(isinstance(op, Matmul | Contract) for op in net.body.block.ops):
        return None
    if all(_is_short(scan, trip_counts) for scan in loops):
        return None
    rows, saved = _bytes_of_rows(net, loops)
    return STEPS if saved > WIDER * rows else None


def is_cheap(scan: Scan) -> bool:
    """Whether a loop may take less time to run again than its states to be read."""
    return scan.gate is None and is_light(scan, kinds_of(scan))


def _is_short(scan: Scan, trip_counts: Mapping[str, int]) -> bool:
    # Of no more steps than a run has, marks would save nothing.
    known = trip_counts.keys() >= set(scan.steps.symbols)
    return known and scan.steps.evaluate(trip_counts) <= STEPS


def _bytes_of_rows(net: Net, loops: list[Scan]) -> tuple[int, int]:
    """Of a step: what inputs and outputs have, and what is saved besides."""
    lengths = {scan.steps for scan in loops}

    def count(values: Iterable[SSAValue]) -> Iterator[int]:
        for value in values:
            dims = dims_of(value)
            if dims and dims[0] in lengths:
                size = product(dims[1:])
                yield size.evaluate(dict.fromkeys(size.symbols, SIZE)) * ITEM_BYTES[dtype_of(value)]

    own = [*net.inputs.values(), *net.outputs_of(None).values()]
    return sum(count(own)), sum(count(net.outputs_of("saved").values()))
