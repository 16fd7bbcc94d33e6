"""Calls that several threads compute, however small they are."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from rnncc_runtime import Model, Pool
from rnncc_runtime.compiled import Compiled

from tests.golden import Arrays

M = TypeVar("M", bound=Compiled)


def insistent(model: M, threads: int = 1 << 20) -> M:
    """A model that takes so many threads of a pool for every call."""
    model._functions = {**model._functions, "threads": lambda *sizes: threads}
    return model


def check_threads(model: Model, inputs: Arrays, alone: Model | None = None) -> None:
    want = (alone or model).run(inputs)
    with Pool(3) as pool:
        for threads in (1, 2, 3, 2):
            model = insistent(model, threads)
            for _ in range(2):
                got = model.run(inputs, pool=pool)
                for name, array in want.items():
                    np.testing.assert_array_equal(got[name], array, err_msg=f"{name} {threads}")
