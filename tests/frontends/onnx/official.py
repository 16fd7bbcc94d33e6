"""The standard's own node tests, run against us: `python -m tests.frontends.onnx.official`."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

from rnncc.errors import CompileError


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


def run(name: str, interpret: bool) -> Outcome:
    """Run one test, by machine code or by the interpreter of the IR."""
    from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt

    from rnncc import onnx_backend
    from rnncc.frontends.onnx.errors import Unsupported

    test = node_tests()[name]
    backend = onnx_backend.Interpreter if interpret else onnx_backend.Backend
    try:
        prepared = backend.prepare(test.model)
        for inputs, outputs in test.data_sets:
            got = prepared.run(list(inputs))
            _assert_similar(list(outputs), list(got), test)
    except (BackendIsNotSupposedToImplementIt, Unsupported) as error:
        return Outcome(name, "skipped", str(error))
    except (CompileError, AssertionError, ValueError) as error:
        return Outcome(name, "failed", f"{type(error).__name__}: {error}"[:300])
    return Outcome(name, "passed")


def _assert_similar(want: Any, got: Any, test: Any) -> None:
    """Outputs are close; the standard's own comparison takes elements of lists apart as outputs."""
    from onnx.backend.test.runner import Runner

    if isinstance(want, list) and isinstance(got, list):
        assert len(got) == len(want)
        for one, other in zip(want, got, strict=True):
            _assert_similar(one, other, test)
    elif want is None or got is None:
        assert want is got
    else:
        Runner.assert_similar_outputs([want], [got], test.rtol, test.atol)


def run_all(names: Sequence[str], interpret: bool, processes: int) -> list[Outcome]:
    """Run tests side by side."""
    parts = [names[i::processes] for i in range(processes)]
    if processes == 1:
        return _run_part(names, interpret)
    with ProcessPoolExecutor(processes) as pool:
        made = pool.map(_run_part, parts, [interpret] * processes)
        return sorted((o for part in made for o in part), key=lambda o: o.name)


def _run_part(names: Iterable[str], interpret: bool) -> list[Outcome]:
    return [run(name, interpret) for name in names]


def count(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """How many passed, were skipped, failed."""
    results = [outcome.result for outcome in outcomes]
    return {result: results.count(result) for result in ("passed", "skipped", "failed")}


def main() -> int:
    """Print the count; 1 if any failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of tests' names; all without")
    parser.add_argument("--interpret", action="store_true", help="by the interpreter, quicker")
    parser.add_argument("-n", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("-v", action="store_true", help="say why tests are skipped")
    given = parser.parse_args()
    names = [n for n in node_tests() if not given.names or any(part in n for part in given.names)]
    os.environ.setdefault("RNNCC_CACHE", "0")
    outcomes = run_all(names, given.interpret, given.n)
    for outcome in outcomes:
        if outcome.result == "failed" or (given.v and outcome.result == "skipped"):
            print(f"{outcome.result} {outcome.name}: {outcome.why}")
    counts = count(outcomes)
    print(", ".join(f"{number} {result}" for result, number in counts.items()))
    return int(counts["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
