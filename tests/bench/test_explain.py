"""What bounds a net, in words."""

from __future__ import annotations

from rnncc.bench.explain import Offer, bounded_by, explain
from rnncc.bench.machine import Ceilings
from rnncc.bench.op_counts import Phase
from rnncc.bench.roofline import bound

CEILINGS = Ceilings(
    16, {"L1": 32 << 10, "L2": 1 << 20}, {"f32": 1e11}, [(1 << 15, 4e11), (1 << 20, 1e11)]
)
SMALL_OFFER = Offer(("fp32",))
STEP = Phase(100, True, 1, {"f32": 524_288 // 2}, 90, 530_000, 524_288, 535_000)
BULK = Phase(1, False, 1, {"f32": 50_000_000}, 10, 600_000, 500_000, 700_000)


def words(*phases: Phase, offer: Offer = SMALL_OFFER, seconds: float | None = None) -> str:
    found = [bound(phase, CEILINGS) for phase in phases]
    return "\n".join(explain("net T=100 N=1", found, CEILINGS, seconds, offer))


def test_reading_bounds_a_step_of_one_row() -> None:
    told = words(STEP)
    assert bounded_by([bound(STEP, CEILINGS)]) == "reading"
    assert "A loop of 100 iterations, 100%" in told
    assert "524 kB of weights" in told and "which L2 holds" in told
    assert "So reading bounds it" in told and "A batch helps" in told
    assert "Smaller weights" not in told and "Threads" not in told


def test_arithmetic_bounds_bulk_work() -> None:
    told = words(BULK, offer=Offer(("fp32", "bf16"), threads=7))
    assert "So arithmetic bounds it" in told
    assert "for many steps at once, 100%" in told
    assert "A batch helps" not in told and "Smaller weights" not in told
    assert "Threads help, up to about 7" in told


def test_what_is_offered_is_named() -> None:
    told = words(STEP, offer=Offer(("fp32", "bf16", "int8")))
    assert "--precision bf16 or int8" in told


def test_time_that_is_neither() -> None:
    least = bound(STEP, CEILINGS).seconds
    assert "go elsewhere" not in words(STEP, seconds=least * 1.05)
    told = words(STEP, seconds=2 * least)
    assert "50% of the ceiling" in told
    assert "go elsewhere" in told and "each of 100 runs" in told


def test_nothing_to_do() -> None:
    assert words() == "net T=100 N=1: nothing to compute."
