"""What PyTorch logs, with tracebacks, before it raises the same: messages of ours say it once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def logged_errors(name: str) -> Generator[list[BaseException]]:
    """While it lasts, errors that a logger would tell of in this thread are put into a list."""
    logger, logged, thread = logging.getLogger(name), list[BaseException](), threading.get_ident()

    def note(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if error is None or record.thread != thread:
            return True
        logged.append(error)
        return False

    logger.addFilter(note)
    try:
        yield logged
    finally:
        logger.removeFilter(note)
