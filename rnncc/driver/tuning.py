"""`--tune`: settings of the code generator, measured on this machine for one net at some sizes.

In: a net and options. Out: options with settings. Whatever they are, results have the same bits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
from rnncc_runtime import Model, RunError, TrainableModel

from rnncc.codegen import targets
from rnncc.driver import cache
from rnncc.driver.drawn import drawn
from rnncc.driver.loading import load
from rnncc.driver.timing import alternate
from rnncc.errors import CompileError
from rnncc.kern.library import Library
from rnncc.options import Options, check_tuning
from rnncc.packaging.image import Image
from rnncc.sizes import TIME, given_sizes

CANDIDATES = {
    "cache": (128 << 10, 512 << 10, 1 << 20),
    "vectors": (2, 8),
    "chains": (4, 16),
    "ahead": (512, 1024, 2048),
}
"""What is tried beside what the model of the machine says, one setting after another."""
GAIN = 0.98
"""A candidate must take less than this part of the time to be chosen."""
TIMES, ROUNDS, SECONDS = 3, 9, 0.02
"""Comparisons that a candidate has to win, each with code and weights elsewhere in memory, which
alone makes up to 4 %; rounds of each, and seconds of each round."""
STEPS = 100
"""T where `plan_for` does not say; other sizes are 1."""

Make = Callable[[Options], tuple[Image, Library]]
"""Compiles the net in memory."""


def tuned(net: Any, init: Any, options: Options, make: Make) -> Options:
    """The options with the fastest settings, measured now or remembered from an earlier time.

    What is remembered is of the same net, options and CPU (docs/packaging.md).

    Raises:
        CompileError: the net cannot be compiled, or cannot be run here, or on random arrays.
    """
    target = targets.resolve(options.target, options.cpu)
    target.check_runs_here()
    key = cache.key_of(net, init, options, target)
    entry = cache.find(key)
    settings = None if entry is None else _remembered(entry)
    if settings is None:
        settings = _measured(make, replace(options, tune=False))
        cache.keep(key, [json.dumps(settings).encode()])
    return replace(options, tune=False, tuning=settings)


def _remembered(entry: bytes) -> dict[str, int] | None:
    """The settings of an entry; None where they are none."""
    try:
        settings = json.loads(entry)
        check_tuning(settings)
    except (ValueError, AttributeError, RecursionError, CompileError):
        return None
    return settings


def _measured(make: Make, options: Options) -> dict[str, int]:
    """The settings that are better than those of the model of the machine."""
    best = dict(options.tuning)
    image, library = make(replace(options, tuning=best))
    sizes = {symbol: STEPS if symbol == TIME else 1 for symbol in library.symbols}
    sizes |= given_sizes(options.plan_for, library.symbols)
    for name, values in CANDIDATES.items():
        images = {json.dumps(best): image}
        for value in values:
            settings = {**best, name: value}
            other, _ = make(replace(options, tuning=settings))
            # small nets often have the same code under several settings
            if all(other.code != known.code for known in images.values()):
                images[json.dumps(settings)] = other
        text = _fastest(images, sizes)
        best, image = json.loads(text), images[text]
    return best


def _fastest(images: Mapping[str, Image], sizes: Mapping[str, int]) -> str:
    """The name of the image that takes least time; the first one unless another gains enough.

    A gain has to show again with code and weights in other places of memory, which count too.
    """
    first, remaining = next(iter(images)), dict(images)
    for _ in range(TIMES):
        if len(remaining) == 1:
            break
        timers = {name: _timer(image, sizes) for name, image in remaining.items()}
        times = {name: t.median for name, t in alternate(timers, ROUNDS, SECONDS).items()}
        least = min(times, key=lambda name: times[name])
        best = least if times[least] < GAIN * times[first] else first
        remaining = {name: images[name] for name in (first, best)}
    return next(reversed(remaining))


def _timer(image: Image, sizes: Mapping[str, int]) -> Callable[[int], float]:
    """Seconds that so many calls take, into the same arrays each time."""
    call = _call(load(image), sizes)

    def timer(count: int) -> float:
        start = perf_counter()
        for _ in range(count):
            call()
        return perf_counter() - start

    return timer


def _call(model: Model | TrainableModel, sizes: Mapping[str, int]) -> Callable[[], object]:
    inputs = drawn(model.inputs, sizes)
    try:
        if isinstance(model, Model):
            outputs = model.run(inputs)
            return lambda: model.run(inputs, out=outputs)
        outputs, tape = model.forward(inputs)
        names = [entry["name"] for entry in model.metadata["output_grads"]]
        output_grads = {name: np.ones_like(outputs[name]) for name in names}
        grads = model.backward(tape, output_grads)
    except RunError as error:
        raise CompileError("--tune", f"random arrays do not suit the net: {error}") from None

    def train() -> object:
        _, tape = model.forward(inputs, out=outputs)
        return model.backward(tape, output_grads, out=grads)

    return train
