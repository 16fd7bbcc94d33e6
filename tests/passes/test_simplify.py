"""Simplify keeps every value bit for bit, and reaches the forms that later passes count on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.interpreter import run
from rnncc.ir.ops.linear import Matmul
from rnncc.ir.ops.shape import Reshape
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of
from rnncc.passes.cleanup.canonicalize import RULES, Canonicalize
from rnncc.passes.cleanup.cse import Cse
from rnncc.passes.cleanup.dce import Dce
from rnncc.passes.cleanup.fold_constants import fold_constants
from rnncc.passes.cleanup.simplify import Simplify
from rnncc.passes.cleanup.simplify_scans import SimplifyScans
from tests.passes.helpers import applied, count, quick, scans
from tests.strategies import SIZES, assert_same_meaning, make_inputs, programs


@quick
@given(programs())
def test_canonicalize_keeps_values(program: Program):
    assert_same_meaning(program, applied(Canonicalize()))


@quick
@given(programs())
def test_merge_and_remove_keep_values(program: Program):
    assert_same_meaning(program, applied(Cse(), Dce()))


@quick
@given(programs())
def test_simplify_scans_keeps_values(program: Program):
    assert_same_meaning(program, applied(SimplifyScans()))


@quick
@given(programs())
def test_simplify_keeps_values_and_settles(program: Program):
    assert_same_meaning(program, applied(Simplify()))
    assert not Simplify().rewrite(program.net)


@quick
@given(programs())
def test_folding_keeps_values(program: Program):
    assert_same_meaning(program, lambda p: (fold_constants(p), fold_constants(p)), rtol=1e-5)


def test_a_part_that_begins_at_a_size_is_taken_at_run_time():
    b = Builder.net("part")
    part = b.slice(b.param("w", (9, 2)), 0, Dim.of("T"), 2)
    arrays = {"w": np.arange(18, dtype="f4").reshape(9, 2)}
    program = b.finish({"y": b.add(part, b.input("x", (2, 2))), "z": b.input("z", ("T",))}, arrays)
    assert_same_meaning(program, fold_constants)


def offset_bytes(b: Builder) -> tuple[SSAValue, SSAValue]:
    """Weights of uint8 without their zero point, in int32 and in int8; larger than what always is
    folded."""
    w = b.transpose(b.param("w", (96, 64), "u8"), (1, 0))
    wide = b.sub(b.cast(w, "i32"), b.fill(128, (64, 96), "i32"))
    return wide, b.cast(wide, "i8")


def folded(b: Builder, y: SSAValue) -> Program:
    bytes_ = np.random.default_rng(0).integers(0, 256, (96, 64), np.uint8)
    program = b.finish({"y": y}, arrays={"w": bytes_})
    assert_same_meaning(program, fold_constants)
    fold_constants(program)
    return program


def test_a_zero_point_is_folded_although_int32_is_wide():
    b = Builder.net("bytes")
    program = folded(b, b.matmul(b.input("x", ("N", 64), "i8"), offset_bytes(b)[1]))
    (weights,) = program.arrays.values()
    assert (weights.dtype, weights.shape) == (np.int8, (64, 96))
    assert count(program.net.body.block)["cast"] == 0


def test_what_is_wide_and_read_at_run_time_is_computed_there():
    """The library holds the bytes alone, in the order in which they are read."""
    b = Builder.net("wide")
    wide, narrow = offset_bytes(b)
    x = b.matmul(b.input("x", ("N", 64), "i8"), narrow)
    row = b.gather(wide, b.input("which", (), "i32"), 0)
    program = folded(b, b.add(x, b.broadcast(row, ("N", 96), (1,))))
    assert {a.dtype for a in program.arrays.values()} == {np.dtype("u1"), np.dtype("i1")}
    assert count(program.net.body.block)["transpose"] == 0


@pytest.mark.parametrize(
    ("axis", "behind", "size", "left"),
    [(0, 0, "T", 0), (1, 0, "T", 0), (0, 1, "T + 1", 0), (1, 2, "T + 3", 0), (0, 1, "T", 1)],
)
def test_rows_by_the_number_of_the_step_are_rows_of_sequences(
    axis: int, behind: int, size: str, left: int
):
    """Those that may not be there stay errors of the run."""
    b, rows = Builder.net("rows"), Dim.parse(size)
    x = b.input("x", (rows, 3) if axis == 0 else (3, rows))

    def body(inner, consts, carry, rows):
        number = inner.cast(inner.reshape(rows[0], (1,)), "i32")
        number = inner.add(number, inner.fill(behind, (1,), "i32"))
        row = inner.reshape(inner.gather(consts[0], number, axis), (3,))
        return [inner.add(inner.mul(carry[0], row), row)], []

    finals, _ = b.scan([x], [b.fill(1, (3,))], [b.iota(("T",), 0, "i64")], body)
    program = b.finish({"y": finals[0]})
    if not left:
        assert_same_meaning(program, applied(Simplify()))
    Simplify().rewrite(program.net)
    (scan,) = scans(program)
    assert count(scan.body.block)["gather"] == left


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("turned", [False, True], ids=["rows", "batch first"])
def test_the_last_row_of_states_is_the_final_state(reverse: bool, turned: bool):
    """Not the first row, nor the last one of what is no state."""
    b, ends = Builder.net("last"), [Dim.parse("T"), Dim.of(0)]
    last, first = reversed(ends) if reverse else ends

    def body(inner, consts, carry, rows):
        state = inner.tanh(inner.add(carry[0], rows[0]))
        return [state], [state, inner.mul(state, state)]

    inits, xs = [b.input("h", ("N", 3))], [b.input("x", (Dim.parse("T + 1"), "N", 3))]
    _, ys = b.scan([], inits, xs, body, reverse=reverse)
    if turned:
        ys = [b.transpose(y, (1, 0, 2)) for y in ys]
    parts = {"last": (ys[0], last), "first": (ys[0], first), "other": (ys[1], last)}
    program = b.finish({n: b.slice(y, int(turned), at, 1) for n, (y, at) in parts.items()})
    assert_same_meaning(program, applied(Simplify()))
    Simplify().rewrite(program.net)
    assert count(program.net.body.block)["slice"] == 2


def test_flattened_states_are_carried_as_steps_compute_with_them():
    """And yielded so; one that is read as it is carried, too, stays, and what reads it."""
    b = Builder.net("flat")

    def body(inner, consts, carry, rows):
        matrices = [inner.reshape(h, ("N", 4, 3)) for h in carry[:2]]
        row = inner.broadcast(rows[0], ("N", 4, 3), (0, 2))
        after = [inner.reshape(inner.add(inner.tanh(h), row), ("N", 12)) for h in matrices]
        return [*after, inner.mul(carry[2], after[1])], [*after, inner.mul(after[1], carry[2])]

    inits, xs = [b.input(f"h{i}", ("N", 12)) for i in range(3)], [b.input("x", ("T", "N", 3))]
    finals, ys = b.scan([], inits, xs, body)
    program = b.finish({f"r{i}": value for i, value in enumerate((*finals, *ys))})
    assert_same_meaning(program, applied(Simplify()))
    Simplify().rewrite(program.net)
    (scan,) = scans(program)
    ranks = [len(dims_of(value)) for value in (*scan.inits, *scan.ys)]
    assert ranks == [3, 2, 2, 4, 3, 3]


SHAPES = [("N", 12), ("N", 4, 3), ("N", 3, 4), (1, "N", 4, 3), ("N", 1, 12), ("N", 2, 2, 3)]


@quick
@given(st.data())
def test_reshapes_of_states_settle(data: st.DataObject):
    """In whatever shapes states are carried, computed with, yielded and read."""
    draw, b = data.draw, Builder.net("shapes")
    carried = draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3))
    inits = [b.input(f"h{i}", dims) for i, dims in enumerate(carried)]
    xs = [b.input("x", ("T", "N", 4, 3)), b.input("z", ("T", "N", 3))]

    def body(inner, consts, carry, rows):
        values = [*carry, rows[0], inner.broadcast(rows[1], ("N", 4, 3), (0, 2))]
        for _ in range(draw(st.integers(1, 8))):
            value = draw(st.sampled_from(values))
            match draw(st.sampled_from(["reshape", "reshape", "tanh", "add"])):
                case "reshape":
                    values.append(inner.reshape(value, draw(st.sampled_from(SHAPES))))
                case "tanh":
                    values.append(inner.tanh(value))
                case _:
                    other = draw(st.sampled_from(values))
                    values.append(inner.add(value, inner.reshape(other, dims_of(value))))
        following = [inner.reshape(draw(st.sampled_from(values)), dims) for dims in carried]
        return following, draw(st.lists(st.sampled_from([*values, *following]), max_size=3))

    finals, ys = b.scan([], inits, xs, body)
    program = b.finish({f"r{i}": value for i, value in enumerate((*finals, *ys))})
    assert_same_meaning(program, applied(Simplify()))


def test_rows_by_whether_it_is_the_first_step_stay():
    """A number that has been a bool on its way is 0 or 1."""
    b = Builder.net("rows")

    def body(inner, consts, carry, rows):
        number = inner.cast(inner.cast(rows[0], "i1"), "i64")
        return [inner.add(carry[0], inner.gather(consts[0], number, 0))], []

    finals, _ = b.scan([b.input("x", ("T", 3))], [b.fill(1, (3,))], [b.iota(("T",), 0)], body)
    program = b.finish({"y": finals[0]})
    sizes, inputs = make_inputs(program, SIZES)
    want = run(program, inputs, sizes=sizes)["y"]
    Simplify().rewrite(program.net)
    np.testing.assert_allclose(run(program, inputs, sizes=sizes)["y"], want)


def test_what_float32_rounds_is_compared_as_rounded():
    """Of float32 0.1 + 0.2 is 0.3, and no integer has the last bit of 16777217."""
    b = Builder.net("rounded")
    tenth, other, sum_ = (float(np.float32(x)) for x in (0.1, 0.2, 0.3))
    total = b.add(b.fill(tenth, ()), b.fill(other, ()))
    integer = b.cast(b.fill(16777217.0, ()), "i32")
    program = b.finish({"same": b.compare("eq", total, b.fill(sum_, ())), "whole": integer})
    want = run(program, {}, np.float32)
    Simplify().rewrite(program.net)
    assert count(program.net.body.block).keys() <= {"fill", "yield"}
    assert run(program, {}, np.float32) == want == {"same": True, "whole": 16777216}


@pytest.mark.parametrize("through", ["u8", "i8", "f16", "bf16"])
def test_a_size_in_a_narrow_type_is_another_number(through: str):
    b = Builder.net("sizes")
    b.input("x", ("T",))
    wide = "i32" if through in ("u8", "i8") else "f32"
    size = b.cast(b.cast(b.size(Dim.of("T"), wide), through), wide)
    program = b.finish({"y": b.cast(size, "f32")})
    inputs = {"x": np.zeros(2051)}
    want = run(program, inputs)["y"]
    assert want != 2051
    Simplify().rewrite(program.net)
    assert run(program, inputs)["y"] == want


@pytest.mark.parametrize("stored", [True, False])
def test_what_grows_along_two_axes_grows_at_once(stored: bool):
    """Where it is stored in the end; else the smaller one is, of fewer elements."""
    b = Builder.net("grows")
    x = b.input("x", ("T", "N"))
    rows = b.reshape(b.broadcast(x, ("T", 2, "N"), (0, 2)), (Dim.of("T") * 2, "N"))
    wide = b.broadcast(rows, (Dim.of("T") * 2, "N", 3), (0, 1))
    y = b.reshape(wide, (Dim.of("T") * 2, Dim.of("N") * 3)) if stored else b.exp(wide)
    program = b.finish({"y": y})
    assert_same_meaning(program, applied(Simplify()))
    Simplify().rewrite(program.net)
    found = count(program.net.body.block)
    assert (found["broadcast"], found["reshape"]) == ((1, 1) if stored else (2, 1))


def test_a_negative_zero_keeps_its_sign_below_a_broadcast():
    b = Builder.net("zero")
    v = b.broadcast(b.input("v", (3,)), (4, 3), (1,))
    program = b.finish({"y": b.mul(b.fill(-0.0, (4, 3)), v)})
    assert_same_meaning(program, applied(Simplify()))


@pytest.mark.parametrize(
    ("dims", "axis", "left"), [("TT", 1, 0), ("NT", 1, 1), (("T", 3), 1, 0), (("T", 0), 1, 1)]
)
def test_the_largest_of_equal_numbers_is_one_of_them_where_there_are_any(
    dims: tuple[str | int, ...], axis: int, left: int
):
    """As the rows of a mask that is not there; of no elements it is another number."""
    b = Builder.net("mask")
    b.input("x", ("N", "T"))
    program = b.finish({"y": b.reduce("max", b.fill(0.5, dims), [axis])})
    for steps in (0, 2):
        inputs = {"x": np.zeros((3, steps))}
        want = run(program, inputs)["y"]
        simplified = program.copy()
        Simplify().rewrite(simplified.net)
        assert count(simplified.net.body.block).get("reduce", 0) == left
        np.testing.assert_array_equal(run(simplified, inputs)["y"], want)


def test_reshapes_of_one_value_are_asked_once_a_change(monkeypatch: pytest.MonkeyPatch):
    """Whether they may move is asked in proportion to their number, not to its square."""
    asked, (rule,) = list[Reshape](), RULES[Reshape]

    def counted(op: Reshape) -> object:
        asked.append(op)
        return rule(op)

    monkeypatch.setitem(RULES, Reshape, (counted,))
    counts = list[int]()
    for readers in (20, 40):
        asked.clear()
        b = Builder.net("readers")
        y = b.tanh(b.input("x", ("N", 4)))
        rows = [b.reshape(y, ("N", 1, 4)) for _ in range(readers)]
        wide = [b.broadcast(x, ("N", i + 2, 4), (0, 1, 2)) for i, x in enumerate(rows)]
        parts = {f"y{i}": b.slice(x, 1, 0, 1) for i, x in enumerate(wide)}
        program = b.finish({"y": y, **parts})  # with a reader of the old shape none of them moves
        Canonicalize().rewrite(program.net)
        counts.append(len(asked))
    assert counts[0] >= 20
    assert counts[1] < 3 * counts[0]


@pytest.mark.parametrize(("rows", "left"), [(1, 0), (2, 1)])
def test_directions_of_a_layer_are_joined_in_the_order_in_which_the_next_one_reads(
    rows: int, left: int
):
    b = Builder.net("directions")
    forwards, backwards = (b.input(name, ("T", rows, "N", 3)) for name in ("a", "b"))
    joined = b.transpose(b.concat([b.tanh(forwards), b.exp(backwards)], 1), (0, 2, 1, 3))
    program = b.finish({"y": b.reshape(joined, ("T", "N", 6 * rows))})
    assert_same_meaning(program, applied(Simplify()))
    Simplify().rewrite(program.net)
    assert count(program.net.body.block)["transpose"] == left


@pytest.mark.parametrize("windows", [False, True])
def test_columns_of_a_product_are_a_product_by_fewer_where_rows_are_windows(windows: bool):
    """A matrix that other products read stays in one piece, and is packed once."""
    b = Builder.net("columns")
    x = b.input("x", ("N", 8, 2) if windows else ("N", 3, 3, 2))
    rows = b.windows(x, 1, 0, 3, 2, 3) if windows else x
    product = b.matmul(b.reshape(rows, ("N", 3, 6)), b.param("w", (6, 4)))
    program = b.finish({"y": b.slice(product, 2, 0, 3)})
    assert_same_meaning(program, applied(Simplify()))
    Simplify().rewrite(program.net)
    [matmul] = (op for op in program.net.walk() if isinstance(op, Matmul))
    assert (dims_of(matmul.b)[1] == 3) == windows


def test_reshapes_of_nothing_stay_below_slices():
    b = Builder.net("empty")
    none = b.slice(b.input("x", (8, 3)), 0, 0, 0)
    program = b.finish({"y": b.reshape(none, (0, 5))})
    assert_same_meaning(program, applied(Simplify()))
