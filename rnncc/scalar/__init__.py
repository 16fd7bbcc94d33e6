"""A user's own function of numbers, as an elementwise operation of nets: `rnncc.elementwise`."""

from __future__ import annotations

from rnncc.scalar.function import Scalar, elementwise

__all__ = ["Scalar", "elementwise"]
