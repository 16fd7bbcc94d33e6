"""What a target is: what lowering, packaging and the driver ask of it (docs/adding-a-target.md).

A target is a folder beside this file and a row of `rnncc.codegen.targets`; nothing else names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

from rnncc.records import record

if TYPE_CHECKING:
    from rnncc.kern.library import Library

Forms = Mapping[str, Callable[[], str | bytes]]
"""The forms of a library's code, each made when it is asked for: first a text, such as `llvm`."""


@record
class Code:
    """A library as a target has written it.

    Attributes:
        text: in the language that it is written in; `suffix`: of a file that holds that.
        finish: the rest of the work, in any thread.
        symbols: of code for this process: exported function, without the library's name -> symbol.
    """

    text: str
    suffix: str
    finish: Callable[[], Forms]
    symbols: Mapping[str, str] = field(default_factory=dict[str, str])


@record
class CodeFootprint:
    """What a library takes of a machine that has little.

    Attributes:
        code, constants: bytes of a program.
        functions: bytes of those that linkers drop where nobody calls them.
        cycles: what those of a step go to, where the CPU's timings are known.
    """

    code: int
    constants: int
    functions: Mapping[str, int]
    cycles: Mapping[str, int]


class Target(Protocol):
    """A machine, or a language, that libraries are written for. Equal ones write equal code."""

    # What it is

    @property
    def triple(self) -> str:
        """The machine as linkers know it, or the target's own name; in the metadata."""
        ...

    @property
    def cpu(self) -> str:
        """Which of those machines; in the metadata."""
        ...

    @property
    def tuned(self) -> str:
        """The one whose speed code is tuned for, where that is another; else empty."""
        ...

    @property
    def device(self) -> str:
        """Whose memory the functions' arrays lie in, and who computes: `cpu` or `cuda`."""
        ...

    @property
    def flushes(self) -> bool:
        """Whether its vectors take denormals for zeros in every mode, so that calls flush."""
        ...

    # How data lies: asked by lowering, in elements where nothing else is said

    def of(self, dtype: str) -> Target:
        """The same machine as it computes with elements of a type: f32 or f64."""
        ...

    @property
    def slack(self) -> int:
        """Elements behind packed weights that code may read."""
        ...

    def panel(self, slots: int, units: int, dtype: str, depth: int) -> int:
        """How many units stand side by side in packed weights of so many slots (`kern.pack`).

        Args:
            dtype: of the packed weights.
            depth: of the sums.
        """
        ...

    def stripe(self, slots: int, panel: int) -> int:
        """How many columns of such a panel stand side by side (`packing.pack`); 0 for all."""
        ...

    def weights_dtype(self, precision: str) -> str:
        """The type of packed weights of a precision: f32, bf16, i8 or u8.

        Raises:
            CompileError: the target has no code for them.
        """
        ...

    @property
    def packs_bf16(self) -> bool:
        """Whether `kern.pack` rounds to bf16, and `kern.contract` its operands: so training may."""
        ...

    @property
    def byte_products(self) -> bool:
        """Whether it has code for products of i8 rows by packed weights of i8."""
        ...

    @property
    def reads_windows(self) -> bool:
        """Whether its products read rows of several runs of k where they lie (`kern.gemm`)."""
        ...

    @property
    def waits_are_dear(self) -> bool:
        """Whether a wait of all who compute costs more than memory that saves one."""
        ...

    @property
    def line(self) -> int:
        """Bytes: workspace, state and each value of a state start at a multiple of so many."""
        ...

    def row_bytes(self, dtype: str, depth: int) -> int:
        """Scratch for rows that a product converts to go with weights of a type; 0 for none."""
        ...

    def contract_room(self, rows: int, columns: int, rounded: bool = False) -> int:
        """Scratch of a `kern.contract` of that size: for both operands packed, or parts of sums."""
        ...

    def rows_ahead(self, width: int, weights: int) -> int:
        """How many rows of a hoisted product to compute before the steps that read them.

        Args:
            width: of all values that are computed ahead, together, in elements of 4 bytes.
            weights: bytes of the largest matrix among them.
        """
        ...

    # Code: asked by the driver

    def extensions_of(self, library: Library) -> list[str]:
        """What a CPU must have beyond its architecture's baseline, as LLVM names it."""
        ...

    @property
    def product(self) -> str:
        """The form that products are made of."""
        ...

    def write(self, library: Library, metadata: dict[str, Any], in_memory: bool = False) -> Code:
        """Write a library's code.

        Args:
            in_memory: for this process: functions take their weights as a first argument, and the
                target's module loads the product.
        """
        ...

    def check_runs_here(self) -> None:
        """Refuse what does not run in this process.

        Raises:
            CompileError: with what is missing.
        """
        ...
