"""`pytest --draw`: of tests with many cases, as many as 0.2 s compute, for `make test`.

Compiling takes the time, and thousands of cases compile something. A test function that takes
longer than that runs some of its cases, evenly spaced, and at least one; one that is a single case
of more than a second is in every third draw. Which these are differs from function to function, so
that together they still see every net, and from one state of the sources in git to the next, so
that in time all run. Of the examples that Hypothesis draws for a test, 30% run.
Without `--draw` all cases and examples run, as `make test-all` has it.

`pytest --record-seconds` measures processor seconds a case, and writes the mean for each function
that takes longer to `seconds.json`; together with `--draw` of the cases that are drawn. A function
that is not recorded there is quick, or new, and runs whole.
"""

from __future__ import annotations

import json
import resource
import subprocess
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import settings

BUDGET = 0.2
"""Processor seconds of one test function."""
LONG, RAREST = 1.0, 3
"""Processor seconds of a function's only case from which on one in so many draws has it."""
EXAMPLES = 30
"""In a hundred of those that Hypothesis draws without `--draw`."""
LEAST = 0.001
"""What is written of a case at least."""
RECORD = Path(__file__).with_name("seconds.json")
_PROPERTY = "processor seconds"


def add_options(parser: pytest.Parser) -> None:
    parser.addoption("--draw", action="store_true", help="some cases of tests that take long")
    parser.addoption("--record-seconds", action="store_true", help=f"write {RECORD.name}")


def examples(count: int) -> int:
    """How many examples a test has that has so many without `--draw`."""
    return max(1, count * settings().max_examples // 100)


def draw_examples() -> None:
    """Before tests are imported, as each takes its settings from those that hold by then."""
    settings.register_profile("drawn", settings.default, max_examples=EXAMPLES)
    settings.load_profile("drawn")


class Draw:
    """Leaves cases out before they run."""

    def __init__(self) -> None:
        self.state = _state_of_sources()

    def pytest_report_header(self) -> str:
        return f"cases are drawn by tree {self.state[:8] or 'none, as this is no clone'}"

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        recorded: dict[str, float] = json.loads(RECORD.read_text())
        functions = defaultdict[str, list[pytest.Item]](list)
        for item in items:
            functions[_function(item.nodeid)].append(item)
        left = [
            case
            for name, cases in functions.items()
            if name in recorded
            for i, case in enumerate(cases)
            if i not in drawn(name, len(cases), recorded[name], self.state)
        ]
        config.hook.pytest_deselected(items=left)
        gone = set(left)
        items[:] = [item for item in items if item not in gone]


def drawn(function: str, count: int, seconds: float, state: str = "") -> set[int]:
    """The numbers of a function's cases that are run, given what one of them takes.

    However long they take, it is at least one of several: what a function tests may stand nowhere
    else.
    """
    drawing = crc32(f"{state} {function}".encode())
    if count == 1 and seconds > LONG and drawing % RAREST:
        return set()
    most, first = max(1, int(BUDGET / seconds)), drawing // RAREST
    return {(first + i * count // most) % count for i in range(most)}


def _state_of_sources() -> str:
    """Git's name for what is committed, which rebasing keeps; empty outside of a clone."""
    command = ["git", "rev-parse", "HEAD^{tree}"]
    try:
        done = subprocess.run(
            command, cwd=RECORD.parent, capture_output=True, text=True, check=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


class Record:
    """Measures tests, in workers too, and writes the record where their reports come together."""

    def __init__(self) -> None:
        self.seconds = defaultdict[str, list[float]](list)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        before = _processor_seconds()
        try:
            return (yield)
        finally:
            item.user_properties.append((_PROPERTY, _processor_seconds() - before))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        seconds = dict(report.user_properties).get(_PROPERTY)
        if report.when == "call" and report.passed and isinstance(seconds, float):
            self.seconds[_function(report.nodeid)].append(seconds)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Of functions that did not run, the record says what it said before."""
        if hasattr(session.config, "workerinput"):
            return
        old: dict[str, float] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
        kept = {name: seconds for name, seconds in old.items() if name not in self.seconds}
        # Where few cases are drawn they may be the quick ones: a mean falls by half at most.
        means = {
            name: round(max(sum(each) / len(each), old.get(name, 0.0) / 2, LEAST), 3)
            for name, each in self.seconds.items()
            if sum(each) > BUDGET or name in old
        }
        RECORD.write_text(json.dumps(kept | means, indent=0, sort_keys=True) + "\n")


def _function(nodeid: str) -> str:
    return nodeid.partition("[")[0]


def _processor_seconds() -> float:
    """Of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
