"""What passes should make of hand-written nets: where the products and sums end up."""

from __future__ import annotations

from xdsl.dialects.builtin import NameLoc

from rnncc.errors import Location
from rnncc.ir.builder import Builder
from rnncc.ir.program import Program
from rnncc.passes.cleanup.simplify import Simplify
from rnncc.passes.loops.hoist import Hoist
from rnncc.passes.loops.merge_matmuls import MergeMatmuls
from rnncc.passes.loops.reassociate_sums import ReassociateSums
from rnncc.passes.loops.split_scans import SplitScans
from tests.passes.helpers import applied, count, scans, whole_sequence
from tests.passes.nets import D, H, Values, lstm
from tests.strategies import assert_same_meaning


def stacked() -> Program:
    """Two layers and a projection of the second, all in one loop; inputs projected inside."""
    b = Builder.net("stacked")
    b.loc = Location("net.pb", "op 7")
    x, h0, g0 = b.input("x", ["T", "N", D]), b.input("h0", ["N", H]), b.input("g0", ["N", H])
    consts = [b.param("w", [D, H]), b.param("u", [H, H]), b.param("b1", [H])]
    consts += [b.param("w2", [H, H]), b.param("u2", [H, H]), b.param("b2", [H])]
    consts += [b.param("v", [H, 7])]

    def body(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        (w, u, b1, w2, u2, b2, v), (h, g) = consts, carry
        h = i.tanh(i.add(i.add(i.matmul(rows[0], w), i.matmul(h, u)), b1))
        g = i.tanh(i.add(i.add(i.matmul(h, w2), i.matmul(g, u2)), b2))
        return [h, g], [g, i.matmul(g, v)]

    finals, ys = b.scan(consts, [h0, g0], [x], body)
    return b.finish({"h": finals[0], "g": finals[1], "y": ys[0], "p": ys[1]})


def test_lstm_keeps_one_product_and_one_sum_in_the_loop():
    program = lstm()
    assert_same_meaning(program, whole_sequence, rtol=1e-5)
    top = count(program.net.body.block)
    (scan,) = scans(program)
    body = count(scan.body.block)
    assert (top["matmul"], top["add"], top["param"]) == (1, 1, 3)
    assert (body["matmul"], body["slice"], body["select"]) == (1, 4, 2)
    assert (body["add"], body["multiply_add"], body["mul"]) == (1, 1, 2)
    assert (body["reshape"], body["compare"], body["broadcast"]) == (0, 0, 1)  # the mask is made
    assert len(scan.ys) == 1
    assert set(program.arrays) == {"w", "u", "bias.add"}


def test_layers_are_split_and_all_but_the_recurrent_products_hoisted():
    program = stacked()
    assert_same_meaning(program, whole_sequence, rtol=1e-9)
    assert count(program.net.body.block)["matmul"] == 3
    assert count(program.net.body.block)["add"] == 2
    assert [count(s.body.block)["matmul"] for s in scans(program)] == [1, 1]
    assert [count(s.body.block)["add"] for s in scans(program)] == [1, 1]


def test_locations_survive():
    program = stacked()
    whole_sequence(program)
    for op in program.net.body.block.walk():
        if op.name != "rnn.yield":
            assert isinstance(op.location, NameLoc), op
            assert op.location.desc.data == "net.pb: op 7"


def test_a_loop_without_a_product_to_win_stays_whole():
    b = Builder.net("whole")
    x, h0 = b.input("x", ["T", "N", H]), b.input("h0", ["N", H])

    def body(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        h = i.tanh(i.add(carry[0], rows[0]))
        return [h, i.add(carry[1], h)], []

    finals, _ = b.scan([], [h0, h0], [x], body)
    program = b.finish({"sum": finals[1]})
    assert not SplitScans().rewrite(program.net)


def test_products_of_one_value_are_merged_outside_of_the_loop():
    b = Builder.net("gru")
    x, h0 = b.input("x", ["T", "N", H]), b.input("h0", ["N", H])
    consts = [b.param("u", [H, H]), b.param("v", [H, 2 * H])]

    def body(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        one, two = (i.matmul(carry[0], w) for w in consts)
        return [i.tanh(i.add(i.add(one, i.slice(two, 1, H, H)), rows[0]))], []

    finals, _ = b.scan(consts, [h0], [x], body)
    program = b.finish({"h": finals[0]})
    assert_same_meaning(program, applied(MergeMatmuls(), Simplify()), rtol=1e-9)
    (scan,) = scans(program)
    assert count(scan.body.block)["matmul"] == 1
    assert count(program.net.body.block)["concat"] == 1
    assert count(scan.body.block)["concat"] == 0


def test_masks_and_plain_reads_stay_in_the_loop():
    b = Builder.net("mask")
    x, h0 = b.input("x", ["T", "N", H]), b.input("h0", ["N", H])
    lengths, time = b.input("lengths", ["N"], "i32"), b.iota(["T"], 0)

    def body(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        live = i.reshape(i.compare("lt", rows[1], consts[0]), ["N", 1])
        return [i.select(live, i.add(carry[0], i.slice(rows[0], 1, 0, H)), carry[0])], []

    finals, _ = b.scan([lengths], [h0], [x, time], body)
    program = b.finish({"h": finals[0]})
    applied(Simplify())(program)
    assert not Hoist().rewrite(program.net)


def test_sums_of_one_kind_keep_their_order():
    b = Builder.net("sum")
    x, y, z = (b.input(name, ["N", H]) for name in "xyz")
    program = b.finish({"s": b.add(x, b.add(y, z))})
    assert not ReassociateSums().rewrite(program.net)
