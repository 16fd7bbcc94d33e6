"""The emulator itself: what it computes, and that it finds what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from tests.gpu import kernels, libcuda
from tests.gpu.images import image_of
from tests.gpu.libcuda import CudaError, Emulator

LAUNCH_FAILED, ILLEGAL_ADDRESS, INVALID_VALUE, TOO_LARGE = 719, 700, 1, 720


@pytest.fixture
def cuda() -> Iterator[Emulator]:
    cuda = libcuda.emulator()
    with cuda.context():
        yield cuda
        cuda.forget()


compiled = cache(image_of)


def reduce(cuda: Emulator, text: str, threads: int = 64, blocks: int = 3) -> np.ndarray:
    x = np.arange(blocks * threads, dtype=np.float32)
    module = cuda.module(compiled(text))
    places = cuda.upload(x), cuda.allocate(4 * blocks)
    try:
        arguments = (*places, threads // 2)
        cuda.launch(module, "reduce", arguments, (blocks, threads), shared=4 * threads)
        return cuda.download(places[1], np.empty(blocks, np.float32))
    finally:
        cuda.library.emu_reset()
        cuda.release(*places)
        cuda.unload(module)


def steps(
    cuda: Emulator, text: str, count: int = 5, threads: int = 32, blocks: int = 3
) -> np.ndarray:
    x = np.arange(200, dtype=np.int32)
    module = cuda.module(compiled(text))
    places = cuda.upload(x), cuda.upload(x), cuda.upload(np.zeros(64, np.int32))
    try:
        cuda.launch(module, "steps", (*places, count, len(x), threads), (blocks, threads))
        return cuda.download(places[count % 2], x)
    finally:
        cuda.library.emu_reset()
        cuda.release(*places)
        cuda.unload(module)


def stepped(count: int) -> np.ndarray:
    x = np.arange(200, dtype=np.int32)
    for _ in range(count):
        x = x + 3 * np.roll(x, -1)
    return x


@pytest.mark.parametrize("threads", [32, 64, 256])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_block_adds_in_shared_memory(cuda: Emulator, threads: int, seed: int) -> None:
    cuda.configure(seed=seed)
    want = np.arange(3 * threads, dtype=np.float32).reshape(3, -1).sum(1)
    np.testing.assert_array_equal(reduce(cuda, kernels.REDUCE, threads), want)
    assert cuda.report == ""
    assert cuda.leaks == 0


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("blocks", [1, 2, 7])
def test_all_blocks_wait_for_each_other(cuda: Emulator, blocks: int, seed: int) -> None:
    cuda.configure(seed=seed, sms=7)
    np.testing.assert_array_equal(steps(cuda, kernels.STEPS, 5, 32, blocks), stepped(5))
    assert cuda.report == ""


def test_a_block_that_does_not_wait_races(cuda: Emulator) -> None:
    reduce(cuda, kernels.REDUCE.replace("  call void @emu_block_wait()", ""))
    assert cuda.races
    assert "race at" in cuda.report
    assert "reads it at: reduce" in cuda.report


def test_a_grid_that_does_not_wait_races(cuda: Emulator) -> None:
    steps(cuda, kernels.STEPS.replace("  call void @emu_grid_wait(ptr %sync.p, i32 %goal)", ""))
    assert cuda.races


def test_a_block_wait_orders_no_other_block(cuda: Emulator) -> None:
    wait = ("call void @emu_grid_wait(ptr %sync.p, i32 %goal)", "call void @emu_block_wait()")
    text = kernels.STEPS.replace(*wait)
    steps(cuda, text)
    assert cuda.races
    cuda.forget()
    steps(cuda, text, blocks=1)
    assert not cuda.races


def test_races_are_looked_for_only_if_wanted(cuda: Emulator) -> None:
    cuda.configure(check=0)
    steps(cuda, kernels.STEPS.replace("  call void @emu_grid_wait(ptr %sync.p, i32 %goal)", ""))
    assert cuda.report == ""


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_threads_that_end_while_others_wait(cuda: Emulator, seed: int) -> None:
    cuda.configure(seed=seed)
    wait = "store:\n  call void @emu_block_wait()\n"
    with pytest.raises(CudaError) as raised:
        reduce(cuda, kernels.REDUCE.replace("store:\n", wait))
    assert raised.value.code == LAUNCH_FAILED
    assert "block 0: 63 threads have ended" in cuda.report
    assert "1 threads wait for their block, such as 0 at: reduce, store" in cuda.report


def test_lanes_that_wait_at_different_places(cuda: Emulator) -> None:
    apart = "add:\n  call void @emu_block_wait()\n"
    text = kernels.REDUCE.replace("add:\n", apart).replace(
        "br i1 %adds, label %add, label %next",
        "br i1 %adds, label %add, label %skip\n"
        "skip:\n  call void @emu_block_wait()\n  br label %next",
    )
    with pytest.raises(CudaError):
        reduce(cuda, text)
    assert "lanes of one warp wait at different places" in cuda.report


def test_a_grid_wait_that_a_block_leaves_out(cuda: Emulator) -> None:
    apart = "  %left = icmp eq i64 %bid, 1\n  br i1 %left, label %next, label %meet\nmeet:\n"
    text = kernels.STEPS.replace("  call void @emu_grid", f"{apart}  call void @emu_grid")
    with pytest.raises(CudaError):
        steps(cuda, text)
    assert "32 threads wait for the grid" in cuda.report


@pytest.mark.parametrize("check", [0, 1])
def test_an_access_behind_an_allocation(cuda: Emulator, check: int) -> None:
    cuda.configure(check=check)
    text = kernels.REDUCE.replace("ptr %out.p, i64 %bid", "ptr %out.p, i64 1000")
    with pytest.raises(CudaError) as raised:
        reduce(cuda, text)
    assert raised.value.code == ILLEGAL_ADDRESS
    assert "signal 11" in cuda.report


def test_a_write_just_behind_an_allocation(cuda: Emulator) -> None:
    text = kernels.REDUCE.replace("ptr %out.p, i64 %bid", "ptr %out.p, i64 3")
    with pytest.raises(CudaError):
        reduce(cuda, text)
    assert "writes bytes that are nobody's" in cuda.report
    assert "bytes beside 12 bytes of device memory were overwritten" in cuda.report


def test_a_read_just_behind_shared_memory(cuda: Emulator) -> None:
    reduce(cuda, kernels.REDUCE.replace("ptr %shared, i64 %j", "ptr %shared, i64 32"), 32)
    assert "reads bytes that are nobody's" in cuda.report


def test_memory_of_the_host(cuda: Emulator) -> None:
    x = np.zeros(200, np.int32)
    module = cuda.module(compiled(kernels.STEPS))
    sync = cuda.upload(np.zeros(64, np.int32))
    cuda.launch(module, "steps", (x.ctypes.data, x.ctypes.data, sync, 1, 200, 32), (1, 32))
    assert "reads what is no device memory" in cuda.report
    cuda.release(sync)


def test_a_barrier_that_was_not_cleared(cuda: Emulator) -> None:
    module = cuda.module(compiled(kernels.STEPS))
    x = cuda.upload(np.zeros(200, np.int32))
    y = cuda.upload(np.zeros(200, np.int32))
    sync = cuda.upload(np.zeros(64, np.int32))
    arguments = (module, "steps", (x, y, sync, 1, 200, 32), (2, 32))
    cuda.launch(*arguments)
    with pytest.raises(CudaError):
        cuda.launch(*arguments)
    assert "a grid's barrier holds 3, not 2" in cuda.report
    cuda.library.emu_reset()
    cuda.release(x, y, sync)


def test_too_many_blocks(cuda: Emulator) -> None:
    with pytest.raises(CudaError) as raised:
        steps(cuda, kernels.STEPS, blocks=4)
    assert raised.value.code == TOO_LARGE


def test_memory_comes_poisoned_and_is_freed_once(cuda: Emulator) -> None:
    place = cuda.allocate(12)
    got = cuda.download(place, np.zeros(12, np.uint8))
    np.testing.assert_array_equal(got, np.full(12, 0xFF))
    assert cuda.leaks == 1
    cuda.release(place)
    assert cuda.leaks == 0
    with pytest.raises(CudaError):
        cuda.release(place)
    assert "which is no allocation" in cuda.report


def test_work_waits_until_someone_waits_for_it(cuda: Emulator) -> None:
    x = np.arange(4, dtype=np.int32)
    place, got = cuda.upload(x), np.zeros(4, np.int32)
    to = libcuda.ctypes.c_void_p(got.ctypes.data)
    cuda.call("cuMemcpyDtoHAsync_v2", to, libcuda.ctypes.c_void_p(place), 16, None)
    assert not got.any()
    cuda.call("cuStreamSynchronize", None)
    np.testing.assert_array_equal(got, x)
    cuda.release(place)
