"""What `rnncc run` needs: arrays from files and back."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rnncc_runtime import Model, Pool, TensorSpec, TrainableModel

from rnncc import arrays
from rnncc.arrays import Array, Arrays
from rnncc.commands.run.parquet import SUFFIX
from rnncc.commands.run.scoring import Scoring, typed
from rnncc.errors import CompileError
from rnncc.sizes import BATCH
from rnncc.sources import read_bytes
from rnncc.stages.threads import beside

CSV = ".csv"
ROWS = 256
"""Of a table, that are computed together."""


def scoring_of(
    inputs: Sequence[str], rows: int | None, threads: int, lengths: str = ""
) -> Scoring | None:
    """How a table among the inputs is computed; None where there is none.

    Args:
        rows: of a batch; None is `ROWS`.

    Raises:
        CompileError: another input is neither a table's nor a number, or has two; or `rows` and
            `lengths` are chosen without a table.
    """
    parted = [text.rpartition("=") for text in inputs]
    tables = [(name, Path(rest)) for name, _, rest in parted if rest.endswith(SUFFIX)]
    if not tables:
        for option, value in (("--lengths", lengths), ("--batch", rows)):
            if value:
                raise CompileError(option, "goes with a table", f"-i FILE{SUFFIX}")
        return None
    constants = dict[str, float]()
    for text, (name, _, rest) in zip(inputs, parted, strict=True):
        if rest.endswith(SUFFIX):
            continue
        number = _number(rest)
        if number is None:
            what = "beside a table an input is a number, for all rows: NAME=0"
            raise CompileError("--input", f"{text!r}: {what}")
        if name in constants:
            raise CompileError("--input", f"{text!r}: {name} has a number already")
        constants[name] = number
    if len(tables) > 1:
        raise CompileError("--input", "there is more than one table")
    ((column, path),) = tables
    return Scoring(path, column, constants, rows or ROWS, threads, lengths)


def read_arrays(files: Sequence[str]) -> Arrays:
    """Arrays by name from `x.npz`, `NAME=x.npy`, `NAME=x.csv`, or without a name, which is empty.

    `NAME=0`, where no file is called so, is a number that `fitted` fills the input with.

    Raises:
        CompileError: a file is no such thing, or two arrays have one name.
    """
    arrays_by_name: Arrays = {}
    for text in files:
        name, _, file = text.rpartition("=") if not _exists(text) else ("", "", text)
        if not file:
            raise CompileError("--input", f"{text!r} names no file")
        content = _read(Path(file), name)
        if isinstance(content, np.ndarray):
            content = {name: content}
        elif name:
            what = f"{text!r}: its arrays have names of their own"
            raise CompileError("--input", what, f"give it without {name}=")
        for key, array in content.items():
            if key in arrays_by_name:
                raise CompileError(text, f"a second array is named {key!r}")
            arrays_by_name[key] = array
    return arrays_by_name


def _read(path: Path, name: str) -> Array | Arrays:
    if path.suffix == CSV:
        return read_csv(path)
    if name and not _exists(str(path)) and (number := _number(str(path))) is not None:
        return np.array(number).view(_Table)
    return arrays.read(path)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def read_csv(path: Path) -> Array:
    """The numbers of a file with commas: float64 [rows, columns]; a first line may name columns.

    Raises:
        CompileError: it cannot be read, or is no such file.
    """
    try:
        lines = read_bytes(path).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise CompileError(str(path), "is no text in UTF-8") from error
    rows = list[list[float]]()
    for number, line in enumerate(lines, 1):
        try:
            values = [float(word) for word in line.split(",")] if line.strip() else []
        except ValueError:
            if number == 1:
                continue
            what = f"line {number} is not of numbers with commas between them"
            raise CompileError(str(path), what) from None
        if values and rows and len(values) != len(rows[0]):
            what = f"line {number} has {len(values)} numbers, those before {len(rows[0])}"
            raise CompileError(str(path), what)
        rows += [values] if values else []
    if not rows:
        raise CompileError(str(path), "holds no numbers")
    return np.array(rows).view(_Table)


class _Table(np.ndarray[Any, Any]):
    """Numbers of a text, which have no dtype and at most two axes; one without axes is for all."""


def fitted(arrays: Arrays, model: Model | TrainableModel) -> Arrays:
    """Tables of text in the dtypes of their inputs, and as batches of one where these have one.

    Raises:
        CompileError: a number is for an input of integers and is none, or of unknown size.
    """
    converted = dict(arrays)
    texts = {n: x for n, x in arrays.items() if isinstance(x, _Table) and n in model.inputs}
    converted.update({n: _fit(x, model.inputs[n]) for n, x in texts.items() if x.ndim})
    sizes: dict[int | str, int] = {BATCH: 1} if any(x.ndim for x in texts.values()) else {}
    for name in converted.keys() & model.inputs.keys() - {
        n for n, x in texts.items() if not x.ndim
    }:
        sizes.update(zip(model.inputs[name].shape, np.shape(converted[name]), strict=False))
    absent = [n for n, s in model.inputs.items() if n not in arrays and not s.optional]
    return converted | {
        n: _filled(x, model.inputs[n], sizes, absent) for n, x in texts.items() if not x.ndim
    }


def _filled(
    number: Array, spec: TensorSpec, sizes: Mapping[int | str, int], absent: Sequence[str]
) -> Array:
    """An input whose elements all are one number.

    Args:
        absent: the inputs that are missing, which may tell its sizes.
    """
    if open_sizes := [d for d in spec.shape if isinstance(d, str) and d not in sizes]:
        what = f"no other input tells the size {open_sizes[0]}"
        hint = f"missing: {', '.join(absent)}" if absent else f"{spec.name}=FILE.npy"
        raise CompileError(f"--input {spec.name}={number}", what, hint)
    shape = [d if isinstance(d, int) else sizes[d] for d in spec.shape]
    return np.full(shape, typed(np.asarray(number), spec))


def _fit(table: Array, spec: TensorSpec) -> Array:
    array = typed(np.asarray(table), spec)
    if array.ndim == len(spec.shape) - 1 and BATCH in spec.shape:
        array = np.expand_dims(array, spec.shape.index(BATCH))
    return array[:, 0] if len(spec.shape) == 1 and array.shape[1] == 1 else array


def _exists(text: str) -> bool:
    return os.path.exists(text)  # noqa: PTH110, which raises for no text


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


def compute(model: Model | TrainableModel, arrays: Arrays, threads: int) -> Arrays:
    """The outputs for arrays that a user gave."""
    inputs = fitted(name_arrays(arrays, model), model)
    if "device" in model.metadata:
        if threads > 1:
            raise CompileError("--threads", "a GPU has threads of its own", "leave it out")
        return model.run(inputs)

    def work() -> Arrays:
        with Pool(threads) as pool:
            return model.run(inputs, pool=pool)

    return beside(work)()  # Ctrl-C ends the command in the midst of a call of the library
