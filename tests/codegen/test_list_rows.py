"""`kern.list_rows` and kernels of listed rows, by hand: code and interpreter against NumPy."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.ir.dims import Dim
from rnncc.kern import interpreter as kern_interpreter
from rnncc.kern.active_rows import ListedRows
from rnncc.kern.kernels import Map, Reduce
from rnncc.kern.moves import ListRows
from rnncc.kern.program import KernelProgram
from rnncc.planning.layout import plan
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.codegen.random_programs import examples
from tests.golden import Arrays
from tests.kern_samples import Kern, N, T, port, region, row_major, strided

LAYOUTS = ["rows", "steps", "columns"]


def listing(layout: str, dtype: str) -> KernelProgram:
    """rows: flags [N] -> order; steps: flags [T, N]; columns: the same, of flags [N, T]."""
    k, dims = Kern(), [N] if layout == "rows" else [T, N]
    size = N if layout == "rows" else T * N
    flags = k.buffer("flags", "input", size, "i1")
    order = k.buffer("order", "output", size + 1, dtype)
    access = strided(1, T) if layout == "columns" else row_major(dims)
    k.add(ListRows(dims, (flags, access), order))
    shape = [N, T] if layout == "columns" else dims
    made = k.program([port("flags", *shape, dtype="i1")], [port("order", size + 1, dtype=dtype)])
    plan(made)
    return made


def computing() -> KernelProgram:
    """y = 2x where the flag of (t, n) is true, else x - 1; total = Σ x over the rows' elements."""
    k, rows = Kern(), T * N
    flags, x = k.buffer("flags", "input", rows, "i1"), k.buffer("x", "input", rows * 5)
    y, total = k.buffer("y", "output", rows * 5), k.buffer("total", "output", rows)
    order = k.buffer("order", "scratch", rows + 1, "i64")
    k.copy([rows], x, total)
    k.add(ListRows([T, N], (flags, row_major([T, N])), order))
    domain, access = [T, N, Dim.of(5)], row_major([T, N, 5])
    ins, outs = [(x, access)], [(y, access)]
    twice = region(ins, lambda b, v: [b.add(v, v)])
    k.add(Map(domain, ins, outs, twice, ListedRows(order, 2, True)))
    less = region(ins, lambda b, v: [b.sub(v, b.fill(1.0, []))])
    k.add(Map(domain, ins, outs, less, ListedRows(order, 2, False)))
    block = region(ins, lambda b, v: [v])
    out = (total, strided(N, 1, 0))
    k.add(Reduce("sum", 1, domain, ins, out, block, some=ListedRows(order, 2, True)))
    inputs = [port("flags", T, N, dtype="i1"), port("x", T, N, 5)]
    made = k.program(inputs, [port("y", T, N, 5), port("total", T, N)])
    plan(made)
    return made


@cache
def compiled(what: str, dtype: str = "") -> tuple[KernelProgram, Bare]:
    made = listing(what, dtype) if dtype else computing()
    return made, Bare(made, resolve_target())


def both(what: str, dtype: str, inputs: Arrays, sizes: dict[str, int]) -> list[Arrays]:
    """What the interpreter and the code give."""
    made, bare = compiled(what, dtype)
    with guards(end=sizes["N"] % 2 == 0) as memory:
        return [kern_interpreter.run(made, inputs, sizes), bare.run(inputs, sizes, memory)]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["i32", "i64"])
@examples(40)
@given(data=st.data())
def test_lists(layout: str, dtype: str, data: st.DataObject) -> None:
    sizes = {"T": data.draw(st.integers(0, 4)), "N": data.draw(st.integers(0, 70))}
    shape = {"rows": [sizes["N"]], "columns": [sizes["N"], sizes["T"]]}
    likely = data.draw(st.sampled_from([0.0, 0.1, 0.5, 0.95, 1.0]))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    flags = rng.random(shape.get(layout, [sizes["T"], sizes["N"]])) < likely
    flat = (flags.T if layout == "columns" else flags).ravel()
    want = [flat.sum(), *np.flatnonzero(flat), *np.flatnonzero(~flat)[::-1]]
    for got in both(layout, dtype, {"flags": flags}, sizes):
        np.testing.assert_array_equal(got["order"], want)


@pytest.mark.parametrize("batch", [1, 3, 40])
def test_kernels_of_listed_rows(batch: int) -> None:
    rng = np.random.default_rng(batch)
    flags, x = rng.random((4, batch)) < 0.5, rng.standard_normal((4, batch, 5)).astype(np.float32)
    sizes = {"T": 4, "N": batch}
    x = np.round(x * 16) / 16  # sums are exact, in any order
    want = {"y": np.where(flags[..., None], x + x, x - 1)}
    want["total"] = np.where(flags, x.sum(2), x.reshape(-1)[: 4 * batch].reshape(4, batch))
    for got in both("computing", "", {"flags": flags, "x": x}, sizes):
        for name, array in want.items():
            np.testing.assert_array_equal(got[name], array, err_msg=name)
