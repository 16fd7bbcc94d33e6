"""rnncc with all lengths T: what a case of drawn lengths costs where its rows are padded."""

from __future__ import annotations

from dataclasses import replace

from rnncc.bench import own
from rnncc.bench.cases import Case
from rnncc.bench.contenders import ALONE, Setup, Workload


def make(case: Case, setup: Setup = ALONE) -> Workload | None:
    """The same net on sequences that are all as long as can be."""
    workload = own.make(replace(case, ragged=False), setup) if case.ragged else None
    return None if workload is None else replace(workload, result=None)
