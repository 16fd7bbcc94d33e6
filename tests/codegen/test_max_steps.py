"""Libraries whose calls take a limited number of steps: less workspace, checked, the same bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rnncc_runtime import ArrayError

import rnncc
from rnncc import CompileError
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.driver import compiling
from rnncc.ir.builder import Builder
from rnncc.options import Options
from rnncc.packaging import texts
from tests.codegen.guarded import guards
from tests.codegen.streamed import BareStream, bare_stream, library_of, stepwise
from tests.golden import KINDS, random_inputs
from tests.passes.streams import REFUSED

STREAMED = [case for case in KINDS if case.name not in REFUSED]
LSTM = rnncc.cells.lstm(16, 40)
BAD_SIZE = 2


@pytest.mark.parametrize(
    ("case", "most"), [*((case, 1) for case in STREAMED), *((case, 3) for case in STREAMED[-1:])]
)
def test_pieces_have_the_bits_of_the_whole(case: Path, most: int) -> None:
    program, unlimited = bare_stream(case)
    bare = BareStream(library_of(program.copy(), max_steps=most), resolve_target())
    for batch in (1, 5):
        sizes = {"T": 2 * most + 1, "N": batch, "S": 4}
        inputs = random_inputs(program, sizes)
        with guards(True) as memory:
            want = unlimited.run(inputs, sizes, memory)
            got = stepwise(program, bare, inputs, sizes, (most, 0, 1, most), memory)
            for name, array in want.items():
                np.testing.assert_array_equal(got[name], array, err_msg=name, strict=True)


def test_more_steps_are_refused_before_anything_is_touched() -> None:
    bare = BareStream(library_of(LSTM.copy(), max_steps=3), resolve_target())
    assert bare.size("workspace_bytes", {"T": 3}) > 0
    assert bare.size("workspace_bytes", {"T": 4}) == -1
    assert bare.call("step")(0, 0, 0, 0, 0, 4, 1) == BAD_SIZE
    assert bare.call("run")(0, 0, 0, 0, 4, 1) == BAD_SIZE


def test_the_workspace_has_room_for_no_more() -> None:
    ahead = {
        most: library_of(LSTM.copy(), max_steps=most).workspace.evaluate({"T": 1, "N": 1})
        for most in (1, 10, 100_000)
    }
    gates = 4 * 40 * 4
    assert ahead[1] < 3 * gates
    assert ahead[10] <= ahead[1] + 11 * gates
    assert ahead[100_000] > 100 * gates


def test_python_says_how_many() -> None:
    model = rnncc.compile(LSTM, max_steps=2)
    assert model.metadata["max_steps"] == 2
    x = np.zeros((3, 1, 16), np.float32)
    message = "a call takes at most 2 steps"
    with pytest.raises(ArrayError, match=message):
        model.run({"x": x})
    with pytest.raises(ArrayError, match=message):
        model.stream(batch=1).step({"x": x})
    assert model.run({"x": x[:2]})["y"].shape == (2, 1, 40)


def test_training_is_limited_too() -> None:
    model = rnncc.compile(LSTM, train=True, max_steps=2)
    with pytest.raises(ArrayError, match="at most 2 steps"):
        model.forward({"x": np.zeros((3, 1, 16), np.float32)})


def test_the_header_tells() -> None:
    told = compiling.compile_object(LSTM, None, Options(name="net", max_steps=7))
    assert "#define net_MAX_STEPS 7\n" in texts.header(told.metadata)


def test_a_net_without_steps_has_no_limit() -> None:
    b = Builder.net("doubled")
    x = b.input("x", ["N", 3], "f32")
    program = b.finish({"y": b.add(x, x)})
    with pytest.raises(CompileError, match="net without T"):
        rnncc.compile(program, max_steps=1)
