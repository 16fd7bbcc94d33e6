"""The golden nets with Do, If and While in the interpreter, against Caffe2; where that is wrong,
against finite differences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rnncc.errors import CompileError
from rnncc.frontends.caffe2 import import_net
from rnncc.ir.interpreter import run
from rnncc.ir.ops.control import Scan
from rnncc.ir.program import Program
from rnncc.ir.types import dtype_of
from rnncc.netdef import NetDef, load, save
from tests.frontends.caffe2.control_nets import (
    BOOL,
    INT64,
    constant,
    facts,
    inputs_of,
    shapes_of,
    stage,
    stopped,
    underivable,
)
from tests.golden import CONTROL, Arrays, arrays_of

RIGHT = [case for case in CONTROL if stage(case) != "forward"]
TRAIN = [case for case in CONTROL if (case / "train.pb").exists()]
KEPT = ("if_alone_t", "if_empty_else_t", "if_empty_then_f")
"""Where y is no input, as the branch that overwrites it is known to run."""
GATED = ("while_norm", "while_if", "while_scaled", "while_while", "if_computed_t", "if_computed_f")
"""What floats, or the iterations of another loop, decide."""

LIMIT = 6
"""The loops of the golden nets take up to five iterations."""

REFUSED = {
    "do_wrong_duplicate": 'op 2 (Do "y"): lists the input "x" twice',
    "do_wrong_index": 'op 2 (Do "y"): binds "y" to blob 3 of its 3 inputs and outputs',
    "do_wrong_no_scope": 'op 2 (Do "y"): ends its inputs with "x", which is no scope',
    "do_wrong_rebound": 'op 2 (Do "y"): binds "x" twice',
    "do_wrong_two_scopes": 'op 2 (Do "y"): ends its inputs with "scope", its outputs with "other": '
    "both must be one scope",
    "do_wrong_unbound": 'op 2 (Do "y"): inner op 0 (Mul "y"): reads "w", which is no input and no '
    "operator writes",
    "do_wrong_unused": 'op 2 (Do "y"): binds "w" to no inner name',
    "if_two_conditions": 'op 2 (If "y"): has the condition "cond" of shape [2], not one bool',
}


def imported(case: Path, name: str, inputs: Arrays) -> Program:
    program = import_net(case / name, case / "init.pb", shapes_of(inputs), max_iterations=LIMIT)
    program.module.verify()
    return program


@pytest.mark.parametrize("case", RIGHT, ids=lambda path: path.name)
def test_outputs(case: Path) -> None:
    inputs = inputs_of(case)
    program = imported(case, "net.pb", inputs)
    got = run(program, inputs)
    for name, want in arrays_of(case, "out:").items():
        np.testing.assert_allclose(got[name], want, 1e-5, 1e-5, err_msg=name)


@pytest.mark.parametrize("case", RIGHT, ids=lambda path: path.name)
def test_types_of_inputs_follow_from_the_net(case: Path) -> None:
    inputs = inputs_of(case)
    program = imported(case, "net.pb", inputs)
    types = {"float32": "f32", "int64": "i64", "int32": "i32", "bool": "i1"}
    for name, value in program.net.inputs.items():
        assert dtype_of(value) == types[str(inputs[name].dtype)], name


@pytest.mark.parametrize("case", [c for c in CONTROL if c not in RIGHT], ids=lambda p: p.name)
def test_ill_formed_nets(case: Path) -> None:
    if case.name == "if_int_condition":  # an input: that it is no bool shows when it is given
        program = imported(case, "net.pb", inputs_of(case))
        assert dtype_of(program.net.inputs["cond"]) == "i1"
        return
    with pytest.raises(CompileError) as caught:
        imported(case, "net.pb", inputs_of(case))
    assert str(caught.value) == f"{case / 'net.pb'}: {REFUSED[case.name]}"


@pytest.mark.parametrize("case", TRAIN, ids=lambda path: path.name)
def test_gradients(case: Path) -> None:
    """Caffe2's, where they are the derivatives or StopGradient stops them; else, and of all that
    nothing stops, the finite differences."""
    inputs, told = inputs_of(case, training=True), facts(case)
    got = run(imported(case, "train.pb", inputs), inputs, np.float64)
    wrong = {*underivable(case), *told.get("unwritten", [])}
    known = {} if stage(case) else arrays_of(case, "grad:")
    absent = told.get("no_gradient", [])
    for name in (n for n in known if n not in wrong and n not in absent):
        gradient = got[told["grad_blobs"][name]]
        np.testing.assert_allclose(gradient, known[name], 1e-4, 2e-5, err_msg=name)
    forward = imported(case, "net.pb", inputs_of(case))
    skipped = {*absent, *stopped(case)}
    for name in (n for n in told["grads"] if n not in skipped):
        want = differences(forward, inputs, arrays_of(case, "weight:"), name)
        gradient = got[told["grad_blobs"][name]]
        np.testing.assert_allclose(gradient, want, 1e-5, 1e-6, err_msg=name)


def differences(program: Program, inputs: Arrays, weights: Arrays, name: str) -> np.ndarray:
    """The central differences of the loss by an input or a parameter, some of the elements."""
    arrays = {n: a.astype(np.float64) for n, a in (program.arrays | inputs).items() if is_float(a)}

    def loss(at: tuple[int, ...], by: float) -> float:
        moved = {**inputs, **arrays, name: arrays[name].copy()}
        moved[name][at] += by
        got = run(program, moved, np.float64)
        return float(sum((got[n] * weight).sum() for n, weight in weights.items()))

    return np.array(
        [(loss(at, 1e-6) - loss(at, -1e-6)) / 2e-6 for at in np.ndindex(arrays[name].shape)]
    ).reshape(arrays[name].shape)


def is_float(array: np.ndarray) -> bool:
    return array.dtype.kind == "f"


@pytest.mark.parametrize("case", TRAIN, ids=lambda path: path.name)
def test_what_the_init_net_decides(case: Path) -> None:
    """With conditions and counts as parameters no loop keeps a gate, unless it looks at floats;
    gradients stay what they are."""
    inputs = inputs_of(case, training=True)
    want = run(imported(case, "train.pb", inputs), inputs, np.float64)
    init = NetDef()
    init.CopyFrom(load(case / "init.pb"))
    floats = {name: array for name, array in inputs.items() if is_float(array)}
    for name in inputs.keys() - floats.keys():
        dtype = BOOL if inputs[name].dtype.kind == "b" else INT64
        init.op.append(constant(name, int(inputs[name].item()), dtype))
    absent = "y" if case.name in KEPT else ""
    shapes = shapes_of({n: a for n, a in floats.items() if n != absent})
    program = import_net(case / "train.pb", init, shapes)
    if case.name not in GATED:
        assert all(op.gate is None for op in program.net.walk() if isinstance(op, Scan))
    for name, got in run(program, inputs, np.float64).items():
        np.testing.assert_allclose(got, want[name], 1e-9, 1e-12, err_msg=name)


@pytest.mark.parametrize("case", CONTROL[::7], ids=lambda path: path.name)
def test_text_form(case: Path, tmp_path: Path) -> None:
    if stage(case):
        pytest.skip("ill-formed")
    save(load(case / "net.pb"), tmp_path / "net.pbtxt", text=True)
    inputs = inputs_of(case)
    shapes = shapes_of(inputs)
    program = import_net(tmp_path / "net.pbtxt", case / "init.pb", shapes, max_iterations=LIMIT)
    got = run(program, inputs)
    for name, want in arrays_of(case, "out:").items():
        np.testing.assert_allclose(got[name], want, 1e-5, 1e-5, err_msg=name)
