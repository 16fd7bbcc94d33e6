"""The command `rnncc`, also as `python -m rnncc`."""

from __future__ import annotations

import atexit
import os
import sys
from typing import Any, NoReturn, cast


def main() -> NoReturn:
    """Run one command, and end the process with its exit status."""
    try:
        from rnncc.cli import main as run  # takes long enough to be interrupted

        status = run()
    except KeyboardInterrupt:
        print("rnncc: error: interrupted", file=sys.stderr, flush=True)
        os._exit(130)
    # Python would take every object apart, which takes longer than linking a library.
    cast(Any, atexit)._run_exitfuncs()
    os._exit(status)


if __name__ == "__main__":
    main()
