"""The targets by name: a row each, and the only place that names their modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rnncc.codegen.target import Target
from rnncc.errors import CompileError
from rnncc.platforms import (
    PLATFORMS,
    SYSTEMS,
    architecture_of,
    flushes_denormals,
    system_of,
)
from rnncc.records import record

if TYPE_CHECKING:
    import numpy as np

    from rnncc.codegen.target import Code, CodeFootprint
    from rnncc.kern.library import Library
    from rnncc.planning.rows import LaunchRow


@record
class TargetRow:
    """What is known of a target before it is imported.

    Attributes:
        module: has `resolve(triple, cpu, knobs) -> Target` and, where code runs in this process,
            `load(product)`, whose result has `get_function_address(symbol)`.
        products: the files that it makes; `by_default` without a choice.
        knobs: settings that change how fast code is, and no bit of its results (`--tune`).
        versions: has `write_versions`, where one library may hold code for several CPUs.
        footprint: has `footprint`, where code takes flash; `launches` has `launches`, where a grid
            of threads computes. Both are for `rnncc plan`.
        refused: option -> why it does not go with the target, and what to do.
    """

    module: str
    products: tuple[str, ...]
    by_default: tuple[str, ...]
    knobs: tuple[str, ...] = ()
    versions: str | None = None
    footprint: str | None = None
    launches: str | None = None
    refused: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])


def _cpu(triple: str) -> TargetRow:
    """CPUs of a triple; without a system, or without a triple, as of Linux."""
    conventions = SYSTEMS.get(system_of(triple), SYSTEMS["linux"])
    refused = dict[str, tuple[str, str]]()
    if triple and not flushes_denormals(architecture := architecture_of(triple)):
        what = f"{architecture} has no mode that flushes denormals"
        refused["flush_denormals"] = (what, "leave it out")
    return TargetRow(
        "rnncc.codegen.cpu.resolve",
        conventions.products,
        conventions.by_default,
        knobs=("cache", "vectors", "chains", "ahead"),
        versions="rnncc.codegen.cpu.versions",
        footprint="rnncc.codegen.cpu.footprint",
        refused=refused,
    )


CPU = _cpu("")
_ELSEWHERE = "leave it out, or compile for a CPU"
REFERENCE = TargetRow(
    "rnncc.codegen.reference.target",
    products=("c", "h"),
    by_default=("c", "h"),
    refused={
        "threads": ("the reference target computes a call in one thread", _ELSEWHERE),
        "flush_denormals": ("C99 has no mode that flushes denormals", _ELSEWHERE),
    },
)
NVPTX = TargetRow(
    "rnncc.codegen.nvptx.target",
    CPU.products,
    CPU.by_default,
    launches="rnncc.codegen.nvptx.launches",
    refused={
        "threads": (
            "threads of a CPU do not compute together on a GPU, which has its own",
            "leave it out",
        ),
        "flush_denormals": (
            "code for GPUs keeps denormals, which cost nothing there",
            "leave it out",
        ),
        "prepack": ("code for GPUs reads parameters as they are", "leave it out"),
        "tune": ("code for GPUs has no settings to try", "leave it out"),
    },
)
TARGETS = {
    "cpu": CPU,
    **{name: _cpu(platform.triple) for name, platform in PLATFORMS.items()},
    "c99": REFERENCE,
    "reference": REFERENCE,
    "nvptx": NVPTX,
}
"""What `--target` may name; anything else is an LLVM triple, for the CPU's."""
BY_DEVICE = {"cpu": None, "cuda": "nvptx"}
"""What computes, as a user names it -> the target that is meant."""


def row_of(target: str | None) -> TargetRow:
    """The row of a target's name, or of a triple; of this machine for None."""
    return TARGETS.get(target or "cpu") or _cpu(target or "")


def resolve(
    target: str | None = None, cpu: str | None = None, knobs: Mapping[str, int] | None = None
) -> Target:
    """A target.

    Args:
        target: a key of `TARGETS`, or an LLVM triple of `rnncc.platforms`; this machine by default.
        cpu: one of its machines, such as an LLVM CPU name or `native`.
        knobs: settings among the row's.

    Raises:
        CompileError: there is no such machine.
    """
    # `cpu`, `c99` or `nvptx` name a row alone; a platform names a machine too
    triple = None if target in TARGETS and target not in PLATFORMS else target
    return _module(target).resolve(triple, cpu, knobs or {})


def load(target: str, product: bytes) -> Any:
    """A product for this process, by the target or triple of its metadata."""
    return _module(target).load(product)


def write_versions(
    target: str | None,
    name: str,
    versions: Sequence[tuple[Library, Target]],
    metadata: dict[str, Any],
    weights: np.ndarray[Any, Any],
) -> Code:
    """One library with code for several CPUs of a target; the last that a CPU can run is taken.

    Raises:
        CompileError: the target's code cannot be chosen at run time.
    """
    writer, triple = row_of(target).versions, versions[0][1].triple
    if writer is None or architecture_of(triple) != "x86_64":
        what = f"a library holds code for several CPUs of x86-64, not of {triple}"
        raise CompileError("--cpu", what, "name one CPU")
    return import_module(writer).write_versions(name, versions, metadata, weights)


def footprint(
    name: str | None,
    target: Target,
    library: Library,
    product: bytes,
    assembly: Callable[[], str],
) -> CodeFootprint | None:
    """What the product of a planned library takes of the machine that a name resolves to.

    Args:
        assembly: makes the library's text in the machine's language.
    """
    module = row_of(name).footprint
    return (
        None
        if module is None
        else import_module(module).footprint(target, library, product, assembly)
    )


def launches(
    name: str | None, target: Target, library: Library, sizes: Mapping[str, int]
) -> list[LaunchRow]:
    """How a grid of threads computes the programs of a library; nothing where none does."""
    module = row_of(name).launches
    return [] if module is None else import_module(module).launches(target, library, sizes)


def _module(target: str | None) -> ModuleType:
    return import_module(row_of(target).module)
