"""Nets under the emulator beside the CPU's library, whose bits they must have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.codegen.llvm.reductions import Lanes, lanes_of
from rnncc.codegen.nvptx.reduce import LANES
from rnncc.frontends.caffe2 import import_net
from rnncc.ir.program import Program
from rnncc.kern.kernels import Reduce
from rnncc.kern.library import Library
from tests.golden import Arrays, arrays_of, random_inputs, sizes_of
from tests.gpu import libcuda
from tests.gpu.device_net import DeviceNet, library_of
from tests.gpu.libcuda import Emulator

SHAPES = [(256, 3), (64, 2), (32, 1), (128, 7)]
"""Threads of a block, and how many blocks there are at most."""


@cache
def inference(case: Path) -> Library:
    return library_of(case / "net.pb", case / "init.pb")


@cache
def training(case: Path) -> Library:
    weights = list(arrays_of(case, "weight:"))
    return library_of(case / "net.pb", case / "init.pb", train=True, outputs_with_grads=weights)


@cache
def device_net(case: Path, train: bool = False, shape: tuple[int, int] = SHAPES[0]) -> DeviceNet:
    return DeviceNet(training(case) if train else inference(case), *shape)


@cache
def imported(case: Path) -> Program:
    """As it was read."""
    return import_net(case / "net.pb", case / "init.pb")


def given(case: Path) -> tuple[Arrays, dict[str, int]]:
    """What Caffe2 was given, and the sizes."""
    inputs = arrays_of(case, "in:")
    sizes = sizes_of(imported(case), inputs)
    return {**random_inputs(imported(case), sizes), **inputs}, sizes


def drawn(program: Program, size: tuple[int, int, int]) -> tuple[Arrays, dict[str, int]]:
    """Inputs for T, N and S."""
    sizes: dict[str, int] = dict(zip("TNS", size, strict=True))
    return random_inputs(program, sizes), sizes


def is_exact(library: Library) -> bool:
    """Whether the CPU of this machine adds in the order of a GPU.

    A sum whose order is free has that of a CPU with vectors of `LANES` floats.
    """
    if resolve_target().lanes == LANES:
        return True
    ops = (op for program in library.programs.values() for op in program.func.walk())
    return not any(isinstance(op, Reduce) and lanes_of(op) is Lanes.ALONG for op in ops)


def quiet_emulator() -> Iterator[Emulator]:
    """What a fixture gives to a test that leaves no memory behind."""
    cuda = libcuda.emulator()
    cuda.forget()  # tests of other modules may have left reports, and models that still live
    before = cuda.leaks
    yield cuda
    assert cuda.leaks <= before
    cuda.forget()


def check(library: Library, got: Arrays, want: Arrays) -> None:
    """Hold results to the CPU's, and the emulator to silence."""
    report = libcuda.emulator().report
    assert not report, report
    assert list(got) == list(want)
    exact = is_exact(library)
    for name, array in want.items():
        if exact or array.dtype != np.float32:
            np.testing.assert_array_equal(bits(got[name]), bits(array), err_msg=name, strict=True)
        else:
            np.testing.assert_allclose(got[name], array, 1e-5, 1e-5, err_msg=name)


def bits(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Those of floats, of which all NaNs are one: no machine says which one an operation gives."""
    if array.dtype != np.float32:
        return array
    return np.where(np.isnan(array), np.float32(np.nan), array).view(np.int32)


def differ(got: Mapping[str, Any], want: Mapping[str, Any]) -> list[str]:
    """The results with other bits."""
    return [name for name, array in want.items() if array.tobytes() != got[name].tobytes()]
