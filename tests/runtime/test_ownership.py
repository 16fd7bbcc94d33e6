"""What is handed from call to call, given to every owner but its own: an error, never a crash."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
import rnncc_runtime
from rnncc_runtime import (
    ArrayError,
    LoadError,
    Model,
    Pool,
    RunError,
    StreamError,
    Tape,
    TrainableModel,
)

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
    _, tape = trained().forward(draw())
    copiers: list[Callable[[object], object]] = [copy.copy, copy.deepcopy, pickle.dumps]
    for copier in copiers:
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            copier(tape)


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
            again = replace(tape, _blocks=list(tape._blocks))
            model.backward(tape, OUTER, pool=pool)
            with pytest.raises(RunError, match="used up") as caught:
                model.backward(again, OUTER, pool=pool)
            assert caught.value.code == BAD_TAPE


def in_another_thread(work: Callable[[], object]) -> None:
    with ThreadPoolExecutor(1) as executor:
        executor.submit(work).result()


def test_a_stream_of_another_thread() -> None:
    """While one thread computes, nothing of the stream is there for others; then all of it is."""
    stream = inference().stream(1)
    stream.step(draw(2, 1))
    want, state, step = stream.step(draw(2, 1))["y"], stream.state, stream._step
    out = {"y": np.zeros((2, 1, H), np.float32)}
    refused: list[Callable[[], object]] = [
        lambda: stream.step(draw(5, 1)),
        lambda: stream.step(draw(2, 1), out=out),
        lambda: stream.reset(),
        lambda: stream.state,
        lambda: setattr(stream, "state", state),
    ]

    def attempt() -> None:
        for call in refused:
            with pytest.raises(StreamError, match="another thread computes with this stream"):
                call()

    def disturbed(*arguments: int) -> int:
        in_another_thread(attempt)
        return step(*arguments)

    stream._step = disturbed
    stream.reset()
    stream.step(draw(2, 1))
    np.testing.assert_array_equal(stream.step(draw(2, 1))["y"], want)
    assert stream.state == state
    stream._step = step
    in_another_thread(lambda: stream.step(draw(2, 1), out=out))
    with pytest.raises(ArrayError):
        stream.step({})
    stream.reset()  # an error leaves it free


def test_states_of_other_models_and_batches() -> None:
    small, large = (inference(units).stream(2) for units in (H, 17))
    for stream in (small, large):
        stream.step(draw())
    elman = rnncc.compile(rnncc.cells.elman(C, H)).stream(2)
    elman.step(draw())
    alone = inference().stream(1)
    for stream, state, message in (
        (large, small.state, "of another model"),
        (small, large.state, "of another model"),
        (small, elman.state, "of another model"),
        (alone, small.state, "N = 2 for a stream of N = 1"),
        (small, b"", "not the state of a stream"),
        (small, small.state[:-1], "damaged"),
        (small, small.state + b"\0", "damaged"),
    ):
        before = None if stream is alone else stream.state
        with pytest.raises(StreamError, match=message):
            stream.state = state
        assert before is None or stream.state == before


def test_arrays_that_share_memory() -> None:
    """Whatever is written lies apart from all else, whoever calls and in however many threads."""
    model, stream = inference(), inference().stream(N)
    learner = rnncc.compile(rnncc.cells.gru(C, C), train=True)
    x = np.zeros((T, N, C), np.float32)
    room = np.zeros(T * N * C + 1, np.float32)
    overlapping = {"y": room[:-1].reshape(x.shape), "x": room[1:].reshape(x.shape)}
    last, both = np.zeros((N, H), np.float32), np.zeros((T, N, H), np.float32)
    with Pool(2) as pool:
        for out in ({"y": both, "h_last": both[0]}, {"y": both, "h_last": both[-1]}):
            for call in (model.run, stream.step):
                with pytest.raises(ArrayError, match="overlaps"):
                    call(draw(), out=out)
            with pytest.raises(ArrayError, match="overlaps"):
                model.run(draw(), out=out, pool=pool)
    assert model.run(draw(), out={"y": both, "h_last": last})["y"].any()
    for given, written in ((x, x), (overlapping["x"], overlapping["y"])):
        with pytest.raises(ArrayError, match="output y overlaps input x"):
            learner.forward({"x": given}, out={"y": written})
    for name, array in learner.parameters.items():
        if array.size >= x.size:
            with pytest.raises(ArrayError, match=f"output y overlaps input {name}"):
                learner.forward({"x": x}, out={"y": array.ravel()[: x.size].reshape(x.shape)})
    outputs, tape = learner.forward({"x": x})
    for written in (x, outputs["y"]):
        with pytest.raises(ArrayError, match="gradient of x overlaps"):
            learner.backward(tape, {}, out={"x": written})
    learner.backward(tape, {}, out={"x": np.zeros_like(x)})


def test_parameters_of_another_model() -> None:
    model, other = rnncc.compile(rnncc.cells.gru(C, H), train=True), trained(17)
    for name in list(model.parameters):
        own, model.parameters[name] = model.parameters[name], other.parameters[name]
        with pytest.raises(ArrayError, match=f"parameter {name} is to be an array of shape"):
            model.forward(draw())
        del model.parameters[name]
        with pytest.raises(ArrayError, match=f"parameter {name} is missing"):
            model.forward(draw())
        model.parameters[name] = own
    model.parameters["more"] = np.zeros(3, np.float32)
    with pytest.raises(ArrayError, match="no parameter is named more; parameters: "):
        model.forward(draw())
    del model.parameters["more"]
    name, own = next(iter(model.parameters.items()))
    model.parameters[name] = own.astype(np.float64)
    with pytest.raises(ArrayError, match=f"parameter {name} is float64, expected float32"):
        model.forward(draw())
    model.parameters[name] = own
    _, tape = model.forward(draw())
    model.parameters.clear()
    for call in (lambda: model.forward(draw()), lambda: model.backward(tape, {})):
        with pytest.raises(ArrayError, match="parameter"):
            call()


def test_pools_of_other_models_and_closed_ones() -> None:
    single = rnncc.compile(rnncc.cells.gru(C, H), train=True)
    with Pool(2) as pool:
        with pytest.raises(LoadError, match="compiled for one thread"):
            single.forward(draw(), pool=pool)
        _, tape = single.forward(draw())
        with pytest.raises(LoadError, match="compiled for one thread"):
            single.backward(tape, {}, pool=pool)
        model, trainer = insistent(copy.copy(inference())), insistent(copy.copy(trained()))
        want = model.run(draw(), pool=pool)
        _, tape = trainer.forward(draw(), pool=pool)
    assert_same_bits(model.run(draw(), pool=pool), want, "closed")
    assert_same_bits(
        trainer.backward(tape, OUTER, pool=pool),
        trainer.backward(trainer.forward(draw())[1], OUTER),
        "closed",
    )
