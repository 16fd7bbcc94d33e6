"""The keyword options of `rnncc.compile`, `build` and `plan`, for editors and type checkers.

What each means stands in `rnncc.options.Options`, which checks them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from rnncc.scalar import Scalar

Shape = Sequence[int | str | None] | str
Sizes = str | Sequence[int] | Mapping[str, int]
Progress = bool | Callable[[str], object]


class Keywords(TypedDict, total=False):
    """Options of one compilation, but for those that functions name themselves."""

    shapes: Mapping[str, Shape]
    bind: Mapping[str, Any] | Sequence[str]
    state: Mapping[str, str] | Sequence[str]
    precision: Literal["fp32", "bf16", "int8"] | str
    threads: bool
    flush_denormals: bool
    target: str | None
    cpu: str | None
    seed: int
    max_iterations: int | str | None
    order: int
    max_steps: int | None
    recompute: str
    outputs_with_grads: Sequence[str] | str | None
    memory_budget: int | str | None
    prepack: bool
    plan_for: Sizes | None
    tune: bool
    tuning: Mapping[str, int]
    functions: Mapping[str, Scalar]
    dump_ir: str | PathLike[str] | None
    time_passes: bool
    verify_each: bool


class NamedKeywords(Keywords, total=False):
    """With the library's name."""

    name: str | None


class BuildKeywords(Keywords, total=False):
    """With what `rnncc.build` passes on."""

    train: bool
    device: str | None
