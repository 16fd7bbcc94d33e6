"""The `rnn` dialect: what a net computes, on typed SSA values."""

from __future__ import annotations

from types import ModuleType

from xdsl.ir import Dialect, Operation

from rnncc.ir.ops import (
    apply,
    casts,
    chunks,
    control,
    elementwise,
    functions,
    gradients,
    indexing,
    linear,
    random,
    shape,
    source,
    windows,
)

FAMILIES: dict[str, ModuleType] = {
    "Sources": source,
    "Elementwise": elementwise,
    "Element types": casts,
    "Functions": functions,
    "Functions of users": apply,
    "Random numbers": random,
    "Shapes": shape,
    "Elements by number": indexing,
    "Windows": windows,
    "Sums": linear,
    "Gradients of users": gradients,
    "Control": control,
    "Runs of steps": chunks,
}
"""The ops by family, each a module with a list `OPS`."""

OPS: list[type[Operation]] = [op for family in FAMILIES.values() for op in family.OPS]
RNN = Dialect("rnn", OPS, apply.ATTRIBUTES)
