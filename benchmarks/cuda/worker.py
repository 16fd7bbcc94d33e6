"""A process that computes cases of a section: `python -m benchmarks.cuda.worker SECTION 0,3,5`

With `prepare` behind it takes one case, says that it is ready, and waits for a line before it runs.
What the parent reads begins with @.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import traceback
from importlib import import_module
from typing import Any

from benchmarks.cuda.sections import TIMED

LOST = 3
"""Exit code of a process whose device is of no use any more."""
NEVER_USED = 3, 100, 201
"""What the driver says where it was not started, has no device or no context."""


def main() -> None:
    """Compute what the command line names."""
    name, numbers, *rest = sys.argv[1:]
    module: Any = import_module(f"benchmarks.cuda.{name}")
    cases = module.cases()
    if rest:
        prepared(module, cases[int(numbers)])
        return
    if name not in TIMED:
        os.nice(10)  # peers compile beside it
    for index in map(int, numbers.split(",")):
        say(json.dumps({**computed(module, cases[index]), "index": index}))


def say(text: str) -> None:
    """One line to the parent."""
    print(f"@{text}", flush=True)


def prepared(module: Any, case: dict[str, Any]) -> None:
    """Get ready, and run when told to."""
    try:
        work = module.prepare(case)
    except Exception as error:
        traceback.print_exc()
        sys.exit(one_line(error))
    say("ready")
    sys.stdin.readline()
    try:
        row = work()
    except Exception as error:
        row = {"error": one_line(error)}
    say(json.dumps(row))


def one_line(error: Exception) -> str:
    """An error in one line."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:300]


def computed(module: Any, case: dict[str, Any]) -> dict[str, Any]:
    """The row of a case, or the error that it ends with."""
    try:
        return module.run(case)
    except Exception as error:
        traceback.print_exc()
        if is_lost():
            print(one_line(error), file=sys.stderr)
            sys.exit(LOST)
        return {"error": one_line(error)}


def is_lost() -> bool:
    """Whether the device answers no more, if this process has used it."""
    if "rnncc_runtime.cuda" not in sys.modules and "torch" not in sys.modules:
        return False
    try:
        driver = ctypes.CDLL(os.environ.get("RNNCC_LIBCUDA", "libcuda.so.1"))
    except OSError:
        return False
    return driver.cuCtxSynchronize() not in (0, *NEVER_USED)


if __name__ == "__main__":
    main()
