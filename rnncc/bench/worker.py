"""The process of one contender: makes cases and times them, as its standard input asks.

A line of JSON in, one out. What the contender itself prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from rnncc.bench import repository
from rnncc.bench.cases import Case
from rnncc.bench.contenders import Setup, Workload
from rnncc.errors import CompileError

WARM = 1
"""Calls before a round that are not timed, as another contender has had the caches."""


def main(arguments: list[str]) -> None:
    """Answer requests until there are no more.

    Args:
        arguments: a contender's module, a precision, and the cores to run on, of which each has a
            thread.
    """
    module, precision, *cores = arguments
    os.sched_setaffinity(0, map(int, cores))
    setup = Setup(precision, len(cores))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    call: Workload | None = None
    for line in sys.stdin:
        request = json.loads(line)
        if "make" in request:
            call = None  # frees the case before
            call, answer = _make(module, setup, Case.from_dict(request["make"]))
        else:
            assert call is not None
            answer = {"seconds": seconds(call, request["time"])}
        print(json.dumps(answer), file=answers, flush=True)


def seconds(call: Workload, count: int) -> float:
    """How long so many calls take."""
    if count > 1:
        call.repeat(WARM)
    start = time.perf_counter()
    call.repeat(count)
    return time.perf_counter() - start


def _make(module: str, setup: Setup, case: Case) -> tuple[Workload | None, dict[str, Any]]:
    try:
        call = repository.module(module).make(case, setup)
    except CompileError as error:
        return None, {"refused": [error.location, error.what, error.hint]}
    except ImportError as error:
        return None, {"why": str(error)}
    except Exception as error:  # a peer's own failure leaves it out and ends nothing
        message = str(error).strip().splitlines()
        return None, {"why": f"{type(error).__name__}: {message[0] if message else ''}"}
    return call, {} if call is not None else {"why": ""}


if __name__ == "__main__":
    main(sys.argv[1:])
