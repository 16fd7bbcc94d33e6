"""What ops say of themselves is true: along each axis, of batches, of their cost and failures."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from xdsl.ir import SSAValue

from rnncc.codegen.llvm.math import MathEmitter
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.interpreter import run
from rnncc.ir.ops.base import Context, Elementwise, RnnOp
from rnncc.ir.ops.linear import OrderedSum
from rnncc.ir.ops.source import Param
from rnncc.ir.rnn import OPS
from rnncc.ir.types import dims_of, dtype_of
from tests.ir.ops_by_name import SIZES, Array, draw, samples

SAMPLES = samples()
ALL = {**SIZES, "M": 4}
BATCH = 3


def arrays_of(op: RnnOp, sizes: dict[str, int]) -> list[Array]:
    context = Context(sizes, np.float64)
    return [
        draw(dtype_of(v), list(context.shape(dims_of(v))), i) for i, v in enumerate(op.operands)
    ]


def evaluate(op: RnnOp, sizes: dict[str, int], arrays: list[Array]) -> Array:
    return np.asarray(op.evaluate(Context(sizes, np.float64), *arrays))


def halves(array: Array, axis: int | None) -> list[Array]:
    return [array, array] if axis is None else np.split(array, 2, axis)


def is_of(value: SSAValue, symbol: str) -> list[int]:
    return [i for i, size in enumerate(dims_of(value)) if symbol in size.symbols]


def cuts_of(op: RnnOp) -> list[tuple[str, int]]:
    """Sizes that one axis of the result has, and no operand elsewhere than the op says."""
    cuts = list[tuple[str, int]]()
    for symbol in ALL:
        axes = is_of(op.y, symbol)
        sources = op.operand_axes(axes[0]) if len(axes) == 1 else None
        if sources is not None:
            pairs = zip(op.operands, sources, strict=True)
            if all(is_of(v, symbol) == ([] if s is None else [s]) for v, s in pairs):
                cuts.append((symbol, axes[0]))
    return cuts


def test_every_op_has_a_sample() -> None:
    sampled = {type(op) for op in SAMPLES.values()}
    assert {op.name for op in OPS if issubclass(op, RnnOp) and op not in sampled} == {"rnn.apply"}


CUTS = [(name, *cut) for name, op in SAMPLES.items() for cut in cuts_of(op)]


@pytest.mark.parametrize(("name", "symbol", "axis"), CUTS)
def test_rows_that_stand_alone_are_the_op_on_those_rows(name: str, symbol: str, axis: int) -> None:
    op = SAMPLES[name]
    sources = op.operand_axes(axis)
    assert sources is not None
    arrays = arrays_of(op, ALL)
    parts = zip(*(halves(a, s) for a, s in zip(arrays, sources, strict=True)), strict=True)
    sizes = {**ALL, symbol: ALL[symbol] // 2}
    operands = [list(part) for part in parts] or [[], []]
    both = [evaluate(op, sizes, part) for part in operands]
    np.testing.assert_array_equal(np.concatenate(both, axis), evaluate(op, ALL, arrays))


@pytest.mark.parametrize("name", [n for n, op in SAMPLES.items() if len(dims_of(op.y)) > 0])
def test_rows_that_do_not_stand_alone_are_no_cut(name: str) -> None:
    """Cut along each axis that is said to mix: another number of rows, or other rows."""
    op = SAMPLES[name]
    arrays = arrays_of(op, ALL)
    if isinstance(op, Param):
        return
    for axis in range(len(dims_of(op.y))):
        symbols = dims_of(op.y)[axis].symbols
        if op.operand_axes(axis) is not None or len(symbols) != 1:
            continue
        (symbol,) = symbols
        sizes = {**ALL, symbol: ALL[symbol] // 2}
        places = [is_of(v, symbol)[:1] or [None] for v in op.operands]
        parts = zip(*(halves(a, p[0]) for a, p in zip(arrays, places, strict=True)), strict=True)
        operands = [list(part) for part in parts] or [[], []]
        joined = np.concatenate([evaluate(op, sizes, part) for part in operands], axis)
        whole = evaluate(op, ALL, arrays)
        assert joined.shape != whole.shape or (joined != whole).any()


def test_most_axes_are_cut() -> None:
    cut = {name for name, *_ in CUTS}
    assert set(SAMPLES) - cut == {"param", "constant", "size", "contract"}  # of fixed sizes


BATCHES = [
    (name, differ)
    for name, op in SAMPLES.items()
    for differ in product([False, True], repeat=len(op.operands))
    if any(differ) and op.batched_operands(differ) is not None
]


@pytest.mark.parametrize(("name", "differ"), BATCHES)
def test_a_batch_is_the_op_on_each_element(name: str, differ: tuple[bool, ...]) -> None:
    op = SAMPLES[name]
    batched = op.batched_operands(differ)
    assert batched is not None and all(a >= b for a, b in zip(batched, differ, strict=True))
    b, inputs, operands = Builder.net("batch"), dict[str, Array](), list[SSAValue]()
    elements = [arrays_of(op, ALL) for _ in range(BATCH)]
    for i, (value, varies, wide) in enumerate(zip(op.operands, differ, batched, strict=True)):
        drawn = draw(dtype_of(value), [BATCH, *elements[0][i].shape], 99 + i)
        for element, row in zip(elements, drawn, strict=True):
            element[i] = row if varies else drawn[0]
        dims = [*([Dim.of("B")] if wide else []), *dims_of(value)]
        operands.append(b.input(f"x{i}", dims, dtype_of(value)))
        inputs[f"x{i}"] = np.stack([e[i] for e in elements]) if wide else drawn[0]
    program = b.finish({"y": op.batch(b, operands, Dim.of("B"))})
    y = run(program, inputs, np.float64, {**ALL, "B": BATCH})["y"]
    want = np.stack([evaluate(op, ALL, element) for element in elements])
    np.testing.assert_allclose(y, want, rtol=1e-12)


def test_what_has_no_batching_rule_is_known() -> None:
    """`hoist` and `sink` leave these in loops, but for sums, which they join."""
    without = {n for n, op in SAMPLES.items() if op.operands} - {n for n, _ in BATCHES}
    sums = {"reverse_segments", "shift", "shift back", "scatter", "contract", "sum_rows"}
    assert without == {*sums, "with_gradient"}


@pytest.mark.parametrize("name", SAMPLES)
def test_what_takes_no_work_makes_no_new_numbers(name: str) -> None:
    op = SAMPLES[name]
    work = op.work()
    if work is None or work != 0:
        assert work is None or work.evaluate(ALL) > 0
    elif op.operands:
        arrays = arrays_of(op, ALL)
        assert np.isin(evaluate(op, ALL, arrays), np.concatenate([a.ravel() for a in arrays])).all()


@pytest.mark.parametrize("name", [n for n, op in SAMPLES.items() if op.operands])
def test_an_op_that_can_fail_says_so(name: str) -> None:
    op = SAMPLES[name]
    arrays = arrays_of(op, ALL)
    far = [np.full_like(a, 99) if a.dtype == np.int32 else a for a in arrays]
    if op.CAN_FAIL:
        with pytest.raises(ValueError, match=r"outside|length"):
            evaluate(op, ALL, far)
    else:
        evaluate(op, ALL, far)


def test_bounds_are_where_an_op_begins_to_reach_too_far() -> None:
    inside = set[bool]()
    for op in (op for op in SAMPLES.values() if op.bounds()):
        for t in range(8):
            sizes = {**ALL, "T": t}
            formulas = (*op.bounds(), *dims_of(op.y))
            fits = all(formula.evaluate(sizes) >= 0 for formula in formulas)
            try:
                shape = evaluate(op, sizes, arrays_of(op, sizes)).shape
            except (IndexError, ValueError):
                shape = ()
            assert fits == (list(shape) == [d.evaluate(sizes) for d in dims_of(op.y)])
            inside.add(fits)
    assert inside == {False, True}


@pytest.mark.parametrize("name", ["contract", "sum_rows"])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_sum_in_order_may_be_cut_into_runs(name: str, reverse: bool) -> None:
    op = SAMPLES[name].clone()
    assert isinstance(op, OrderedSum)
    op.reverse = type(op.reverse).from_bool(reverse)
    start, *rows = arrays_of(op, ALL)
    total = start
    for run_of_rows in zip(*(halves(r, 0)[:: -1 if reverse else 1] for r in rows), strict=True):
        total = evaluate(op, ALL, [total, *run_of_rows])
    np.testing.assert_array_equal(total, evaluate(op, ALL, [start, *rows]))


def test_code_is_a_method_of_the_emitter() -> None:
    plain = [op for op in OPS if issubclass(op, Elementwise) and op.scalar is Elementwise.scalar]
    codes = {op.CODE for op in plain} - {""}
    assert {"tanh", "add", "rem"} <= codes
    assert [code for code in codes if not callable(getattr(MathEmitter, code, None))] == []
