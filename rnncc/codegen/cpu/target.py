"""CPUs as a target: what the protocol asks beyond a core's data, and their code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rnncc.codegen.cpu.machine.core import AMX, Core
from rnncc.codegen.cpu.machine.features import BASELINE
from rnncc.codegen.target import Code, Forms
from rnncc.errors import CompileError
from rnncc.platforms import system_of
from rnncc.records import record

if TYPE_CHECKING:
    from rnncc.kern.library import Library


@record
class CpuTarget(Core):
    """A CPU that libraries are written for."""

    @property
    def device(self) -> str:
        return "cpu"

    def row_bytes(self, dtype: str, depth: int) -> int:
        from rnncc.codegen.cpu.gemm.converted_rows import ConvertedRows

        # Weights that are widened as they are read meet rows as they lie: nothing is converted.
        if dtype in ("f32", "f64") or (dtype == "bf16" and not self.rounds_rows(depth)):
            return 0
        return ConvertedRows.of(self, dtype, depth).bytes

    def contract_room(self, rows: int, columns: int, rounded: bool = False) -> int:
        from rnncc.codegen.cpu.tiling import Tiling

        return Tiling.of(self, rows, columns).scratch

    # Code

    def extensions_of(self, library: Library) -> list[str]:
        """What plain code needs, and the matrices of a library that has any."""
        from rnncc.codegen.cpu.gemm.matrix_tiles import matrices_of

        programs = library.programs.values()
        dtypes = {dtype for program in programs for dtype in matrices_of(program, self)}
        return [*self.extensions, *(AMX[dtype] for dtype in sorted(dtypes))]

    @property
    def product(self) -> str:
        return "obj"

    def write(self, library: Library, metadata: dict[str, Any], in_memory: bool = False) -> Code:
        """LLVM IR; LLVM does the rest."""
        from rnncc.codegen.cpu.library.entries import (
            add_exports,
            emit_module,
            forbid_unwinding,
            prefer_small,
        )
        from rnncc.codegen.cpu.library.supported import asking_text, supported_text
        from rnncc.codegen.llvm import objects

        if library.shared and system_of(self.triple) in ("bare", "wasm"):
            what = f"there are no threads on {self.triple}"
            raise CompileError("--threads", what, "leave it out")
        code = emit_module(library, self, metadata)
        symbols = {name: function.name for name, function in code.entries.items()}
        symbols |= {name: f"{library.name}_{name}" for name in code.sizes}
        weights, more = None, ""
        if not in_memory:
            add_exports(code, library)
            features = metadata["features"]
            more = supported_text(library.name, features, self)
            more += asking_text(library.name, features, self.architecture)
            weights = library.name, library.weights_block()
        if self.architecture not in BASELINE:
            forbid_unwinding(code.module)
        if self.compact:
            prefer_small(code.module)
        text = str(code.module) + more

        def finish() -> Forms:
            optimised = objects.optimise(text, self, in_memory, weights, code.linked)
            return {
                "llvm": lambda: optimised.text,
                "asm": lambda: optimised.assembly,
                "obj": lambda: optimised.object_code,
            }

        return Code(text, ".ll", finish, symbols)

    def check_runs_here(self) -> None:
        from rnncc.codegen.cpu.machine.host import check_runs_here

        check_runs_here(self)
