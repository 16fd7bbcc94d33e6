"""While by hand: how often it runs, what it carries, limits, and each error."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import numpy as np
import pytest
from google.protobuf.text_format import MessageToString

from rnncc.errors import CompileError
from rnncc.frontends.caffe2 import import_net
from rnncc.ir.interpreter import LimitError, run
from rnncc.ir.ops.control import Scan
from rnncc.ir.program import Program
from rnncc.ir.types import dtype_of
from rnncc.netdef import NetDef
from tests.frontends.caffe2.control_nets import (
    BOOL,
    INT32,
    INT64,
    body,
    branch,
    constant,
    counted,
    do,
    loop,
    scope,
)
from tests.frontends.caffe2.nets import net, op

Y, W = np.array([1.0, -2.0, 0.5]), np.array([1.5, 0.5, -1.25])
STARTS = [constant("i", 0), constant("one", 1), constant("k", 3), constant("go", 0, BOOL)]


def loops(program: Program) -> list[Scan]:
    return [op for op in program.net.walk() if isinstance(op, Scan)]


def imported(made: NetDef, **options: Any) -> Program:
    program = import_net(made, shapes={"y0": (3,), "w": (3,)}, **options)
    program.module.verify()
    return program


def refused(made: NetDef, **options: Any) -> str:
    with pytest.raises(CompileError) as caught:
        imported(made, **options)
    return str(caught.value).removeprefix("<net>: ")


# How often


@pytest.mark.parametrize("iterations", [0, 1, 2, 7])
@pytest.mark.parametrize("dtype", [INT32, INT64])
def test_a_count_that_the_net_holds_makes_a_plain_loop(iterations: int, dtype: int) -> None:
    names = {"i": 0, "one": 1, "k": iterations}
    starts = [constant(name, value, dtype) for name, value in names.items()]
    program = imported(counted(*starts, constant("go", 0, BOOL)))
    assert [(scan.gate, str(scan.steps)) for scan in loops(program)] == (
        [(None, str(iterations))] if iterations else []
    )
    got = run(program, {"y0": Y, "w": W}, np.float64)
    np.testing.assert_allclose(got["y"], Y * W**iterations)
    assert got["i"] == [iterations + 1]


def test_parameters_decide_as_constants_do() -> None:
    init = net([constant("i", 0), constant("one", 1), constant("k", 4)], "", "", "init")
    made = counted(constant("go", 0, BOOL))
    program = import_net(made, init, {"y0": (3,), "w": (3,)}, training=True)
    assert [(scan.gate, str(scan.steps)) for scan in loops(program)] == [(None, "4")]


def test_a_count_with_logic() -> None:
    """While not (i >= 10 or i = 6)."""
    condition = body(
        op("Add", "i one", "i"),
        op("GE", "i ten", "far"),
        op("EQ", "i six", "there"),
        op("Or", "far there", "end"),
        op("Not", "end", "go"),
    )
    starts = [*STARTS, constant("ten", 10), constant("six", 6)]
    while_ = loop("go y w i one ten six", "y i go", body(op("Mul", "y w", "y")), condition)
    program = imported(net([op("Copy", "y0", "y"), *starts, while_], "y0 w", "y"))
    assert [str(scan.steps) for scan in loops(program)] == ["5"]


def test_integers_count_as_the_machine_does() -> None:
    """From 2³¹ - 1 on comes -2³¹."""
    condition = body(op("Add", "i one", "i"), op("GT", "i one", "go"))
    starts = [constant("i", 2**31 - 4, INT32), constant("one", 1, INT32), STARTS[3]]
    while_ = loop("go y w i one", "y i go", body(op("Mul", "y w", "y")), condition)
    program = imported(net([op("Copy", "y0", "y"), *starts, while_], "y0 w", "y i"))
    assert [str(scan.steps) for scan in loops(program)] == ["3"]
    assert run(program, {"y0": Y, "w": W}, np.float64)["i"] == [-(2**31)]


def test_a_loop_counts_on_where_the_last_one_ended() -> None:
    step = body(op("Mul", "y w", "y"))
    condition = body(op("Add", "i one", "i"), op("LE", "i k", "go"))
    again = body(op("Add", "i one", "i"), op("LE", "i k2", "go"))
    ops = [op("Copy", "y0", "y"), *STARTS, constant("k2", 6)]
    ops += [loop("go y w i one k", "y i go", step, condition)]
    ops += [loop("go y w i one k2", "y i go", step, again)]
    program = imported(net(ops, "y0 w", "y"))
    assert [str(scan.steps) for scan in loops(program)] == ["3", "2"]


def test_a_bound_shows_where_the_data_may_end_the_loop_before() -> None:
    condition = body(
        op("Add", "i one", "i"),
        op("LE", "i k", "more"),
        op("SumSqrElements", "y", "size"),
        op("LT", "size limit", "small"),
        op("ExpandDims", "small", "small", dims=[0]),
        op("And", "more small", "go"),
    )
    while_ = loop("go y w i one k limit", "y i go", body(op("Mul", "y w", "y")), condition)
    made = net([op("Copy", "y0", "y"), *STARTS, while_], "y0 w limit", "y i")
    program = imported(made, training=True)
    (scan,) = loops(program)
    assert (str(scan.steps), scan.is_limited) == ("3", False)
    for limit, iterations in ((1e9, 3), (5.5, 2), (5.0, 0)):
        got = run(program, {"y0": Y, "w": W, "limit": np.array(limit)}, np.float64)
        np.testing.assert_allclose(got["y"], Y * W**iterations)


@pytest.mark.parametrize("iterations", [0, 1, 4])
def test_the_limit_given(iterations: int) -> None:
    program = imported(counted(), max_iterations=4, training=True)
    (scan,) = loops(program)
    assert (str(scan.steps), scan.is_limited) == ("4", True)
    assert dtype_of(program.net.inputs["k"]) == "i64"
    one = np.ones(1, np.int64)
    inputs = {"y0": Y, "w": W, "i": 0 * one, "one": one, "k": iterations * one, "go": one > 0}
    np.testing.assert_allclose(run(program, inputs, np.float64)["y"], Y * W**iterations)
    with pytest.raises(LimitError, match="more than 4 iterations"):
        run(program, {**inputs, "k": 5 * one}, np.float64)


def test_without_a_limit() -> None:
    (scan,) = loops(imported(counted()))
    assert str(scan.steps) == "100000"
    assert refused(counted(), training=True) == (
        'op 1 (While "y"): may take any number of iterations, and training keeps values of each '
        "(give the most that there can be: --max-iterations)"
    )


def test_a_loop_that_never_ends_is_found_out_while_it_runs() -> None:
    """Counting stops soon, whether the condition stays true or the count is far."""
    starts = [*STARTS[:2], constant("k", 2**63 - 1), STARTS[3]]
    start = time.process_time()
    tracemalloc.start()
    (scan,) = loops(imported(counted(*starts), max_iterations=3))
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()
    assert time.process_time() - start < 10
    assert scan.is_limited
    same = loop("go y", "y go", body(op("Tanh", "y", "y"), op("Or", "go go", "go")))
    made = net([op("Copy", "y0", "y"), constant("go", 1, BOOL), same], "y0", "y")
    with pytest.raises(LimitError):
        run(import_net(made, shapes={"y0": (3,)}, max_iterations=5), {"y0": Y})


def test_many_loops_share_what_counting_may_cost() -> None:
    ops = [op("Copy", "y0", "y")]
    condition = body(op("Add", "i one", "i"), op("LE", "i k", "go"))
    for _ in range(30):
        ops += [constant("i", 0), constant("one", 1), constant("k", 30_000), STARTS[3]]
        ops += [loop("go y w i one k", "y i go", body(op("Mul", "y w", "y")), condition)]
    start = time.process_time()
    program = imported(net(ops, "y0 w", "y"))
    assert time.process_time() - start < 10
    assert {scan.gate is None for scan in loops(program)} == {True, False}


# What it carries


@pytest.mark.parametrize("go", [True, False])
def test_without_a_condition_net_the_body_writes_the_condition(go: bool) -> None:
    iteration = body(op("Mul", "y w", "y"), op("Not", "go", "go"))
    made = net([op("Copy", "y0", "y"), loop("go y w", "y go", iteration)], "y0 w go", "y go")
    got = run(imported(made), {"y0": Y, "w": W, "go": np.array([go])}, np.float64)
    np.testing.assert_allclose(got["y"], Y * W if go else Y)
    assert got["go"] == [False]


def test_values_change_places() -> None:
    iteration = body(op("Copy", "a", "t"), op("Copy", "b", "a"), op("Copy", "t", "b"))
    condition = body(op("Add", "i one", "i"), op("LE", "i k", "go"))
    ops = [op("Copy", "y0", "a"), op("Copy", "w", "b"), *STARTS]
    ops.append(loop("go a b i one k", "a b i go", iteration, condition))
    got = run(imported(net(ops, "y0 w", "a b")), {"y0": Y, "w": W}, np.float64)
    np.testing.assert_array_equal(got["a"], W)
    np.testing.assert_array_equal(got["b"], Y)


def test_what_the_condition_writes_the_body_reads() -> None:
    """y = y c, where the condition net makes c of the count."""
    condition = body(op("Add", "i one", "i"), op("LE", "i k", "go"), op("Cast", "i", "c", to=1))
    ops = [op("Copy", "y0", "y"), *STARTS]
    ops.append(loop("go y i one k", "y i go c", body(op("Mul", "y c", "y")), condition))
    got = run(imported(net(ops, "y0 w", "y c")), {"y0": Y, "w": W}, np.float64)
    np.testing.assert_allclose(got["y"], Y * 1 * 2 * 3)
    assert got["c"] == [4]


def test_what_a_turn_makes_is_there_behind_the_loop_where_one_surely_runs() -> None:
    iteration = body(op("Mul", "y w", "p"), op("Tanh", "p", "y"))
    condition = body(op("Add", "i one", "i"), op("LE", "i k", "go"))
    while_ = loop("go y w i one k", "y i go p", iteration, condition)
    inside = do(
        body(op("Copy", "y0", "y"), *STARTS, while_),
        {"y0": "y0", "w": "w", "y": "y", "p": "p"},
        "y0 w",
        "y p",
    )
    got = run(imported(net([scope(), inside], "y0 w", "y p")), {"y0": Y, "w": W}, np.float64)
    np.testing.assert_allclose(np.tanh(got["p"]), got["y"])
    ends = body(op("Copy", "y0", "y"), *STARTS[:2], constant("k", 0), STARTS[3], while_)
    read = body(*ends.op, op("Copy", "p", "q"))
    text = refused(
        net([scope(), do(read, {"y0": "y0", "w": "w", "q": "q"}, "y0 w", "q")], "y0 w", "q")
    )
    assert text == (
        'op 1 (Do "q"): inner op 6 (Copy "q"): reads "p", which holds nothing unless the loop_net '
        'of inner op 5 (While "y") runs'
    )


def test_a_branch_in_a_loop_and_a_loop_in_a_branch() -> None:
    odd = branch("odd y w", "y", body(op("Mul", "y w", "y")), body(op("Add", "y w", "y")))
    iteration = body(odd, op("Not", "odd", "odd"))
    condition = body(op("Add", "i one", "i"), op("LE", "i k", "go"))
    while_ = loop("go odd y w i one k", "odd y i go", iteration, condition)
    made = net(
        [op("Copy", "y0", "y"), branch("c y w", "y i", body(*STARTS, while_))], "c y0 w odd", "y"
    )
    for taken in (True, False):
        inputs = {"c": np.array([taken]), "y0": Y, "w": W, "odd": np.array([True])}
        want = (Y * W + W) * W if taken else Y
        np.testing.assert_allclose(run(imported(made), inputs, np.float64)["y"], want)


def test_a_loop_in_a_loop() -> None:
    """Turn i takes i iterations of y = tanh(y w)."""
    inner_condition = body(op("Add", "j one", "j"), op("LE", "j i", "on"))
    step = body(op("Mul", "y w", "p"), op("Tanh", "p", "y"))
    inner = loop("on y w i j one", "y j on", step, inner_condition)
    iteration = body(constant("j", 0), constant("on", 0, BOOL), inner)
    condition = body(op("Add", "i one", "i"), op("LE", "i k", "go"))
    while_ = loop("go y w i one k", "y i go", iteration, condition)
    program = imported(net([op("Copy", "y0", "y"), *STARTS, while_], "y0 w", "y"), max_iterations=3)
    want = Y
    for _ in range(1 + 2 + 3):
        want = np.tanh(want * W)
    np.testing.assert_allclose(run(program, {"y0": Y, "w": W}, np.float64)["y"], want)


def test_nets_in_text_form() -> None:
    """As a RecurrentNetwork's step net, a net inside may be a text."""
    made = counted(*STARTS)
    for arg in (arg for o in made.op for arg in o.arg if arg.HasField("n")):
        text = MessageToString(arg.n).encode()
        arg.ClearField("n")
        arg.s = text
    program = imported(made)
    assert [str(scan.steps) for scan in loops(program)] == ["3"]
    np.testing.assert_allclose(run(program, {"y0": Y, "w": W}, np.float64)["y"], Y * W**3)
    made.op[-1].arg[0].s = b"op {"
    assert refused(made).startswith('op 5 (While "y")')


# Errors


def test_errors_of_while() -> None:
    start = op("Copy", "y0", "y")
    text = refused(net([start, loop("go y", "y", body(op("Tanh", "y", "y")))], "y0 w go", "y"))
    assert text == 'op 1 (While "y"): writes its condition "go" nowhere: it would never end'
    text = refused(net([start, op("While", "go y", "y")], "y0 w go", "y"))
    assert text == "op 1 (While \"y\"): lacks the argument 'loop_net'"
    iteration = body(op("Concat", "y y", "y sizes", axis=0), op("Not", "go", "go"))
    text = refused(net([start, loop("go y", "y go", iteration)], "y0 w go", "y"))
    assert text.startswith('op 1 (While "y"): ') and '"y" has shape' in text
    iteration = body(op("Cast", "y", "y", to=INT64), op("Not", "go", "go"))
    ops = [op("FC", "y0 w2 b2", "y"), loop("go y", "y go", iteration)]
    shapes = {"y0": (2, 3), "w2": (4, 3), "b2": (4,)}
    with pytest.raises(CompileError, match=r'body op 0 \(Cast "y"\): "y" has elements of type'):
        import_net(net(ops, "y0 w2 b2 go", "y"), shapes=shapes)
