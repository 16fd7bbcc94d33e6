"""Shape inference: what follows, what stays free and is named, what is wrong."""

from __future__ import annotations

from time import process_time
from typing import Any

import numpy as np
import pytest

from rnncc.errors import CompileError
from rnncc.frontends.caffe2 import import_net
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.dims import Dim
from rnncc.ir.types import dims_of
from rnncc.netdef import NetDef, load
from tests.frontends.caffe2.nets import net, op, sum_net
from tests.golden import GOLDEN


def inputs_of(made: NetDef, **more: Any) -> dict[str, str]:
    program = import_net(made, **more)
    return {n: ",".join(map(str, dims_of(v))) for n, v in program.net.inputs.items()}


def test_equations_are_solved_where_they_are_linear() -> None:
    s = Shapes()
    a, b = s.fresh(), s.fresh()
    assert s.equal(a * 4, Dim.of(24))
    assert s.resolve(a) == 6
    assert s.equal(b * Dim.of("N"), Dim.of("N") * 3)
    assert s.resolve(b) == 3
    c, d = s.fresh(), s.fresh()
    assert s.equal(c + d, Dim.of(7))
    assert s.equal(d, Dim.of(2))
    assert s.resolve(c) == 5


@pytest.mark.parametrize(
    ("left", "right"),
    [("4*?9", "21"), ("?9 + 5", "3"), ("N", "T"), ("N", "3"), ("3", "4"), ("T*N", "T + N")],
)
def test_equations_without_solution_are_refused(left: str, right: str) -> None:
    def size(text: str) -> Dim:
        return Dim.parse(text.replace("?9", "unknown")).substitute({"unknown": Dim.of("?9")})

    assert not Shapes().equal(size(left), size(right))


def test_free_sizes_are_time_batch_and_then_s() -> None:
    assert inputs_of(net([op("Tanh", "a", "b")], "a", "b"), shapes={"a": "?,?,?,5"}) == {
        "a": "T,N,S,5"
    }
    assert inputs_of(net([op("Tanh", "a", "b")], "a", "b"), shapes={"a": ("N", None)}) == {
        "a": "N,S"
    }
    taken = {"a": ("S", None, "S2", None, None)}
    assert inputs_of(net([op("Tanh", "a", "b")], "a", "b"), shapes=taken) == {"a": "S,N,S2,S3,S4"}


def test_the_users_names_win() -> None:
    got = inputs_of(sum_net(), shapes={"x": ("frames", "rows", 4)})
    assert got == {"x": "frames,rows,4", "h0": "1,rows,4"}


def test_numbers_may_fix_time_and_batch() -> None:
    assert inputs_of(sum_net(), shapes={"x": (7, 2, 4)}) == {"x": "7,2,4", "h0": "1,2,4"}


def test_in_place_outputs_are_versions() -> None:
    made = net([op("Split", "x", "x y", axis=1), op("Sum", "x y", "x")], "x", "x")
    assert inputs_of(made, shapes={"x": "N,6"}) == {"x": "N,6"}
    assert [str(d) for d in dims_of(import_net(made, shapes={"x": "N,6"}).net.outputs["x"])] == [
        "N",
        "3",
    ]


def test_inputs_that_no_operator_reads_are_left_out_unless_given_a_shape() -> None:
    made = net([op("Tanh", "a", "b")], "a lengths", "b")
    assert inputs_of(made, shapes={"a": "3"}) == {"a": "3"}
    assert inputs_of(made, shapes={"a": "3", "lengths": "N"}) == {"a": "3", "lengths": "N"}


def test_without_declared_inputs_what_is_read_first_is_one() -> None:
    assert inputs_of(net([op("Sum", "a b", "a")], "", "a"), shapes={"a": "3"}) == {
        "a": "3",
        "b": "3",
    }


@pytest.mark.parametrize(
    ("made", "shapes", "message"),
    [
        (sum_net(), {}, 'RecurrentNetwork "h_all"'),
        (net([op("Tanh", "a", "b")], "a", "b"), {}, "give it: --shape a="),
        (net([op("Tanh", "a", "b")], "a", "b"), {"c": "3"}, "is no input of the net .inputs: a"),
        (net([op("Tanh", "a", "b")], "a", "b"), {"a": "T,N,-4"}, "'-4' is no size"),
        (net([op("Tanh", "a", "b")], "a", "b"), {"a": "T,,4"}, "'' is no size"),
        (net([op("Tanh", "a", "b")], "a", "b"), {"a": (4.0,)}, "is no size"),
        (net([op("Tanh", "a", "b")], "a", "b"), {"a": (1 << 21, 1 << 20)}, "is too large"),
        (net([op("Sum", "a b", "c")], "a b", "c"), {"a": "T,4", "b": "N,4"}, "shape"),
        (net([op("FC", "x w b", "y")], "x w b", "y"), {"x": "N,5"}, "give it: --shape w=SIZE,5"),
        (net([op("FC", "x w b", "y")], "x w b", "y"), {"w": "H,5"}, 'needs a number where "w"'),
    ],
)
def test_wrong_shapes_are_errors(made: NetDef, shapes: Any, message: str) -> None:
    if made.op[0].type == "RecurrentNetwork":
        program = import_net(made)
        assert [str(d) for d in dims_of(program.net.inputs["x"])] == ["T", "N", "S"]
        return
    with pytest.raises(CompileError, match=message):
        import_net(made, shapes=shapes)


def test_the_error_says_which_shape_to_give() -> None:
    path = GOLDEN / "caffe2" / "lstm" / "net.pb"
    with pytest.raises(CompileError, match="--shape h0_0=1,N,SIZE, or an init net"):
        import_net(path)
    with pytest.raises(CompileError, match="--shape x=T,N,SIZE"):
        import_net(path, shapes={"h0_0": "1,N,6"})
    assert load(path).op[0].type == "FC"


def test_seeds_and_names() -> None:
    init = net(
        [op("XavierFill", "", "w", shape=[3, 4]), op("ConstantFill", "", "b", shape=[3])], "", ""
    )
    made = net([op("FC", "x w b", "y")], "x w b", "y", name="inner")
    one, two = (
        import_net(made, init, seed=seed, name=name) for seed, name in ((1, None), (2, "me"))
    )
    assert (one.name, two.name) == ("inner", "me")
    assert not np.array_equal(one.arrays["w"], two.arrays["w"])
    assert list(one.net.inputs) == ["x"]
    assert list(one.params) == ["w", "b"]


def test_many_inputs_that_nothing_reads() -> None:
    """They go in one pass: 20,000 took ten seconds."""
    unread = " ".join(f"x{i}" for i in range(20_000))
    made = net([op("Relu", "x", "y")], f"x {unread}", "y")
    start = process_time()
    program = import_net(made, shapes={"x": ("T", 2)})
    assert [*program.net.inputs] == ["x"]
    assert process_time() - start < 3
