"""`rnncc run` on a table in Parquet: a row is a sequence, a column an input; in batches.

Sequences of a batch are padded to the longest; the input that a user names as that of lengths gets
these. Outputs are cut to each row's length again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from rnncc_runtime import Model, Pool, TensorSpec, TrainableModel

from rnncc import arrays
from rnncc.arrays import Array, Arrays
from rnncc.commands.tables import print_arrays, terminal_bar
from rnncc.errors import CompileError
from rnncc.records import record
from rnncc.sizes import BATCH, TIME
from rnncc.writing import writing

SUFFIX = ".parquet"
Columns = dict[str, list[Array]]
"""A name -> an array a row."""


@record
class Scoring:
    """How a table is computed.

    Attributes:
        path: the table.
        column: the input that its only column is, where they have different names.
        constants: input -> the number that all its elements are.
        rows: of a batch.
        threads: that compute one.
        lengths: the input that gets the number of steps of each row; may be empty.
    """

    path: Path
    column: str
    constants: Mapping[str, float]
    rows: int
    threads: int
    lengths: str = ""


def score(model: Model | TrainableModel, how: Scoring, out: Path | None) -> int:
    """Compute all rows, and write them where `out` says; the number of rows.

    Raises:
        CompileError: the table cannot be read, or does not fit the model; or pyarrow is missing.
        ModelError: as for `Model.run`.
    """
    parquet = _pyarrow(how.path)
    file = _opened(parquet, how.path)
    total: int = file.metadata.num_rows
    names = _inputs_of(list(file.schema_arrow.names), model, how)
    with _writer(out) as write, Pool(how.threads) as pool, terminal_bar(total) as done:
        for table in _batches(file, how):
            columns = {n: cells(table.column(column), column) for n, column in names.items()}
            inputs, lengths = batch_of(model.inputs, columns, how)
            outputs = rows_of(model.outputs, model.run(inputs, pool=pool), lengths)
            kept = [name for name in table.schema.names if name not in names.values()]
            write(outputs, {name: table.column(name) for name in kept})
            done(table.num_rows)
    return total


def batch_of(
    specs: Mapping[str, TensorSpec], columns: Columns, how: Scoring
) -> tuple[Arrays, list[int]]:
    """The inputs of a batch, and each row's steps; none where no input has time.

    Raises:
        CompileError: a row does not fit its input, or lengths differ where they may not.
    """
    inputs, lengths = dict[str, Array](), list[int]()
    for name, rows in columns.items():
        inputs[name], steps = _stacked(rows, specs[name], how.path)
        if lengths and steps and steps != lengths:
            raise CompileError(str(how.path), f"{name} has other lengths than its neighbours")
        lengths = steps or lengths
    sizes = {TIME: max(lengths, default=0), BATCH: len(next(iter(columns.values())))}
    for name, spec in specs.items():
        if name not in inputs and name in how.constants:
            shape = [size.evaluate(sizes) for size in spec.sizes]
            inputs[name] = np.full(shape, typed(np.array(how.constants[name]), spec))
        elif name == how.lengths:
            inputs[name] = np.asarray(lengths, spec.dtype)
    if len(set(lengths)) > 1 and not how.lengths:
        what = "its sequences have different lengths, and no input is named that gets them"
        raise CompileError(str(how.path), what, "--lengths INPUT, or --batch 1 for each alone")
    return inputs, lengths


def rows_of(
    specs: Mapping[str, TensorSpec], outputs: Mapping[str, Array], lengths: Sequence[int]
) -> Columns:
    """Each row's part of the outputs that have a batch, without its padding."""
    columns: Columns = {}
    for name, array in outputs.items():
        shape = specs[name].shape
        if BATCH not in shape:
            continue
        rest = [size for size in shape if size != BATCH]
        rows = list(np.moveaxis(array, shape.index(BATCH), 0))
        if lengths and TIME in rest:
            rows = [
                np.take(row, range(length), rest.index(TIME))
                for row, length in zip(rows, lengths, strict=True)
            ]
        columns[name] = rows
    return columns


def cells(column: Any, name: str) -> list[Array]:
    """An array a row: of numbers, lists, or lists of lists of equal lengths.

    Raises:
        CompileError: something else, or nothing.
    """
    _check_no_nulls(column, name)
    if not _is_list(column.type):
        return list(_numbers(column, name))
    counts = _lengths(column)
    return np.split(_dense(column.flatten(), name), np.cumsum(counts)[:-1])


def _dense(column: Any, name: str) -> Array:
    """The rows as one array."""
    _check_no_nulls(column, name)
    if not _is_list(column.type):
        return _numbers(column, name)
    widths = set(_lengths(column).tolist())
    if len(widths) > 1:
        what = f"column {name} has inner lists of {sorted(widths)[:3]} numbers"
        raise CompileError("--input", what)
    inner = _dense(column.flatten(), name)
    return inner.reshape(len(column), max(widths, default=0), *inner.shape[1:])


def _numbers(column: Any, name: str) -> Array:
    array = column.to_numpy(zero_copy_only=False)
    if array.dtype.kind not in "biuf":
        raise CompileError("--input", f"column {name}, of {column.type}, is none of numbers")
    return array


def _lengths(column: Any) -> Array:
    compute: Any = import_module("pyarrow.compute")
    return compute.list_value_length(column).to_numpy(zero_copy_only=False).astype(np.int64)


def _is_list(kind: Any) -> bool:
    types: Any = import_module("pyarrow.types")
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def _check_no_nulls(column: Any, name: str) -> None:
    if column.null_count:
        what = f"column {name}, of {column.type}, holds null, {column.null_count} times"
        raise CompileError("--input", what)


def typed(array: Array, spec: TensorSpec) -> Array:
    """In the type of an input; refuses what no integer can hold."""
    with np.errstate(invalid="ignore"):
        converted = array.astype(spec.dtype)
    if spec.dtype.kind in "biu" and (converted != array).any():
        raise CompileError("--input", f"{spec.name} is {spec.dtype}, and is given other numbers")
    return converted


def _stacked(rows: Sequence[Array], spec: TensorSpec, path: Path) -> tuple[Array, list[int]]:
    """Rows as one array with a batch, padded along time, and how many steps each has."""
    rest = [size for size in spec.shape if size != BATCH]
    shaped = [_shaped(row, rest, spec, path) for row in rows]
    lengths = list[int]()
    if TIME in rest:
        at = rest.index(TIME)
        lengths = [row.shape[at] for row in shaped]
        most = max(lengths, default=0)
        shaped = [np.pad(row, _ahead(row, at, most)) for row in shaped]
    stacked = typed(np.stack(shaped), spec)
    return np.ascontiguousarray(np.moveaxis(stacked, 0, spec.shape.index(BATCH))), lengths


def _ahead(row: Array, axis: int, most: int) -> list[tuple[int, int]]:
    return [(0, most - size if at == axis else 0) for at, size in enumerate(row.shape)]


def _shaped(row: Array, rest: Sequence[int | str], spec: TensorSpec, path: Path) -> Array:
    """A row in the input's shape without the batch; a flat list is cut at its width."""
    if row.ndim == 1 and len(rest) > 1 and all(isinstance(size, int) for size in rest[1:]):
        width = int(np.prod([size for size in rest[1:] if isinstance(size, int)]))
        if width and row.size % width == 0:
            row = row.reshape(-1, *(size for size in rest[1:] if isinstance(size, int)))
    static = [size for size in rest if isinstance(size, int)]
    fixed = [n for n, size in zip(row.shape, rest, strict=False) if isinstance(size, int)]
    if row.ndim != len(rest) or static != fixed:
        shown = ", ".join(map(str, rest))
        what = f"{spec.name} has a row of shape {list(row.shape)}, expected [{shown}]"
        raise CompileError(str(path), what, "a row is one sequence, without the batch")
    return row


def _check_lengths(specs: Mapping[str, TensorSpec], name: str) -> None:
    """Raise `CompileError` unless the named input is a number for each sequence."""
    spec = specs.get(name)
    if name and (spec is None or spec.dtype.kind not in "iu" or spec.shape != (BATCH,)):
        what = f"{name} is no input of integers [{BATCH}]"
        raise CompileError("--lengths", what, f"inputs: {', '.join(map(str, specs.values()))}")


def _batches(file: Any, how: Scoring) -> Iterator[Any]:
    try:
        yield from file.iter_batches(batch_size=how.rows)
    except (OSError, ValueError) as error:
        raise CompileError(str(how.path), f"is damaged: {str(error)[:100]}") from error


def _inputs_of(names: Sequence[str], model: Model | TrainableModel, how: Scoring) -> dict[str, str]:
    """Input -> its column.

    Raises:
        CompileError: an input has none, or has no batch.
    """
    _check_lengths(model.inputs, how.lengths)
    filled = {*how.constants, how.lengths}
    specs = {name: spec for name, spec in model.inputs.items() if name not in filled}
    columns = {name: name for name in specs if name in names}
    left = [name for name in specs if name not in columns]
    others = [name for name in names if name not in columns]
    if len(left) == len(others) == 1 and (how.column == left[0] or not columns):
        columns[left.pop()] = others[0]
    if left or not columns:
        fill = f"-i {(left or ['NAME'])[0]}=0 fills an input, --lengths names that of lengths"
        hint = f"columns: {', '.join(names)}; {fill}"
        raise CompileError(str(how.path), f"has no column for {', '.join(left)}", hint)
    for name in columns:
        if BATCH not in specs[name].shape:
            shown = ", ".join(map(str, specs[name].shape))
            what = f"input {name} [{shown}] has no batch N, which rows would be"
            raise CompileError(str(how.path), what, f"--shape {name}=T,N,...")
    return columns


@contextmanager
def _writer(out: Path | None) -> Generator[Callable[[Columns, Mapping[str, Any]], None]]:
    """Takes batches of rows, and writes them: a table as they come, arrays at the end."""
    if out is not None and out.suffix == SUFFIX:
        with _table(out) as write:
            yield write
        return
    collected: Columns = {}

    def keep(outputs: Columns, others: Mapping[str, Any]) -> None:
        for name, rows in outputs.items():
            collected.setdefault(name, []).extend(rows)

    yield keep
    if out is None:
        print_arrays(
            {name: np.concatenate([r.ravel() for r in rows]) for name, rows in collected.items()}
        )
        return
    for name, rows in collected.items():
        if len({row.shape for row in rows}) > 1:
            what = f"{name} has rows of different shapes"
            raise CompileError(str(out), what, f"write them as a table: -o {out.stem}{SUFFIX}")
    arrays.write({name: np.stack(rows) for name, rows in collected.items()}, out)


@contextmanager
def _table(out: Path) -> Generator[Callable[[Columns, Mapping[str, Any]], None]]:
    """Writes a table: columns that are no inputs, then the outputs."""
    pyarrow: Any = import_module("pyarrow")
    parquet: Any = import_module("pyarrow.parquet")
    with writing(out) as file:
        opened: list[Any] = []

        def write(outputs: Columns, others: Mapping[str, Any]) -> None:
            columns = {
                name: pyarrow.array([row.tolist() for row in rows], _type(pyarrow, rows[0]))
                for name, rows in outputs.items()
            }
            table = pyarrow.table({**others, **columns})
            if not opened:
                opened.append(parquet.ParquetWriter(file, table.schema))
            opened[0].write_table(table)

        yield write
        if opened:
            opened[0].close()


def _type(pyarrow: Any, row: Array) -> Any:
    """Lists in lists, as many as a row has axes."""
    kind = pyarrow.from_numpy_dtype(row.dtype)
    for _ in range(row.ndim):
        kind = pyarrow.list_(kind)
    return kind


def _pyarrow(path: Path) -> Any:
    try:
        return import_module("pyarrow.parquet")
    except ImportError as error:
        raise CompileError(str(path), "Parquet needs pyarrow", "pip install pyarrow") from error


def _opened(parquet: Any, path: Path) -> Any:
    try:
        return parquet.ParquetFile(path)
    except (OSError, ValueError) as error:  # ArrowInvalid is a ValueError
        if isinstance(error, OSError) and error.strerror:
            raise CompileError(str(path), error.strerror) from error
        raise CompileError(str(path), f"is no table in Parquet: {str(error)[:100]}") from error
