"""Golden nets on each target that something here runs: by hardware, an emulator or an engine.

A few are for every run of the tests, of targets whose runner installs from the package index or is
there anyway; `make targets` runs all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rnncc_runtime import Model

from rnncc.codegen import targets
from rnncc.ir import interpreter
from rnncc.ir.builder import Builder
from rnncc.platforms import PLATFORMS
from tests.golden import CASES, KINDS, arrays_of
from tests.targets.running import (
    ALWAYS,
    EVERYWHERE,
    NAMES,
    alike,
    close,
    compiled_for,
    golden_inputs,
    gradients,
    inputs_of,
    on_target,
    same_bits,
    skip_without_hardware,
    weights_for,
)

pytestmark = pytest.mark.skipif(not CASES, reason="no golden data here")
OTHER = {"x86-64-v2": "x86-64-v3", "x86-64-v3": "x86-64-v2", "x86-64-v4": "x86-64-v2"}
"""What is compared with what, where that is another code for the same machine."""
TWIN = "android-arm64"
"""Its code is that of `aarch64` but for a register that Android keeps: it runs `KINDS` of nets."""


def runs(paths: list[Path], quick: tuple[str, ...] = ("lstm",)) -> list[Any]:
    """Nets by targets; `quick`: those for every run of the tests."""
    return [
        pytest.param(case, name, id=f"{name}-{case.name}")
        for name in NAMES
        for case in paths
        if (EVERYWHERE and (case in KINDS or name != TWIN))
        or (name in ALWAYS and case.name in quick)
    ]


def is_foreign(name: str) -> bool:
    """Whether it is of another machine, whose bits are those of x86-64 with as many lanes."""
    return name in PLATFORMS and name not in OTHER


@pytest.fixture(autouse=True)
def hardware(request: pytest.FixtureRequest) -> None:
    """What is for this machine's architecture runs where the CPU has what it needs."""
    name = request.node.callspec.params.get("name")
    skip_without_hardware(name)


@pytest.mark.parametrize(("case", "name"), runs(CASES, ("lstm", "attention_regular")))
def test_results(case: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = on_target(case, name), golden_inputs(case)
    got = model.run(inputs)
    close(got, arrays_of(case, "out:"))
    if is_foreign(name):
        same_bits(got, alike(case, name, monkeypatch).run(inputs))


@pytest.mark.parametrize(("case", "name"), runs(CASES))
def test_gradients(case: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"train": True, "outputs_with_grads": list(arrays_of(case, "weight:"))}
    row = name if is_foreign(name) else OTHER.get(name, "x86-64-v3")
    other, inputs = alike(case, row, monkeypatch, **options), inputs_of(case)
    outer = weights_for(other, inputs, case)
    got = gradients(on_target(case, name, **options), inputs, outer)
    want = gradients(other, inputs, outer)
    if is_foreign(name):
        same_bits(got, want)
    else:
        close(got, want, 1e-4)


@pytest.mark.parametrize("precision", ["bf16", "int8"])
@pytest.mark.parametrize(("case", "name"), runs(KINDS))
def test_precision(case: Path, name: str, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if targets.row_of(name) is targets.REFERENCE:
        pytest.skip("the C target has fp32 alone")
    model, inputs = on_target(case, name, precision=precision), inputs_of(case)
    row = name if is_foreign(name) else OTHER[name]
    want = alike(case, row, monkeypatch, precision=precision).run(inputs)
    got = model.run(inputs)
    if is_foreign(name):
        same_bits(got, want)
    else:
        close(got, want, 1e-2)  # VNNI and sums of bf16 round elsewhere


@pytest.mark.parametrize(("case", "name"), runs(KINDS))
def test_streams(case: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In pieces the bits of the whole."""
    if "refused" in alike(case, "x86-64-v3", monkeypatch).metadata["stream"]:
        pytest.skip("the net has no streams")
    model, inputs = on_target(case, name), inputs_of(case)
    assert isinstance(model, Model)
    whole = model.run(inputs)
    timed = {n for n, spec in model.inputs.items() if "T" in {s.text for s in spec.sizes}}
    stream = model.stream(inputs={n: a for n, a in inputs.items() if n not in timed})
    for first, last in ((0, 1), (1, 3), (3, 5)):
        piece = stream.step({n: inputs[n][first:last] for n in timed})
        for output, spec in model.outputs.items():
            if spec.sizes[0].text == "T":
                same_bits({"": piece[output]}, {"": whole[output][first:last]})


@pytest.mark.parametrize("name", ALWAYS)
def test_relu_hands_zeros_on_as_they_are(name: str) -> None:
    skip_without_hardware(name)
    b = Builder.net("net")
    x = b.input("x", ["N", 19])  # a vector and a tail of every width
    net = b.finish({"y": b.relu(x), "inverse": b.div(b.full_like(x, 1.0), b.relu(x))})
    row = np.resize(np.array([-0.0, 0.0, np.nan, -1.0, 2.0], np.float32), (2, 19))
    model = compiled_for(net, None, name)
    assert isinstance(model, Model)
    want = interpreter.run(net, {"x": row})
    np.testing.assert_array_equal(np.signbit(want["y"][0, :2]), [True, False])
    for output, array in model.run({"x": row}).items():
        np.testing.assert_array_equal(array, want[output], err_msg=output)
        numbers = ~np.isnan(array)
        assert (np.signbit(array) == np.signbit(want[output]))[numbers].all(), output
