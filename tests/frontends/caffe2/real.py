"""What the real Caffe2 computed: golden data by case, and nets that fill arrays in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from rnncc.netdef import NetDef

Array = np.ndarray[Any, Any]
DATA = Path(__file__).parents[2] / "data"
FILLS = {"f": "GivenTensorFill", "i": "GivenTensorIntFill", "b": "GivenTensorBoolFill"}


@cache
def opened(path: Path) -> Mapping[str, Array]:
    return np.load(path)


class Case(Mapping[str, Array]):
    """The arrays of one case, each read when it is asked for: most tests need a few of a file."""

    def __init__(self, path: Path, case: str) -> None:
        self._path, self._case, self._members = path, case, dict[str, Array | None]()

    def add(self, member: str) -> None:
        self._members[member] = None

    def __getitem__(self, member: str) -> Array:
        array = self._members[member]
        if array is None:
            array = self._members[member] = opened(self._path)[f"{self._case}/{member}"]
        return array

    def __contains__(self, member: object) -> bool:
        return member in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)


def arrays_by_case(path: Path) -> dict[str, Case]:
    """What a file of golden data holds of each case."""
    cases = dict[str, Case]()
    for name in opened(path):
        case, _, member = name.partition("/")
        cases.setdefault(case, Case(path, case)).add(member)
    return cases


def filled(arrays: Mapping[str, Array]) -> NetDef:
    """An init net."""
    init = NetDef(name="init")
    for name, array in arrays.items():
        kind = "GivenTensorInt64Fill" if array.dtype == np.int64 else FILLS[array.dtype.kind]
        fill = init.op.add(type=kind, output=[name])
        fill.arg.add(name="shape").ints.extend(array.shape)
        values = fill.arg.add(name="values")
        if array.dtype.kind == "f":
            values.floats.extend(array.ravel())
        else:
            values.ints.extend(array.astype(int).ravel())
    return init


OPERATORS = arrays_by_case(DATA / "caffe2_operators.npz")
NETS = arrays_by_case(DATA / "caffe2_nets.npz")
MODELS = arrays_by_case(DATA / "caffe2_models.npz")
CELLS = arrays_by_case(DATA / "caffe2_cells.npz")

HELD = {"max_output_seq_len"}
"""Inputs that decide sizes."""


def net_of(case: Mapping[str, Array]) -> tuple[NetDef, NetDef, dict[str, Array]]:
    """A model's net with what it computes as outputs, the net that fills it, and its inputs."""
    net = NetDef.FromString(case["net"].tobytes())
    net.external_output.extend(
        name for kind, _, name in (key.partition(":") for key in case) if kind == "grad"
    )
    inputs = {name[3:]: array for name, array in case.items() if name.startswith("in:")}
    held = {name[6:]: array for name, array in case.items() if name.startswith("param:")}
    held |= {name: inputs.pop(name) for name in HELD if name in inputs}
    return net, filled(held), inputs


def assert_near(got: Mapping[str, Array], case: Mapping[str, Array]) -> None:
    for key, want in case.items():
        kind, _, name = key.partition(":")
        if kind in ("out", "grad"):
            assert got[name].shape == want.shape, name
            np.testing.assert_allclose(got[name], want, 1e-4, 1e-5, err_msg=name)
