"""`rnncc run` on a table in Parquet: a row is a sequence, a column an input; in batches.

Sequences of a batch are padded to the longest; the input that a user names as that of lengths gets
these. Outputs are cut to each row's length again.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rnncc_runtime import Model, Pool, TensorSpec, TrainableModel

from rnncc import arrays
from rnncc.arrays import Array, Arrays
from rnncc.commands.run.parquet import SUFFIX, Columns, Write, batches, cells, opened, table_writer
from rnncc.commands.tables import print_arrays, terminal_bar
from rnncc.errors import CompileError, Location
from rnncc.records import record
from rnncc.sizes import BATCH, TIME
from rnncc.sources import limit, too_large


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
    file = opened(how.path)
    total: int = file.metadata.num_rows
    names = _inputs_of(list(file.schema_arrow.names), model, how)
    kept = [name for name in file.schema_arrow.names if name not in names.values()]
    specs = {name: spec for name, spec in model.outputs.items() if BATCH in spec.shape}
    with _writer(out, specs) as write, Pool(how.threads) as pool, terminal_bar(total) as done:
        if not total:
            empty = file.schema_arrow.empty_table()
            write({name: [] for name in specs}, {name: empty.column(name) for name in kept})
        for table in batches(file, how.path, how.rows):
            columns = {
                name: cells(table.column(column), Location(str(how.path), f"column {column}"))
                for name, column in names.items()
            }
            inputs, lengths = batch_of(model.inputs, columns, how)
            outputs = rows_of(specs, model.run(inputs, pool=pool), lengths)
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
    for name, spec in specs.items():
        if BATCH not in spec.shape:
            continue
        rest = [size for size in spec.shape if size != BATCH]
        rows = list(np.moveaxis(outputs[name], spec.shape.index(BATCH), 0))
        if lengths and TIME in rest:
            rows = [
                np.take(row, range(length), rest.index(TIME))
                for row, length in zip(rows, lengths, strict=True)
            ]
        columns[name] = rows
    return columns


def typed(array: Array, spec: TensorSpec, where: str = "--input") -> Array:
    """In the type of an input; refuses what no such integer is, and what is too large."""
    with np.errstate(invalid="ignore", over="ignore"):
        converted = array.astype(spec.dtype)
    if spec.dtype.kind in "biu" and (converted != array).any():
        raise CompileError(where, f"{spec.name} is {spec.dtype}, and is given other numbers")
    if (np.isinf(converted) & np.isfinite(array)).any():
        raise CompileError(where, f"{spec.name} is {spec.dtype}, and is given larger numbers")
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
        longest = max((row.size for row in shaped), default=0)
        if len(shaped) * longest * spec.dtype.itemsize > limit():
            raise too_large(f"{path}: {spec.name} of {len(shaped)} rows of {most} steps", limit())
        shaped = [np.pad(row, _ahead(row, at, most)) for row in shaped]
    if len(shapes := {row.shape for row in shaped}) > 1:
        what = (
            f"{spec.name} has rows of shapes {', '.join(str(list(s)) for s in sorted(shapes)[:3])}"
        )
        raise CompileError(str(path), what, "--batch 1 computes each alone")
    stacked = typed(np.stack(shaped), spec, str(path))
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


def _check_constants(specs: Mapping[str, TensorSpec], how: Scoring) -> None:
    """Raise `CompileError` unless each is for an input, which nothing else fills."""
    for name in how.constants:
        if name not in specs:
            hint = f"inputs: {', '.join(specs)}"
            raise CompileError("--input", f"{name} is no input", hint)
        if name == how.lengths:
            raise CompileError("--lengths", f"{name} gets a number already, by --input")


def _inputs_of(names: Sequence[str], model: Model | TrainableModel, how: Scoring) -> dict[str, str]:
    """Input -> its column.

    Raises:
        CompileError: an input has none, or has no batch.
    """
    _check_lengths(model.inputs, how.lengths)
    _check_constants(model.inputs, how)
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
    if how.column and how.column not in columns:
        what = f"{how.column} is no input that a column could be"
        raise CompileError("--input", what, f"inputs: {', '.join(specs)}")
    for name in columns:
        if BATCH not in specs[name].shape:
            shown = ", ".join(map(str, specs[name].shape))
            what = f"input {name} [{shown}] has no batch N, which rows would be"
            raise CompileError(str(how.path), what, f"--shape {name}=T,N,...")
    return columns


@contextmanager
def _writer(out: Path | None, specs: Mapping[str, TensorSpec]) -> Generator[Write]:
    """Takes batches of rows, and writes them: a table as they come, arrays at the end."""
    if out is not None and out.suffix == SUFFIX:
        with table_writer(out, specs) as write:
            yield write
        return
    collected: Columns = {name: [] for name in specs}

    def keep(outputs: Columns, others: Mapping[str, Any]) -> None:
        for name, rows in outputs.items():
            collected[name].extend(rows)

    yield keep
    if out is None:
        flat = {
            n: [row.ravel() for row in rows or [_none(specs[n])]] for n, rows in collected.items()
        }
        print_arrays({name: np.concatenate(rows) for name, rows in flat.items()})
        return
    for name, rows in collected.items():
        if len({row.shape for row in rows}) > 1:
            what = f"{name} has rows of different shapes"
            raise CompileError(str(out), what, f"write them as a table: -o {out.stem}{SUFFIX}")
    stacked = {n: np.stack(rows) if rows else _none(specs[n]) for n, rows in collected.items()}
    arrays.write(stacked, out)


def _none(spec: TensorSpec) -> Array:
    """No rows, of which sizes that follow from rows are 0."""
    rest = [size for size in spec.shape if size != BATCH]
    return np.empty((0, *(size if isinstance(size, int) else 0 for size in rest)), spec.dtype)
