"""Which PyTorch there must be; known without importing it, which takes a second."""

from __future__ import annotations

import re
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from importlib import metadata

OLDEST, NEWEST = (2, 11), (2, 15)
"""`rnncc.frontends.torch` reaches into parts of PyTorch that no version promises to keep: later
ones are tried."""
_OLDEST, _NEWEST = (".".join(map(str, version)) for version in (OLDEST, NEWEST))


def _found() -> tuple[str, tuple[int, ...]]:
    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        version = ""
    return version, tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def refusal() -> str | None:
    """Why the PyTorch that is installed will not do; None if it will, or might."""
    version, numbers = _found()
    if numbers >= OLDEST:
        return None
    installed = f", and this is {version}" if version else ""
    return f"rnncc.torch needs PyTorch {_OLDEST} or later{installed}: pip install 'rnncc[torch]'"


@contextmanager
def trying() -> Generator[None]:
    """Import what reaches into PyTorch; into one that is not known with a warning.

    Raises:
        ImportError: an unknown one lacks what is needed.
    """
    version, numbers = _found()
    if numbers <= NEWEST:
        yield
        return
    known = f"rnncc.torch is tested with PyTorch {_OLDEST} to {_NEWEST}, and this is {version}"
    warnings.warn(f"{known}: pip install 'rnncc[torch]' if it fails", stacklevel=3)
    try:
        yield
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ImportError(
            f"{known}, which differs ({reason}): pip install 'rnncc[torch]'"
        ) from error
