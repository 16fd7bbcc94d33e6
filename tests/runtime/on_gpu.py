"""Models on the emulated GPU of tests/gpu."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from rnncc_runtime import Model, TrainableModel
from rnncc_runtime.cuda import CudaModel, CudaTrainableModel, DeviceArray

import rnncc
from rnncc.codegen.cpu.machines import resolve_target
from tests.golden import OWN, Arrays, arrays_of
from tests.gpu import emulated, libcuda

HAS_ITS_ORDER = resolve_target().lanes == 16
"""Whether this CPU's sums, where their order is free, have that of a GPU."""

LSTM = OWN / "caffe2" / "lstm"


def begin() -> libcuda.Emulator:
    """Make the emulator this process's driver, as it is at first."""
    os.environ["RNNCC_LIBCUDA"] = str(libcuda.path())
    emulated.register()
    emulator = libcuda.emulator()
    emulator.forget()
    return emulator


@contextmanager
def without_complaint() -> Generator[libcuda.Emulator]:
    """A block after which the emulator has nothing to report."""
    emulator = begin()
    yield emulator
    assert emulator.report == ""


def model(case: Path = LSTM, **options: Any) -> CudaModel:
    """A golden net as users compile it, but for the emulated target."""
    begin()
    made = rnncc.compile(case / "net.pb", case / "init.pb", target="emulated", **options)
    assert isinstance(made, CudaModel)
    return made


def trainable(case: Path = LSTM) -> CudaTrainableModel:
    begin()
    made: Any = rnncc.compile(case / "net.pb", case / "init.pb", target="emulated", train=True)
    assert isinstance(made, CudaTrainableModel)
    return made


@cache
def cpu(case: Path = LSTM) -> Model:
    return rnncc.compile(case / "net.pb", case / "init.pb")


@cache
def trainable_cpu(case: Path = LSTM) -> TrainableModel:
    return rnncc.compile(case / "net.pb", case / "init.pb", train=True)


def inputs(case: Path = LSTM) -> Arrays:
    return arrays_of(case, "in:")


def there(arrays: Arrays) -> dict[str, DeviceArray]:
    """The arrays on the GPU."""
    return {name: DeviceArray.of(np.ascontiguousarray(array)) for name, array in arrays.items()}


def assert_same(found: dict[str, Any], expected: Arrays) -> None:
    """Equal bits, wherever they lie; within rounding where this CPU has shorter vectors.

    Sums whose order is free have that of a CPU with 16 floats in a vector (docs/gpu.md).
    """
    assert found.keys() == expected.keys()
    for name, array in found.items():
        near = array.numpy() if isinstance(array, DeviceArray) else array
        assert near.dtype == expected[name].dtype
        if HAS_ITS_ORDER or near.dtype.kind != "f":
            np.testing.assert_array_equal(near, expected[name], err_msg=name)
        else:
            np.testing.assert_allclose(near, expected[name], 1e-5, 1e-6, err_msg=name)
