"""What a cell is, to the builder of layers, and what a layer is, to its user."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.ir import SSAValue

from rnncc.cells.parameters import Array, Parameter
from rnncc.cells.settings import Settings
from rnncc.ir.build import Build
from rnncc.ir.program import Program

Values = Sequence[SSAValue]
Named = dict[str, SSAValue]


class Cell(ABC):
    """One step of a recurrent layer, as functions that build its ops.

    Attributes:
        kind: the name of the builder.
        states: names of what is carried from step to step; the first is the output.
    """

    kind: ClassVar[str]
    states: ClassVar[tuple[str, ...]] = ("h",)

    @abstractmethod
    def parameters(self, n_in: int, n_out: int) -> dict[str, Parameter]:
        """The parameters of one direction, W [nIn, ...] and RW [H, ...] among them."""

    @abstractmethod
    def prepare(self, b: Build, x: SSAValue, p: Named) -> tuple[Values, Values]:
        """What all steps share; and, as sequences [T, N, ...], what steps depend on through x.

        Args:
            x: [T, N, nIn].
            p: the parameters.
        """

    @abstractmethod
    def step(self, b: Build, shared: Values, rows: Values, states: Values) -> Values:
        """The states [N, H] after a step, from those before it and its rows [N, ...]."""


@dataclass(repr=False)
class Layer(Program):
    """A recurrent layer: a program, and what it was built from.

    Attributes:
        kind: the builder's name.
        n_in, n_out: features of x; units of one direction.
        peepholes: whether it has the Graves LSTM's.
        settings: the options.
    """

    kind: str = ""
    n_in: int = 0
    n_out: int = 0
    peepholes: bool = False
    settings: Settings = field(default_factory=Settings)

    @property
    def parameters(self) -> dict[str, Array]:
        """Copies of the parameters by name, such as another layer's `parameters` takes."""
        return {name: array.copy() for name, array in self.arrays.items()}
