from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from xdsl.ir import SSAValue

from rnncc.ir.dims import Dim
from rnncc.kern.interpreter import run
from rnncc.kern.kernels import Gemm
from rnncc.kern.packing import PackedGeometry
from rnncc.kern.program import KernelProgram
from rnncc.planning.layout import Plan, plan
from tests.kern_samples import Kern, N, T, lstm, port, region, row_major, strided
from tests.planning.helpers import check_apart

H = 4
STEP = N * H


class Maker:
    """Makes a random program whose every read finds something written.

    Most kernels write a buffer that nothing has written so far, and read the latest ones.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.k = Kern()
        self.x = self.k.buffer("x", "input", T * STEP)
        self.y = self.k.buffer("y", "output", T * STEP)
        self.last = self.k.buffer("last", "output", STEP)
        self.rows = [self.k.buffer(f"row{i}", "scratch", STEP) for i in range(60)]
        self.sequences = [self.k.buffer(f"all{i}", "scratch", T * STEP) for i in range(3)]
        self.fresh = iter(self.rows)
        self.loops = 0

    def program(self) -> KernelProgram:
        seed = next(self.fresh)
        self.k.map([N, H], [], [(seed, row_major([N, H]))], lambda b: [b.fill(1, ())])
        full = self.block(self.k, [seed], [self.x], 0)
        self.k.copy([N, H], full[-1], self.last)
        return self.k.program([port("x", T, N, H)], [port("y", T, N, H), port("last", N, H)])

    def block(self, k: Kern, full: list, whole: list, depth: int) -> list[SSAValue]:
        """`full`: the rows that hold values, latest last; `whole`: the sequences that do."""
        full, whole = list(full), list(whole)
        for _ in range(self.random.randint(1, 4)):
            if depth < 2 and self.random.random() < 0.4:
                whole.append(self.loop(k, full, whole, depth))
            else:
                full.append(self.kernel(k, full))
        return full

    def recent(self, full: list) -> SSAValue:
        return self.random.choice(full[-3:])

    def out(self, full: list) -> SSAValue:
        if self.random.random() < 0.2:
            return self.random.choice(full)
        return next(self.fresh, full[-1])

    def kernel(self, k: Kern, full: list) -> SSAValue:
        ins, out = [self.recent(full), self.recent(full)], self.out(full)
        access, turned = row_major([N, H]), strided(H, -1, offset=H - 1)
        if ins[1] is not out and self.random.random() < 0.3:
            access = turned
        reads = [(ins[0], row_major([N, H])), (ins[1], access)]
        k.map([N, H], reads, [(out, row_major([N, H]))], lambda b, p, q: [b.sub(b.add(p, p), q)])
        return out

    def loop(self, k: Kern, full: list, whole: list, depth: int) -> SSAValue:
        """A loop that reads a sequence and writes another; carries two rows that may swap."""
        self.loops += 1
        index = f"t{self.loops}"
        source, target = self.random.choice(whole), self.random.choice([*self.sequences, self.y])
        swap = self.random.random() < 0.5
        inits = [self.recent(full), self.recent(full)]

        def body(inner: Kern, *carried: SSAValue) -> Sequence[SSAValue]:
            mine, access = self.out(full), row_major([N, H])
            ins = [(inner.row(source, Dim.of(index), STEP), access), (carried[0], access)]
            inner.map([N, H], ins, [(mine, access)], lambda b, p, q: [b.add(p, q)])
            known = self.block(inner, [*full, mine], whole, depth + 1)
            inner.copy([N, H], known[-1], inner.row(target, Dim.of(index), STEP))
            return [self.recent(known), carried[0] if swap else mine]

        k.loop(index, T, inits, body, reverse=self.random.random() < 0.5)
        return target


@pytest.mark.parametrize("seed", range(60))
def test_a_planned_program_computes_the_same(seed: int) -> None:
    program = Maker(Random(seed)).program()
    inputs = {"x": np.random.default_rng(0).integers(-9, 9, (3, 2, H)).astype("f4")}
    want = run(program, inputs)
    planned = plan(program)
    check_apart(planned, {"T": 3, "N": 2})
    got = run(program, inputs)
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array)


def chain(*outs: str, role: str = "scratch", turned: bool = False) -> tuple[KernelProgram, Plan]:
    """x through buffers of those names, one elementwise kernel each, to y."""
    k = Kern()
    source = k.buffer("x", "input", STEP)
    y = k.buffer("y", "output", STEP)
    buffers = [k.buffer(name, role, STEP) for name in outs]
    for target in [*buffers, y]:
        access = strided(H, -1, offset=H - 1) if turned else row_major([N, H])
        k.map([N, H], [(source, access)], [(target, row_major([N, H]))], lambda b, v: [v])
        source = target
    program = k.program([port("x", N, H)], [port("y", N, H)])
    return program, plan(program)


def test_elementwise_kernels_write_in_place() -> None:
    program, planned = chain("a", "b", "c")
    assert [p.shares for p in planned.buffers] == [None, "a", "b"]
    assert str(program.workspace) == "16*N"
    x = np.arange(8, dtype="f4").reshape(2, H)
    np.testing.assert_array_equal(run(program, {"x": x})["y"], x)


def test_kernels_that_move_elements_do_not() -> None:
    program, planned = chain("a", "b", "c", turned=True)
    assert [p.shares for p in planned.buffers] == [None] * 3
    assert str(program.workspace) == "32*N"


@pytest.mark.parametrize("again", [False, True])
def test_a_product_does_not_write_over_its_left_operand(again: bool) -> None:
    """As wide as it is deep, so that both are accessed alike; `again`: the body reads it too."""
    k = Kern()
    x, w, y = (
        k.buffer("x", "input", STEP),
        k.buffer("w", "param", 16),
        k.buffer("y", "output", STEP),
    )
    a, b = k.buffer("a", "scratch", STEP), k.buffer("b", "scratch", STEP)
    dense = row_major([N, H])
    k.copy([N, H], x, a)
    ins = [(a, dense)] if again else []
    k.gemm(
        [N, H],
        (a, dense),
        w,
        PackedGeometry(H, 1, 4),
        ins,
        [(b, dense)],
        lambda b, z, *_: [b.neg(z)],
    )
    k.copy([N, H], b, y)
    program = k.program([], [], {})
    assert [p.shares for p in plan(program).buffers] == [None, None]


def test_lstm_plan() -> None:
    program = lstm(64, 40, panel=16, chunk=32)
    planned = plan(program)
    by_label = {p.buffer.label.data: p for p in (*planned.params, *planned.buffers)}
    assert program.weights == 4 * 4 * 64 * (64 + 40)
    assert [str(by_label[label].offset) for label in "wu"] == ["0", str(4 * 4 * 64 * 40)]
    assert str(by_label["gates"].size) == "1024*N + 32768"
    # a ring of two rows of the state, for when hidden_all is absent; the cell; the gates
    assert str(program.workspace) == "1792*N + 32768"
    sizes = {"T": 9, "N": 3}
    check_apart(planned, sizes)
    assert planned.bound(sizes) == planned.peak(sizes) == 1792 * 3 + 32768


def test_outputs_that_nothing_stands_in_for_and_idle_buffers_take_no_memory() -> None:
    k = Kern()
    y = k.buffer("y", "output", STEP, fallback_size=0)
    k.buffer("idle", "scratch", STEP)
    k.map([N, H], [], [(y, row_major([N, H]))], lambda b: [b.fill(1, ())])
    program = k.program([], [port("y", N, H)])
    assert plan(program).buffers == []
    assert not program.workspace
    assert run(program, {}, {"N": 2}, absent={"y"}) == {}


def test_params_lie_in_lines() -> None:
    k = Kern()
    for name, size in [("a", 1), ("b", 17), ("c", 16)]:
        k.buffer(name, "param", size)
    program = k.program()
    assert [str(p.offset) for p in plan(program).params] == ["0", "64", "192"]
    assert program.weights == 256


def test_products_read_rows_and_packed_weights_by_words() -> None:
    """An odd number of bytes below them must not put them where words cannot be read."""
    k, units = Kern(), row_major([N, 33])
    x, w, y = (
        k.buffer("x", "input", N * 33, dtype="i8"),
        k.buffer("w", "input", 9 * 33, dtype="u8"),
        k.buffer("y", "output", N * 8, dtype="i32"),
    )
    later, kept, packed, rows = (
        k.buffer(name, role, size, dtype="u8")
        for name, role, size in [
            ("later", "output", N * 33), ("kept", "scratch", N * 33),
            ("packed", "scratch", 9 * 33), ("rows", "scratch", 44),
        ]
    )  # fmt: skip
    k.map([N, 33], [(x, units)], [(kept, units)], lambda b, v: [b.cast(v, "u8")])
    k.copy([9 * 33], w, packed)
    body, outs = region([], lambda b, z: [z], slots=1, dtype="i32"), [(y, row_major([N, 8]))]
    dims = [Dim.of(N), Dim.of(8)]
    k.add(Gemm(dims, (x, units), packed, PackedGeometry(33, 1, 8), [], outs, body, (None, rows)))
    k.copy([N * 33], kept, later)
    inputs = [port("x", N, 33, dtype="i8"), port("w", 9 * 33, dtype="u8")]
    outputs = [port("y", N, 8, dtype="i32"), port("later", N, 33, dtype="u8")]
    places = plan(k.program(inputs, outputs)).buffers
    assert len(places) == 3
    for place in places:
        if place.buffer.y is not kept:
            assert [place.offset.evaluate({"N": n}) % 4 for n in range(1, 9)] == [0] * 8
