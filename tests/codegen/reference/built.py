"""Nets as C, compiled by the machine's C compiler without a warning, and loaded."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import rnncc_runtime

import rnncc

FLAGS = "-O2 -Wall -Wextra -Werror -std=c99 -pedantic -fPIC -shared".split()
COMPILER = shutil.which("cc")


def source_of(net: Any, folder: Path, init: Any = None, **options: Any) -> Path:
    """A net's C, its header beside it."""
    made = rnncc.build(net, init, out=folder, name="net", target="reference", **options)
    assert made.source is not None and made.header is not None
    return made.source


def compiled(source: Path) -> Path:
    """The shared library of a C file."""
    assert COMPILER is not None
    library = source.with_name("libnet.so")
    command = [COMPILER, *FLAGS, str(source), "-o", str(library), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    return library


def built(net: Any, folder: Path, init: Any = None, **options: Any) -> rnncc_runtime.Model:
    """A net by way of C."""
    return rnncc_runtime.load(compiled(source_of(net, folder, init, **options)))


def built_to_train(
    net: Any, folder: Path, init: Any = None, **options: Any
) -> rnncc_runtime.TrainableModel:
    """A net's forward and backward by way of C."""
    source = source_of(net, folder, init, train=True, **options)
    return rnncc_runtime.load(compiled(source), train=True)
