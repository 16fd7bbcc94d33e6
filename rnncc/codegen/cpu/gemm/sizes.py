"""How a product is cut into panels, and how one row walks over them."""

from __future__ import annotations

from dataclasses import replace

from rnncc.codegen.cpu.machine.core import Core
from rnncc.ir.dims import Dim
from rnncc.kern.kernels import Gemm
from rnncc.records import record

DEPTH, FULL, WIDTH = "_depth", "_full", "_width"
"""The names of sizes that a function is given."""


@record
class GemmSizes:
    """The sizes of a product: numbers, or names where one function serves several products.

    Attributes:
        depth: how many k.
        full: whole panels.
        width: units of the last panel, which is narrower; 0 where there is none.
        vectors: that hold the last panel.
        together: panels that one row takes side by side.
        far: whether the weights do not all stay in the first-level cache, with the states.
        farther: nor near the core, as `Family.far` has it.
    """

    depth: Dim
    full: Dim
    width: Dim
    vectors: int
    together: int
    far: bool
    farther: bool

    @staticmethod
    def of(target: Core, op: Gemm, unit_bytes: int, enough: int) -> GemmSizes:
        """Of one product.

        Args:
            unit_bytes: of a unit's weights, in all slots.
            enough: independent sums that keep up with the reading of weights.
        """
        full, width = divmod(op.units, op.panel.data)
        several = _side_by_side(target, op, unit_bytes * op.panel.data, enough)
        weights = 0 if target.compact else unit_bytes * op.units
        return GemmSizes(
            Dim.of(op.depth.data),
            Dim.of(full),
            Dim.of(width),
            -(-width // target.lanes),
            min(several, max(full, 1)),
            # Half of the first-level cache, as the states and the rows lie there too.
            weights > target.l1 // 2,
            weights > target.far,
        )

    @property
    def numbers(self) -> dict[str, int]:
        """What the names of `named` stand for."""
        return {DEPTH: int(self.depth), FULL: int(self.full), WIDTH: int(self.width)}

    @property
    def named(self) -> GemmSizes:
        """As many panels of each kind as a caller says, as deep and wide as it says."""
        # A known 0 stays: then there is no code for whole panels, or for a narrower last one.
        full = Dim.of(FULL) if self.full != 0 else self.full
        width = Dim.of(WIDTH) if self.vectors else self.width
        return replace(self, depth=Dim.of(DEPTH), full=full, width=width)


WAIT = 4
"""Cycles in which a sum waits for its last term, while others add what the second-level cache
gives."""


def panel_vectors(op: Gemm, lanes: int) -> int:
    """The vectors of a whole panel, over all slots."""
    return op.slots.data * -(-op.panel.data // lanes)


def _side_by_side(target: Core, op: Gemm, panel_bytes: int, enough: int) -> int:
    """How many panels give chains enough; one, where it alone is still near on the way back."""
    chains = panel_vectors(op, target.lanes)
    several = max(1, target.chains // chains)
    # From step to step panels are swept to and fro: what is read last is read first again. One
    # panel that stays beats two that are gone by then (LSTM H = 128, B = 1: 373 to 356 us; H = 96:
    # 214 to 199).
    one_stays = panel_bytes <= target.l1 <= several * panel_bytes
    enough = max(enough, WAIT * target.l2_read // (target.lanes * target.item))
    return 1 if one_stays and chains >= enough else several
