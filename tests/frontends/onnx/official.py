"""The standard's own tests by its own runner: `python -m tests.frontends.onnx.official`.

The runner is `onnx.backend.test.BackendTest`, as the standard's documentation uses it. It takes no
notice of a back end that raises `BackendIsNotSupposedToImplementIt`; here such tests are skipped.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import unittest
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

NODES = "OnnxBackendNodeModelTest"
DEVICE = "_cpu"
"""Behind the names of tests for the device that rnncc has."""


_NOISE = "expects 1.9e-7 where the result is 0, within 1e-7"
_DRAWN = "expects the random numbers of one implementation"
_BERNOULLI = [f"test_bernoulli{kind}" for kind in ("", "_double", "_seed")]
_DROPOUT = [
    f"test_training_dropout{kind}{end}" for kind in ("", "_default") for end in ("", "_mask")
]
EXCLUDED = {
    **dict.fromkeys(("test_dft_inverse", "test_dft_inverse_opset19"), _NOISE),
    **dict.fromkeys((f"{n}{end}" for n in _BERNOULLI for end in ("", "_expanded")), _DRAWN),
    **dict.fromkeys(_DROPOUT, _DRAWN),
}
"""Tests whose expected numbers are wrong by more than they allow, or others', and how."""


@dataclass(frozen=True)
class Outcome:
    """Of one test: passed, skipped or failed, and why."""

    name: str
    result: str
    why: str = ""


@cache
def node_tests() -> dict[str, Any]:
    """All node tests of the installed package, by name."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {test.name: test for test in load_model_tests(kind="node")}


@cache
def cases(interpret: bool) -> dict[str, dict[str, unittest.TestCase]]:
    """The runner's tests for the CPU: category -> name -> test."""
    from onnx.backend.test import BackendTest

    from rnncc import onnx_backend

    backend = onnx_backend.Interpreter if interpret else onnx_backend.Backend
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runner: Any = BackendTest(_skipping(backend), __name__)
    return {
        category: {
            name.removesuffix(DEVICE): kind(name) for name in dir(kind) if name.endswith(DEVICE)
        }
        for category, kind in runner.test_cases.items()
    }


def _skipping(backend: Any) -> Any:
    """The back end, with what it does not claim as a test that is skipped."""

    class Prepared:
        def __init__(self, made: Any) -> None:
            self._made = made

        def run(self, inputs: Any, **options: Any) -> Any:
            return _or_skip(lambda: self._made.run(inputs, **options))

    class Skipping(backend):
        @classmethod
        def prepare(cls, model: Any, device: str = "CPU", **options: Any) -> Any:
            return Prepared(_or_skip(lambda: backend.prepare(model, device, **options)))

        @classmethod
        def is_compatible(cls, model: Any, device: str = "CPU", **options: Any) -> bool:
            return backend.is_compatible(model, device, **options)

    return Skipping


def _or_skip(function: Callable[[], Any]) -> Any:
    from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt

    try:
        return function()
    except BackendIsNotSupposedToImplementIt as error:
        raise unittest.SkipTest(str(error)) from error


def run(name: str, interpret: bool, category: str = NODES) -> Outcome:
    """Run one test, by machine code or by the interpreter of the IR."""
    if name in EXCLUDED:
        return Outcome(name, "skipped", EXCLUDED[name])
    result = unittest.TestResult()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases(interpret)[category][name].run(result)
    wrong = [text for _, text in (*result.errors, *result.failures)]
    if wrong:
        return Outcome(name, "failed", wrong[0].strip().splitlines()[-1][:300])
    if result.skipped:
        return Outcome(name, "skipped", result.skipped[0][1])
    return Outcome(name, "passed")


def run_all(tests: Sequence[tuple[str, str]], interpret: bool, processes: int) -> list[Outcome]:
    """Run tests, each a category and a name, side by side."""
    parts = [tests[i::processes] for i in range(processes)]
    if processes == 1:
        return _run_part(tests, interpret)
    with ProcessPoolExecutor(processes) as pool:
        made = pool.map(_run_part, parts, [interpret] * processes)
        return sorted((o for part in made for o in part), key=lambda o: o.name)


def _run_part(tests: Iterable[tuple[str, str]], interpret: bool) -> list[Outcome]:
    return [run(name, interpret, category) for category, name in tests]


def count(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """How many passed, were skipped, failed."""
    results = [outcome.result for outcome in outcomes]
    return {result: results.count(result) for result in ("passed", "skipped", "failed")}


def main() -> int:
    """Print the counts of each category; 1 if any failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of tests' names; all without")
    parser.add_argument("--interpret", action="store_true", help="by the interpreter, quicker")
    parser.add_argument("-n", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("-v", action="store_true", help="say why tests are skipped")
    given = parser.parse_args()
    os.environ.setdefault("RNNCC_CACHE", "0")
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("ONNX_HOME", folder)  # where the runner writes
        for category, tests in cases(given.interpret).items():
            chosen = [n for n in tests if not given.names or any(p in n for p in given.names)]
            outcomes = run_all([(category, n) for n in chosen], given.interpret, given.n)
            for outcome in outcomes:
                if outcome.result == "failed" or (given.v and outcome.result == "skipped"):
                    print(f"{outcome.result} {outcome.name}: {outcome.why}")
            counts = count(outcomes)
            failed += counts["failed"]
            shown = ", ".join(f"{number} {result}" for result, number in counts.items())
            kind = category.removeprefix("OnnxBackend").removesuffix("ModelTest")
            print(f"{kind}: {shown}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
