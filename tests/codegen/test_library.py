"""Golden nets as shared libraries: their results, and what is in the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import rnncc_runtime
from rnncc_runtime import Model

import rnncc
from rnncc.ir.builder import Builder
from rnncc.ir.interpreter import run
from rnncc.netdef import load, parameters
from rnncc.packaging.elf import Elf
from tests.golden import KINDS, Arrays, arrays_of

each_kind = pytest.mark.parametrize("case", KINDS, ids=lambda path: path.name)
NETS = Path(__file__).parents[2] / "benchmarks" / "nets"
CPU = {"supported", "missing_feature"}
STREAM = {"step", "state_init", "state_bytes"}
REFUSED = {"lstm_bidirectional", "lstm_unrolled"}


@each_kind
def test_a_library_computes_what_caffe2_did(case: Path, tmp_path: Path) -> None:
    made = rnncc.build(case / "net.pb", case / "init.pb", out=tmp_path, name=case.name)
    assert made.library is not None
    model = rnncc_runtime.load(made.library)
    assert isinstance(model, Model)
    outputs = model.run(arrays_of(case, "in:"))
    for name, want in arrays_of(case, "out:").items():
        np.testing.assert_allclose(outputs[name], want, 1e-5, 1e-5, err_msg=name)
    if case.name not in REFUSED:
        check_stream(model, arrays_of(case, "in:"), outputs)
    check_file(made.library.read_bytes(), case.name)


def check_stream(model: Model, inputs: Arrays, whole: Arrays) -> None:
    """One step, then the rest: the bits of the whole."""
    stream = model.stream()
    stream.reset({name: inputs[name] for name in stream.starts if name in inputs})
    halves = [
        stream.step({name: inputs[name][steps] for name in stream.inputs})
        for steps in (slice(0, 1), slice(1, None))
    ]
    for name, want in whole.items():
        timed = model.outputs[name].shape[0] == "T"
        got = np.concatenate([half[name] for half in halves]) if timed else halves[-1][name]
        np.testing.assert_array_equal(got, want, err_msg=name)


def check_file(data: bytes, name: str) -> None:
    """No writable memory, no code that runs when it is loaded, nothing taken from elsewhere."""
    elf = Elf(data)
    assert elf.needed == []
    entries = {s.name.removeprefix(f"{name}_") for s in elf.dynamic_symbols}
    assert entries - STREAM == {"run", "workspace_bytes", "metadata", *CPU}
    assert entries & STREAM == (set() if name in REFUSED else STREAM)
    assert all(s.is_defined for s in elf.dynamic_symbols)
    named = {section.name for section in elf.sections}
    assert not named & {".init", ".init_array", ".ctors", ".fini_array", ".data", ".bss", ".tbss"}
    assert not any(section.is_writable_code for section in elf.sections)


@pytest.mark.parametrize("stem", ["lstm_64", "lstm_256", "milstm_128", "gru_128"])
def test_code_is_small_and_weights_are_not_padded(stem: str, tmp_path: Path) -> None:
    init = NETS / f"{stem}.init.pb"
    made = rnncc.build(NETS / f"{stem}.pb", init, out=tmp_path, name="net")
    assert made.library is not None
    given = sum(array.nbytes for array in parameters(load(init)).values())
    weights = rnncc_runtime.load(made.library).metadata["weights"]
    assert weights <= 1.05 * given
    assert made.library.stat().st_size - weights < 128 * 1024


@each_kind
def test_weights_may_come_with_the_call(case: Path) -> None:
    weights = parameters(load(case / "init.pb"))
    model = rnncc.compile(case / "net.pb", shapes={n: w.shape for n, w in weights.items()})
    inputs = {**arrays_of(case, "in:"), **weights}
    outputs = model.run(inputs)
    for name, want in arrays_of(case, "out:").items():
        np.testing.assert_allclose(outputs[name], want, 1e-5, 1e-5, err_msg=name)
    if case.name not in REFUSED:
        check_stream(model, inputs, outputs)


def test_a_parameter_named_as_a_constant_is_labelled() -> None:
    b, outputs = Builder.net("labels"), {}
    index = b.input("index", ["N"], "i32")
    tables = [np.arange(3, dtype=np.float32) + 10 * number for number in range(4)]
    named = {"constant.3": tables[0], "constant.4": tables[1]}  # as the constants would be
    held = [b.param(name, (3,)) for name in named] + [b.constant(t) for t in tables[2:]]
    for number, table in enumerate((*held, b.constant(-tables[0]))):
        outputs[f"y{number}"] = b.gather(table, index, 0)
    program = b.finish(outputs, named)
    inputs = {"index": np.array([2, 0, 1], np.int32)}
    got = rnncc.compile(program).run(inputs)
    for name, want in run(program, inputs).items():
        np.testing.assert_array_equal(got[name], want)
