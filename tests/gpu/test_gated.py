"""Random cells with gates: forward and backward have the CPU's bits, however parts are computed."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
from xdsl.ir import SSAValue

import rnncc
from rnncc.ir.builder import Builder, Values
from rnncc.ir.program import Program
from tests.gpu.device_net import DeviceNet, library_of
from tests.gpu.libcuda import Emulator
from tests.gpu.nets import SHAPES, check, quiet_emulator
from tests.strategies import make_inputs

FUNCTIONS = ("sigmoid", "tanh", "relu")
COUNT, MORE = 6, 150
SIZES = {"T": 5, "N": 3}


@pytest.fixture(autouse=True)
def cuda() -> Iterator[Emulator]:
    yield from quiet_emulator()


class Drawn:
    """A cell: gates of a product, scaled or not, that a step joins, scales and takes apart."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.units, self.gates = rng.choice([4, 6, 8, 12, 16]), rng.randint(2, 4)
        self.whole, self.kept = rng.random() < 0.5, rng.random() < 0.5

    def program(self) -> Program:
        b, units, width = Builder.net("drawn"), self.units, self.units * self.gates
        consts = [b.param("RW", [units, width]), b.param("W", [units, width])]
        consts += [b.param(f"scale{i}", [width]) for i in range(3)]
        inits = [b.input(name, ["N", units]) for name in "hc"]
        finals, ys = b.scan(consts, inits, [b.input("x", ["T", "N", units])], self.step)
        results = [*finals, *ys]
        return b.finish({f"y{i}": value for i, value in enumerate(results)})

    def step(self, b: Builder, ks: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        rng, (h, c) = self.rng, carry
        recurrent, given = b.matmul(h, ks[0]), b.matmul(rows[0], ks[1])
        scales = [b.broadcast(k, ["N", self.units * self.gates], [1]) for k in ks[2:]]
        gates = rng.choice([self.added, self.multiplied, self.scaled])(b, recurrent, given, scales)
        if rng.random() < 0.3:
            gates = b.tanh(gates)
        parts = [self.function(b, part) for part in self.parts(b, gates)]
        if rng.random() < 0.5:
            joined = b.concat(parts, 1)
            parts = self.parts(b, b.mul(joined, rng.choice([scales[0], given])))
        rng.shuffle(parts)
        c = b.add(b.mul(parts[0], c), b.mul(parts[1], parts[-1]))
        h = b.add(b.mul(parts[-1], b.tanh(c)), b.mul(h, parts[0]) if rng.random() < 0.5 else c)
        ys = [h, *([recurrent] if self.whole else []), *([gates] if self.kept else [])]
        return [b.tanh(h), c], ys

    def parts(self, b: Builder, gates: SSAValue) -> list[SSAValue]:
        return [b.slice(gates, 1, i * self.units, self.units) for i in range(self.gates)]

    def function(self, b: Builder, x: SSAValue) -> SSAValue:
        return getattr(b, self.rng.choice(FUNCTIONS))(x)

    @staticmethod
    def added(b: Builder, one: SSAValue, other: SSAValue, scales: Values) -> SSAValue:
        return b.add(b.add(one, other), scales[0])

    @staticmethod
    def multiplied(b: Builder, one: SSAValue, other: SSAValue, scales: Values) -> SSAValue:
        both = b.mul(b.mul(scales[0], one), other)
        return b.add(both, b.add(b.mul(scales[1], one), b.mul(scales[2], other)))

    @staticmethod
    def scaled(b: Builder, one: SSAValue, other: SSAValue, scales: Values) -> SSAValue:
        return b.add(b.mul(one, scales[0]), other)


SEEDS = [pytest.param(i, marks=pytest.mark.slow if i >= COUNT else ()) for i in range(MORE)]


@pytest.mark.parametrize("seed", SEEDS)
def test_bits_of_the_cpu(seed: int) -> None:
    shape = SHAPES[seed % len(SHAPES)]
    program = Drawn(seed).program()
    sizes, arrays = make_inputs(program, SIZES, seed)
    model = rnncc.compile(program.copy(), train=True)
    inputs = {name: arrays[name].astype(np.float32) for name in model.inputs}
    library = library_of(program.copy(), train=True)
    want, tape = model.forward(inputs)
    rng = np.random.default_rng(seed)
    outer = {n: rng.standard_normal(a.shape, np.float32) for n, a in want.items()}
    outputs, grads = DeviceNet(library, *shape).train(inputs, {}, outer, sizes)
    check(library, outputs, want)
    check(library, grads, model.backward(tape, outer))
