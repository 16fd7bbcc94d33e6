"""Runs what rnncc compiled: needs NumPy alone, and nothing of the compiler.

model = rnncc_runtime.load("build/liblstm.so")
outputs = model.run({"x": x, "seq_lengths": lengths})
"""

from rnncc_runtime.arrays import TensorSpec
from rnncc_runtime.errors import ArrayError, LoadError, ModelError, RunError, StreamError
from rnncc_runtime.library import describe, load
from rnncc_runtime.model import Model
from rnncc_runtime.pool import Parallel, Parts, Pool
from rnncc_runtime.stream import Stream
from rnncc_runtime.tapes import Tape
from rnncc_runtime.training import TrainableModel

__all__ = [
    "ArrayError",
    "LoadError",
    "Model",
    "ModelError",
    "Parallel",
    "Parts",
    "Pool",
    "RunError",
    "Stream",
    "StreamError",
    "Tape",
    "TensorSpec",
    "TrainableModel",
    "describe",
    "load",
]
