"""Who computes a case: rnncc, and in the same form what it is measured against.

A contender's module has `make(case, setup) -> Workload | None`: what computes the case, None
where it cannot; `ImportError` where what it needs is not installed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from rnncc.errors import CompileError
from rnncc.options import PRECISIONS
from rnncc.records import record

Array = np.ndarray[Any, Any]

OWN = "rnncc.bench.own"
"""Of rnncc: this module, and those whose names begin so."""
HEADERS = ("/usr/local/include", "/usr/include")


@record
class Workload:
    """A way to compute a case.

    Attributes:
        run: once.
        result: y [T, N, H] as `run` computes it; None where nothing is to be compared.
        many: so many times, from C, where a call from Python would cost more than the work.
        wait: until what was run is done, where a call returns before.
    """

    run: Callable[[], object]
    result: Callable[[], Array] | None = None
    many: Callable[[int], object] | None = None
    wait: Callable[[], object] | None = None

    def repeat(self, count: int) -> None:
        """Compute the case so many times."""
        if self.many is not None:
            self.many(count)
            return
        run = self.run
        for _ in range(count):
            run()
        if self.wait is not None:
            self.wait()


@record
class Setup:
    """How a case is computed: the precision of the weights, and how many threads do it."""

    precision: str = "fp32"
    threads: int = 1


ALONE = Setup()


@record
class Contender:
    """Who computes.

    Attributes:
        name: as tables call it.
        module: that makes its workloads, such as `rnncc.bench.own`.
        needs: the Python package, or the C++ header, that must be there.
        precision: of the weights.
        threads: that compute together.
        slow: takes minutes to prepare a case, so that it runs only if asked for.
        device: cpu or cuda.
    """

    name: str
    module: str
    needs: str
    precision: str = "fp32"
    threads: int = 1
    slow: bool = False
    device: str = "cpu"

    def on(self, threads: int) -> Contender:
        """The same with so many threads."""
        name = self.name if threads == 1 else f"{self.name}, {threads} threads"
        return replace(self, name=name, threads=threads)

    @property
    def own(self) -> bool:
        """Whether it is rnncc."""
        return self.module.startswith(OWN)

    @property
    def installed(self) -> bool:
        """Whether what it needs is there."""
        if self.needs.endswith(".h"):
            return find_header(self.needs) is not None
        return find_spec(self.needs) is not None


def find_header(name: str) -> Path | None:
    """The folder of C++ headers that has it: RTNEURAL_DIR, or where they are installed."""
    places = [Path(place) for place in (os.environ.get("RTNEURAL_DIR"), *HEADERS) if place]
    return next((place for place in places if (place / name).is_file()), None)


def own_contenders(precisions: str, device: str = "cpu") -> list[Contender]:
    """Rnncc in each precision named, with commas between them, or all that it offers.

    Raises:
        CompileError: it does not offer one.
    """
    words = [word.strip() for word in precisions.split(",") if word.strip()]
    chosen = list(PRECISIONS) if words == ["all"] else words
    if not chosen or not set(chosen) <= set(PRECISIONS):
        hint = ", ".join((*PRECISIONS, "all"))
        raise CompileError("--precision", f"{precisions!r} names what there is not", hint)
    module = OWN if device == "cpu" else f"{OWN}_{device}"
    names = ["rnncc" if p == "fp32" else f"rnncc {p}" for p in chosen]
    several = zip(names, chosen, strict=True)
    return [Contender(name, module, "rnncc", p, device=device) for name, p in several]


def padded(several: Sequence[Contender]) -> list[Contender]:
    """Ours again, for sequences that are padded to the longest."""
    return [replace(one, name=f"{one.name} padded", module=f"{OWN}_full") for one in several]
