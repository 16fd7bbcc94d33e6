"""Files of this user's that nobody else may write to: the cache's folder, and what it holds."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

from rnncc.errors import CompileError

OFF, ON = ("0", "off", "no", "false"), ("", "1", "on", "yes", "true")
"""What RNNCC_CACHE may say."""


def cache_folder() -> Path | None:
    """What holds the folder of entries; None where the cache is off, or others may write to it.

    Raises:
        CompileError: RNNCC_CACHE says neither.
    """
    switch = os.environ.get("RNNCC_CACHE", "1")
    if switch.lower() in OFF:
        return None
    if switch.lower() not in ON:
        what = f"{switch[:80]!r} is neither 0 nor 1"
        raise CompileError("RNNCC_CACHE", what, "the folder is RNNCC_CACHE_DIR")
    if chosen := os.environ.get("RNNCC_CACHE_DIR"):
        path = Path(chosen)
    else:
        shared = os.environ.get("XDG_CACHE_HOME", "")
        if not Path(shared).is_absolute():
            shared = os.path.expanduser("~/.cache")  # noqa: PTH111, Path.home() may raise
        path = Path(shared) / "rnncc"
    return path if is_ours(path, os.stat) else None


def is_ours(path: Path, status_of: Callable[[Path], os.stat_result]) -> bool:
    """Whether nobody else can put code into a folder; one that is not there can be made."""
    try:
        status = status_of(path)
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False
    return stat.S_ISDIR(status.st_mode) and is_own(status)


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, of this user's alone, whatever the umask.

    Raises:
        OSError: it cannot be made.
    """
    for missing in reversed([p for p in (path, *path.parents) if not p.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)


def is_own(status: os.stat_result) -> bool:
    """Whether a file is this user's, and nobody else may write to it."""
    return not status.st_mode & 0o022 and (os.name != "posix" or status.st_uid == os.getuid())


def own_file(path: Path, most: int) -> bytes:
    """What a file of this user's holds.

    Raises:
        OSError: it is a link, a FIFO or a device, somebody else's, or larger than `most`.
    """
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # a FIFO would block
    with os.fdopen(os.open(path, os.O_RDONLY | flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or not is_own(status) or status.st_size > most:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM), str(path))
        return file.read(most)
