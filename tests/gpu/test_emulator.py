"""The emulator itself: what it computes, and that it finds what is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.gpu import kernels, libcuda
from tests.gpu.images import image_of
from tests.gpu.libcuda import CudaError, Emulator

LAUNCH_FAILED, ILLEGAL_ADDRESS, INVALID_VALUE, TOO_LARGE = 719, 700, 1, 720


@pytest.fixture
def cuda() -> Iterator[Emulator]:
    cuda = libcuda.emulator()
    cuda.forget()
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
    before = cuda.leaks
    want = np.arange(3 * threads, dtype=np.float32).reshape(3, -1).sum(1)
    np.testing.assert_array_equal(reduce(cuda, kernels.REDUCE, threads), want)
    assert cuda.report == ""
    assert cuda.leaks == before


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
    before = cuda.leaks
    place = cuda.allocate(12)
    got = cuda.download(place, np.zeros(12, np.uint8))
    np.testing.assert_array_equal(got, np.full(12, 0xFF))
    assert cuda.leaks == before + 1
    cuda.release(place)
    assert cuda.leaks == before
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


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_lanes_exchange_values(cuda: Emulator, seed: int) -> None:
    cuda.configure(seed=seed)
    x = np.random.default_rng(seed).integers(0, 1000, 96).astype(np.int32)
    module = cuda.module(compiled(kernels.LANES))
    places = cuda.upload(x), cuda.allocate(12), cuda.allocate(12)
    cuda.launch(module, "lanes", places, (1, 96))
    sums, masks = (cuda.download(place, np.zeros(3, np.uint32)) for place in places[1:])
    np.testing.assert_array_equal(sums, x.reshape(3, 32).sum(1))
    bits = (x.reshape(3, 32).astype(np.uint64) & 1) << np.arange(32, dtype=np.uint64)
    np.testing.assert_array_equal(masks, bits.sum(1))
    cuda.release(*places)
    assert cuda.report == ""


TEAM = """wait:
  %k1 = add i64 %k, 1
  %member = icmp ult i64 %bid, 2
  %last = icmp eq i64 %k1, %count
  br i1 %last, label %all, label %some
some:
  %team = getelementptr i32, ptr %sync.p, i64 1
  %twice = mul i64 %k1, 2
  %team.goal = trunc i64 %twice to i32
  br i1 %member, label %meet, label %next
meet:
  call void @emu_grid_wait(ptr %team, i32 %team.goal)
  br label %next
all:
  %goal = trunc i64 %blocks to i32
  call void @emu_grid_wait(ptr %sync.p, i32 %goal)
  br label %next
"""
"""The first two blocks meet in each step, all of them in the last one."""


def test_a_team_orders_its_own_blocks_alone(cuda: Emulator) -> None:
    begin, end = kernels.STEPS.index("wait:"), kernels.STEPS.index("next:")
    text = kernels.STEPS[:begin] + TEAM + kernels.STEPS[end:]
    np.testing.assert_array_equal(steps(cuda, text, 5, 32, 2), stepped(5))
    assert cuda.report == ""
    steps(cuda, text, 5, 32, 3)
    assert cuda.races


def test_a_graph_repeats_what_it_captured(cuda: Emulator) -> None:
    """What a capture forbids spoils it."""
    c = libcuda.ctypes
    place, stream, graph, run = cuda.allocate(16), c.c_void_p(), c.c_void_p(), c.c_void_p()
    cuda.call("cuStreamCreate", c.byref(stream), 1)
    fill = c.c_void_p(place), c.c_uint(7), c.c_size_t(4), stream
    cuda.call("cuStreamBeginCapture_v2", stream, 0)
    cuda.call("cuMemsetD32Async", *fill)
    cuda.call("cuStreamEndCapture", stream, c.byref(graph))
    cuda.call("cuGraphInstantiateWithFlags", c.byref(run), graph, c.c_ulonglong(0))
    assert (cuda.download(place, np.zeros(4, np.uint32)) == 0xFFFFFFFF).all()
    cuda.call("cuGraphLaunch", run, stream)
    cuda.call("cuStreamSynchronize", stream)
    assert (cuda.download(place, np.zeros(4, np.uint32)) == 7).all()
    cuda.call("cuStreamBeginCapture_v2", stream, 0)
    with pytest.raises(CudaError):
        cuda.call("cuStreamSynchronize", stream)
    with pytest.raises(CudaError):
        cuda.call("cuStreamEndCapture", stream, c.byref(c.c_void_p()))
    cuda.call("cuGraphExecDestroy", run)
    cuda.call("cuGraphDestroy", graph)
    cuda.call("cuStreamDestroy_v2", stream)
    cuda.release(place)


def test_other_processors_switch_by_the_c_library(tmp_path: Path) -> None:
    """The code for those that have no switch of their own."""
    library = libcuda.build("-DEMU_UCONTEXT")
    image = tmp_path / "image"
    image.write_bytes(compiled(kernels.REDUCE))
    script = f"""
import numpy as np
from pathlib import Path
from tests.gpu.libcuda import Emulator
cuda = Emulator(Path({str(library)!r}))
with cuda.context():
    module = cuda.module(Path({str(image)!r}).read_bytes())
    places = cuda.upload(np.arange(96, dtype=np.float32)), cuda.allocate(12)
    cuda.launch(module, "reduce", (*places, 16), (3, 32), shared=128)
    print(*cuda.download(places[1], np.zeros(3, np.float32)), cuda.report)
"""
    root = str(Path(__file__).parents[2])
    path = f"{root}:{root}/runtime"
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, check=True
    )
    assert done.stdout.split() == ["496.0", "1520.0", "2544.0"]
