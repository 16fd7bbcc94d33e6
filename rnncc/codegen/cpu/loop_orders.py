"""Which loops over time of a program run units or places before steps, where that pays."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Operation

from rnncc.codegen.cpu.core import Core
from rnncc.codegen.cpu.interchanged import fits
from rnncc.codegen.cpu.outlined import OutlinedKernels
from rnncc.codegen.cpu.resident import PlacesFirst, places_first
from rnncc.codegen.llvm.vector import Real
from rnncc.ir.types import dtype_of
from rnncc.kern.access import buffer_dtype
from rnncc.kern.dialect import For, Func
from rnncc.kern.kernels import Gemm
from rnncc.planning.interchange import Interchange, interchanges
from rnncc.planning.resident import resident_loops

LoopOrders = dict[For, Interchange | PlacesFirst]
"""Loops that run units first; loops that run place by place."""


def loop_orders(func: Func, target: Core, shared: OutlinedKernels, several: bool) -> LoopOrders:
    """The loops of a function that run otherwise than step by step.

    Args:
        several: whether it is for a team of threads.
    """
    found: LoopOrders = {}
    for loop, units in interchanges(func).items():
        element = _common_element(part.op for part in units.parts)
        if element and fits(target.of(element), units, shared):
            found[loop] = units
    for loop, places in resident_loops(func, found).items():
        element = _common_element(places.kernels)
        if several and not places.places:
            continue  # threads have nothing to share
        order = element and places_first(target.of(element), places, shared)
        if order:
            found[loop] = order
    return found


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
