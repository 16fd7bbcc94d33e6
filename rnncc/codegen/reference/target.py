"""Plain C99 as a target: any machine that has a compiler for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rnncc.codegen.target import Code
from rnncc.errors import CompileError
from rnncc.platforms import LINE
from rnncc.records import record

if TYPE_CHECKING:
    from rnncc.kern.library import Library

NAME = "reference"


@record
class ReferenceTarget:
    """Code without vectors, threads or packing, whose sums go from the first term to the last."""

    @property
    def triple(self) -> str:
        return NAME

    @property
    def cpu(self) -> str:
        return "C99"

    @property
    def tuned(self) -> str:
        return ""

    @property
    def device(self) -> str:
        return "cpu"

    @property
    def flushes(self) -> bool:
        return False

    def of(self, dtype: str) -> ReferenceTarget:
        """All types are computed with alike."""
        return self

    @property
    def slack(self) -> int:
        return 0

    def panel(self, slots: int, units: int, dtype: str, depth: int) -> int:
        """Each unit's weights stand together: a sum reads them one after another."""
        return 1

    def stripe(self, slots: int, panel: int) -> int:
        return 0

    def weights_dtype(self, precision: str) -> str:
        if precision != "fp32":
            what = f"the reference target has no code for {precision} weights"
            raise CompileError("--precision", what, "leave it out, or compile for a CPU")
        return "f32"

    @property
    def packs_bf16(self) -> bool:
        return False

    @property
    def byte_products(self) -> bool:
        return False

    @property
    def waits_are_dear(self) -> bool:
        return False

    @property
    def reads_windows(self) -> bool:
        return False

    @property
    def line(self) -> int:
        return LINE

    def row_bytes(self, dtype: str, depth: int) -> int:
        return 0

    def contract_room(self, rows: int, columns: int, rounded: bool = False) -> int:
        return 0

    def rows_ahead(self, width: int, weights: int) -> int:
        """No more than a step's: what is computed ahead takes as little memory as can be."""
        return 1

    @property
    def product(self) -> str:
        return "c"

    def extensions_of(self, library: Library) -> list[str]:
        return []

    def write(self, library: Library, metadata: dict[str, Any], in_memory: bool = False) -> Code:
        from rnncc.codegen.reference.source import write_source

        if in_memory:
            self.check_runs_here()  # C always refuses: only a compiler makes it run
        source = write_source(library, metadata)
        return Code(source, ".c", lambda: {"c": lambda: source})

    def check_runs_here(self) -> None:
        what = "the reference target writes C, which does not run before it is compiled"
        raise CompileError("--target", what, "rnncc.build writes it to a file")


def resolve(triple: str | None, cpu: str | None, knobs: Mapping[str, int]) -> ReferenceTarget:
    """The only one there is.

    Raises:
        CompileError: a CPU is named.
    """
    if cpu is not None:
        raise CompileError("--cpu", f"{cpu!r} is nothing to the reference target", "leave it out")
    return ReferenceTarget()
