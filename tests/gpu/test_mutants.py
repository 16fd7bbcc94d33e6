"""Device code that lacks one wait: the checker finds each that was needed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.kern.library import Library
from tests.codegen.compiled import model_of
from tests.golden import CASES, Arrays, arrays_of
from tests.gpu import libcuda
from tests.gpu.device_net import DeviceNet
from tests.gpu.libcuda import CudaError, Emulator
from tests.gpu.nets import differ, drawn, imported, inference, is_exact, training
from tests.training.models import interpreted, trainable

NEEDED = {"lstm": 4, "gru": 6, "layernorm_lstm": 9, "attention_regular": 12}
"""How many waits, at least, such a net cannot do without: between a product and the rows that it
multiplies, a sum over lanes and what it is of, a list of rows and who reads it, at a step's end."""
NEEDED_TO_TRAIN = {"lstm": 7, "gru": 10, "layernorm_lstm": 18}
NETS, TRAINED = (
    [case for case in CASES if case.name in needed] for needed in (NEEDED, NEEDED_TO_TRAIN)
)


@pytest.fixture(autouse=True)
def cuda() -> Iterator[Emulator]:
    cuda = libcuda.emulator()
    cuda.forget()
    yield cuda
    cuda.forget()


@contextmanager
def without(number: int) -> Generator[list[int]]:
    """Code that is written here lacks one wait; how many there would be."""
    count = [0]

    def counted(whole: Callable[[GpuEmit], None]) -> Callable[[GpuEmit], None]:
        def wait(emit: GpuEmit) -> None:
            count[0] += 1
            if count[0] - 1 != number:
                whole(emit)

        return wait

    with pytest.MonkeyPatch.context() as patch:
        for name in ("together", "together_in_blocks"):
            patch.setattr(GpuEmit, name, counted(getattr(GpuEmit, name)))
        yield count


def mutants(library: Library) -> Iterator[DeviceNet]:
    """The library without each of its waits."""
    with without(-1) as count:
        DeviceNet(library)
    assert count[0]
    for number in range(count[0]):
        with without(number):
            net = DeviceNet(library)
        yield net


class Verdicts:
    """What became of mutants."""

    def __init__(self, cuda: Emulator, library: Library, want: Arrays) -> None:
        self.cuda, self.want, self.exact = cuda, want, is_exact(library)
        self.found = 0

    def judge(self, net: DeviceNet, run: Callable[[DeviceNet], Arrays]) -> None:
        """Found by a race or by a crash; nothing else may change results."""
        self.cuda.forget()
        try:
            got = run(net)
        except CudaError:
            self.found += 1
            return
        self.found += self.cuda.races > 0
        if self.exact and differ(got, self.want):
            assert self.cuda.races, "a wrong result, and no race"


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=[] if case.name == "lstm" else [pytest.mark.slow])
        for case in NETS
    ],
)
def test_inference_without_a_wait(case: Path, cuda: Emulator) -> None:
    library = inference(case)
    inputs, sizes = drawn(imported(case), (4, 6, 3))
    verdicts = Verdicts(cuda, library, model_of(case).run(inputs))
    for net in mutants(library):
        verdicts.judge(net, lambda net: net.run(inputs, sizes))
    assert verdicts.found >= NEEDED[case.name]


@pytest.mark.slow
@pytest.mark.parametrize("case", TRAINED, ids=lambda path: path.name)
def test_training_without_a_wait(case: Path, cuda: Emulator) -> None:
    library, model = training(case), trainable(case)
    arrays, sizes = drawn(interpreted(case), (5, 40, 3))
    inputs = {name: arrays[name] for name in model.inputs}
    weights = {name: arrays[f"grad:{name}"] for name in arrays_of(case, "weight:")}
    want, tape = model.forward(inputs)
    verdicts = Verdicts(cuda, library, {**want, **_grads(model.backward(tape, weights))})

    def run(net: DeviceNet) -> Arrays:
        outputs, grads = net.train(inputs, model.parameters, weights, sizes)
        return {**outputs, **_grads(grads)}

    for net in mutants(library):
        verdicts.judge(net, run)
    assert verdicts.found >= NEEDED_TO_TRAIN[case.name]


def _grads(arrays: Arrays) -> Arrays:
    return {f"grad:{name}": array for name, array in arrays.items()}
