"""Tables in Parquet: columns as an array a row, and back."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from rnncc_runtime import TensorSpec

from rnncc.arrays import Array
from rnncc.errors import CompileError, Location
from rnncc.sources import limit, too_large
from rnncc.writing import writing

SUFFIX = ".parquet"
_WIDTHS = {"FLOAT": 4, "DOUBLE": 8, "INT32": 4, "INT64": 8}
"""Bytes of an element, by Parquet's names of types."""
_DECODING = 4
"""Address space that decoding takes, in bytes of the batch: measured 3 to 4, as buffers double."""
Columns = dict[str, list[Array]]
"""A name -> an array a row."""
Write = Callable[[Columns, Mapping[str, Any]], None]
"""Takes outputs, and the columns of a table that are copied to them."""


def opened(path: Path) -> Any:
    """A table whose rows are not read yet.

    Raises:
        CompileError: it is no table in Parquet, two columns have one name, or pyarrow is missing.
    """
    try:
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError as error:
        hint = "pip install 'rnncc[parquet]'"
        raise CompileError(str(path), "Parquet needs pyarrow", hint) from error
    try:
        file = parquet.ParquetFile(path, pre_buffer=False)
        names: list[str] = file.schema_arrow.names
    except (OSError, ValueError) as error:  # ArrowInvalid is a ValueError
        if isinstance(error, OSError) and error.strerror:
            raise CompileError(str(path), error.strerror) from error
        raise CompileError(str(path), f"is no table in Parquet: {str(error)[:100]}") from error
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise CompileError(str(path), f"has two columns named {twice}")
    return file


def batches(file: Any, path: Path, rows: int) -> Iterator[Any]:
    """A table, so many rows at a time.

    Raises:
        CompileError: it is damaged, or so many rows are more than the limit of `rnncc.sources`.
    """
    _check_size(file, path, rows)
    guarded = _has_large_groups(file)
    # The bound would keep threads from starting, which take address space for their stacks.
    tables = file.iter_batches(batch_size=rows, use_threads=not guarded)
    try:
        while True:
            with _bounded_memory(path, rows) if guarded else nullcontext():
                table = next(tables, None)
            if table is None:
                return
            if table.nbytes > limit():
                raise _too_large(path, table.num_rows)
            yield table
    except (OSError, ValueError) as error:
        raise CompileError(str(path), f"is damaged: {str(error)[:100]}") from error


@contextmanager
def _bounded_memory(path: Path, rows: int) -> Generator[None]:
    """Lets a batch of `rows` rows be decoded if it is within the limit.

    A single row may hold nearly all elements of its group, and pyarrow tells its size only
    afterwards. So the address space may grow by what decoding takes and no more; on Linux, where
    the system counts it. Whoever has set a lower bound keeps it.

    Raises:
        CompileError: the batch is larger.
    """
    try:
        resource: Any = import_module("resource")
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError):
        yield
        return
    most = pages * resource.getpagesize() + _DECODING * limit()
    before = resource.getrlimit(resource.RLIMIT_AS)
    if any(bound != resource.RLIM_INFINITY and bound <= most for bound in before):
        yield
        return
    resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    try:
        yield
    except MemoryError as error:
        raise _too_large(path, rows) from error
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def _has_large_groups(file: Any) -> bool:
    """Whether one batch could exceed the limit, however its group's elements are distributed."""
    groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
    return any(_content(group) > limit() for group in groups)


def _content(group: Any) -> int:
    """The bytes of a group's numbers when they are decoded."""
    columns = map(group.column, range(group.num_columns))
    return sum(c.num_values * _WIDTHS.get(c.physical_type, 0) for c in columns)


def _check_size(file: Any, path: Path, rows: int) -> None:
    """Raise `CompileError` where batches are too large on average, before one is decoded.

    A few bytes of a file may stand for gigabytes.
    """
    for i in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(i)
        batch = min(rows, group.num_rows)
        if batch and _content(group) * batch // group.num_rows > limit():
            raise _too_large(path, batch)


def _too_large(path: Path, rows: int) -> CompileError:
    return too_large(f"{path}: {rows} rows (--batch)", limit())


def cells(column: Any, location: Location) -> list[Array]:
    """An array a row: of numbers, lists, or lists of lists of equal lengths.

    Args:
        location: of the column, for errors.

    Raises:
        CompileError: something else, or nothing.
    """
    _check_no_nulls(column, location)
    if not _is_list(column.type):
        return list(_numbers(column, location))
    counts = _lengths(column)
    return np.split(_dense(column.flatten(), location), np.cumsum(counts)[:-1])


def _dense(column: Any, location: Location) -> Array:
    """The rows as one array."""
    _check_no_nulls(column, location)
    if not _is_list(column.type):
        return _numbers(column, location)
    widths = set(_lengths(column).tolist())
    if len(widths) > 1:
        raise CompileError(location, f"has inner lists of {sorted(widths)[:3]} numbers")
    inner = _dense(column.flatten(), location)
    return inner.reshape(len(column), max(widths, default=0), *inner.shape[1:])


def _numbers(column: Any, location: Location) -> Array:
    array = column.to_numpy(zero_copy_only=False)
    if array.dtype.kind not in "biuf":
        raise CompileError(location, f"is of {column.type}, expected numbers")
    return array


def _lengths(column: Any) -> Array:
    compute: Any = import_module("pyarrow.compute")
    return compute.list_value_length(column).to_numpy(zero_copy_only=False).astype(np.int64)


def _is_list(kind: Any) -> bool:
    types: Any = import_module("pyarrow.types")
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def _check_no_nulls(column: Any, location: Location) -> None:
    if column.null_count:
        raise CompileError(location, f"holds null, {column.null_count} times")


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
    kind = pyarrow.string() if spec.is_text else pyarrow.from_numpy_dtype(spec.dtype)
    for _ in spec.shape[1:]:
        kind = pyarrow.list_(kind)
    return kind
