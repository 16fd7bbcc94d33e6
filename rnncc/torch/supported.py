"""Which PyTorch there must be; known without importing it, which takes a second."""

from __future__ import annotations

import re
from importlib import metadata

OLDEST, NEWEST = (2, 11), (2, 13)
"""`rnncc.frontends.torch.watch` reaches into parts of PyTorch that no version promises to keep."""


def refusal() -> str | None:
    """Why the PyTorch that is installed will not do; None if it will."""
    try:
        found = metadata.version("torch")
    except metadata.PackageNotFoundError:
        found = ""
    numbers = tuple(int(number) for number in re.findall(r"\d+", found)[:2])
    if OLDEST <= numbers <= NEWEST:
        return None
    oldest, newest = (".".join(map(str, version)) for version in (OLDEST, NEWEST))
    told = f", and this is {found}" if found else ""
    return f"rnncc.torch needs PyTorch {oldest} to {newest}{told}: pip install 'rnncc[torch]'"
