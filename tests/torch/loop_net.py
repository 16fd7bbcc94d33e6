"""What programs with loops over steps share: a module, and a table of them.

Each says how many steps are to be copied of what is read for one of them, of nine in all: 7 where
the first two are read as they are.
"""

# pyright: basic
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

T, N, UNITS = 9, 2, 4
PROGRAMS: dict[str, tuple[Callable[[Any, Any], Any], list[int] | None]] = {}
"""The programs by name, and how many steps each that is read for others stands for, if sure."""


class Net(nn.Module):
    """What programs compute with, and keep in."""

    def __init__(self, program: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cell, self.lstm = nn.GRUCell(UNITS, UNITS), nn.LSTMCell(UNITS, UNITS)
        self.layers = nn.ModuleList([nn.Linear(UNITS, UNITS) for _ in range(T)])
        self.register_buffer("mean", torch.zeros(UNITS))
        self.kept: Any = None
        self.count, self.scale, self.rows, self.table = 0, 1.0, [], {}
        self.given = [torch.randn(N, UNITS) for _ in range(T)]
        self.program = program

    def forward(self, x: Any) -> Any:
        return self.program(self, x)


def copies(*steps: int, varies: bool = False) -> Callable[[Any], Any]:
    """Note a program, and how many steps are copied at a time."""

    def note(program: Any) -> Any:
        PROGRAMS[program.__name__] = program, None if varies else list(steps)
        return program

    return note


def zeros() -> Any:
    return torch.zeros(N, UNITS)
