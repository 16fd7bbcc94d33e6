"""States of streams that are damaged or forged: refused, or harmless."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from rnncc_runtime import ArrayError, Model, RunError, Stream, StreamError, saved, stream

import rnncc
from rnncc.commands.charnet import char_lstm
from rnncc.ir.builder import Builder
from tests.codegen.guarded import Guards, guards

BATCH = 2
HEADER = struct.calcsize("<16sIIIIQ")


@cache
def lengths() -> Model:
    """An LSTM: states, lengths and a count of steps."""
    model = rnncc.compile(*char_lstm(4, 5))
    assert isinstance(model, Model)
    return model


@cache
def rows() -> Model:
    """A state that numbers the rows of a table."""
    b = Builder.net("rows")
    i, x, one = b.input("i", ["N"], "i64"), b.input("x", ["N", 3]), b.input("one", ["N"], "i64")
    table = b.param("table", (4, 3))
    outputs = {"y": b.add(b.gather(table, i, 0), x), "next": b.add(i, one)}
    arrays = {"table": np.zeros((4, 3), np.float32)}
    model = rnncc.compile(b.finish(outputs, arrays, "rows"), state={"i": "next"})
    assert isinstance(model, Model)
    return model


MODELS = [lengths, rows]


def step(sequence: Stream, batch: int = BATCH) -> dict[str, Any]:
    arrays = {}
    for name, spec in sequence.inputs.items():
        shape = [{"T": 1, "N": batch}.get(str(size), size) for size in spec.shape]
        arrays[name] = np.ones([int(size) for size in shape], spec.dtype)
    return sequence.step(arrays)


def started(model: Model) -> Stream:
    sequence = model.stream(batch=BATCH)
    step(sequence)
    return sequence


def forged(state: bytes, sizes: list[int], values: bytes) -> bytes:
    """A state with its checksum."""
    layout = struct.unpack_from("<16sII", state)[2]
    return saved.pack(layout, sizes, values)


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Guards]:
    """States and workspaces end at a page that must not be touched."""
    with guards(end=True) as held:

        class Guarded:
            def __init__(self, size: int) -> None:
                rounded = -(-size // 64) * 64  # as every block of a caller's begins at a line
                self.size, self.address = size, held.block(rounded)
                self.bytes = held.view(self.address, (size,), np.dtype(np.uint8))

        monkeypatch.setattr(stream, "Memory", Guarded)
        yield held


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "content", [None, 3, "text", [1], b"", bytearray(8), np.zeros(3)], ids=repr
)
def test_what_is_no_state(model: Any, content: Any) -> None:
    sequence = started(model())
    before = sequence.state
    with pytest.raises(StreamError, match=r"a state is bytes|not the state of a stream"):
        sequence.state = content
    assert sequence.state == before


@pytest.mark.parametrize("model", MODELS)
def test_other_kinds_of_bytes(model: Any) -> None:
    sequence = started(model())
    before = sequence.state
    for content in (bytearray(before), memoryview(before), memoryview(before).cast("b")):
        sequence.state = content  # type: ignore[bad-argument-type]
        assert sequence.state == before


@pytest.mark.parametrize("model", MODELS)
def test_sizes_that_do_not_fit(model: Any, memory: Guards) -> None:
    """With the right checksum; nothing of their size is allocated."""
    sequence = model().stream()
    step(sequence)
    before = sequence.state
    values = before[HEADER + 8 :]
    for size in (0, 1, 3, 4, -1, -2, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63)):
        with pytest.raises(StreamError, match="damaged"):
            sequence.state = forged(before, [size], values)
    for held in (values[:-1], values + b"\0", b"", values * 2):
        with pytest.raises(StreamError, match="damaged"):
            sequence.state = forged(before, [BATCH], held)
    for sizes in ([], [BATCH, 1]):
        with pytest.raises(StreamError, match="of another model"):
            sequence.state = forged(before, sizes, values)
    short = bytes(4)
    start = before[: HEADER - 16] + struct.pack("<IIQ", crc32(short), 1, len(short))
    with pytest.raises(StreamError, match="damaged"):
        sequence.state = start + short
    assert sequence.state == before


@pytest.mark.parametrize("model", MODELS)
def test_mutated_bytes(model: Any) -> None:
    sequence, random = started(model()), Random(0)
    before = sequence.state
    for _ in range(2000):
        content = bytearray(before)
        for _ in range(random.choice((1, 2, 8))):
            content[random.randrange(len(content))] ^= random.randrange(1, 256)
        cut = random.choice((len(content), random.randrange(len(content))))
        if content[:cut] == before:
            continue
        with pytest.raises(StreamError):
            sequence.state = bytes(content[:cut])
    assert sequence.state == before


@pytest.mark.parametrize("model", MODELS)
def test_forged_values_harm_nobody(model: Any, memory: Guards) -> None:
    """Any values: a step computes something with them, or refuses them."""
    sequence, random, refused = model().stream(batch=BATCH), Random(0), 0
    step(sequence)
    before = sequence.state
    values = len(before) - HEADER - 8
    extremes = [bytes(values), b"\xff" * values, b"\x80\0\0\0" * (values // 4)]
    for content in extremes + [random.randbytes(values) for _ in range(300)]:
        sequence.state = forged(before, [BATCH], content)
        for _ in range(2):
            try:
                assert step(sequence)
            except RunError:
                refused += 1
    assert refused or model is lengths


def test_names_of_states_are_free() -> None:
    """Other inputs and outputs may be called as values of a state are."""
    names = ["state:h", "state:h.2", "next:h"]
    b = Builder.net("named")
    h, x, other = b.input("h", (2,)), b.input(names[0], (2,)), b.input(names[1], (2,))
    grown = b.add(h, b.mul(x, other))
    model = rnncc.compile(b.finish({names[2]: b.neg(h), "g": grown}), state={"h": "g"})
    assert isinstance(model, Model)
    sequence = model.stream()
    given = dict(zip(names, np.array([[2, 3], [5, 7]], np.float32), strict=False))
    for number in range(3):
        got = sequence.step(given)
        np.testing.assert_array_equal(got[names[2]], [-10.0 * number, -21.0 * number])


@pytest.mark.parametrize("batch", [BATCH, None])
def test_a_beginning_that_is_refused_changes_nothing(batch: int | None) -> None:
    """Neither what the first step begins with, which may tell the batch, nor a state."""
    first = {"h0": np.ones((1, BATCH, 5), np.float32)}
    sequence, other = (lengths().stream(batch, first) for _ in range(2))
    for _ in range(2):
        for wrong in ({"x": first["h0"]}, {"h0": np.ones((1, BATCH, 5))}):
            with pytest.raises(ArrayError):
                sequence.reset(wrong)
        outputs, expected = step(sequence), step(other)
        assert all(np.array_equal(outputs[name], expected[name]) for name in expected)
