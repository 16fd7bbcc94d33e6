"""Nets under the emulator: the bits of the CPU's library, no race, whatever the schedule."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rnncc_runtime import RunError

import rnncc
from rnncc.kern.signatures import BAD_TAPE
from tests.codegen.compiled import model_of
from tests.frontends.caffe2.control_nets import inputs_of, shapes_of, stage
from tests.golden import CASES, CONTROL, CONTROL_KINDS, KINDS, arrays_of
from tests.gpu import libcuda
from tests.gpu.device_net import DeviceNet, Refused, library_of
from tests.gpu.libcuda import Emulator
from tests.gpu.nets import SHAPES, check, device_net, drawn, given, imported, quiet_emulator
from tests.passes.streams import REFUSED, in_chunks
from tests.training.models import interpreted, trainable

pytestmark = pytest.mark.skipif(not CASES, reason="no golden data here")
SIZES = [(0, 1, 3), (3, 5, 4), (6, 2, 3)]
"""T, N, S."""
LIMIT = 6
"""The loops of the golden nets take up to five iterations."""
SEEDS = [2, 3, 4]


def quick(paths: list[Path], kinds: list[Path]) -> list[object]:
    """One net of each kind; the others are slow."""
    return [
        pytest.param(path, id=path.name, marks=[] if path in kinds else [pytest.mark.slow])
        for path in paths
    ]


every_case = pytest.mark.parametrize("case", quick(CASES, KINDS))
each_kind = pytest.mark.parametrize("case", KINDS, ids=lambda path: path.name)
every_control = pytest.mark.parametrize(
    "case", quick([c for c in CONTROL if not stage(c)], CONTROL_KINDS)
)


@pytest.fixture(autouse=True)
def cuda() -> Iterator[Emulator]:
    yield from quiet_emulator()


@every_case
def test_results(case: Path) -> None:
    net, model = device_net(case), model_of(case)
    for inputs, sizes in [given(case), *(drawn(imported(case), size) for size in SIZES)]:
        check(net.library, net.run(inputs, sizes), model.run(inputs))


@each_kind
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_any_schedule_gives_the_same_bits(
    case: Path, shape: tuple[int, int], cuda: Emulator
) -> None:
    """Any order of threads, any number of blocks, of any size."""
    net, model = device_net(case, shape=shape), model_of(case)
    inputs, sizes = drawn(imported(case), (4, 6, 3))
    want = model.run(inputs)
    for seed in SEEDS:
        cuda.configure(seed=seed)
        check(net.library, net.run(inputs, sizes), want)


@every_case
def test_gradients(case: Path) -> None:
    net, model = device_net(case, train=True), trainable(case)
    program, weights = interpreted(case), arrays_of(case, "weight:")
    for arrays, sizes in [given(case), *(drawn(program, size) for size in SIZES)]:
        inputs = {name: arrays[name] for name in model.inputs}
        outer = {name: arrays.get(f"grad:{name}", weight) for name, weight in weights.items()}
        outputs, grads = net.train(inputs, model.parameters, outer, sizes)
        want, tape = model.forward(inputs)
        check(net.library, outputs, want)
        check(net.library, grads, model.backward(tape, outer))


@each_kind
@pytest.mark.parametrize("shape", SHAPES[1:], ids=str)
@pytest.mark.slow
def test_gradients_by_any_schedule(case: Path, shape: tuple[int, int], cuda: Emulator) -> None:
    net, model = device_net(case, True, shape), trainable(case)
    inputs, sizes = given(case)
    outer = arrays_of(case, "weight:")
    want, tape = model.forward(inputs)
    grads = model.backward(tape, outer)
    for seed in SEEDS:
        cuda.configure(seed=seed)
        got = net.train(inputs, model.parameters, outer, sizes)
        check(net.library, got[0], want)
        check(net.library, got[1], grads)


@every_control
def test_control(case: Path) -> None:
    inputs = inputs_of(case)
    options = {"shapes": shapes_of(inputs), "max_iterations": LIMIT}
    library = library_of(case / "net.pb", case / "init.pb", **options)
    model = rnncc.compile(case / "net.pb", case / "init.pb", **options)
    check(library, DeviceNet(library).run(inputs, {}), model.run(inputs))


@every_control
def test_control_gradients(case: Path) -> None:
    weights, inputs = arrays_of(case, "weight:"), inputs_of(case)
    if not weights:
        pytest.skip("nothing has a gradient")
    options: dict[str, Any] = {
        "shapes": shapes_of(inputs),
        "max_iterations": LIMIT,
        "train": True,
    }
    options |= {"outputs_with_grads": list(weights)}
    library = library_of(case / "net.pb", case / "init.pb", **options)
    model = rnncc.compile(case / "net.pb", case / "init.pb", **options)
    outputs, grads = DeviceNet(library).train(inputs, model.parameters, weights, {})
    want, tape = model.forward(inputs)
    check(library, outputs, want)
    check(library, grads, model.backward(tape, weights))


@pytest.mark.parametrize("case", quick([c for c in CASES if c.name not in REFUSED], KINDS))
def test_a_sequence_in_pieces(case: Path) -> None:
    net, model = device_net(case), model_of(case)
    inputs, sizes = drawn(imported(case), (8, 5, 4))
    with net.stream(inputs, sizes) as step:
        got = in_chunks(imported(case), step, inputs, (1, 0, 5, 2))
    want = model.run(inputs)
    check(net.library, {name: got[name] for name in want}, want)


def test_lengths_beyond_the_sequence_come_back_in_status() -> None:
    """Threads that find one at once store the same code: the one race that there is."""
    case = next(case for case in KINDS if case.name == "lstm_bidirectional")
    net, model = device_net(case), model_of(case)
    inputs, sizes = drawn(imported(case), (4, 6, 3))
    [lengths] = [name for name in inputs if "lengths" in name]
    inputs[lengths] = np.array([4, 5, -1, 2, 9, 0], np.int32)
    with pytest.raises(RunError) as cpu:
        model.run(inputs)
    with pytest.raises(Refused) as gpu:
        net.run(inputs, sizes)
    assert gpu.value.code == cpu.value.code
    races = libcuda.emulator().report.split("race at ")[1:]
    assert all(race.count(f": store i32 {gpu.value.code}") == 2 for race in races), races


def test_a_tape_without_a_seal_is_refused() -> None:
    case = next(case for case in KINDS if case.name == "gru")
    net, model = device_net(case, train=True), trainable(case)
    inputs, sizes = given(case)
    weights = arrays_of(case, "weight:")
    with pytest.raises(Refused) as raised:
        net.train(inputs, model.parameters, weights, sizes, seal=1)
    assert raised.value.code == BAD_TAPE
