"""What code for any LLVM target needs to know of a machine."""

from __future__ import annotations

from typing import Protocol


class Named(Protocol):
    """A machine as LLVM names it."""

    @property
    def triple(self) -> str: ...

    @property
    def cpu(self) -> str: ...

    @property
    def features(self) -> str: ...


class Machine(Named, Protocol):
    """A machine, and the vectors that its code is written in."""

    @property
    def lanes(self) -> int:
        """float32 elements of a vector; 1 where there are no vectors."""
        ...

    @property
    def fma(self) -> bool:
        """Whether it multiplies and adds in one rounding."""
        ...

    @property
    def scales(self) -> bool:
        """Whether it multiplies 64 bytes of floats by powers of two in one instruction."""
        ...

    @property
    def rounds(self) -> frozenset[str]:
        """Types of elements that it rounds to integers by instructions."""
        ...

    @property
    def compact(self) -> bool:
        """Whether code is to be small: functions of elements stand apart, once each."""
        ...

    @property
    def lane_counts(self) -> list[int]:
        """How long vectors may be."""
        ...
