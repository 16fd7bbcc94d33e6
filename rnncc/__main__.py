"""The command `rnncc`, also as `python -m rnncc`."""

from __future__ import annotations

import gc
import os
import sys

GC_THRESHOLD = 500_000
"""New objects before Python looks for garbage."""


def main() -> int:
    """Run one command; the exit status."""
    # What a short process makes lives until its end: looking for garbage is a sixth of a compile.
    gc.set_threshold(GC_THRESHOLD)
    try:
        from rnncc.cli import main as run  # takes long enough to be interrupted

        return run()
    except KeyboardInterrupt:
        print("rnncc: error: interrupted", file=sys.stderr, flush=True)
        os._exit(130)


if __name__ == "__main__":
    sys.exit(main())
