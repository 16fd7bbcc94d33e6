"""Compiled streams against compiled whole sequences, bit for bit, unmapped pages around all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.ir.program import Program
from tests.codegen.compiled import bare_net
from tests.codegen.guarded import guards
from tests.codegen.streamed import BareStream, bare_stream, library_of, stepwise
from tests.golden import GOLDEN, Arrays, random_inputs
from tests.passes.helpers import quick
from tests.passes.streams import STREAMED, streamable
from tests.strategies import make_inputs, programs

every_case = pytest.mark.parametrize("case", STREAMED, ids=lambda path: path.name)
both_sides = pytest.mark.parametrize("end", [False, True], ids=["before", "behind"])
CHUNKS = [(1, 1, 1), (0, 2, 0, 5), (13, 1, 70, 1)]


def same_bits(got: Arrays, want: Arrays) -> None:
    assert list(got) == list(want)
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array, err_msg=name, strict=True)


@every_case
@both_sides
@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
@pytest.mark.parametrize("batch", [1, 5])
def test_chunks_are_the_whole(case: Path, end: bool, chunks: tuple[int, ...], batch: int) -> None:
    program, bare = bare_stream(case)
    sizes = {"T": sum(chunks), "N": batch, "S": 4}
    inputs = random_inputs(program, sizes)
    with guards(end) as memory:
        whole = bare.run(inputs, sizes, memory)
        same_bits(stepwise(program, bare, inputs, sizes, chunks, memory), whole)


@every_case
def test_the_whole_is_what_one_program_computes(case: Path) -> None:
    program, bare = bare_stream(case)
    _, single = bare_net(case)
    for steps, batch in ((0, 1), (1, 1), (9, 3), (100, 2)):
        sizes = {"T": steps, "N": batch, "S": 3}
        inputs = random_inputs(program, sizes)
        with guards(True) as memory:
            same_bits(bare.run(inputs, sizes, memory), single.run(inputs, sizes, memory))


@every_case
def test_absent_outputs_change_nothing(case: Path) -> None:
    program, bare = bare_stream(case)
    sizes = {"T": 4, "N": 3, "S": 3}
    inputs = random_inputs(program, sizes)
    with guards(True) as memory:
        first = bare.begin(inputs, sizes, memory)
        every, state = bare.step(inputs, first, sizes, memory)
        for absent in (*([name] for name in every), list(every)):
            some, other = bare.step(inputs, first, sizes, memory, absent)
            same_bits(some, {n: a for n, a in every.items() if n not in absent})
            assert other == state


@every_case
def test_no_batch_at_all(case: Path) -> None:
    program, bare = bare_stream(case)
    sizes = {"T": 2, "N": 0, "S": 3}
    inputs = random_inputs(program, sizes)
    with guards(True) as memory:
        same_bits(
            stepwise(program, bare, inputs, sizes, (1, 1), memory),
            bare.run(inputs, sizes, memory),
        )


@quick
@given(program=programs(), chunks=st.lists(st.integers(0, 3), min_size=2, max_size=4))
def test_random_programs(program: Program, chunks: list[int]) -> None:
    loops = streamable(program)
    assume(loops is not None)
    assert loops is not None
    program = loops
    sizes, inputs = make_inputs(program, {"T": sum(chunks), "N": 3})
    inputs = {n: a if a.dtype == np.int32 else a.astype(np.float32) for n, a in inputs.items()}
    bare = BareStream(library_of(program.copy()), resolve_target())
    with guards(True) as memory:
        whole = bare.run(inputs, sizes, memory)
        same_bits(stepwise(program, bare, inputs, sizes, chunks, memory), whole)


def test_an_absent_input_is_its_default() -> None:
    program, bare = bare_stream(GOLDEN / "caffe2" / "attention_recurrent")
    sizes = {"T": 3, "N": 2, "S": 3}
    inputs = random_inputs(program, sizes)
    name, default = next((n, a) for n, a in program.arrays.items() if n in inputs)
    explicit = {**inputs, name: default}
    del inputs[name]
    with guards(True) as memory:
        whole = bare.run(explicit, sizes, memory)
        same_bits(bare.run(inputs, sizes, memory), whole)
        same_bits(stepwise(program, bare, inputs, sizes, (1, 2), memory), whole)


def test_sizes_and_nulls_are_refused() -> None:
    _, bare = bare_stream(STREAMED[0])
    assert bare.size("state_bytes", {"N": -1}) == -1
    assert bare.size("workspace_bytes", {"T": -1}) == -1
    state_init, step = bare.call("state_init"), bare.call("step")
    sizes = [1] * len(bare.timed)
    assert state_init(0, 0, 0, 0, *sizes[1:]) == 1
    assert state_init(0, 0, 0, 0, -1, *sizes[2:]) == 2
    assert step(0, 0, 0, 0, 0, *sizes) == 1
    assert step(0, 0, 0, 0, 0, -1, *sizes[1:]) == 2
