"""Registers that Linux gives to a process which asks for them: those of AMX.

A library asks as it is loaded (`library/supported.py`), a process that compiles for itself does
here. What a process was given its threads and the processes that it forks have too. Kernels before
5.16 do not know the question; those later refuse where a signal's stack would be too small.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache

ARCH_PRCTL, REQUEST, TILE_DATA = 158, 0x1023, 18
"""The system call of x86-64, ARCH_REQ_XCOMP_PERM, and the state component to be had."""


@cache
def permitted() -> bool:
    """Whether this process, which runs on x86-64, may use AMX from now on."""
    if sys.platform != "linux":
        return False
    return ctypes.CDLL(None).syscall(ARCH_PRCTL, REQUEST, TILE_DATA) == 0
