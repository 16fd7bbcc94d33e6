"""Sections of the measurements: what they compute, in processes of their own.

A process that dies or hangs takes the case that it was at with it, and nothing else: an error on
the device leaves no process usable. What could not be measured is a row with its reason.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Report = Callable[[str], object]
ROOT = Path(__file__).parents[2]
START = 60.0
"""Seconds in which a process imports what it needs."""


@dataclass(frozen=True)
class Section:
    """One part of the table.

    Attributes:
        name: a module of this package with `cases()` and `run(case)`, both in words of JSON.
        title: what it is, for readers.
        seconds: that all of it may take.
        case_seconds: that one case may take, compilation within.
        workers: processes that share the cases; more than one where nothing is timed.
    """

    name: str
    title: str
    seconds: float
    case_seconds: float
    workers: int = 1


SECTIONS = {
    section.name: section
    for section in (
        Section("warm", "Compiling ahead", 100, 90, workers=12),
        Section("golden", "Golden nets: the bits of the CPU", 100, 60, workers=10),
        Section("sanitizer", "compute-sanitizer", 75, 70, workers=4),
        Section("load", "Cold load", 30, 25),
        Section("forward", "Forward, beside cuDNN", 130, 40),
        Section("training", "Forward and backward, beside cuDNN", 110, 40),
        Section("custom", "Cells that cuDNN does not have", 75, 30),
        Section("compiled", "Compiled peers of those", 60, 15),
    )
}
"""In the order in which they run: what is not timed first, as peers compile meanwhile."""
TIMED = ("load", "forward", "training", "custom", "compiled")


def cases_of(name: str) -> list[Row]:
    """The cases of a section."""
    return import_module(f"benchmarks.cuda.{name}").cases()


class Talk:
    """A process of this package whose lines are read as they come, with limits of time."""

    def __init__(self, *words: str) -> None:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by `end`
        command = [sys.executable, "-u", "-m", "benchmarks.cuda.worker", *words]
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("@"):
                self._lines.put(line[1:].strip())
        self._lines.put(None)

    def line(self, seconds: float) -> str | None:
        """What it says next; None if it ended.

        Raises:
            TimeoutError: it says nothing for so long.
        """
        try:
            found = self._lines.get(timeout=max(seconds, 0.01))
        except queue.Empty:
            raise TimeoutError from None
        if found is None:
            self._leave()
        return found

    def _leave(self) -> None:
        """Its output has ended: so does the process, in a moment."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(5)

    def go(self) -> None:
        """Let a prepared process do what it waits to do."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def send(self, number: signal.Signals) -> None:
        """To it and to the processes that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def end(self) -> str:
        """Kill it if it lives; why it ended, by its own last words."""
        running = self.process.poll() is None
        self.send(signal.SIGKILL)
        code = self.process.wait()
        self._log.seek(0)
        words = [line.strip() for line in self._log if line.strip()]
        self._log.close()
        return "" if running else f"exit code {code}: {words[-1] if words else 'no words'}"[:300]


def run_section(section: Section, deadline: float, report: Report) -> list[Row]:
    """A row for each case, in order."""
    cases = cases_of(section.name)
    rows: list[Row] = [{**case, "error": "no time was left"} for case in cases]
    parts = [range(len(cases))[i :: section.workers] for i in range(section.workers)]
    with ThreadPoolExecutor(section.workers) as pool:
        several = [pool.submit(_follow, section, p, rows, deadline, report) for p in parts if p]
    for each in several:
        each.result()
    return rows


def _follow(
    section: Section, part: Sequence[int], rows: list[Row], deadline: float, report: Report
) -> None:
    """Compute some of the cases; a new process for what is left where one ended early."""
    todo = list(part)
    while todo and time.monotonic() < deadline:
        talk = Talk(section.name, ",".join(map(str, todo)))
        why = _listen(talk, section, todo, rows, deadline, report)
        ended = talk.end()
        if todo and time.monotonic() < deadline:
            first = todo.pop(0)
            rows[first]["error"] = why or ended or "ended early"
            report(f"{section.name} {rows[first]}")


def _listen(
    talk: Talk, section: Section, todo: list[int], rows: list[Row], deadline: float, report: Report
) -> str:
    """Take the rows of a process until it ends; why it had to be ended."""
    limit = START + section.case_seconds
    while todo:
        left = min(limit, deadline - time.monotonic())
        try:
            line = talk.line(left)
        except TimeoutError:
            return f"took more than {left:.0f} s"
        if line is None:
            return ""
        limit = section.case_seconds
        answer = json.loads(line)
        index = answer.pop("index")
        todo.remove(index)
        del rows[index]["error"]
        rows[index] |= answer
        report(f"{section.name} {rows[index]}")
    return ""


class Prepared:
    """The cases of a section, each in a process that prepares at once and waits for its turn."""

    def __init__(self, section: Section) -> None:
        self.section, self._cases = section, cases_of(section.name)
        self._talks = [Talk(section.name, str(i), "prepare") for i in range(len(self._cases))]
        self._begun = time.monotonic()
        self._ready: set[int] = set()

    def wait(self, deadline: float, report: Report) -> None:
        """Until all are ready or have ended, or it is late: then those go on beside."""
        for index, talk in enumerate(self._talks):
            if self._is_ready(index, talk, deadline):
                self._ready.add(index)
        spent = time.monotonic() - self._begun
        report(f"{self.section.name}: {len(self._ready)} of {len(self._talks)} after {spent:.0f} s")

    @contextmanager
    def stopped(self) -> Generator[None]:
        """Within this block no compiler takes time of what is measured."""
        for talk in self._talks:
            talk.send(signal.SIGSTOP)
        try:
            yield
        finally:
            for talk in self._talks:
                talk.send(signal.SIGCONT)

    def _is_ready(self, index: int, talk: Talk, deadline: float) -> bool:
        try:
            return index in self._ready or talk.line(deadline - time.monotonic()) == "ready"
        except TimeoutError:
            return False

    def run(self, deadline: float, report: Report) -> list[Row]:
        """A row for each, one at a time."""
        rows: list[Row] = []
        for talk in self._talks:
            talk.send(signal.SIGSTOP)
        for index, (case, talk) in enumerate(zip(self._cases, self._talks, strict=True)):
            talk.send(signal.SIGCONT)
            row = {**case, **self._measure(index, talk, deadline)}
            report(f"{self.section.name} {row}")
            rows.append(row)
        self.end()
        return rows

    def _measure(self, index: int, talk: Talk, deadline: float) -> Row:
        if not self._is_ready(index, talk, time.monotonic()):
            spent = time.monotonic() - self._begun
            return {"error": talk.end() or f"was not compiled after {spent:.0f} s"}
        try:
            talk.go()
            line = talk.line(min(self.section.case_seconds, deadline - time.monotonic()))
        except (TimeoutError, OSError):
            return {"error": talk.end() or "no time was left"}
        why = talk.end()
        return {"error": why} if line is None else json.loads(line)

    def end(self) -> None:
        """Leave no process behind."""
        for talk in self._talks:
            talk.send(signal.SIGKILL)
