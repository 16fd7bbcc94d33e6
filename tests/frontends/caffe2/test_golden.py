"""Every golden net through the interpreter, against what Caffe2 computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rnncc.frontends.caffe2 import import_net
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of, dtype_of
from rnncc.netdef import load, save
from tests.frontends.caffe2 import resized
from tests.golden import CASES, GOLDEN

SPEED = sorted(path for path in GOLDEN.glob("speed/*_32.pb"))


def golden_inputs(program: Program, data: Any) -> dict[str, np.ndarray]:
    """The case's inputs; a computed parameter is zero, an unrolled step's number is in its name."""
    arrays = {name[3:]: data[name] for name in data.files if name.startswith("in:")}
    for name, value in program.net.inputs.items():
        if name not in arrays:
            shape = [int(d) for d in dims_of(value)]
            step = int(name.split("/")[0].rpartition("_")[2]) if "timestep_" in name else 0
            dtype = np.int32 if dtype_of(value) == "i32" else np.float32
            arrays[name] = np.full(shape, step, dtype)
    return arrays


def check(program: Program, data: Any) -> None:
    outputs = run(program, golden_inputs(program, data))
    for name in (n[4:] for n in data.files if n.startswith("out:")):
        np.testing.assert_allclose(outputs[name], data[f"out:{name}"], 1e-5, 1e-5, err_msg=name)


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_golden_net(case: Path) -> None:
    program = import_net(case / "net.pb", case / "init.pb")
    program.module.verify()
    check(program, np.load(case / "io.npz"))


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_golden_net_in_text_form(case: Path, tmp_path: Path) -> None:
    save(load(case / "net.pb"), tmp_path / "net.pbtxt", text=True)
    program = import_net(tmp_path / "net.pbtxt", case / "init.pb")
    check(program, np.load(case / "io.npz"))


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
@pytest.mark.parametrize("sizes", [{"T": 0, "N": 1}, {"T": 1, "N": 5}, {"T": 4, "N": 2}])
def test_other_sizes_split_into_rows(case: Path, sizes: dict[str, int]) -> None:
    """Row n of a batch is what the same net computes of row n alone."""
    program = import_net(case / "net.pb", case / "init.pb")
    batched = {n: [str(d) for d in dims_of(v)] for n, v in program.net.inputs.items()}
    batched |= {n: [str(d) for d in dims_of(v)] for n, v in program.net.outputs.items()}
    if "N" not in batched[next(iter(batched))]:
        pytest.skip("the batch is fixed by a parameter")
    sizes = {**sizes, "S": 3}
    generator = np.random.default_rng(0)
    inputs = {n: _random(generator, v, sizes) for n, v in program.net.inputs.items()}
    whole = run(program, inputs, np.float64, sizes)
    for row in range(sizes["N"]):
        one = {n: _row(a, batched[n], row) for n, a in inputs.items()}
        alone = run(program, one, np.float64, {**sizes, "N": 1})
        for name, array in whole.items():
            want = _row(array, batched[name], row)
            np.testing.assert_allclose(alone[name], want, 1e-9, 1e-12, err_msg=name)


def _random(generator: np.random.Generator, value: Any, sizes: dict[str, int]) -> np.ndarray:
    shape = [d.evaluate(sizes) for d in dims_of(value)]
    if dtype_of(value) == "i32":
        longest = sizes["S"] if sizes["T"] > sizes["S"] else sizes["T"]
        return generator.integers(min(1, longest), longest + 1, shape).astype(np.int32)
    return generator.standard_normal(shape)


def _row(array: np.ndarray, dims: list[str], row: int) -> np.ndarray:
    return array.take([row], dims.index("N")) if "N" in dims else array


@pytest.mark.parametrize("case", resized.CASES)
@pytest.mark.parametrize(("hidden", "width"), [(1, 1), (3, 1), (17, 31)])
def test_other_widths(case: str, hidden: int, width: int) -> None:
    """Sizes of 1 must not be taken for sizes that broadcast."""
    program = import_net(*resized.resized(case, hidden, width))
    sizes = {"T": 3, "N": 2, "S": 4}
    generator = np.random.default_rng(0)
    inputs = {n: _random(generator, v, sizes) for n, v in program.net.inputs.items()}
    data = next(iter(program.net.inputs.values()))
    assert str(dims_of(data)[-1]) in (str(width), str(hidden))
    outputs = run(program, inputs, np.float64, sizes)
    for name, value in program.net.outputs.items():
        assert outputs[name].shape == tuple(d.evaluate(sizes) for d in dims_of(value))
        assert np.isfinite(outputs[name]).all()
        assert str(dims_of(value)[-1]) in (str(hidden), str(2 * hidden), "S")


@pytest.mark.parametrize("path", SPEED, ids=lambda path: path.stem)
def test_speed_nets_import(path: Path) -> None:
    program = import_net(path, path.with_suffix(".init.pb"))
    assert program.name == path.stem
    assert [str(d) for d in dims_of(program.net.inputs["x"])] == ["T", "N", "32"]


def test_without_an_init_net_parameters_are_inputs() -> None:
    case = GOLDEN / "caffe2" / "lstm"
    shapes = {"x": "T,N,5", "rnn/gates_t_w": (24, 6)}
    program = import_net(case / "net.pb", shapes=shapes)
    filled = import_net(case / "net.pb", case / "init.pb")
    assert list(program.net.inputs) == list(load(case / "net.pb").external_input)
    assert not program.arrays
    data = np.load(case / "io.npz")
    inputs = {**golden_inputs(filled, data), **filled.arrays}
    want = run(filled, golden_inputs(filled, data))
    for name, array in run(program, inputs).items():
        np.testing.assert_array_equal(array, want[name])
