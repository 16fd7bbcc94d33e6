"""Calls that several threads compute together: the bits are those of one thread."""

from __future__ import annotations

import copy
import os
import pickle
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rnncc_runtime
from hypothesis import given
from rnncc_runtime import LoadError, Model, Parts, Pool, RunError

import rnncc
from rnncc.commands.charnet import char_lstm
from rnncc.frontends.caffe2 import import_net
from rnncc.ir.program import Program
from tests.codegen.compiled import model_of
from tests.codegen.random_programs import PROGRAMS, examples, single
from tests.golden import GOLDEN, KINDS, random_inputs
from tests.strategies import make_inputs
from tests.teams import check_threads, insistent

SIZES = [(0, 2, 2), (1, 1, 1), (3, 5, 4), (4, 33, 2)]
"""T, N, S."""
LSTM = GOLDEN / "caffe2" / "lstm"
HERE = Path(__file__).parent
INCLUDE = Path(rnncc_runtime.__file__).parent / "include"


@pytest.mark.parametrize("case", KINDS, ids=lambda path: path.name)
def test_golden_nets(case: Path) -> None:
    alone = model_of(case)
    model = rnncc.compile(case / "net.pb", case / "init.pb", threads=True)
    program = import_net(case / "net.pb", case / "init.pb")
    for size in SIZES:
        inputs = random_inputs(program, dict(zip("TNS", size, strict=True)))
        check_threads(model, inputs, alone)


@examples(15)
@given(PROGRAMS)
def test_random_programs(program: Program) -> None:
    model = rnncc.compile(program, threads=True)
    for sizes in ({"T": 4, "N": 3}, {"T": 1, "N": 45}):
        _, inputs = make_inputs(program, sizes)
        names = [n for n, spec in model.inputs.items() if not spec.optional]
        check_threads(model, {name: single(inputs[name]) for name in names})


def test_all_threads_end_where_one_refuses() -> None:
    case = GOLDEN / "caffe2" / "lstm_bidirectional"
    model = insistent(rnncc.compile(case / "net.pb", case / "init.pb", threads=True))
    program = import_net(case / "net.pb", case / "init.pb")
    inputs = random_inputs(program, {"T": 3, "N": 4})
    wrong = {**inputs, "seq_lengths": np.array([3, 1, 9, 2], np.int32)}
    with Pool(3) as pool:
        for _ in range(3):
            with pytest.raises(RunError, match="a sequence length is beyond T"):
                model.run(wrong, pool=pool)
            model.run(inputs, pool=pool)


def test_models_share_a_pool() -> None:
    first = insistent(rnncc.compile(LSTM / "net.pb", LSTM / "init.pb", threads=True), 2)
    second = insistent(rnncc.compile(rnncc.cells.elman(3, 4), threads=True), 3)
    program = import_net(LSTM / "net.pb", LSTM / "init.pb")
    inputs = random_inputs(program, {"T": 3, "N": 2})
    with Pool(3) as pool:
        for _ in range(5):
            first.run(inputs, pool=pool)
            second.run({"x": np.zeros((2, 4, 3), np.float32)}, pool=pool)


def test_a_model_for_one_thread_says_so() -> None:
    model = rnncc.compile(LSTM / "net.pb", LSTM / "init.pb")
    program = import_net(LSTM / "net.pb", LSTM / "init.pb")
    with Pool(2) as pool, pytest.raises(LoadError, match="compiled for one thread"):
        model.run(random_inputs(program, {"T": 1, "N": 1}), pool=pool)


def test_a_library_of_a_net_that_cannot_stream(tmp_path: Path) -> None:
    net = rnncc.cells.elman(3, 4, direction="both")
    made = rnncc.build(net, out=tmp_path, threads=True)
    assert made.library is not None
    model = rnncc_runtime.load(made.library)
    assert isinstance(model, Model)
    check_threads(model, {"x": np.random.default_rng(0).standard_normal((5, 4, 3), np.float32)})


class Stranger:
    """One thread with a part that a caller got wrong."""

    threads = 2

    def __init__(self, part: int, parts: int, counter: int) -> None:
        self.struct = np.array([part, parts, counter], np.int64)

    def run(self, function: Callable[[int], int], threads: int) -> int:
        return function(self.struct.ctypes.data)


@pytest.mark.parametrize(
    "part, code",
    [
        ((0, 0, 0), "a size is negative or too large"),
        ((0, -1, 0), "a size is negative or too large"),
        ((-1, 2, 64), "a size is negative or too large"),
        ((2, 2, 64), "a size is negative or too large"),
        ((0, 2, 0), "memory that is needed is NULL"),
    ],
)
@pytest.mark.parametrize("train", [False, True])
def test_parts_outside_of_a_team(part: tuple[int, int, int], code: str, train: bool) -> None:
    """They would write in front of arrays, leave a part out, divide by zero or wait at NULL."""
    layer, inputs = rnncc.cells.elman(3, 4), {"x": np.zeros((2, 1, 3), np.float32)}
    model: Any = insistent(rnncc.compile(layer, threads=True, train=train))
    call = model.forward if train else model.run
    with pytest.raises(RunError, match=code):
        call(inputs, pool=Stranger(*part))
    call(inputs, pool=Stranger(0, 1, 0))  # alone it needs no counter


class Executor:
    """A caller's own threads."""

    def __init__(self, threads: int) -> None:
        self.threads, self.taken = threads, list[int]()
        self.parts, self.workers = Parts(), ThreadPoolExecutor(threads)

    def run(self, function: Callable[[int], int], threads: int) -> int:
        self.taken.append(threads)
        return max(self.workers.map(function, self.parts.of(threads)))


def test_threads_of_a_caller() -> None:
    model = rnncc.compile(rnncc.cells.gru(64, 96), threads=True)
    x = np.random.default_rng(0).standard_normal((20, 33, 64), np.float32)
    want, own = model.run({"x": x}), Executor(3)
    for name, array in model.run({"x": x}, pool=own).items():
        np.testing.assert_array_equal(array, want[name])
    model.run({"x": x[:1, :1]}, pool=own)  # too small a call
    assert own.taken == [3]


def test_interrupts_wait_for_the_call() -> None:
    """Whenever Ctrl-C comes, no thread is left waiting, and it is not lost."""
    model = insistent(rnncc.compile(rnncc.cells.gru(8, 16), threads=True), 2)
    inputs = {"x": np.random.default_rng(0).standard_normal((20, 3, 8), np.float32)}
    want, ready, times = model.run(inputs)["y"], threading.Event(), 300

    def disturb() -> None:
        for number in range(times):
            ready.wait()
            ready.clear()
            time.sleep(3e-4 + number * 1e-6)
            os.kill(os.getpid(), signal.SIGINT)

    sender, interrupts = threading.Thread(target=disturb), 0
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    sender.start()
    with Pool(2) as pool:
        while interrupts < times:
            try:
                ready.set()
                while True:
                    np.testing.assert_array_equal(model.run(inputs, pool=pool)["y"], want)
            except KeyboardInterrupt:
                interrupts += 1
        sender.join()
        signal.signal(signal.SIGINT, before)
        np.testing.assert_array_equal(model.run(inputs, pool=pool)["y"], want)


def test_pools_have_threads() -> None:
    with pytest.raises(ValueError, match="0 threads: expected at least 1"):
        Pool(0)
    with pytest.raises(ValueError, match="1000000000 threads: expected at most 1024"):
        Pool(10**9)
    with pytest.raises(ValueError, match="threads is 'two', expected an integer"):
        Pool("two")  # type: ignore[arg-type]
    assert Pool(np.int64(1)).threads == 1  # type: ignore[arg-type]
    with Pool(2) as pool:
        for threads in (0, -1):
            with pytest.raises(ValueError, match=f"{threads} threads: expected at least 1"):
                pool.run(lambda at: 7, threads)
        assert pool.run(lambda at: 7, 10**9) == 7


def test_pools_stay_in_their_process() -> None:
    with Pool(2) as pool:
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="a pool cannot be copied or pickled"):
                copied(pool)


@pytest.mark.parametrize("compiler", [["cc", "-std=c11"], ["c++", "-xc++", "-std=c++20"]])
def test_a_pool_in_c(tmp_path: Path, compiler: list[str]) -> None:
    if shutil.which(compiler[0]) is None:
        pytest.skip("no such compiler here")
    made = rnncc.build(*char_lstm(5, 6), out=tmp_path, name="tiny", threads=True)
    assert made.library is not None
    source = HERE / "pool.c"
    if "c++" in compiler:  # which has no cast from void * by itself
        text = source.read_text().replace("= argument;", "= (struct call *)argument;")
        source = tmp_path / "pool.cpp"
        source.write_text(text)
    program = tmp_path / "pool"
    flags = ["-Wall", "-Wextra", "-Werror", "-pthread", f"-I{tmp_path}", f"-I{INCLUDE}"]
    link = ["-xnone", f"-L{tmp_path}", "-ltiny", f"-Wl,-rpath,{tmp_path}"]
    subprocess.run([*compiler, *flags, source, *link, "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, check=True, timeout=60)
    assert done.stdout == b"0 1\n"
