"""The command `rnncc`, also as `python -m rnncc`."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Run one command; the exit status."""
    try:
        from rnncc.cli import main as run  # takes long enough to be interrupted

        return run()
    except KeyboardInterrupt:
        print("rnncc: error: interrupted", file=sys.stderr, flush=True)
        os._exit(130)


if __name__ == "__main__":
    sys.exit(main())
