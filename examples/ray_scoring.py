# pyright: reportMissingImports=false
"""Scores a table of sequences with Ray Data: Parquet in, Parquet out, on all cores there are.

python examples/ray_scoring.py build/libreader.so sequences.parquet scores --input x --output y

A row is a sequence, a column of lists of numbers (flat, or a list a step) its input. Ray reads the
files, hands batches to workers, shows the progress and writes what they give. Each worker gets the
library once, as bytes, and needs rnncc_runtime and NumPy: neither the compiler nor a shared disk.
With `ray.init(address="auto")`, or RAY_ADDRESS, the workers are those of a cluster.
It needs Ray and pyarrow: pip install 'rnncc[ray]'.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import ray
import rnncc_runtime


class Scorer:
    """A worker: a library of a causal net, and the names of its input and output, [T, N, ...]."""

    def __init__(self, library: bytes, name: str, input: str, output: str, lengths: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_bytes(library)
            self.model = rnncc_runtime.load(path)
        self.input, self.output, self.lengths = input, output, lengths
        self.width = [int(size) for size in self.model.inputs[input].shape[2:]]

    def __call__(self, batch: pa.Table) -> pa.Table:
        """The table with the output in the place of the input."""
        rows = [self._sequence(row) for row in batch.column(self.input)]
        lengths = np.array([len(row) for row in rows], np.int32)
        x = np.zeros((int(lengths.max(initial=0)), len(rows), *self.width), np.float32)
        for number, row in enumerate(rows):
            x[: len(row), number] = row
        inputs = {self.input: x, **({self.lengths: lengths} if self.lengths else {})}
        y = self.model.run(inputs)[self.output]
        scores = _lists([y[:length, i] for i, length in enumerate(lengths)])
        return batch.drop_columns([self.input]).append_column(self.output, scores)

    def _sequence(self, row: pa.Scalar) -> np.ndarray[Any, Any]:
        """A row of the table as [T, ...]."""
        values = row.values
        while pa.types.is_nested(values.type):
            values = values.flatten()
        return values.to_numpy(zero_copy_only=False).reshape(-1, *self.width)


def _lists(rows: Sequence[np.ndarray[Any, Any]]) -> pa.Array:
    """A column of lists of equal lists."""
    steps = np.concatenate(rows)
    values = pa.array(steps.ravel())
    for size in reversed(steps.shape[1:]):
        values = pa.FixedSizeListArray.from_arrays(values, size)
    ends = np.cumsum([0, *map(len, rows)])
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), values)


def score(options: argparse.Namespace) -> int:
    """Score the table; the number of rows."""
    workers = options.workers or int(ray.cluster_resources()["CPU"])
    library = Path(options.library)
    names = options.input, options.output, options.lengths
    table = ray.data.read_parquet(options.table)
    pieces = table.repartition(target_num_rows_per_block=4 * options.batch)
    scores = pieces.map_batches(
        Scorer,
        fn_constructor_args=(library.read_bytes(), library.name, *names),
        batch_size=options.batch,
        batch_format="pyarrow",
        zero_copy_batch=True,
        compute=ray.data.ActorPoolStrategy(size=workers),
        num_cpus=0.5,  # reading and writing want some too
    )
    scores.write_parquet(options.scores)
    return table.count()


def main(words: Sequence[str] | None = None) -> None:
    """Score a table, and say how long it took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    for name in ("library", "table", "scores"):
        parser.add_argument(name)
    for name, value in (("input", "x"), ("output", "y"), ("lengths", "")):
        parser.add_argument(f"--{name}", default=value, help=f"its name in the net: {value}")
    parser.add_argument("--batch", type=int, default=256, help="rows of a batch")
    parser.add_argument("--workers", type=int, default=0, help="0: one for each core")
    options = parser.parse_args(words)
    ray.init(ignore_reinit_error=True)
    begun = time.perf_counter()
    rows = score(options)
    print(f"{rows} rows in {time.perf_counter() - begun:.1f} s")


if __name__ == "__main__":
    main()
