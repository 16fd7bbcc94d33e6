"""Nets in chunks of time against the whole, and why some nets have no chunks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from xdsl.ir import SSAValue

from rnncc.frontends.caffe2 import import_net
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.passes.streams.streaming import NotCausal
from tests.golden import GOLDEN, random_inputs
from tests.passes.helpers import quick
from tests.passes.streams import REFUSED, STREAMED, in_chunks, interpreted, split, streamable
from tests.strategies import make_inputs, programs

T, N = Dim.of("T"), Dim.of("N")


@pytest.mark.parametrize("case", STREAMED, ids=lambda path: path.name)
@pytest.mark.parametrize("chunks", [(7,), (1, 1, 1), (0, 2, 0, 3), ()], ids=str)
def test_chunks_are_the_whole(case: Path, chunks: tuple[int, ...]) -> None:
    program = import_net(case / "net.pb", case / "init.pb")
    check(program, chunks or (0,), random_inputs(program, {"T": sum(chunks), "N": 3, "S": 4}))


def test_ports_of_the_state_are_of_their_kinds() -> None:
    case = GOLDEN / "caffe2" / "lstm"
    streamed = split(import_net(case / "net.pb", case / "init.pb"))
    step, nexts = streamed.step.net, [k.next for k in streamed.state if k.next is not None]
    assert list(step.inputs_of("state")) == [kept.name for kept in streamed.state]
    assert list(step.outputs_of("next")) == nexts
    assert {role.of for role in step.output_roles.values()} <= step.inputs_of("state").keys()


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_cut(name: str) -> None:
    case = GOLDEN / "caffe2" / name
    with pytest.raises(NotCausal, match=REFUSED[name]):
        split(import_net(case / "net.pb", case / "init.pb"))


@quick
@given(program=programs(), chunks=st.lists(st.integers(0, 3), min_size=1, max_size=4))
def test_random_programs(program: Program, chunks: list[int]) -> None:
    loops = streamable(program)
    assume(loops is not None)
    assert loops is not None
    check(loops, chunks, make_inputs(loops, {"T": sum(chunks), "N": 3})[1])


@quick
@given(program=programs(known=False), chunks=st.lists(st.integers(0, 3), min_size=1, max_size=4))
def test_random_programs_of_unknown_parameters(program: Program, chunks: list[int]) -> None:
    _, inputs = make_inputs(program, {"T": sum(chunks), "N": 3})
    try:
        check(program, chunks, inputs)
    except NotCausal as reason:
        event(str(reason)[:40])
        assume(False)


def check(program: Program, chunks: list[int] | tuple[int, ...], inputs: dict[str, np.ndarray]):
    """Chunks of a sequence against the whole of it, in float64."""
    sizes = {"T": sum(chunks), "N": 3, "S": 4}
    streamed = split(program)
    want = run(program, inputs, np.float64, sizes)
    got = in_chunks(program, interpreted(streamed, inputs, sizes), inputs, chunks)
    assert list(got) == list(want)
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, 1e-9, 1e-9, err_msg=name)


def looped(
    b: Builder, x: SSAValue, start: SSAValue, reverse: bool = False
) -> tuple[list[SSAValue], list[SSAValue]]:
    """A loop that adds up a sequence."""

    def body(inner: Builder, ks: object, carry: list[SSAValue], rows: list[SSAValue]):
        total = inner.add(carry[0], rows[0])
        return [total], [total]

    return b.scan([], [start], [x], body, reverse)


def test_numbers_of_steps_go_on_from_chunk_to_chunk() -> None:
    b = Builder.net("net")
    x = b.input("x", ["T", "N", 2])
    step = b.iota(["T", "N", 2], 0, "i64")
    place = b.reshape(b.iota([T * N], 0), ["T", "N"])
    program = b.finish({"y": b.add(x, b.cast(step, "f32")), "place": place})
    assert [kept.name for kept in split(program).state] == ["state:steps"]
    check(program, (2, 0, 3), random_inputs(program, {"T": 5, "N": 3}))


def test_time_may_be_an_inner_axis() -> None:
    b = Builder.net("net")
    x, h = b.input("x", ["N", "T", 2]), b.input("h", ["N", 2])
    finals, ys = looped(b, b.transpose(x, [1, 0, 2]), h)
    program = b.finish({"y": b.transpose(ys[0], [1, 0, 2]), "last": b.tanh(finals[0])})
    check(program, (1, 2, 0), random_inputs(program, {"T": 3, "N": 3}))


def test_what_inputs_alone_decide_is_made_once() -> None:
    b = Builder.net("net")
    x, v = b.input("x", ["T", "N", 2]), b.input("v", ["N", 2])
    w = b.param("w", [2, 2])
    wide = b.matmul(b.tanh(v), w)
    _, ys = looped(b, b.add(x, b.broadcast(wide, ["T", "N", 2], [1, 2])), b.fill(0.0, ["N", 2]))
    program = b.finish({"y": ys[0], "wide": wide}, {"w": np.eye(2)})
    streamed = split(program)
    assert not [op.name for op in streamed.step.net.walk() if op.name in ("rnn.tanh", "rnn.param")]
    assert list(streamed.init.net.inputs) == ["v"]
    assert [(k.next is None, k.initial_input) for k in streamed.state] == [
        (True, None),
        (False, None),
    ]
    check(program, (1, 2), random_inputs(program, {"T": 3, "N": 3}))


def test_defaults_of_inputs() -> None:
    b = Builder.net("net")
    x, h = b.input("x", ["T", "N", 2]), b.input("h", [1, "N", 2])
    lengths, scale = b.input("lengths", ["N"], "i32"), b.input("scale", [2])
    _, ys = looped(b, b.mul(x, scale), b.reshape(h, ["N", 2]))
    live = b.compare("lt", b.iota(["T", "N"], 0), lengths)
    y = b.mul(ys[0], b.reshape(b.cast(live, "f32"), ["T", "N", 1]))
    streamed = split(b.finish({"y": y}))
    assert streamed.defaults == {"h": 0, "lengths": 2**31 - 1, "scale": None}
    assert {k.name: k.initial_input for k in streamed.state} == {
        "state:scale": "scale",
        "state:h": "h",
        "state:steps": None,
        "state:lengths": "lengths",
    }


def test_steps_are_counted_as_far_as_they_fit() -> None:
    b = Builder.net("net")
    program = b.finish({"y": b.add(b.input("x", ["T"], "i32"), b.iota(["T"], 0))})
    step = split(program).step
    inputs = {"x": np.zeros(3, np.int32), "state:steps": np.array(2**31 - 2, np.int32)}
    outputs = run(step, inputs)
    assert outputs["y"].tolist() == [2**31 - 4, 2**31 - 3, 2**31 - 2]
    assert outputs["next:steps"] == 2**31 - 1


Make = Callable[[Builder, SSAValue, SSAValue], SSAValue]
REASONS: list[tuple[str, Make]] = [
    ("a loop goes backwards in time", lambda b, x, h: looped(b, x, h, reverse=True)[1][0]),
    ("starts from what another one", lambda b, x, h: looped(b, x, looped(b, x, h)[0][0])[1][0]),
    ("known after the last one", lambda b, x, h: b.add(x, looped(b, x, h)[0][0])),
    ("reduce over all time steps", lambda b, x, h: b.reduce("max", x, [0])),
    ("matmul over all time steps", lambda b, x, h: b.matmul(x_of(b, x), x_of(b, x), True)),
    ("no single axis of time", lambda b, x, h: b.matmul(x_of(b, x), x_of(b, x), False, True)),
    ("slice along time", lambda b, x, h: b.slice(b.reshape(x, [T * N, 2]), 0, 0, T)),
    ("slice over all time steps", lambda b, x, h: b.slice(x, 0, 1, 1)),
    ("concat along time", lambda b, x, h: b.concat([x, x], 0)),
    ("no single axis of time", lambda b, x, h: b.concat([x, b.fill(0, [1, "N", 2])], 0)),
    ("tears the steps apart", lambda b, x, h: b.reshape(b.transpose(x, [1, 0, 2]), [T * N, 2])),
    ("number of steps is read", lambda b, x, h: b.mul(x, b.cast(b.size(T), "f32"))),
    ("number of steps is read", lambda b, x, h: b.slice(x, 1, T, 1)),
    ("windows along time", lambda b, x, h: b.windows(x, 0, 0, T, 1, 1)),
    ("gather along time", lambda b, x, h: b.gather(x, b.iota(["T"], 0), 0)),
    ("shift along time", lambda b, x, h: b.shift(x, h)),
    ("their number is fixed", lambda b, x, h: b.tanh(h)),
]


@pytest.mark.parametrize(("reason", "make"), REASONS)
def test_reasons(reason: str, make: Make) -> None:
    b = Builder.net("net")
    x, h = b.input("x", ["T", "N", 2]), b.input("h", ["N", 2])
    with pytest.raises(NotCausal, match=reason):
        split(b.finish({"y": make(b, x, h)}))


def x_of(b: Builder, x: SSAValue) -> SSAValue:
    """A sequence as a matrix, one row a step and element of the batch."""
    return b.reshape(x, [T * N, 2])


def test_steps_of_another_name() -> None:
    b = Builder.net("net")
    x, h = b.input("x", ["steps", "N", 2]), b.input("h", ["N", 2])
    _, ys = b.scan([], [h], [x], lambda c, _, h, x: ([s := c.tanh(c.add(h[0], x[0]))], [s]))
    with pytest.raises(NotCausal, match=r"its steps are named steps.*--shape.*shapes="):
        split(b.finish({"y": ys[0]}))
