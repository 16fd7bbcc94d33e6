"""Sequences of different lengths: rows that are past their end cost nothing, and change no bits."""

from __future__ import annotations

from functools import cache

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rnncc
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.ir.builder import Builder
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.kern import interpreter as kern_interpreter
from rnncc.kern.kernels import Gemm
from rnncc.kern.moves import ListRows
from rnncc.kern.program import KernelProgram
from rnncc.options import Options
from tests.codegen.cells import STATES, Values, cell
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.codegen.masked import FORMS, masked
from tests.codegen.random_programs import after_passes, compiled, examples, interpreted
from tests.codegen.random_programs import check as check_random
from tests.compiling import lower
from tests.golden import Arrays, random_inputs, take_rows
from tests.strategies import ragged_programs
from tests.teams import check_threads

CELLS = [("lstm", form) for form in FORMS]
CELLS += [("gru", "keep"), ("gru", "both_ways"), ("milstm", "keep"), ("milstm", "zero")]
UNITS, WIDTH = 19, 7
PLAIN = Options()
every_cell = pytest.mark.parametrize(("kind", "form"), CELLS)
every_precision = pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])


def lowered(program: Program, options: Options = PLAIN, all_rows: bool = False) -> KernelProgram:
    """The kernels of a net; `all_rows`: those that compute every row, needed or not."""
    if not all_rows:
        return lower(program, options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rnncc.passes.loops.mask_rows.MaskRows.rewrite", lambda self, net: False)
        patch.setattr("rnncc.lowering.walk.active_rows", lambda block, masks: {})
        patch.setattr("rnncc.lowering.walk.row_masks", lambda scan: [])
        return lower(program, options)


@cache
def pair(
    kind: str, form: str, precision: str = "fp32", cpu: str | None = None
) -> tuple[Bare, Bare]:
    """A net's code: of the rows that are needed, and of all."""
    nets = [masked(kind, form, UNITS, WIDTH) for _ in range(2)]
    options = Options(precision=precision, cpu=cpu)
    some, every = (lowered(net, options, i == 1) for i, net in enumerate(nets))
    assert not [op for op in every.func.walk() if isinstance(op, ListRows)]
    return Bare(some, resolve_target(None, cpu)), Bare(every, resolve_target(None, cpu))


def inputs_of(program: Program, sizes: dict[str, int], lengths: list[int], seed: int = 0) -> Arrays:
    """Random inputs with these lengths; flags are those of the lengths, some of them turned."""
    inputs = random_inputs(program, sizes, seed)
    if "lengths" in inputs:
        inputs["lengths"] = np.array(lengths, np.int32)
    else:
        flags = np.arange(sizes["T"])[:, None] < np.array(lengths)
        turned = np.random.default_rng(seed).random(flags.shape) < 0.2
        inputs["flags"] = flags ^ turned
    return inputs


def check(
    kind: str,
    form: str,
    steps: int,
    lengths: list[int],
    precision: str = "fp32",
    cpu: str | None = None,
) -> None:
    """The bits of code that computes all rows."""
    some, every = pair(kind, form, precision, cpu)
    sizes = {"T": steps, "N": len(lengths)}
    inputs = inputs_of(masked(kind, form, UNITS, WIDTH), sizes, lengths, steps)
    with guards(end=steps % 2 == 0) as memory:
        got, want = some.run(inputs, sizes, memory), every.run(inputs, sizes, memory)
        for name, array in want.items():
            np.testing.assert_array_equal(got[name], array, err_msg=name)
        alone = some.run(inputs, sizes, memory, absent=set(want) - {"y"})
        np.testing.assert_array_equal(alone["y"], want["y"])


@every_cell
def test_products_take_the_rows_that_are_needed(kind: str, form: str) -> None:
    kernels = lowered(masked(kind, form, UNITS, WIDTH))
    products = [op for op in kernels.func.walk() if isinstance(op, Gemm)]
    assert products and all(op.active_rows is not None for op in products)


@pytest.mark.parametrize("kind", STATES)
def test_nothing_is_listed_where_all_rows_are_needed(kind: str) -> None:
    kernels = lowered(cell(kind, UNITS, WIDTH))
    assert not [op for op in kernels.func.walk() if isinstance(op, ListRows)]


@every_cell
def test_meaning(kind: str, form: str) -> None:
    program = masked(kind, form, UNITS, WIDTH)
    kernels, (bare, _) = lowered(program.copy()), pair(kind, form)
    for steps, lengths in ((5, [3, 0, 5, 1]), (1, [1]), (9, [9, 9, 2]), (0, [0, 0])):
        sizes = {"T": steps, "N": len(lengths)}
        inputs = inputs_of(program, sizes, lengths)
        want = run(program, inputs, np.float64, sizes)
        meant = kern_interpreter.run(kernels, inputs, sizes)
        with guards(end=True) as memory:
            got = bare.run(inputs, sizes, memory)
        for name, array in want.items():
            np.testing.assert_allclose(meant[name], array, 2e-5, 2e-5, err_msg=name)
            np.testing.assert_allclose(got[name], array, 2e-5, 2e-5, err_msg=name)


@every_cell
@pytest.mark.parametrize("batch", [1, 2, 7, 33])
def test_lengths(kind: str, form: str, batch: int) -> None:
    """All as long as can be, all of one step, none, one alone, one after another, unsorted."""
    steps = 6
    alone = [0] * (batch - 1) + [steps]
    mixed = list(np.random.default_rng(batch).integers(0, steps + 1, batch))
    rising = [n % (steps + 1) for n in range(batch)]
    for lengths in ([steps] * batch, [1] * batch, [0] * batch, alone, mixed, rising, rising[::-1]):
        check(kind, form, steps, lengths)


@every_cell
@examples(12)
@given(data=st.data())
def test_any_lengths(kind: str, form: str, data: st.DataObject) -> None:
    steps = data.draw(st.integers(0, 12))
    most = steps if form == "both_ways" else steps + 2
    lengths = data.draw(st.lists(st.integers(0, most), min_size=1, max_size=40))
    check(kind, form, steps, lengths)


@pytest.mark.parametrize(("cpu", "needed"), [("x86-64-v2", "sse4.2"), ("x86-64-v3", "avx2")])
@pytest.mark.parametrize(("kind", "form"), [("lstm", "batch_first"), ("gru", "flags")])
def test_other_vectors(kind: str, form: str, cpu: str, needed: str) -> None:
    if not llvm.get_host_cpu_features().get(needed):
        pytest.skip(f"this machine is no {cpu}")
    for batch in (1, 5, 33):
        lengths = [n % 5 for n in range(batch)]
        check(kind, form, 4, lengths, "fp32", cpu)


@pytest.mark.parametrize("form", ["keep", "flags", "both_ways", "stacked"])
def test_threads(form: str) -> None:
    program = masked("lstm", form, UNITS, WIDTH)
    model = rnncc.compile(program.copy(), threads=True)
    for batch in (1, 2, 40):
        sizes = {"T": 5, "N": batch}
        check_threads(model, inputs_of(program, sizes, [n % 6 for n in range(batch)]))


@pytest.mark.parametrize("form", ["keep", "zero", "backwards"])
def test_threads_of_a_known_batch_of_one(form: str) -> None:
    """There is no loop over rows then, and no other row for another thread."""
    program = masked("lstm", form, UNITS, WIDTH, 1)
    model = rnncc.compile(program.copy(), threads=True)
    for length in (0, 2, 5):
        check_threads(model, inputs_of(program, {"T": 5}, [length]))


@every_precision
@pytest.mark.parametrize(("kind", "form"), [("lstm", "keep"), ("gru", "zero"), ("lstm", "stacked")])
@examples(10)
@given(data=st.data())
def test_low_precision(kind: str, form: str, precision: str, data: st.DataObject) -> None:
    lengths = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=70))
    check(kind, form, 5, lengths, precision)


@every_cell
def test_a_sequence_alone_gives_the_same_bits(kind: str, form: str) -> None:
    program, (bare, _) = masked(kind, form, UNITS, WIDTH), pair(kind, form)
    sizes = {"T": 8, "N": 5}
    inputs = inputs_of(program, sizes, [4, 8, 0, 1, 5])
    with guards(True) as memory:
        batch = bare.run(inputs, sizes, memory)
        for n in range(5):
            part = take_rows(program.net.inputs, inputs, n, 1)
            alone = bare.run(part, {**sizes, "N": 1}, memory)
            for name, want in take_rows(program.net.outputs, batch, n, 1).items():
                np.testing.assert_array_equal(alone[name], want, err_msg=name)


@every_cell
def test_a_known_batch_of_one(kind: str, form: str) -> None:
    """Steps behind its end are spared, and the bits are those of an open batch."""
    program, (bare, _) = masked(kind, form, UNITS, WIDTH, batch=1), pair(kind, form)
    kernels = lowered(program)
    products = [op for op in kernels.func.walk() if isinstance(op, Gemm)]
    assert products and all(op.active_rows is not None for op in products)
    one, sizes = Bare(kernels, resolve_target()), {"T": 6, "N": 1}
    for length in (0, 1, 4, 6):
        inputs = inputs_of(program, sizes, [length], length)
        with guards(end=length > 1) as memory:
            got, want = one.run(inputs, sizes, memory), bare.run(inputs, sizes, memory)
        for name, array in want.items():
            np.testing.assert_array_equal(got[name], array, err_msg=name)


def test_sums_of_a_known_batch_of_one() -> None:
    """Their kernels lack the axis of one row: none is listed, and all elements are computed."""
    b = Builder.net("distances")
    u = np.random.default_rng(1).uniform(-0.5, 0.5, (8, 8)).astype(np.float32)
    h, flags = b.input("h", [1, 8]), b.input("flags", ["T", 1], "i1")

    def body(inner: Builder, ks: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        old, wide = carry[0], (1, 8, 8)
        q = inner.matmul(old, ks[0])
        apart = inner.sub(inner.broadcast(q, wide, [0, 1]), inner.broadcast(q, wide, [0, 2]))
        new = inner.tanh(inner.reduce("sum", inner.abs(apart), [2]))
        new = inner.select(inner.broadcast(rows[0], (1, 8), [0]), new, old)
        return [new], [new]

    _, (y,) = b.scan([b.param("u", u.shape)], [h], [flags], body)
    program, sizes = b.finish({"y": y}, {"u": u}), {"T": 5, "N": 1}
    kernels = lowered(program.copy())
    assert any(isinstance(op, ListRows) for op in kernels.func.walk())
    inputs = {"h": np.ones((1, 8), np.float32), "flags": np.array([[1], [0], [1], [1], [0]], bool)}
    want = run(program, inputs, np.float64, sizes)["y"]
    with guards(end=True) as memory:
        code = Bare(kernels, resolve_target()).run(inputs, sizes, memory)["y"]
        np.testing.assert_allclose(code, want, 1e-5, 1e-5)
    meant = kern_interpreter.run(kernels, inputs, sizes)["y"]
    np.testing.assert_allclose(meant, want, 1e-5, 1e-5)


@examples(12)
@given(ragged_programs(), st.booleans())
def test_random_loops(program: Program, code: bool) -> None:
    check_random(program, after_passes, compiled if code else interpreted)
