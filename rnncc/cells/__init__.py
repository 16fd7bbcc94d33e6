"""Recurrent layers as programs, from plain parameters: the Graves LSTM family and its relatives.

net = rnncc.cells.graves_lstm(8, 64, direction="both")
model = rnncc.compile(net)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rnncc.cells.activations import ACTIVATIONS, GATE_ACTIVATIONS
from rnncc.cells.elman_cell import elman
from rnncc.cells.graves_cell import graves_lstm
from rnncc.cells.gru_cell import gru
from rnncc.cells.layer import Layer
from rnncc.cells.lstm_cell import lstm
from rnncc.cells.milstm_cell import milstm

if TYPE_CHECKING:
    from rnncc.driver.memory import MemoryReport as MemoryReport
    from rnncc.driver.memory import memory_report as memory_report

__all__ = [
    "ACTIVATIONS",
    "GATE_ACTIVATIONS",
    "Layer",
    "MemoryReport",
    "elman",
    "graves_lstm",
    "gru",
    "lstm",
    "memory_report",
    "milstm",
]


def __getattr__(name: str) -> Any:
    """What reports on layers plans them, by the whole compiler: it stands in the driver."""
    if name in ("MemoryReport", "memory_report"):
        return getattr(import_module("rnncc.driver.memory"), name)
    raise AttributeError(f"module 'rnncc.cells' has no attribute {name!r}")
