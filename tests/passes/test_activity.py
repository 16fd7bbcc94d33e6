"""Which inputs have gradients of which outputs."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.passes.gradients.activity import (
    dependent_values,
    has_slopes_of_others,
    sources_of_outputs,
)

Values = Sequence[SSAValue]


def test_no_gradient_flows_through_an_integer() -> None:
    b = Builder.net("net")
    x, n = b.input("x", [3]), b.input("n", [3], "i32")
    floor = b.cast(x, "i32")
    outputs = {
        "floor": floor,
        "again": b.mul(b.cast(floor, "f32"), b.input("y", [3])),
        "n": n,
        "of_n": b.cast(n, "f32"),
    }
    program = b.finish(outputs)
    assert sources_of_outputs(program) == {
        "floor": frozenset(),
        "again": frozenset({"y"}),
        "n": frozenset(),
        "of_n": frozenset(),
    }
    dependent = dependent_values(program.net.body.block.ops, [x, n])
    assert x in dependent
    assert not {n, floor, outputs["again"], outputs["of_n"]} & dependent


def test_what_circulates_through_carries_reaches_them_all() -> None:
    """Each carry takes over the next one: the last input needs three iterations to the first."""

    def body(b: Builder, ks: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        p, q, r, s = carry
        return [q, r, b.mul(r, rows[0]), b.add(s, b.cast(b.cast(p, "i32"), "f32"))], [p]

    b = Builder.net("net")
    inits = [b.input(name, [3]) for name in "pqrs"]
    finals, ys = b.scan([], inits, [b.input("x", ["T", 3])], body)
    program = b.finish({**dict(zip("PQRS", finals, strict=True)), "y": ys[0]})
    assert sources_of_outputs(program) == {
        "P": frozenset("pqrx"),
        "Q": frozenset("qrx"),
        "R": frozenset("rx"),
        "S": frozenset("s"),
        "y": frozenset("pqrx"),
    }


def test_initial_values_that_a_step_discards() -> None:
    """A loop that may have no steps hands them on; one that surely has some does not."""

    def body(b: Builder, ks: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        return [b.mul(rows[0], rows[0])], [carry[0]]

    known = dict[str, frozenset[str]]()
    for steps in ("T", 3):
        b = Builder.net("net")
        finals, ys = b.scan([], [b.input("h", [2])], [b.input("x", [steps, 2])], body)
        sources = sources_of_outputs(b.finish({"last": finals[0], "y": ys[0]}))
        assert sources["y"] == frozenset("hx")
        known[str(steps)] = sources["last"]
    assert known == {"T": frozenset("hx"), "3": frozenset("x")}


def test_a_parameter_may_be_asked_for() -> None:
    b = Builder.net("net")
    w, x = b.param("w", [3]), b.input("x", ["N", 3])
    y, other = b.mul(x, w), b.tanh(x)
    program = b.finish({"y": y, "other": other})
    dependent = dependent_values(program.net.body.block.ops, [w])
    assert {w, y} <= dependent
    assert other not in dependent


def test_slopes_on_the_way_to_other_outputs_alone() -> None:
    def body(b: Builder, ks: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        h = b.tanh(b.add(carry[0], rows[0]))
        return [h], [b.neg(h), b.log(h)]

    b = Builder.net("net")
    [last], [negated, logarithm] = b.scan([], [b.input("h", [3])], [b.input("x", ["T", 3])], body)
    halves = b.slice(last, 0, 0, 2)
    program = b.finish({"y": negated, "log": logarithm, "last": last, "halves": halves})
    assert has_slopes_of_others(program, ["last"])
    assert not has_slopes_of_others(program, ["y", "log"])
    assert not has_slopes_of_others(program, ["log"])
