"""Training on a GPU, on the emulated one: the CPU's bits, tapes, given arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rnncc_runtime import ArrayError
from rnncc_runtime.cuda import CudaTrainableModel, DeviceArray

from tests.runtime import on_gpu
from tests.runtime.lent_arrays import TRAINED, Lent, stream
from tests.runtime.on_gpu import assert_same, inputs, there, without_complaint


@pytest.fixture(scope="module")
def trained() -> CudaTrainableModel:
    return on_gpu.trainable()


def test_training_gives_the_cpus_bits(trained: CudaTrainableModel) -> None:
    near = on_gpu.trainable_cpu()
    assert_same(trained.parameters, near.parameters)
    outputs, tape = near.forward(inputs())
    ones = {TRAINED: np.ones_like(outputs[TRAINED])}
    grads = near.backward(tape, ones)
    for given, outside in ((inputs(), ones), (there(inputs()), there(ones))):
        with without_complaint():
            found, left = trained.forward(given)
            assert_same(found, outputs)
            assert left.nbytes > 0
            back = trained.backward(left, outside)
            assert_same(back, grads)
            assert left.nbytes == 0


def test_a_tape_is_used_up(trained: CudaTrainableModel) -> None:
    with without_complaint():
        _, tape = trained.forward(there(inputs()))
        trained.backward(tape, {}, wanted=[])
        with pytest.raises(ArrayError, match="used up"):
            trained.backward(tape, {})
        other = on_gpu.trainable()
        with pytest.raises(ArrayError, match="another model"):
            other.backward(trained.forward(inputs())[1], {})
        with pytest.raises(ArrayError, match="not what forward has returned"):
            near: Any = "tape"
            trained.backward(near, {})


def test_updates_of_parameters_count() -> None:
    with without_complaint():
        near, far = on_gpu.trainable_cpu(), on_gpu.trainable()
        changed = {name: np.float32(0.5) * array for name, array in near.parameters.items()}
        for name, array in changed.items():
            far.parameters[name].assign(array)
        kept = dict(near.parameters)
        near.parameters.update(changed)
        expected = near.forward(inputs())[0]
        near.parameters.update(kept)
        assert_same(far.forward(inputs())[0], expected)
        name = next(iter(changed))
        far.parameters[name] = Lent(far.parameters[name])  # of another package
        assert_same(far.forward(inputs())[0], expected)
        far.parameters[name] = changed[name]
        with pytest.raises(ArrayError, match=f"parameter {name} is a ndarray"):
            far.forward(inputs())


def test_gradients_into_given_arrays(trained: CudaTrainableModel) -> None:
    with without_complaint():
        outputs, tape = trained.forward(there(inputs()))
        name = next(iter(trained.parameters))
        out = {name: DeviceArray.of(np.zeros(trained.parameters[name].shape, np.float32))}
        found = trained.backward(tape, {}, wanted=[], out=out)
        assert found == out
        _, tape = trained.forward(there(inputs()))
        with pytest.raises(ArrayError, match="overlaps"):
            trained.backward(tape, {}, out={name: trained.parameters[name]})
        with pytest.raises(ArrayError, match="no gradient is there for nothing"):
            trained.backward(tape, {}, wanted=["nothing"])
        with pytest.raises(ArrayError, match="no output with a gradient is named nothing"):
            trained.backward(tape, {"nothing": outputs[TRAINED]})
        del tape


def test_training_on_a_stream(trained: CudaTrainableModel) -> None:
    near = on_gpu.trainable_cpu()
    outputs, tape = near.forward(inputs())
    ones = {TRAINED: np.ones_like(outputs[TRAINED])}
    expected = near.backward(tape, ones)
    with without_complaint() as emulator, stream(emulator) as handle:
        found, left = trained.forward(there(inputs()), stream=handle)
        grads = trained.backward(left, there(ones), stream=handle)
        trained.check(handle)
        assert_same(found, outputs)
        assert_same(grads, expected)
