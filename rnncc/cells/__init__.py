"""Recurrent layers as programs, from plain parameters: the Graves LSTM family and its relatives.

net = rnncc.cells.graves_lstm(8, 64, direction="both")
model = rnncc.compile(net)
"""

from __future__ import annotations

from rnncc.cells.activations import ACTIVATIONS, GATE_ACTIVATIONS
from rnncc.cells.elman_cell import elman
from rnncc.cells.graves_cell import graves_lstm
from rnncc.cells.gru_cell import gru
from rnncc.cells.layer import Layer
from rnncc.cells.lstm_cell import lstm
from rnncc.cells.memory import MemoryReport, memory_report
from rnncc.cells.milstm_cell import milstm

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
