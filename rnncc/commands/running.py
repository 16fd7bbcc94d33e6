"""What `rnncc run` needs: arrays from files and back, and a library told from a net."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from rnncc_runtime import Model, Pool, TrainableModel, load

from rnncc import arrays
from rnncc.arrays import Array, Arrays
from rnncc.commands.tables import print_table, shape_text
from rnncc.errors import CompileError
from rnncc.sources import NetFile

__all__ = ["compute", "library_in", "load", "print_arrays", "read_arrays"]

_ELF = b"\x7fELF"


def library_in(source: NetFile) -> Path | None:
    """The path of a shared library; None of a net.

    Raises:
        CompileError: a library does not come from a regular file.
    """
    if isinstance(source, bytes):
        if source.startswith(_ELF):
            raise CompileError(str(source), "is a library, which is loaded from a file alone")
        return None
    with source.open("rb") as file:
        return source if file.read(len(_ELF)) == _ELF else None


def read_arrays(files: Sequence[str]) -> Arrays:
    """Arrays by name from `x.npz`, `NAME=x.npy` or `x.npy`, which gets the empty name.

    Raises:
        CompileError: a file is no such thing, or two arrays have one name.
    """
    found: Arrays = {}
    for text in files:
        name, _, file = text.rpartition("=") if not _exists(text) else ("", "", text)
        content = arrays.read(Path(file))
        if isinstance(content, np.ndarray):
            content = {name: content}
        for key, array in content.items():
            if key in found:
                raise CompileError(file, f"a second array is named {key!r}")
            found[key] = array
    return found


def _exists(text: str) -> bool:
    return os.path.exists(text)  # noqa: PTH110, which raises for no text


def name_arrays(given: Arrays, model: Model | TrainableModel) -> Arrays:
    """Give an array without a name the name of the model's only input that is left.

    Raises:
        CompileError: more than one input is left.
    """
    if "" not in given:
        return given
    left = [name for name in model.inputs if name not in given]
    if len(left) != 1:
        hint = f"inputs: {', '.join(model.inputs)}"
        raise CompileError("--input", "an .npy file needs a name: NAME=FILE", hint)
    return {name or left[0]: array for name, array in given.items()}


def compute(model: Model | TrainableModel, given: Arrays, threads: int) -> Arrays:
    """The outputs for arrays that a user gave."""
    inputs = name_arrays(given, model)
    if "device" in model.metadata:
        if threads > 1:
            raise CompileError("--threads", "a GPU has threads of its own", "leave it out")
        return model.run(inputs)
    with Pool(threads) as pool:
        return model.run(inputs, pool=pool)


def print_arrays(results: Mapping[str, Array]) -> None:
    """A table of what the arrays hold."""

    def row(name: str, array: Array) -> list[object]:
        values = (array.min(), array.mean(), array.max()) if array.size else ("", "", "")
        numbers = [f"{value:.6g}" if value != "" else "" for value in values]
        return [name, array.dtype, shape_text(array.shape), *numbers]

    columns = ["output", "dtype", "shape", "min", "mean", "max"]
    print_table("", columns, [row(name, array) for name, array in results.items()])
