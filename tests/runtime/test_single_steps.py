"""One step of one sequence, which short steps have code of their own for: the bits are `run`'s."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from rnncc_runtime import Model, RunError

import rnncc
from rnncc import cells
from rnncc.codegen.cpu.library.entries import emit_module
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.driver import compiling
from rnncc.frontends.caffe2 import import_net
from rnncc.ir.program import Program
from rnncc.options import Options
from tests.codegen.compiled import model_of
from tests.codegen.guarded import guards
from tests.codegen.random_programs import PROGRAMS, examples, single
from tests.golden import CASES, Arrays, random_inputs
from tests.strategies import make_inputs

STEPS = 7
WIDTHS = [
    ("fp32", 1),
    ("fp32", 4),
    ("fp32", 23),
    ("bf16", 1),
    ("bf16", 23),
    ("int8", 4),
    ("int8", 23),
]
LAYERS = {
    "lstm": lambda width: cells.lstm(5, width),
    "gru": lambda width: cells.gru(5, width),
    "elman": lambda width: cells.elman(5, width),
    "milstm": lambda width: cells.milstm(5, width),
    "norm": lambda width: cells.lstm(5, width, layer_norm=True),
    "stack": lambda width: cells.gru(5, width, layers=2),
}


def one_by_one(model: Model, inputs: Arrays, out: Arrays | None = None) -> list[Arrays]:
    """The outputs of each step, into the same arrays where they are given."""
    starts = [name for name in model.metadata["stream"]["starts"] if name in inputs]
    stream = model.stream(batch=1, inputs={name: inputs[name] for name in starts})
    results: list[Arrays] = []
    for t in range(STEPS):
        made = stream.step({n: inputs[n][t : t + 1] for n in stream.inputs}, out=out)
        results.append({name: array.copy() for name, array in made.items()})
    return results


def streams(model: Model) -> bool:
    return "refused" not in model.metadata["stream"]


def check(model: Model, results: list[Arrays], whole: Arrays) -> None:
    for name, want in whole.items():
        rows = [result[name] for result in results]
        shape = model.outputs[name].shape
        axes = [axis for axis, size in enumerate(shape) if "T" in str(size)]
        got = np.concatenate(rows, axes[0]) if axes else rows[-1]
        np.testing.assert_array_equal(got, want, err_msg=name)


def written(layer: Program, **more: object) -> str:
    """The IR before LLVM's passes."""
    options = Options.of(layer, more)
    library = compiling.build_library(layer, None, options)
    return str(emit_module(library, resolve_target(options.target, options.cpu), {}).module)


@pytest.mark.parametrize(("precision", "width"), WIDTHS)
@pytest.mark.parametrize("kind", LAYERS)
def test_layers(kind: str, width: int, precision: str) -> None:
    layer = LAYERS[kind](width)
    x = np.random.default_rng(0).standard_normal((STEPS, 1, 5), np.float32)
    model = rnncc.compile(layer, precision=precision)
    whole = model.run({"x": x})
    check(model, one_by_one(model, {"x": x}), whole)
    for end in (True, False):
        with guards(end) as memory:
            rows = {name: memory.array(np.zeros((1, 1, 5), np.float32)) for name in ("x",)}
            out = {"y": memory.array(np.zeros((1, 1, width), np.float32))}
            stream = model.stream(batch=1)
            for t in range(STEPS):
                rows["x"][:] = x[t]
                stream.step(rows, out=out)
                np.testing.assert_array_equal(out["y"][0], whole["y"][t])


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_golden_nets(case: Path) -> None:
    model = model_of(case)
    if not streams(model):
        pytest.skip("cannot stream")
    program = import_net(case / "net.pb", case / "init.pb")
    inputs = random_inputs(program, {"T": STEPS, "N": 1, "S": 4})
    check(model, one_by_one(model, inputs), model.run(inputs))


@examples(20)
@given(PROGRAMS)
def test_random_programs(program: Program) -> None:
    model = rnncc.compile(program)
    if not streams(model):
        return
    _, inputs = make_inputs(program, {"T": STEPS, "N": 1})
    names = [n for n, spec in model.inputs.items() if not spec.optional]
    given_ = {name: single(inputs[name]) for name in names}
    try:
        whole = model.run(given_)
    except RunError:
        return
    check(model, one_by_one(model, given_), whole)


def test_threads_and_other_sizes_take_the_general_code() -> None:
    x = np.random.default_rng(0).standard_normal((STEPS, 3, 5), np.float32)
    model = rnncc.compile(cells.lstm(5, 8), threads=True)
    for batch in (1, 3):
        stream, part = model.stream(batch=batch), x[:, :batch]
        got = [stream.step({"x": part[a:b]})["y"] for a, b in ((0, 1), (1, 4), (4, 7))]
        np.testing.assert_array_equal(np.concatenate(got), model.run({"x": part})["y"])


@pytest.mark.parametrize("threads", [False, True])
def test_equal_layers_whose_kernels_are_functions(threads: bool) -> None:
    """One thread calls them in a single step, a team elsewhere."""
    layer = cells.lstm(64, 64, layers=2)
    wide = {"target": "x86_64-unknown-linux-gnu", "cpu": "x86-64-v4"}  # of short vectors it is long
    assert "lstm_step_fixed" in written(layer, **wide, precision="bf16", threads=threads)
    model = rnncc.compile(layer, precision="bf16", threads=threads)
    x = np.random.default_rng(0).standard_normal((STEPS, 1, 64), np.float32)
    check(model, one_by_one(model, {"x": x}), model.run({"x": x}))


def test_only_short_steps_have_it() -> None:
    assert "lstm_step_fixed" in written(cells.lstm(8, 8))
    assert "lstm_step_fixed" in written(cells.lstm(64, 64), threads=True)
    assert "lstm_step_fixed" not in written(cells.lstm(200, 200))
