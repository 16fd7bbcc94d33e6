"""Tables in Parquet: columns as an array a row, and back."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from rnncc_runtime import TensorSpec

from rnncc.arrays import Array
from rnncc.errors import CompileError
from rnncc.sources import limit, too_large
from rnncc.writing import writing

SUFFIX = ".parquet"
Columns = dict[str, list[Array]]
"""A name -> an array a row."""
Write = Callable[[Columns, Mapping[str, Any]], None]
"""Takes outputs, and the columns of a table that are copied to them."""


def opened(path: Path) -> Any:
    """A table whose rows are not read yet.

    Raises:
        CompileError: it is no table in Parquet, or pyarrow is missing.
    """
    try:
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError as error:
        raise CompileError(str(path), "Parquet needs pyarrow", "pip install pyarrow") from error
    try:
        return parquet.ParquetFile(path)
    except (OSError, ValueError) as error:  # ArrowInvalid is a ValueError
        if isinstance(error, OSError) and error.strerror:
            raise CompileError(str(path), error.strerror) from error
        raise CompileError(str(path), f"is no table in Parquet: {str(error)[:100]}") from error


def batches(file: Any, path: Path, rows: int) -> Iterator[Any]:
    """A table, so many rows at a time.

    Raises:
        CompileError: it is damaged, or so many rows are more than the limit of `rnncc.sources`.
    """
    try:
        for table in file.iter_batches(batch_size=rows):
            if table.nbytes > limit():
                raise too_large(f"{path}: {table.num_rows} rows (--batch)", limit())
            yield table
    except (OSError, ValueError) as error:
        raise CompileError(str(path), f"is damaged: {str(error)[:100]}") from error


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


@contextmanager
def table_writer(out: Path, specs: Mapping[str, TensorSpec]) -> Generator[Write]:
    """Writes a table: columns that are no inputs, then the outputs, as they come.

    Raises:
        CompileError: such a column and an output have one name.
    """
    pyarrow: Any = import_module("pyarrow")
    parquet: Any = import_module("pyarrow.parquet")
    with writing(out) as file:
        writers: list[Any] = []

        def write(outputs: Columns, others: Mapping[str, Any]) -> None:
            if clashes := sorted(outputs.keys() & others.keys()):
                what = f"column {clashes[0]} has the name of an output"
                raise CompileError(str(out), what, "rename the column")
            columns = {
                name: pyarrow.array([row.tolist() for row in rows], _type(pyarrow, specs[name]))
                for name, rows in outputs.items()
            }
            table = pyarrow.table({**others, **columns})
            if not writers:
                writers.append(parquet.ParquetWriter(file, table.schema))
            writers[0].write_table(table)

        yield write
        for writer in writers:
            writer.close()


def _type(pyarrow: Any, spec: TensorSpec) -> Any:
    """Lists in lists, as many as a row has axes."""
    kind = pyarrow.from_numpy_dtype(spec.dtype)
    for _ in spec.shape[1:]:
        kind = pyarrow.list_(kind)
    return kind
