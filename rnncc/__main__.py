"""The command `rnncc`, also as `python -m rnncc`."""

from __future__ import annotations

import gc
import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn

GC_THRESHOLD = 500_000
"""New objects before Python looks for garbage. After 50 thousand it does so for 37 ms in place of 4
while it compiles an LSTM, and for 0.75 in place of 0.3 s of 12 for 7500 nodes, at the same memory
(194 and 202 MB)."""


def main() -> int:
    """Run one command; the exit status."""
    # What a short process makes lives until its end: looking for garbage is a sixth of a compile.
    gc.set_threshold(GC_THRESHOLD)
    expects = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if expects:  # imports take long enough to be interrupted, and there is nothing to tidy up
        signal.signal(signal.SIGINT, _leave)
    from rnncc.cli import main as run  # after the handler is set

    if expects:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return run()
    except KeyboardInterrupt as error:  # no command has begun, or it has ended
        _leave(getattr(error, "number", signal.SIGINT))


def _leave(number: int, frame: object = None) -> NoReturn:
    what = b"interrupted" if number == signal.SIGINT else b"terminated"
    with suppress(OSError):
        os.write(2, b"rnncc: error: %s\n" % what)
    os._exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
