"""What `rnncc run` needs: arrays from files and back, and a library told from a net."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from rnncc_runtime import Model, Pool, TrainableModel, load

from rnncc.commands.tables import print_table, shape_text
from rnncc.errors import CompileError

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]

__all__ = ["compute", "is_library", "load", "print_arrays", "read_arrays", "write_arrays"]


def is_library(path: Path) -> bool:
    """Whether a file is a shared library rather than a net."""
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def read_arrays(files: Sequence[str]) -> Arrays:
    """Arrays by name from `x.npz`, `NAME=x.npy` or `x.npy`, which gets the empty name.

    Raises:
        CompileError: a file is no such thing, or two arrays have one name.
    """
    arrays: Arrays = {}
    for text in files:
        name, _, file = text.rpartition("=") if not Path(text).is_file() else ("", "", text)
        for key, array in _read(Path(file), name).items():
            if key in arrays:
                raise CompileError(file, f"a second array is named {key!r}")
            arrays[key] = array
    return arrays


def _read(path: Path, name: str) -> Arrays:
    try:
        content: Any = np.load(path, allow_pickle=False)
        if isinstance(content, np.ndarray):
            return {name: content}
        with content:
            return {key: content[key] for key in content.files}
    except (FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise CompileError(str(path), "is no .npy or .npz file of plain arrays") from error


def name_arrays(arrays: Arrays, model: Model | TrainableModel) -> Arrays:
    """Give an array without a name the name of the model's only input that is left.

    Raises:
        CompileError: more than one input is left.
    """
    if "" not in arrays:
        return arrays
    left = [name for name in model.inputs if name not in arrays]
    if len(left) != 1:
        hint = f"inputs: {', '.join(model.inputs)}"
        raise CompileError("--input", "an .npy file needs a name: NAME=FILE", hint)
    return {name or left[0]: array for name, array in arrays.items()}


def write_arrays(arrays: Mapping[str, Array], path: Path) -> None:
    """Write `.npz`, or one array as `.npy`.

    Raises:
        CompileError: the file's suffix is another, or there is more than one array for `.npy`.
    """
    if path.suffix == ".npz":
        np.savez(path, **arrays)  # pyright: ignore[reportArgumentType]
    elif path.suffix == ".npy" and len(arrays) == 1:
        np.save(path, next(iter(arrays.values())))
    else:
        raise CompileError(str(path), f"{len(arrays)} outputs go into an .npz file")


def compute(model: Model | TrainableModel, given: Arrays, threads: int) -> Arrays:
    """The outputs for arrays that a user gave."""
    inputs = name_arrays(given, model)
    with Pool(threads) as pool:
        return model.run(inputs, pool=pool)


def print_arrays(arrays: Mapping[str, Array]) -> None:
    """A table of what the arrays hold."""

    def row(name: str, array: Array) -> list[object]:
        values = (array.min(), array.mean(), array.max()) if array.size else ("", "", "")
        numbers = [f"{value:.6g}" if value != "" else "" for value in values]
        return [name, array.dtype, shape_text(array.shape), *numbers]

    columns = ["output", "dtype", "shape", "min", "mean", "max"]
    print_table("", columns, [row(name, array) for name, array in arrays.items()])
