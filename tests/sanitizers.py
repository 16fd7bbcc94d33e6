"""Flags of the C compiler by which a program notices its own faults."""

from __future__ import annotations

import subprocess
import tempfile
from functools import cache

_FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=all -g"


@cache
def sanitizers() -> str:
    """The flags, or none where the compiler or this machine has no sanitizers."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["cc", "-x", "c", "-", *_FLAGS.split(), "-o", f"{folder}/program"]
        text = "int main(void) { return 0; }"
        for step, given in ((command, text), ([f"{folder}/program"], "")):
            done = subprocess.run(step, input=given, capture_output=True, text=True, check=False)
            if done.returncode:
                return ""
    return _FLAGS
