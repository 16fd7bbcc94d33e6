"""Many cases in worker processes that may crash, hang or grow, and are replaced then."""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from typing import Any

from tests.fuzz.cases import Case, Failure, Result

DEADLINE = 300.0
"""Seconds after which a worker that says nothing is killed."""
MEMORY = 5 << 30
"""Bytes of address space of a worker."""
RENEWED = 1500
"""Cases after which a worker is replaced, as compiled code stays in its memory."""
CALL_COUNTS = ("runs", "compared", "oracle", "unstable")
"""Calls of accepted models: by machine code; compared with the interpreter; with ONNX Runtime too;
left uncompared, as rounding decides."""
EXAMPLES = 3
"""Cases that are kept of each kind of failure."""

CALLS = 4
"""Of a model, each with other sizes where it has open ones."""

Task = tuple[str, int, int] | Case
_CONTEXT = multiprocessing.get_context("spawn")


@dataclass
class Totals:
    """What a campaign has seen.

    Attributes:
        families: of each family, how many cases there were, what became of them, and of the calls.
        reasons: the kinds of refusal.
        failures: a few cases of each kind of failure.
        signatures: how many failures there were of each kind.
    """

    families: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    reasons: Counter[str] = field(default_factory=Counter[str])
    failures: dict[str, list[tuple[Case, Failure]]] = field(
        default_factory=dict[str, list[tuple[Case, Failure]]]
    )
    signatures: Counter[str] = field(default_factory=Counter[str])
    slowest: float = 0.0

    @property
    def outcomes(self) -> Counter[str]:
        """Those of all families together."""
        return sum(self.families.values(), Counter[str]())

    def add(self, case: Case, result: Result) -> None:
        """Count a case."""
        counts = self.of_family(case)
        counts["tried"] += 1
        counts[result.outcome] += 1
        self.reasons[result.reason] += result.outcome == "refused"
        for name in CALL_COUNTS:
            counts[name] += getattr(result, name)
        self.slowest = max(self.slowest, result.seconds)
        for failure in result.failures:
            self.signatures[failure.signature] += 1
            kept = self.failures.setdefault(failure.signature, [])
            if len(kept) < EXAMPLES:
                kept.append((case, failure))

    def of_family(self, case: Case) -> Counter[str]:
        """The counts of a case's family."""
        return self.families.setdefault(case.name.split()[0], Counter())

    def __str__(self) -> str:
        kinds = f"{len(self.reasons)} kinds of refusal; slowest {self.slowest:.1f} s"
        titles = ("tried", "accepted", "refused", "failed", *CALL_COUNTS)
        head = " " * 16 + "".join(f"{title:>10}" for title in titles)
        rows = [*sorted(self.families.items()), ("all", self.outcomes)]
        lines = [f"{n:16}" + "".join(f"{c[t]:10}" for t in titles) for n, c in rows]
        return "\n".join([head, *lines, kinds])


class Worker:
    """A process that checks one case at a time."""

    def __init__(self, calls: int) -> None:
        self.pipe, inside = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=_work, args=(inside, calls), daemon=True)
        self.process.start()
        inside.close()
        self.task: Task | None = None
        self.since = time.monotonic()
        self.done = 0

    def send(self, task: Task) -> None:
        """Give it a case."""
        self.task, self.since = task, time.monotonic()
        self.pipe.send(task)

    def take(self) -> tuple[Case, Result] | None:
        """What came of the case; None where the process has died."""
        try:
            case, result = self.pipe.recv()
        except (EOFError, OSError):
            return None
        self.task, self.done = None, self.done + 1
        return case, result

    def late(self) -> bool:
        """Whether it has to be given up."""
        return self.task is not None and time.monotonic() - self.since > DEADLINE

    def end(self) -> int | None:
        """Kill it; the exit code that it had of its own."""
        self.process.join(0.5)
        code = self.process.exitcode
        self.process.kill()
        self.process.join()
        self.pipe.close()
        return code


class Runner:
    """Checks cases in a process that is replaced where a case ends it."""

    def __init__(self, calls: int = CALLS) -> None:
        self._calls = calls
        self._worker = Worker(calls)

    def __call__(self, case: Case) -> Result:
        worker = self._worker
        worker.send(case)
        ready = worker.pipe.poll(DEADLINE)
        taken = worker.take() if ready else None
        if taken is not None:
            return taken[1]
        code, self._worker = worker.end(), Worker(self._calls)
        return Result("failed", failures=[_lost(code if ready else None)])

    @property
    def process(self) -> int | None:
        """The number of the process."""
        return self._worker.process.pid

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *exception: object) -> None:
        self._worker.end()


def campaign(
    tasks: Callable[[], Task | None],
    workers: int,
    totals: Totals,
    show: Callable[[Totals], object] = lambda totals: None,
    calls: int = CALLS,
) -> Totals:
    """Check what `tasks` gives until it gives None, each case with so many calls."""
    crew = [Worker(calls) for _ in range(workers)]
    try:
        while True:
            for worker in crew:
                if worker.task is None and (task := tasks()) is not None:
                    worker.send(task)
            busy = [worker for worker in crew if worker.task is not None]
            if not busy:
                return totals
            ready = wait([worker.pipe for worker in busy], timeout=1.0)
            for place, worker in enumerate(crew):
                if worker.pipe in ready or worker.late():
                    crew[place] = _finish(worker, worker.pipe in ready, totals, calls)
            show(totals)
    finally:
        for worker in crew:
            worker.end()


def _finish(worker: Worker, ready: bool, totals: Totals, calls: int) -> Worker:
    """Count a case that a worker has ended, or that has ended the worker; who works on."""
    taken = worker.take() if ready else None
    if taken is not None:
        totals.add(*taken)
        if worker.done < RENEWED:
            return worker
        worker.end()
        return Worker(calls)
    code, task = worker.end(), worker.task
    assert task is not None
    case = _case_of(task)
    if case.oracle:  # it may have been ONNX Runtime that crashed
        with Runner(calls) as run:
            alone = run(replace(case, oracle=False))
        totals.of_family(case)["oracle crashed"] += not alone.failures
        totals.add(case, alone)
    else:
        totals.add(case, Result("failed", failures=[_lost(code if ready else None)]))
    return Worker(calls)


def _lost(code: int | None) -> Failure:
    if code is None:
        return Failure("hang", "no result", f"no result after {DEADLINE:.0f} s")
    return Failure("crash", f"exit code {code}", f"the process ended with code {code}")


def _case_of(task: Task) -> Case:
    from tests.fuzz.families import make_case

    return task if isinstance(task, Case) else make_case(*task)


def _work(pipe: Connection[Any, Any], calls: int) -> None:
    """A worker's life."""
    os.environ["RNNCC_CACHE"] = "0"
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    from tests.fuzz.check import check

    while True:
        try:
            task: Task = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        case = _case_of(task)
        pipe.send((case, check(case, calls)))


def drawn(
    families: Sequence[str], weights: Sequence[int], seed: int, more: Callable[[int], bool]
) -> Callable[[], Task | None]:
    """Tasks of families by their weights, as long as `more` says of their number."""
    rng, index = random.Random(seed), 0

    def next_task() -> Task | None:
        nonlocal index
        if not more(index):
            return None
        index += 1
        return rng.choices(families, weights)[0], seed, index

    return next_task
