"""What a cell is, to the builder of layers, and what a layer is, to its user."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

from rnncc.cells.parameters import Array, Parameter
from rnncc.cells.settings import LayerSettings
from rnncc.ir.builder import Builder
from rnncc.ir.program import Program
from rnncc.nn.layer import Cell
from rnncc.nn.steps import Named


class CellKind(ABC):
    """A kind of cell, to the builder of layers: its parameters, and the cell that they make.

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
    def cell(self, b: Builder, p: Named) -> Cell:
        """The cell of one direction, over its parameters."""


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
    settings: LayerSettings = field(default_factory=LayerSettings)

    @property
    def parameters(self) -> dict[str, Array]:
        """Copies of the parameters by name, such as another layer's `parameters` takes."""
        return {name: array.copy() for name, array in self.arrays.items()}
