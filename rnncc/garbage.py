"""Python's search for garbage while something is compiled."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def only_among_new_objects() -> Generator[None]:
    """Look for garbage among what is made from now on alone, until the end of the block.

    Compiling makes objects enough for several searches through all that there are: half a million
    beside PyTorch, at a tenth of the time of reading and compiling a cell. Who has frozen objects
    of their own keeps them frozen.
    """
    if gc.get_freeze_count() > 0:
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
