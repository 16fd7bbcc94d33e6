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
from tests.golden import OWN, Arrays, arrays_of
from tests.gpu import emulated, libcuda

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


def here(arrays: dict[str, Any]) -> Arrays:
    """The arrays as NumPy's, wherever they lie."""
    return {n: a.numpy() if isinstance(a, DeviceArray) else a for n, a in arrays.items()}


def assert_same(found: dict[str, Any], expected: Arrays) -> None:
    """Equal bits, wherever they lie."""
    assert found.keys() == expected.keys()
    for name, near in here(found).items():
        assert near.dtype == expected[name].dtype
        np.testing.assert_array_equal(near, expected[name], err_msg=name)
