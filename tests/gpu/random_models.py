"""Random ONNX models under the emulator: `python -m tests.gpu.random_models --minutes 10`.

Each is compiled for a GPU and for the CPU, every third one with gradients; results are compared bit
by bit at random sizes, under one of several schedules and shapes of blocks. Ends with 1 if one
differs, or if the emulator reports a race or an access out of bounds.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rnncc_runtime import ArrayError, Model, RunError, TrainableModel

from rnncc.driver import in_memory
from rnncc.errors import CompileError
from rnncc.options import Options
from tests.fuzz.arrays import draw_inputs, draw_sizes
from tests.fuzz.cases import Case
from tests.fuzz.check import MAX_ITERATIONS, bounded, outer_grads, read, training_options
from tests.fuzz.families import FAMILIES, make_case
from tests.golden import Arrays
from tests.gpu import libcuda
from tests.gpu.device_net import DeviceNet, Refused, library_of
from tests.gpu.nets import SHAPES, check

CALLS = 2
"""Of a model."""


def results(net: DeviceNet, model: Any, rng: random.Random) -> Iterator[tuple[Arrays, Arrays]]:
    """What a GPU and a CPU make of some random inputs."""
    for _ in range(CALLS):
        sizes = draw_sizes(rng, model)
        if sizes is None:
            continue
        inputs = {name: bounded(array) for name, array in draw_inputs(rng, model, sizes).items()}
        try:
            if isinstance(model, Model):
                want = model.run(inputs)
                yield net.run(inputs, sizes), want
            else:
                yield from _trained(net, model, inputs, sizes)
        except (Refused, RunError, ArrayError):
            continue  # sizes or indices that both refuse


def _trained(
    net: DeviceNet, model: TrainableModel, inputs: Arrays, sizes: dict[str, int]
) -> Iterator[tuple[Arrays, Arrays]]:
    outer = outer_grads(model, sizes)
    if outer is None:
        return
    want, tape = model.forward(inputs)
    outputs, grads = net.train(inputs, model.parameters, outer, sizes)
    yield outputs, want
    yield grads, model.backward(tape, outer)


def compare(case: Case, rng: random.Random) -> int:
    """How many results were compared; 0 for what is refused.

    Raises:
        AssertionError: some differ, or the emulator has something to report.
    """
    libcuda.emulator().configure(seed=rng.randrange(8))
    try:
        program = read(case)
        plain = {"max_iterations": MAX_ITERATIONS}
        options = training_options(program) if case.train else plain
        model = in_memory.compile_in_memory(program.copy(), None, Options.of(program, options))
        library = library_of(program, **options)
        net = DeviceNet(library, *rng.choice(SHAPES))
    except CompileError:
        return 0  # float64 on a GPU, for one
    pairs = results(net, model, rng)
    return sum(check(library, got, want) is None for got, want in pairs)


def main() -> None:
    known = [name for name in FAMILIES if name.startswith("onnx") and "mutant" not in name]
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.random_models", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    end, counts, number = time.monotonic() + 60 * given.minutes, Counter[str](), 0
    while time.monotonic() < end:
        family = known[number % len(known)]
        case = replace(make_case(family, given.seed, number), train=number % 3 == 2)
        try:
            counts["compared"] += compare(case, random.Random(number))
        except AssertionError as error:
            counts["wrong"] += 1
            print(f"{case.name}, train={case.train}: {error}", flush=True)
            libcuda.emulator().forget()
        number += 1
    print(f"{number} models, {counts['compared']} results equal, {counts['wrong']} wrong")
    sys.exit(counts["wrong"] > 0)


if __name__ == "__main__":
    main()
