"""What fuzzing any format needs: damaged bytes, a report of outcomes, a command line."""

from __future__ import annotations

import argparse
import random
import resource
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import process_time
from typing import Any

from rnncc.errors import CompileError
from rnncc.ir.program import Program

LIMIT_SECONDS = 2
LIMIT_BYTES = 4 << 30
VALUES = [-(1 << 63), -(1 << 31), -100, -2, -1, 0, 1, 2, 3, 5, 24, 1 << 20, 1 << 31, 1 << 62]
FLOATS = [float("nan"), float("inf"), -1.0, 0.0, 1e-40, 0.5, 1e38]


class TooSlowError(Exception):
    """Something took longer than it may."""


@contextmanager
def time_limit(seconds: float) -> Generator[None]:
    """Raise `TooSlowError` in what takes longer, by CPU time; for the main thread alone."""

    def end(signum: int, frame: object) -> None:
        raise TooSlowError(f"no result after {seconds:g} s")

    signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def kind_of(message: str) -> str:
    """The start of a message without numbers and signs: the same for errors of one kind."""
    return "".join(c for c in message if c.isalpha() or c == " ")[:40]


@dataclass
class Report:
    """What came out."""

    imported: int = 0
    refused: int = 0
    slowest: float = 0.0
    messages: Counter[str] = field(default_factory=Counter[str])
    failures: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        total = self.imported + self.refused + len(self.failures)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        return (
            f"{total} mutants: {self.imported} imported, {self.refused} refused with "
            f"{len(self.messages)} kinds of message, {len(self.failures)} failures; "
            f"slowest {self.slowest:.2f} s, peak memory {peak} MiB"
        )

    def attempt(self, name: str, make: Callable[[], Program]) -> None:
        """Import something; any outcome but success or CompileError, in time, is a failure."""
        start = process_time()
        try:
            with time_limit(15 * LIMIT_SECONDS):
                make().module.verify()
            self.imported += 1
        except CompileError as error:
            self.refused += 1
            self.messages[kind_of(error.what)] += 1
            if "\n" in str(error):
                self.failures.append(f"{name}: a message of several lines: {error}")
        except Exception:
            self.failures.append(f"{name}: {traceback.format_exc()}")
        seconds = process_time() - start
        self.slowest = max(self.slowest, seconds)
        if seconds > LIMIT_SECONDS:
            self.failures.append(f"{name}: took {seconds:.1f} s")

    def show(self, index: int, progress: bool) -> None:
        """Tell how far it is, now and then."""
        if progress and index % 1000 == 999:
            print(f"{index + 1}: {self}", flush=True)


def attempts(
    count: int, seed: int, progress: bool, draw: Callable[[random.Random], Callable[[], Program]]
) -> Report:
    """Attempt `count` imports, each drawn from a generator of its own."""
    report = Report()
    for index in range(count):
        name = f"{seed} {index}"
        report.attempt(f"seed {name}", draw(random.Random(name)))
        report.show(index, progress)
    return report


def mutate_bytes(rng: random.Random, data: bytes) -> bytes:
    """Flip, cut, repeat, insert or exchange bytes."""
    made = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        at = rng.randrange(len(made) + 1)
        end = min(len(made), at + rng.choice([1, 2, 8, 64]))
        match rng.randrange(6):
            case 0 if at < len(made):
                made[at] ^= 1 << rng.randrange(8)
            case 1 if at < len(made):
                made[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
            case 2:
                del made[at:end]
            case 3:
                made[at:at] = made[at:end]
            case 4:
                made[at:at] = rng.randbytes(rng.randrange(1, 9))
            case _:
                del made[max(at, len(made) // 2) :]
    return bytes(made)


def change_one(rng: random.Random, values: Any, others: Callable[[], Sequence[Any]]) -> None:
    """Another value in the place of one of a list."""
    if values:
        values[rng.randrange(len(values))] = rng.choice(others())


def change_number(rng: random.Random, values: Any, others: Callable[[], Sequence[Any]]) -> None:
    """One value of a list fewer or more."""
    if values and rng.random() < 0.5:
        del values[rng.randrange(len(values))]
    else:
        values.append(rng.choice(others()))


def change_order(rng: random.Random, messages: Any) -> None:
    """A message of a list moved, doubled or gone."""
    chosen = rng.choice(messages)
    copied = type(chosen)()
    copied.CopyFrom(chosen)
    match rng.randrange(3):
        case 0:
            del messages[rng.randrange(len(messages))]
        case 1:
            messages.insert(rng.randrange(len(messages) + 1), copied)
        case _:
            rng.choice(messages).CopyFrom(copied)


def main(run: Callable[[int, int, bool], Report], about: str) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
    report = run(options.count, options.seed, sys.stderr.isatty())
    print(report)
    print("\n".join(failure[-3000:] for failure in report.failures[:20]))
    return bool(report.failures)
