"""What is handed from call to call, given to every owner but its own: an error, never a crash."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
import rnncc_runtime
from rnncc_runtime import ArrayError, Model, Pool, RunError, Tape, TrainableModel

import rnncc
from tests.codegen.guarded import guards
from tests.golden import Arrays
from tests.teams import insistent
from tests.training.models import assert_same_bits

Array = np.ndarray[Any, Any]

T, N, C, H = 3, 2, 3, 4
BAD_TAPE = 6


@cache
def trained(units: int = H, recompute: str = "none") -> TrainableModel:
    net = rnncc.cells.gru(C, units)
    return rnncc.compile(net, train=True, recompute=recompute, threads=True)


@cache
def inference(units: int = H) -> Model:
    return rnncc.compile(rnncc.cells.gru(C, units), threads=True)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A net for training, as a file."""
    folder = tmp_path_factory.mktemp("built")
    made = rnncc.build(rnncc.cells.gru(C, H), out=folder, name="gru", train=True)
    assert made.library is not None
    return made.library


def draw(t: int = T, n: int = N) -> Arrays:
    return {"x": np.random.default_rng(0).standard_normal((t, n, C)).astype(np.float32)}


OUTER = {"y": np.ones((T, N, H), np.float32)}


def test_a_tape_of_another_model(library: Path) -> None:
    model = trained()
    others = {
        "larger": trained(17),
        "of another recompute": trained(recompute="all"),
        "of a library": rnncc_runtime.load(library, train=True),
        "of that library, loaded again": rnncc_runtime.load(library, train=True),
    }
    for told, owner in others.items():
        _, tape = owner.forward(draw())
        for other in (model, *others.values()):
            if other is not owner:
                with pytest.raises(ArrayError, match=r"^the tape is of .*another model") as caught:
                    other.backward(tape, {})
                assert "\n" not in str(caught.value), told
        want = owner.backward(owner.forward(draw())[1], {})
        assert_same_bits(owner.backward(tape, {}), want, told)  # it has come to no harm


@pytest.mark.parametrize("tape", [None, 3, b"", {}, object()], ids=lambda tape: type(tape).__name__)
def test_what_is_no_tape(tape: Any) -> None:
    with pytest.raises(ArrayError, match="not what forward has returned"):
        trained().backward(tape, {})


def test_a_tape_for_several_threads() -> None:
    """Of those that use one tape at a time one goes on."""
    model, threads = trained(), 8
    want = model.backward(model.forward(draw())[1], OUTER)

    def attempt(tape: Tape, start: Barrier) -> Arrays | None:
        start.wait()
        try:
            return model.backward(tape, OUTER)
        except ArrayError as error:
            assert "used up" in str(error)
            return None

    with ThreadPoolExecutor(threads) as executor:
        for _ in range(30):
            tape, start = model.forward(draw())[1], Barrier(threads)
            tried = [executor.submit(attempt, tape, start) for _ in range(threads)]
            (grads,) = [made for one in tried if (made := one.result()) is not None]
            assert_same_bits(grads, want, "one of several")


def test_what_holds_memory_is_not_copied() -> None:
    """Two of one memory would write over each other, and its addresses mean nothing elsewhere."""
    stream = inference().stream(1)
    stream.step(draw(1, 1))
    _, tape = trained().forward(draw())
    copiers: list[Callable[[object], object]] = [copy.copy, copy.deepcopy, pickle.dumps]
    for held in (stream, tape):
        for copier in copiers:
            with pytest.raises(TypeError, match="cannot be copied or pickled"):
                copier(held)


def backward_code(
    model: TrainableModel, tape: Array, sizes: tuple[int, int], pool: Pool | None
) -> int:
    """What backward returns; nothing but the tape is where it should be."""
    nowhere = np.zeros(64, np.uint8).ctypes.data
    places = [nowhere] * 4 + [tape.__array_interface__["data"][0], nowhere]
    if pool is None:
        return model._functions["backward"](*places, *sizes)
    part = model._functions["backward_part"]
    return pool.run(lambda at: part(*places, at, *sizes))


@pytest.mark.parametrize("threads", [1, 3])
def test_wrong_tapes_in_c(threads: int) -> None:
    """A tape that is not the call's own is not read beyond its first line, nor is anything else."""
    small, large, smaller = trained(), trained(17), trained(recompute="all")
    with guards(end=True) as held, Pool(3) as team:
        pool = team if threads > 1 else None
        tape = held.array(small.forward(draw())[1]._blocks[0].bytes)
        blanks = [held.array(np.full(64, byte, np.uint8)) for byte in (0, 1, 0xFF)]
        for model in (small, large, smaller):
            for blank in blanks:
                assert backward_code(model, blank, (T, N), pool) == BAD_TAPE
        for model in (large, smaller):
            assert backward_code(model, tape, (T, N), pool) == BAD_TAPE
        for sizes in ((2, 2), (2, 3), (3, 1), (0, 0), (1, 6), (6, 1), (1 << 20, 1)):
            assert backward_code(small, tape, sizes, pool) == BAD_TAPE


@pytest.mark.parametrize("threads", [1, 3])
def test_a_tape_is_used_up_in_c(threads: int) -> None:
    model = insistent(copy.copy(trained()), threads)
    with Pool(3) as pool:
        for _ in range(2):  # the memory serves again
            _, tape = model.forward(draw(), pool=pool)
            again = Tape(model, tape._inputs, tape._outputs, tape._sizes, list(tape._blocks))
            model.backward(tape, OUTER, pool=pool)
            with pytest.raises(RunError, match="used up") as caught:
                model.backward(again, OUTER, pool=pool)
            assert caught.value.code == BAD_TAPE
