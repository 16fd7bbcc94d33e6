"""What bounds a net at given sizes, in words, and what would help."""

from __future__ import annotations

from collections.abc import Sequence

from rnncc.bench.machine import Ceilings
from rnncc.bench.op_counts import product_flops
from rnncc.bench.roofline import Bound, least
from rnncc.records import record

MUCH = 1.15
"""Where one figure is this much more than another, it is what counts."""
LITTLE = 0.85
"""Of the least time: below it more than a little goes to something else."""


@record
class Offer:
    """What this compiler can do beside fp32 on one thread.

    Attributes:
        threads: how many are worth it.
    """

    precisions: Sequence[str] = ()
    threads: int = 1


def explain(
    title: str,
    phase_bounds: Sequence[Bound],
    ceilings: Ceilings,
    seconds: float | None = None,
    offer: Offer | None = None,
) -> list[str]:
    """Sentences.

    Args:
        seconds: what a run was measured to take.
    """
    total = least(phase_bounds)
    if not total:
        return [f"{title}: nothing to compute."]
    flops = product_flops([one.phase for one in phase_bounds])
    lines = [
        f"{title}: products of {_amount(flops, 'FLOP')}, {_amount(_read(phase_bounds), 'B')} read.",
        f"This machine needs at least {_time(total)} for it{_reached(total, seconds)}.",
    ]
    loops = [one for one in phase_bounds if one.phase.looped and one.phase.times > 1]
    rest = [one for one in phase_bounds if one not in loops]
    lines += [_step(one, total, ceilings) for one in loops if one.seconds > total / 20]
    if rest and least(rest) > total / 20:
        lines.append(_outside(rest, total))
    lines.append(_verdict(phase_bounds))
    return lines + _advice(phase_bounds, offer or Offer(), total, seconds)


def _reached(total: float, seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"; it takes {_time(seconds)}, so that {total / seconds:.0%} of the ceiling is reached"


def _step(one: Bound, total: float, ceilings: Ceilings) -> str:
    """A loop: what an iteration of it reads and computes."""
    phase, times = one.phase, one.phase.times
    level = ceilings.level(phase.footprint)
    reads = (
        f"reads {_amount(phase.weights, 'B')} of weights"
        if phase.weights > phase.read / 2
        else f"reads {_amount(phase.read, 'B')}"
    )
    return (
        f"A loop of {times} iterations, {one.seconds / total:.0%} of that: an iteration {reads}; it"
        f" touches {_amount(phase.footprint, 'B')}, which {_lie(level)}, so that reading takes"
        f" {_time(one.reading / times)} at"
        f" {ceilings.bandwidth(phase.footprint) / 1e9:.0f} GB/s, products"
        f" {_time(one.products / times)}, activations and the like"
        f" {_time(one.elementwise / times)}."
    )


def _lie(level: str) -> str:
    return "no cache holds" if level == "memory" else f"{level} holds"


def _outside(rest: Sequence[Bound], total: float) -> str:
    products, elementwise = sum(o.products for o in rest), sum(o.elementwise for o in rest)
    return (
        f"What is done for many steps at once, {least(rest) / total:.0%}: products"
        f" {_time(products)}, the rest of the arithmetic {_time(elementwise)}, reading"
        f" {_time(sum(o.reading for o in rest))}."
    )


def _verdict(phase_bounds: Sequence[Bound]) -> str:
    match bounded_by(phase_bounds):
        case "reading":
            return "So reading bounds it: the arithmetic waits for weights."
        case "arithmetic":
            return "So arithmetic bounds it."
        case _:
            return "So reading and arithmetic bound it about alike."


def bounded_by(phase_bounds: Sequence[Bound]) -> str:
    """`reading`, `arithmetic` or `both`: what takes most of the time in the phases that matter."""
    reading = sum(one.seconds for one in phase_bounds if one.reading > MUCH * one.arithmetic)
    arithmetic = sum(one.seconds for one in phase_bounds if one.arithmetic > MUCH * one.reading)
    if reading > 2 * arithmetic:
        return "reading"
    return "arithmetic" if arithmetic > 2 * reading else "both"


def _advice(
    phase_bounds: Sequence[Bound], offer: Offer, total: float, seconds: float | None
) -> list[str]:
    """What would help, as far as this compiler offers it."""
    lines: list[str] = []
    if (reading := bounded_by(phase_bounds)) != "arithmetic":
        rows = max(2, round(_reading(phase_bounds) / max(_arithmetic(phase_bounds), 1e-12)))
        lines.append(
            f"A batch helps: up to about {rows} times as many rows are computed while the same"
            " weights are read."
        )
    smaller = [p for p in offer.precisions if p != "fp32"]
    if smaller and reading != "arithmetic":
        lines.append(f"Smaller weights help: --precision {' or '.join(smaller)}.")
    if offer.threads > 1:
        lines.append(f"Threads help, up to about {offer.threads}: --threads.")
    if seconds is not None and total < LITTLE * seconds:
        lines.append(_overhead(phase_bounds, total, seconds))
    return lines


def _overhead(phase_bounds: Sequence[Bound], total: float, seconds: float) -> str:
    """What goes to neither arithmetic nor reading, spread over the kernels that are run."""
    runs = sum(one.phase.times * one.phase.kernels for one in phase_bounds)
    per_run = (seconds - total) / max(runs, 1)
    return (
        f"{_time(seconds - total)} go elsewhere: chains of dependent sums and functions, and the"
        f" starts of loops; {_time(per_run)} for each of {runs} runs of kernels. Where that is"
        " most, the net is too small for this machine: a batch fills it."
    )


def _read(phase_bounds: Sequence[Bound]) -> int:
    return sum(one.phase.times * one.phase.read for one in phase_bounds)


def _reading(phase_bounds: Sequence[Bound]) -> float:
    return sum(one.reading for one in phase_bounds)


def _arithmetic(phase_bounds: Sequence[Bound]) -> float:
    return sum(one.arithmetic for one in phase_bounds)


def _amount(number: float, unit: str) -> str:
    for prefix, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= scale:
            return f"{number / scale:.3g} {prefix}{unit}"
    return f"{number:.0f} {unit}"


def _time(seconds: float) -> str:
    """`12.3 us`."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"
