"""Ways to compile and to call a model that change no bit: threads, pieces of a sequence, settings.

Vectors of other CPUs change what rounding changes, which is compared anyway.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from rnncc_runtime import Model, Pool

from rnncc.ir.program import Program
from rnncc.ir.types import dims_of
from rnncc.sizes import BATCH, TIME
from tests.fuzz.arrays import SIZES
from tests.golden import Arrays
from tests.passes.streams import in_chunks
from tests.teams import insistent

OPTIONS: list[dict[str, Any]] = [
    *[{}] * 9,
    *[{"threads": True}] * 2,
    {"max_steps": max(SIZES)},
    {"tuning": {"vectors": 2, "chains": 16}},
]
"""One of which each model is compiled with."""
if llvm.get_host_cpu_features().get("avx2"):
    OPTIONS += [{"cpu": "x86-64-v2"}, {"cpu": "x86-64-v3"}]
THREADS = 3


def draw_options(rng: random.Random, program: Program) -> dict[str, Any]:
    """Options for a model."""
    options = rng.choice(OPTIONS)
    timed = any(TIME in d.symbols for v in program.net.inputs.values() for d in dims_of(v))
    return options if timed or "max_steps" not in options else {}


def difference(
    model: Model, program: Program, inputs: Arrays, sizes: Mapping[str, int], want: Arrays
) -> str | None:
    """How a call of several threads, or in pieces, gives other bits than the whole call."""
    for way, got in _calls(model, program, inputs, sizes):
        for name, array in want.items():
            if got[name].shape != array.shape or _bits(got[name]) != _bits(array):
                return f"{way}: {name}:\n{got[name]}\nin one call\n{array}"
    return None


def _bits(array: np.ndarray[Any, Any]) -> bytes:
    """Bytes; NaN of any sign are the same."""
    floats = array.dtype.kind == "f"
    return (np.where(np.isnan(array), np.nan, array) if floats else array).tobytes()


def _calls(
    model: Model, program: Program, inputs: Arrays, sizes: Mapping[str, int]
) -> Iterator[tuple[str, Arrays]]:
    if model._functions.get("threads") is not None:
        with Pool(THREADS) as pool:
            yield "threads", insistent(model).run(inputs, pool=pool)
    if "refused" not in model.metadata.get("stream", {"refused": ""}) and TIME in sizes:
        starts = {name: inputs[name] for name in model.metadata["stream"]["starts"]}
        stream = model.stream(sizes.get(BATCH), starts)
        whole = sizes[TIME]
        pieces = [1, 0, whole // 2, whole - 1 - whole // 2] if whole else [0]

        def step(part: Arrays, steps: int) -> Arrays:
            return {name: np.array(a) for name, a in stream.step(part).items()}

        yield f"pieces of {pieces}", in_chunks(program, step, inputs, pieces)
