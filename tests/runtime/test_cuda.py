"""Models on a GPU, on the emulated one: the CPU's bits, arrays of all kinds, and no leaks."""

from __future__ import annotations

import gc
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import rnncc_runtime
from rnncc_runtime import ArrayError, LoadError, RunError
from rnncc_runtime.cuda import CudaModel, Device, DeviceArray
from rnncc_runtime.cuda.code import suits

import rnncc
from tests.golden import Arrays
from tests.runtime import on_gpu
from tests.runtime.lent_arrays import TRAINED, Lent, stream
from tests.runtime.on_gpu import LSTM, assert_same, cpu, inputs, there, without_complaint


@pytest.fixture(scope="module")
def model() -> CudaModel:
    return on_gpu.model()


def test_arrays_of_numpy_come_back_as_such(model: CudaModel) -> None:
    with without_complaint():
        for _ in range(2):
            assert_same(model.run(inputs()), cpu().run(inputs()))


def test_arrays_of_the_gpu_stay_there(model: CudaModel) -> None:
    with without_complaint():
        found = model.run(there(inputs()))
        assert all(isinstance(array, DeviceArray) for array in found.values())
        assert_same(found, cpu().run(inputs()))


@pytest.mark.parametrize("on_device", [False, True])
def test_out_computes_these_outputs_alone(model: CudaModel, on_device: bool) -> None:
    expected = cpu().run(inputs())
    array = np.full_like(expected[TRAINED], 7)
    out: Any = there({TRAINED: array}) if on_device else {TRAINED: array}
    given: Any = there(inputs()) if on_device else inputs()
    with without_complaint():
        found = model.run(given, out=out)
    assert list(found) == [TRAINED]
    assert found[TRAINED] is out[TRAINED]
    assert_same(found, {TRAINED: expected[TRAINED]})


def test_other_sizes(model: CudaModel) -> None:
    longer: Arrays = {}
    for name, array in inputs().items():
        longer[name] = np.concatenate([array, array]) if name == "x" else array
    longer["x"] = np.ascontiguousarray(np.concatenate([inputs()["x"]] * 3))
    with without_complaint():
        assert_same(model.run(longer), cpu().run(longer))
        assert_same(model.run(inputs()), cpu().run(inputs()))


def test_a_stream_is_not_waited_for_until_it_is_checked(model: CudaModel) -> None:
    with without_complaint() as emulator, stream(emulator) as handle:
        found = model.run(there(inputs()), stream=handle)
        model.check(handle)
        assert_same(found, cpu().run(inputs()))
        assert found[TRAINED].stream == handle


def test_what_is_found_on_the_device_is_told(model: CudaModel) -> None:
    wrong = {**inputs(), "seq_lengths": np.full_like(inputs()["seq_lengths"], 99)}
    try:
        cpu().run(wrong)
    except RunError as error:
        with pytest.raises(RunError) as told:
            model.run(wrong)
        assert told.value.code == error.code
        with without_complaint() as emulator, stream(emulator) as handle:
            model.run(there(wrong), stream=handle)
            with pytest.raises(RunError):
                model.check(handle)


def test_threads_share_a_model(model: CudaModel) -> None:
    expected, errors = cpu().run(inputs()), list[BaseException]()

    def work() -> None:
        try:
            for _ in range(3):
                assert_same(model.run(inputs()), expected)
                assert_same(model.run(there(inputs())), expected)
        except BaseException as error:
            errors.append(error)

    with without_complaint():
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        gc.collect()
    assert not errors


def test_memory_is_given_back() -> None:
    emulator = on_gpu.begin()
    gc.collect()
    before = emulator.leaks
    made = on_gpu.model()
    outputs: Any = made.run(there(inputs()))
    pieces = made.stream(inputs=starts(made))
    pieces.step(there({"x": inputs()["x"]}) if "x" in pieces.inputs else {})
    assert emulator.leaks > before
    del made, outputs, pieces
    gc.collect()
    assert emulator.leaks == before
    assert emulator.report == ""


class Other:
    """An array of another package."""

    def __init__(self, array: DeviceArray, **changes: Any) -> None:
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, **changes}


@pytest.mark.parametrize("kind", [Other, Lent])
def test_arrays_of_other_packages(model: CudaModel, kind: Callable[..., Any]) -> None:
    held = there(inputs())
    given = {name: kind(array) for name, array in held.items()}
    with without_complaint():
        assert_same(model.run(given), cpu().run(inputs()))
        if kind is Lent:
            assert {tuple(one.streams) for one in given.values()} == {(1,)}


def test_arrays_of_the_cpu_by_dlpack(model: CudaModel) -> None:
    class Near:
        def __init__(self, array: Any) -> None:
            self.array = array

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

        def __array__(self, *_: Any, **__: Any) -> Any:
            return self.array

    given = {name: Near(array) for name, array in inputs().items()}
    assert_same(model.run(given), cpu().run(inputs()))


def refused(model: CudaModel, message: str, **changes: Any) -> None:
    with pytest.raises(ArrayError, match=message):
        model.run({**there(inputs()), **changes})


def test_hostile_arrays_are_refused(model: CudaModel) -> None:
    x = there(inputs())["x"]
    shape = x.shape
    with without_complaint():
        refused(model, "x is on a GPU and .* is not|is not: give all of one kind", x=inputs()["x"])
        refused(model, "expected float32", x=Other(x, typestr="<i4"))
        refused(model, "has a mask", x=Other(x, mask=x))
        refused(model, "not contiguous", x=Other(x, strides=tuple(8 * n for n in shape)))
        refused(model, "does not lie in a GPU's memory", x=Other(x, data=(0x1234, False)))
        refused(model, "cannot be read", x=Other(x, data=None))
        refused(model, "DLPack's kind 10", x=Lent(x, (10, 0)))
        refused(model, "on GPU 1, and the model on GPU 0", x=Lent(x, (2, 1)))
        refused(model, "unknown: y", y=x)
        refused(model, "expected", x=DeviceArray.of(np.zeros((2, 2), np.float32)))
        with pytest.raises(ArrayError, match="missing: x"):
            model.run({name: a for name, a in there(inputs()).items() if name != "x"})
        with pytest.raises(ArrayError, match="no pool"):
            model.run(inputs(), pool=rnncc_runtime.Pool(1))
        with pytest.raises(ArrayError, match="do not go with a stream"):
            model.run(inputs(), stream=1)
        with pytest.raises(ArrayError, match="is no stream"):
            model.run(there(inputs()), stream="fast")


def test_hostile_outputs_are_refused(model: CudaModel) -> None:
    given = there(inputs())
    outputs = model.run(given)
    good = outputs[TRAINED]

    def refuse(message: str, array: Any, name: str = TRAINED, arrays: Any = given) -> None:
        with pytest.raises(ArrayError, match=message):
            model.run(arrays, out={name: array})

    with without_complaint():
        refuse("no output is named nothing", good, "nothing")
        refuse("must be writeable", Other(good, data=(good.address, True)))
        refuse("expected an array", [1.0])
        refuse("give all on the GPU", np.empty(good.shape, good.dtype))
        refuse("overlaps", Other(good, data=(given["x"].address, False)))
        near = np.empty(good.shape, good.dtype)
        near.flags.writeable = False
        refuse("must be contiguous, aligned and writeable", near, arrays=inputs())
        refuse(
            "must be contiguous, aligned",
            np.empty((*good.shape, 2), "f4")[..., 0],
            TRAINED,
            inputs(),
        )


def test_what_is_lent_lives_as_long_as_it_is_held() -> None:
    emulator = on_gpu.begin()
    gc.collect()
    before = emulator.leaks
    array = DeviceArray.of(np.arange(6, dtype=np.float32))
    capsule = array.__dlpack__(stream=1)
    del array
    gc.collect()
    assert emulator.leaks == before + 1
    del capsule
    gc.collect()
    assert emulator.leaks == before
    with pytest.raises(BufferError):
        DeviceArray.of(np.zeros(1, np.float32)).__dlpack__(copy=True)


def test_a_device_array(model: CudaModel) -> None:
    values = np.arange(6, dtype=np.int64).reshape(2, 3)
    array = DeviceArray.of(values)
    assert (array.shape, array.ndim, array.size, array.nbytes) == ((2, 3), 2, 6, 48)
    np.testing.assert_array_equal(array.numpy(), values)
    array.assign(values + 1)
    np.testing.assert_array_equal(array.numpy(), values + 1)
    with pytest.raises(ArrayError, match="cannot assign"):
        array.assign(values[:1])
    assert array.__cuda_array_interface__["data"] == (array.address, False)
    empty = DeviceArray.empty((0, 3), np.float32)
    assert empty.numpy().shape == (0, 3)
    assert empty.__cuda_array_interface__["data"] == (0, False)
    with pytest.raises(TypeError):
        pickle.dumps(model)


def test_calls_by_bare_pointers_allocate_nothing(model: CudaModel) -> None:
    given, results = there(inputs()), model.run(there(inputs()))
    sizes = {"T": given["x"].shape[0], "N": given["x"].shape[1]}
    workspace = DeviceArray.empty((model.workspace_bytes(sizes),), np.uint8)
    status = DeviceArray.of(np.full(1, 7, np.int32))
    for array in results.values():
        array.assign(np.zeros(array.shape, array.dtype))
    with without_complaint() as emulator:
        before = emulator.leaks
        pointers = {
            "inputs": [given[name].address for name in model.inputs],
            "outputs": [results[name].address for name in model.outputs],
            "workspace": workspace.address,
        }
        model.call("run", pointers, sizes, status=status.address)
        assert emulator.leaks == before
    assert status.numpy()[0] == 0
    assert_same(results, cpu().run(inputs()))


def test_calls_refuse_null_and_sizes(model: CudaModel) -> None:
    nothing = {"inputs": [0] * len(model.inputs), "outputs": [0] * len(model.outputs)}
    for sizes, code in (({"T": 2, "N": 2}, 1), ({"T": -1, "N": 2}, 2)):
        with pytest.raises(RunError) as told:
            model.call("run", nothing, sizes)
        assert told.value.code == code


def test_a_model_on_another_device(model: CudaModel) -> None:
    emulator = on_gpu.begin()
    emulator.configure(devices=2)
    other = model.on(1)
    assert other.device.number == 1
    assert model.on(0) is model
    assert_same(other.run(inputs()), cpu().run(inputs()))
    with pytest.raises(ArrayError, match="on GPU 0, and the model on GPU 1"):
        other.run(there(inputs()))
    with pytest.raises(LoadError, match="there are 2, and number 7 is wanted"):
        model.on(7)


def test_the_device() -> None:
    on_gpu.begin()
    device = Device.at()
    assert device is Device.at(0)
    assert device.chip == (9, 0)
    assert device.processors > 0
    assert "sm_90" in repr(device)


@pytest.mark.parametrize(
    ("chip", "device", "fit"),
    [
        ("ptx", (9, 0), 1),
        ("sm_90a", (9, 0), 3),
        ("sm_90", (9, 0), 3),
        ("sm_80", (8, 6), 2),
        ("sm_86", (8, 0), 0),
        ("sm_90a", (9, 1), 0),
        ("sm_100f", (10, 3), 2),
        ("sm_80", (9, 0), 0),
        ("sm_120", (12, 0), 3),
        ("nonsense", (9, 0), 0),
    ],
)
def test_which_code_suits_a_chip(chip: str, device: tuple[int, int], fit: int) -> None:
    assert suits(chip, device) == fit


@pytest.mark.parametrize(
    ("function", "code", "message"),
    [
        ("cuModuleLoadDataEx", 209, "no code for .*, a chip sm_90: it has ptx; ptx was refused"),
        ("cuModuleLoadDataEx", 218, "ptx was refused"),
        ("cuMemAlloc_v2", 2, "no memory for .* bytes of weights"),
        ("cuModuleGetFunction", 500, "the kernel net_init"),
        ("cuOccupancyMaxActiveBlocksPerMultiprocessor", 1, "the kernel net_init"),
    ],
)
def test_loading_tells_what_the_driver_refuses(function: str, code: int, message: str) -> None:
    emulator = on_gpu.begin()
    on_gpu.model()
    gc.collect()
    before = emulator.leaks
    emulator.fail(function, code)
    with pytest.raises(LoadError, match=message):
        rnncc.compile(LSTM / "net.pb", LSTM / "init.pb", target="emulated")
    emulator.forget()
    gc.collect()
    assert emulator.leaks <= before


@pytest.mark.parametrize("function", ["cuLaunchCooperativeKernel", "cuMemsetD32Async"])
def test_calls_tell_what_the_driver_refuses(model: CudaModel, function: str) -> None:
    emulator = on_gpu.begin()
    emulator.fail(function, 719)
    with pytest.raises(RunError) as told:
        model.run(inputs())
    assert told.value.code == -719
    emulator.forget()


def test_no_room_for_memory(model: CudaModel) -> None:
    emulator = on_gpu.begin()
    given = there(inputs())
    emulator.fail("cuMemAlloc_v2", 2)
    with pytest.raises(RunError, match="memory") as told:
        model.run(given)
    assert told.value.code == -2
    emulator.forget()


def starts(model: CudaModel) -> Arrays:
    names = model.metadata["stream"]["starts"]
    return {name: array for name, array in inputs().items() if name in names}
