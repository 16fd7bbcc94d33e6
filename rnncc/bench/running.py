"""Runs cases: contenders in turn, then what their times mean."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rnncc.bench.cases import Case
from rnncc.bench.contenders import Contender
from rnncc.bench.processes import LeftOut, Process, Processes
from rnncc.driver.timing import Times, alternate
from rnncc.errors import CompileError
from rnncc.records import record

Progress = Callable[[str], object]


@record
class Effort:
    """How cases are timed: on which cores, in so many rounds, each of so many seconds."""

    cores: Sequence[int]
    rounds: int = 9
    seconds: float = 0.1


@dataclass
class CaseResult:
    """The times of one case.

    Attributes:
        times: by contender.
        contenders: whose they are.
        left: why a contender is not among them.
        least: seconds that the machine allows, by contender of ours.
    """

    case: Case
    times: dict[str, Times]
    contenders: dict[str, Contender]
    left: dict[str, str] = field(default_factory=dict[str, str])
    least: dict[str, float] = field(default_factory=dict[str, float])

    @property
    def own(self) -> list[str]:
        """The names of ours."""
        return [name for name, contender in self.contenders.items() if contender.own]

    def best(self, precision: str = "fp32", threads: int = 1) -> str | None:
        """The fastest peer of a precision on so many threads."""
        kind = (False, precision, threads)
        peers = [n for n, c in self.contenders.items() if (c.own, c.precision, c.threads) == kind]
        return min(peers, key=lambda name: self.times[name].median, default=None)

    def ratio(self, name: str, precision: str = "fp32") -> float | None:
        """The time of the best peer of a precision over this one's."""
        best = self.best(precision, self.contenders[name].threads)
        return None if best is None else self.times[best].median / self.times[name].median

    def fraction(self, name: str) -> float | None:
        """The least time over this one's."""
        return self.least[name] / self.times[name].median if name in self.least else None

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.case.name,
            "case": self.case.to_dict(),
            "times": {
                name: {
                    **times.to_dict(),
                    "ratio": self.ratio(name),
                    "ratio_bf16": self.ratio(name, "bf16"),
                    "least": self.least.get(name),
                    "fraction": self.fraction(name),
                }
                for name, times in self.times.items()
            },
            "best_peer": self.best(),
            "left_out": {name: why for name, why in self.left.items() if why},
        }


def cores(first: int | None = None) -> list[int]:
    """The cores that this process may use, in the order in which they are taken.

    Args:
        first: by default the last: systems keep busy with the first.

    Raises:
        CompileError: this process may not use it.
    """
    allowed = sorted(os.sched_getaffinity(0), reverse=True)
    first = allowed[0] if first is None else first
    if first not in allowed:
        raise CompileError("--core", f"{first} is none of {', '.join(map(str, allowed))}")
    return [first, *(core for core in allowed if core != first)]


def run(
    cases: Sequence[Case], contenders: Sequence[Contender], effort: Effort, report: Progress
) -> Iterator[CaseResult]:
    """The results of cases, one after another.

    Args:
        report: is called with what is being done.

    Raises:
        CompileError: rnncc refuses a net, or nothing can compute a case.
    """
    with Processes(contenders, effort.cores) as processes:
        for number, case in enumerate(cases, 1):
            place = f"{number} of {len(cases)}: {case.name}"
            yield _one(case, processes.all, effort, lambda what, at=place: report(f"{at}: {what}"))


def _one(case: Case, processes: Sequence[Process], effort: Effort, report: Progress) -> CaseResult:
    ready: dict[str, Process] = {}
    left: dict[str, str] = {}
    for process in processes:
        name = process.contender.name
        report(f"{name} makes it")
        try:
            process.make(case)
        except LeftOut as reason:
            left[name] = str(reason)
            continue
        ready[name] = process
    report(f"{', '.join(ready)} in turn")
    while ready:
        try:
            times = alternate({n: p.time for n, p in ready.items()}, effort.rounds, effort.seconds)
        except LeftOut as reason:  # one crashed: the others begin again
            dead = [name for name, process in ready.items() if not process.alive]
            left |= dict.fromkeys(dead, str(reason))
            ready = {name: process for name, process in ready.items() if process.alive}
            continue
        return CaseResult(case, times, {n: p.contender for n, p in ready.items()}, left)
    reasons = "; ".join(f"{name}: {why}" for name, why in left.items() if why)
    raise CompileError(case.name, "nothing computes it", reasons)
