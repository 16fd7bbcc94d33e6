"""The largest of several sizes, as offsets in a plan of memory are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from rnncc_runtime.sizes import split_largest

from rnncc.ir.dims import Dim


class Largest:
    """The largest of several sizes: `max(40*T*N, 16*T*N + 4096)`; of none, 0.

    Args:
        formulas: those that may be the largest.
    """

    __slots__ = ("formulas",)
    formulas: tuple[Dim, ...]

    def __init__(self, formulas: Iterable[Dim] = ()) -> None:
        self.formulas = tuple(dict.fromkeys(formulas))

    @staticmethod
    @lru_cache(maxsize=1024)  # each function of a net declares the buffers that it shares anew
    def parse(text: str) -> Largest:
        """The inverse of `str`; raises `ValueError` on anything else."""
        return Largest(map(Dim.parse, split_largest(text)))

    @property
    def symbols(self) -> frozenset[str]:
        """The names that occur."""
        return frozenset(name for formula in self.formulas for name in formula.symbols)

    def evaluate(self, env: Mapping[str, int]) -> int:
        """The value where every symbol has one."""
        return max((formula.evaluate(env) for formula in self.formulas), default=0)

    def __bool__(self) -> bool:
        return any(formula != 0 for formula in self.formulas)

    def __str__(self) -> str:
        texts = [str(formula) for formula in self.formulas] or ["0"]
        return texts[0] if len(texts) == 1 else f"max({', '.join(texts)})"
