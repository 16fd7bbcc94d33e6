"""Masks become sequences, and what they spare is known: in the loop, and ahead of it."""

from __future__ import annotations

import pytest
from xdsl.ir import SSAValue

from rnncc.ir.active_rows import ActiveRows, active_rows, row_masks
from rnncc.ir.builder import Builder
from rnncc.ir.ops.control import Scan
from rnncc.ir.ops.linear import Matmul
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of, dtype_of
from rnncc.passes.cleanup.simplify import Simplify
from rnncc.passes.loops.mask_rows import MaskRows
from tests.codegen.cells import cell
from tests.codegen.masked import FORMS, masked
from tests.passes.helpers import applied, count, scans, whole_sequence
from tests.passes.nets import lstm

Values = list[SSAValue]


def products(block: object) -> list[Matmul]:
    return [op for op in block.ops if isinstance(op, Matmul)]  # type: ignore[attr-defined]


def test_a_mask_becomes_a_sequence_of_bools() -> None:
    program = lstm()
    applied(Simplify(), MaskRows(), Simplify())(program)
    (scan,) = scans(program)
    (mask,) = row_masks(scan)
    assert count(scan.body.block)["compare"] == 0
    sequence = dict(zip(scan.groups[2], scan.xs, strict=True))[mask]
    assert [str(d) for d in dims_of(sequence)] == ["T", "N"]
    assert "compare" in sequence.owner.name  # type: ignore[union-attr]


@pytest.mark.parametrize("form", FORMS)
def test_products_of_loops_and_ahead_of_them_are_spared(form: str) -> None:
    program = masked("gru", form, 5, 3)
    whole_sequence(program)
    outside = active_rows(program.net.body.block, [])
    where = form != "finished"
    for scan in scans(program):
        (mask,) = row_masks(scan)
        sequence = dict(zip(scan.groups[2], scan.xs, strict=True))[mask]
        inside = active_rows(scan.body.block, [mask])
        assert [inside.get(op.y) for op in products(scan.body.block)] == 2 * [
            ActiveRows(mask, (0,), where)
        ]
        assert ActiveRows(sequence, (0, 1), where) in outside.values()
    ahead = products(program.net.body.block)
    assert ahead and all(op.y in outside for op in ahead)


def test_nothing_changes_without_a_product_behind_a_mask() -> None:
    program = cell("lstm", 5, 3)
    assert not MaskRows().rewrite(program.net)
    assert not MaskRows().rewrite(shown().net)


def shown() -> Program:
    """A masked state whose product the net shows in all rows."""
    b = Builder.net("shown")
    x, h, lengths = b.input("x", ["T", "N", 3]), b.input("h", ["N", 3]), b.input("n", ["N"], "i32")
    w = b.param("w", [3, 3])

    def body(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        (w, ends), (h,), (row, t) = consts, carry, rows
        product = i.matmul(h, w)
        live = i.reshape(i.compare("lt", i.broadcast(t, dims_of(ends), []), ends), ["N", 1])
        return [i.select(live, i.tanh(i.add(product, row)), h)], [product]

    (last,), (products,) = b.scan([w, lengths], [h], [x, b.iota(["T"], 0)], body)
    return b.finish({"last": last, "products": products})


def test_a_state_that_is_shown_is_needed_in_all_rows() -> None:
    scan = next(
        op for op in masked("lstm", "flags", 5, 3).net.body.block.ops if isinstance(op, Scan)
    )
    (mask,) = row_masks(scan)
    needed = active_rows(scan.body.block, [mask])
    assert all(state not in needed for state in (*scan.groups[1], *scan.yields[0]))
    assert all(dtype_of(value) == "f32" for value in needed)
