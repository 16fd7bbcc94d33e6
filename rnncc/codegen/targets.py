"""The targets by name: a row each, and the only place that names their modules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from rnncc.codegen.target import Target


@dataclass(frozen=True)
class Row:
    """What can be told of a target before it is imported.

    Attributes:
        module: has `resolve(triple, cpu, knobs) -> Target` and, where code runs in this process,
            `load(product)`, whose result has `get_function_address(symbol)`.
        products: the files that it makes; `by_default` without a choice.
        knobs: settings that change how fast code is, and no bit of its results (`--tune`).
    """

    module: str
    products: tuple[str, ...]
    by_default: tuple[str, ...]
    knobs: tuple[str, ...] = ()


CPU = Row(
    "rnncc.codegen.cpu.target",
    products=("so", "h", "py", "o", "a", "pc", "cmake", "wheel"),
    by_default=("so", "h", "py"),
    knobs=("cache", "vectors", "chains"),
)
REFERENCE = Row("rnncc.codegen.reference.target", products=("c", "h"), by_default=("c", "h"))
NVPTX = Row("rnncc.codegen.nvptx.target", CPU.products, CPU.by_default)
TARGETS = {"cpu": CPU, "reference": REFERENCE, "nvptx": NVPTX}
"""What `--target` may name; anything else is an LLVM triple, for the CPU's."""
BY_DEVICE = {"cpu": None, "cuda": "nvptx"}
"""What computes, as a user names it -> the target that is meant."""


def row_of(target: str | None) -> Row:
    """The row of a target's name, or of a triple; of this machine for None."""
    return TARGETS.get(target or "cpu", CPU)


def resolve(
    target: str | None = None, cpu: str | None = None, knobs: Mapping[str, int] | None = None
) -> Target:
    """A target.

    Args:
        target: a key of `TARGETS`, or an LLVM triple; this machine by default.
        cpu: one of its machines, such as an LLVM CPU name or `native`.
        knobs: settings among the row's.

    Raises:
        CompileError: there is no such machine.
    """
    triple = None if target in TARGETS else target
    return _module(target).resolve(triple, cpu, knobs or {})


def load(target: str, product: bytes) -> Any:
    """A product for this process, by the target or triple of its metadata."""
    return _module(target).load(product)


def _module(target: str | None) -> ModuleType:
    return import_module(row_of(target).module)
