"""Which loops over time of a program run units or places before steps, where that pays; and which
kernels outside of these run place by place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

from xdsl.ir import Operation

from rnncc.codegen.cpu.machine.core import Core
from rnncc.codegen.cpu.orders.interchanged import fits
from rnncc.codegen.cpu.orders.place_code import keeps_code
from rnncc.codegen.cpu.orders.resident import PlacesFirst, places_first
from rnncc.codegen.cpu.outlined import OutlinedKernels
from rnncc.codegen.cpu.sums.stored_terms import StoredTerms
from rnncc.codegen.llvm.vector import Real
from rnncc.ir.types import dtype_of
from rnncc.kern.access import buffer_dtype
from rnncc.kern.dialect import Func
from rnncc.kern.kernels import Gemm, Map, Reduce
from rnncc.planning.interchange import Interchange, interchanges
from rnncc.planning.place_runs import PlaceRun, place_runs
from rnncc.planning.resident import resident_loops

LoopOrders = dict[Operation, Interchange | PlacesFirst | PlaceRun]
"""Loops that run units first; loops, and kernels one behind the other, that run place by place."""
MANY_PLACES = 16
"""That threads share well."""


def loop_orders(func: Func, target: Core, shared: OutlinedKernels, several: bool) -> LoopOrders:
    """The loops of a function that run otherwise than step by step.

    Args:
        several: whether it is for a team of threads.
    """
    orders: LoopOrders = {}
    for loop, units in interchanges(func).items():
        element = _common_element(part.op for part in units.parts)
        if element and fits(target.of(element), units, shared):
            orders[loop] = units
    for loop, places in resident_loops(func, orders).items():
        element = _common_element(places.kernels)
        if several and not places.places:
            continue  # threads have nothing to share
        order = element and places_first(target.of(element), places, shared)
        if order:
            orders[loop] = order
    if not target.compact:
        orders |= _place_runs(func, target, shared, several, orders)
    return orders


def _place_runs(
    func: Func, target: Core, shared: OutlinedKernels, several: bool, loops: LoopOrders
) -> Iterator[tuple[Operation, PlaceRun]]:
    """Each kernel's."""

    def takes(op: Map | Reduce) -> bool:
        return not shared.is_function(op)

    def fits(run: PlaceRun) -> bool:
        element = _common_element(part.op for part in run.kernels)
        sizes = [int(size) for size in run.places if size.is_static]
        shares = not several or prod(sizes) >= MANY_PLACES
        first, last = run.kernels[0].op, run.kernels[-1].op
        if StoredTerms.are(first.prev_op, first) or StoredTerms.are(last, last.next_op):
            return False  # one pass for both is better
        return element is not None and shares and keeps_code(target.of(element), run)

    for run in place_runs(func, target.cache, takes, fits, loops):
        yield from ((part.op, run) for part in run.kernels)


def element_of(op: Operation) -> Real:
    """What fills a kernel's vectors: doubles, if it has any; of a product, its weights."""
    if isinstance(op, Gemm):
        return "f64" if buffer_dtype(op.weights) == "f64" else "f32"
    inside = (result for inner in op.walk() for result in inner.results) if op.regions else ()
    doubles = any(buffer_dtype(value) == "f64" for value in op.operands)
    return "f64" if doubles or any(dtype_of(value) == "f64" for value in inside) else "f32"


def _common_element(ops: Iterable[Operation]) -> Real | None:
    first, *others = map(element_of, ops)
    return None if any(other != first for other in others) else first
