"""Golden nets as shared libraries: their results, and what is in the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import rnncc_runtime

import rnncc
from rnncc.netdef import load, parameters
from rnncc.packaging.elf import Elf
from tests.golden import CASES, arrays_of

pytestmark = pytest.mark.skipif(not CASES, reason="no golden data here")
NETS = Path(__file__).parents[2] / "benchmarks" / "nets"
STREAM = {"step", "state_init", "state_bytes"}
REFUSED = {"lstm_bidirectional", "lstm_unrolled"}


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_a_library_computes_what_caffe2_did(case: Path, tmp_path: Path) -> None:
    made = rnncc.build(case / "net.pb", case / "init.pb", out=tmp_path, name=case.name)
    assert made.library is not None
    model = rnncc_runtime.load(made.library)
    outputs = model.run(arrays_of(case, "in:"))
    for name, want in arrays_of(case, "out:").items():
        np.testing.assert_allclose(outputs[name], want, 1e-5, 1e-5, err_msg=name)
    check_file(made.library.read_bytes(), case.name)


def check_file(data: bytes, name: str) -> None:
    """No writable memory, no code that runs when it is loaded, nothing taken from elsewhere."""
    elf = Elf(data)
    assert elf.needed == []
    entries = {s.name.removeprefix(f"{name}_") for s in elf.dynamic_symbols}
    assert entries - STREAM == {"run", "workspace_bytes", "metadata"}
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


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_weights_may_come_with_the_call(case: Path) -> None:
    weights = parameters(load(case / "init.pb"))
    model = rnncc.compile(case / "net.pb", shapes={n: w.shape for n, w in weights.items()})
    outputs = model.run({**arrays_of(case, "in:"), **weights})
    for name, want in arrays_of(case, "out:").items():
        np.testing.assert_allclose(outputs[name], want, 1e-5, 1e-5, err_msg=name)
