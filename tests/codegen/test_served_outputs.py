"""What outputs work is for: who wants none of them does not have it computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.ir import SSAValue

from rnncc.codegen.cpu.kernel import emit_kernel
from rnncc.codegen.cpu.orders.loop_orders import loop_orders
from rnncc.codegen.cpu.orders.resident import PlacesFirst
from rnncc.codegen.cpu.outlined import OutlinedKernels
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.ir.builder import Builder
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of
from rnncc.kern.dialect import For
from rnncc.kern.kernels import Gemm, Map, Reduce
from rnncc.kern.moves import Pack
from rnncc.kern.program import KernelProgram
from rnncc.planning.interchange import Interchange
from rnncc.planning.served_outputs import MOST, served_outputs
from tests.codegen.compiled import Bare
from tests.codegen.guarded import Guards, guards
from tests.codegen.random_programs import as_it_is
from tests.golden import random_inputs

Values = list[SSAValue]


def turned() -> Program:
    """A product whose transpose is wanted, beside something that is no product."""
    b = Builder.net("turned")
    x, w = b.input("x", ("N", 19)), b.input("w", (19, 5))
    return b.finish({"y": b.transpose(b.matmul(x, w), [1, 0]), "z": b.relu(x)})


def softmax() -> Program:
    """Terms that a sum and another output read, in one pass."""
    b = Builder.net("softmax")
    terms = b.exp(b.input("x", ("N", 300)))
    sums = b.broadcast(b.reduce("sum", terms, [1]), ("N", 300), [0])
    ratio = b.div(terms, sums)
    return b.finish({"terms": b.mul(terms, terms), "y": b.transpose(ratio, [1, 0])})


def two_loops() -> Program:
    """A loop, and one over what it shows; each has an output that is behind it."""
    b = Builder.net("loops")
    x, h, w = b.input("x", ("T", "N", 8)), b.input("h", ("N", 8)), b.input("w", (8, 8))

    def body(inner: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        new = inner.tanh(inner.add(inner.matmul(carry[0], consts[0]), rows[0]))
        return [new], [new]

    (_,), (first,) = b.scan([w], [h], [x], body)
    (last,), (second,) = b.scan([w], [h], [first], body, reverse=True)
    ends = {"first": b.reduce("sum", first, [0]), "second": b.reduce("max", second, [0])}
    return b.finish({**ends, "last": b.neg(last)})


def averages() -> Program:
    """A light loop, whose elements go through its steps one by one, and what is none of it."""
    b = Builder.net("averages")
    x, h = b.input("x", ("T", "N", 64)), b.input("h", ("N", 64))

    def body(inner: Builder, _: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        new = inner.add(inner.mul(carry[0], inner.sigmoid(rows[0])), rows[0])
        return [new], [new]

    (last,), (ys,) = b.scan([], [h], [x], body)
    return b.finish({"y": b.reduce("sum", ys, [2]), "last": b.neg(last), "z": b.relu(x)})


def matrices() -> Program:
    """States that are matrices, which go through runs of steps one by one."""
    b = Builder.net("matrices")
    s, x = b.input("s", ("N", 64, 64)), b.input("x", ("T", "N", 64))

    def body(inner: Builder, _: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        dims = dims_of(carry[0])
        column, row = inner.broadcast(rows[0], dims, [0, 1]), inner.broadcast(rows[0], dims, [0, 2])
        new = inner.add(inner.mul(carry[0], inner.sigmoid(column)), inner.mul(column, row))
        return [new], [inner.reduce("sum", inner.mul(new, row), [2])]

    (last,), (ys,) = b.scan([], [s], [x], body)
    return b.finish({"y": b.tanh(ys), "last": b.neg(last), "z": b.relu(x)})


def unused() -> Program:
    """A kernel that may fail and serves nothing; the map that makes its indices serves y."""
    b = Builder.net("unused")
    x, table = b.input("x", (16,)), b.input("table", (40,))
    b.gather(table, b.cast(b.iota((16,), 0, "i64"), "i64"), 0)
    return b.finish({"y": b.tanh(x), "z": b.relu(table)})


PROGRAMS = [unused, turned, softmax, two_loops, averages, matrices]


@pytest.mark.parametrize("make", PROGRAMS)
def test_what_is_absent_changes_no_bit(make: Callable[[], Program]) -> None:
    program = make()
    code = Bare(as_it_is(program), resolve_target())
    for sizes in ({"T": 0, "N": 1}, {"T": 5, "N": 3}, {"T": 2, "N": 40}):
        inputs = random_inputs(program, sizes)
        want = run(program, inputs, sizes=sizes)
        for end in (False, True):
            with guards(end) as memory:
                every = code.run(inputs, sizes, memory)
                for name, array in want.items():
                    np.testing.assert_allclose(every[name], array, 1e-5, 1e-5, err_msg=name)
                    [alone] = code.run(inputs, sizes, memory, absent=want.keys() - {name}).values()
                    np.testing.assert_array_equal(alone, every[name], err_msg=name)
                assert code.run(inputs, sizes, memory, absent=want.keys()) == {}


@pytest.mark.parametrize(("make", "kind"), [(averages, Interchange), (matrices, PlacesFirst)])
def test_loops_in_other_orders_are_asked(make: Callable[[], Program], kind: type) -> None:
    """As `test_what_is_absent_changes_no_bit` has them."""
    kernels, target = as_it_is(make()), resolve_target()
    shared = OutlinedKernels([kernels], target, emit_kernel)
    [(loop, order)] = loop_orders(kernels.func, target, shared, several=False).items()
    assert isinstance(order, kind) and loop in served_outputs(kernels)


def found(kernels: KernelProgram) -> dict[str, list[set[str]]]:
    """What kernels of each kind serve, in order."""
    kinds: dict[type, str] = {Gemm: "gemm", Map: "map", Pack: "pack", Reduce: "reduce", For: "for"}
    served: dict[str, list[set[str]]] = {}
    for op, outputs in reversed(served_outputs(kernels).items()):
        served.setdefault(kinds[type(op)], []).append({o.label.data for o in outputs})
    return served


def test_a_product_behind_its_transpose() -> None:
    kernels = as_it_is(turned())
    assert found(kernels) == {"pack": [{"y"}], "gemm": [{"y"}], "map": [{"z"}, {"y"}]}


def test_terms_that_two_outputs_read_serve_both() -> None:
    """Who serves all outputs is not asked."""
    assert found(as_it_is(softmax()))["reduce"] == [{"y"}]
    assert {"terms", "y"} not in found(as_it_is(softmax()))["map"]


def test_a_loop_serves_what_later_ones_make_of_it() -> None:
    """The first serves all three."""
    assert found(as_it_is(two_loops()))["for"] == [{"second", "last"}]


class Kept(Guards):
    """Knows the last block that was asked for: the workspace."""

    def array(self, like: Any) -> Any:
        self.last = super().array(like)
        return self.last


@pytest.mark.parametrize(
    ("make", "more", "less"), [(turned, "y", "z"), (two_loops, "last", "first")]
)
def test_unwanted_work_is_not_done(make: Callable[[], Program], more: str, less: str) -> None:
    """Products and states are in the workspace, whose bytes are 255 before the call."""
    program = make()
    code, sizes = Bare(as_it_is(program), resolve_target()), {"T": 4, "N": 3}
    inputs, names = random_inputs(program, sizes), program.net.outputs.keys()

    def written(wanted: str) -> int:
        memory = Kept(end=True)
        code.run(inputs, sizes, memory, absent=names - {wanted})
        count = int((memory.last != 255).sum())
        memory.free()
        return count

    assert written(more) > written(less)


@pytest.mark.parametrize("count", [MOST, MOST + 1])
def test_so_many_outputs_that_asking_takes_longer(count: int) -> None:
    b = Builder.net("many")
    x = b.input("x", ("N", 4))
    sums = b.matmul(x, b.input("w", (4, 4)))
    outputs = {
        f"y{i}": b.transpose(b.mul(sums, b.fill(float(i), ("N", 4))), [1, 0]) for i in range(count)
    }
    kernels = as_it_is(b.finish({**outputs, "z": b.relu(x)}))
    assert ("gemm" in found(kernels)) == (count == MOST)
