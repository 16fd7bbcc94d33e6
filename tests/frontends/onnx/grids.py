"""Operators with interacting attributes: all combinations at small sizes against ONNX Runtime.

    python -m tests.frontends.onnx.grids [PART OF A NAME ...] [--machine 50] [--sample 200]

Prints for each grid how many combinations were compared, refused by one or both sides, and
mismatched. Each is computed by the interpreter, one in `--machine` as machine code too, and with
open sizes where the model can be imported so.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from onnx import helper

from rnncc.errors import CompileError
from rnncc.frontends.onnx.errors import Unsupported
from rnncc.frontends.onnx.importer import import_model
from rnncc.ir.interpreter import run
from tests.frontends.onnx.exact_sums import exact_session
from tests.frontends.onnx.models import graph, node

Array = np.ndarray[Any, Any]
Turn = Callable[[Mapping[str, Array]], dict[str, Array]]


@dataclass(frozen=True)
class Case:
    """One node with its inputs.

    Attributes:
        inputs: name -> array; None for a missing one.
        fixed: the inputs that are constants.
        reference: the same computation in a form that ONNX Runtime has.
        turned: what brings outputs of the reference into the form of this node's.
    """

    op: str
    inputs: Mapping[str, Array | None]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    fixed: Sequence[str] = ()
    outputs: int = 1
    opset: int = 17
    reference: Case | None = None
    turned: Turn = dict

    def __str__(self) -> str:
        shapes = {
            name: None if a is None else a.tolist() if name in self.fixed else a.shape
            for name, a in self.inputs.items()
        }
        return f"{self.op} opset {self.opset} {dict(self.attributes)} {shapes}"

    @property
    def arrays(self) -> dict[str, Array]:
        """What the model is run on."""
        held = {name: a for name, a in self.inputs.items() if name not in self.fixed}
        return {name: a for name, a in held.items() if a is not None}

    def model(self, open_sizes: bool = False) -> Any:
        """The node as a model; with open sizes, equal sizes of inputs are one symbol."""
        names = " ".join("_" if a is None else name for name, a in self.inputs.items())
        outputs = [f"y{i}" for i in range(self.outputs)]
        made = node(self.op, names, " ".join(outputs), **self.attributes)
        infos = [_info(name, a, open_sizes) for name, a in self.arrays.items()]
        constants = {n: self.inputs[n] for n in self.fixed if self.inputs[n] is not None}
        outs = [helper.make_empty_tensor_value_info(name) for name in outputs]
        whole = graph([made], infos, outs, constants)
        imports = [helper.make_opsetid("", self.opset)]
        return helper.make_model(whole, opset_imports=imports, ir_version=8)


def _info(name: str, array: Array, open_sizes: bool) -> Any:
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    shape = [f"s{size}" if open_sizes and size else size for size in array.shape]
    return helper.make_tensor_value_info(name, kind, shape)


def expected(case: Case) -> dict[str, Array] | None:
    """The outputs by ONNX Runtime; None where it refuses the model."""
    if case.reference is not None:
        found = expected(case.reference)
        return None if found is None else case.turned(found)
    try:
        results = exact_session(case.model().SerializeToString()).run(None, case.arrays)
    except ModuleNotFoundError:
        raise
    except Exception:  # it has classes of its own for each code, and Fail for most
        return None
    return {f"y{i}": result for i, result in enumerate(results)}


def by_interpreter(case: Case, open_sizes: bool = False) -> dict[str, Array]:
    """The outputs by the interpreter."""
    return run(import_model(case.model(open_sizes)), case.arrays)


def by_machine_code(case: Case, open_sizes: bool = False) -> dict[str, Array]:
    """The outputs by compiled code."""
    import rnncc

    model: Any = rnncc.compile(case.model(open_sizes))
    return model.run(case.arrays)


def outcome(case: Case, machine: bool = False) -> tuple[str, str]:
    """What comes of one case, and why: compared, unsupported, invalid, ours alone or failed."""
    want = expected(case)
    kind, why = _against(want, case, by_interpreter, False)
    if kind == "compared":
        for compute in (by_interpreter, by_machine_code) if machine else (by_interpreter,):
            for open_sizes in {True, compute is by_interpreter}:
                found = _against(want, case, compute, open_sizes)
                if found[0] == "failed":
                    return "failed", f"{compute.__name__}, open sizes {open_sizes}: {found[1]}"
    return kind, why


def _against(
    want: Mapping[str, Array] | None, case: Case, compute: Callable[..., Any], open_sizes: bool
) -> tuple[str, str]:
    try:
        got = compute(case, open_sizes)
    except Unsupported as error:
        return "unsupported", error.what
    except (CompileError, ValueError) as error:
        if want is None or open_sizes:
            return "invalid", str(error)
        return "failed", f"refused: {error}"
    if want is None:
        return "ours alone", ""
    for name, array in want.items():
        why = _difference(np.asarray(got[name]), array)
        if why:
            return "failed", f"{name}: {why}"
    return "compared", ""


def _difference(got: Array, want: Array) -> str:
    """How two arrays differ; empty where they do not."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"
    close = np.isclose(got, want, 1e-4, 1e-5, equal_nan=True) if got.dtype.kind == "f" else None
    same = bool((got == want).all()) if close is None else bool(close.all())
    return "" if same else f"{got.reshape(-1)[:8]}, expected {want.reshape(-1)[:8]}"


@cache
def grids() -> dict[str, Callable[[], Iterator[Case]]]:
    """All grids by name."""
    from tests.frontends.onnx import grids_axes, grids_indexing, grids_recurrent, grids_spatial

    parts = (grids_spatial, grids_indexing, grids_axes, grids_recurrent)
    return {name: grid for part in parts for name, grid in part.GRIDS.items()}


def sample(name: str, count: int) -> list[Case]:
    """Some cases of a grid, always the same."""
    cases = list(grids()[name]())
    return random.Random(name).sample(cases, min(count, len(cases)))


def compare(cases: Iterable[Case], machine: int = 0) -> tuple[Counter[str], list[str]]:
    """Count outcomes; the failures in words.

    Args:
        machine: one in so many is compiled too; none with 0.
    """
    counts, failures = Counter[str](), list[str]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for index, case in enumerate(cases):
            kind, why = outcome(case, bool(machine) and index % machine == 0)
            counts[kind] += 1
            if kind == "failed":
                failures.append(f"{case}: {why}")
    return counts, failures


def main() -> int:
    """Print the counts of each grid; 1 if any combination fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of grids' names; all without")
    parser.add_argument("--machine", type=int, default=50, help="one in so many is compiled too")
    parser.add_argument("--sample", type=int, help="so many of each grid, not all")
    options = parser.parse_args()
    os.environ.setdefault("RNNCC_CACHE", "0")
    total = Counter[str]()
    for name, grid in grids().items():
        if options.names and not any(part in name for part in options.names):
            continue
        cases = list(grid()) if options.sample is None else sample(name, options.sample)
        counts, failures = compare(cases, options.machine)
        total += counts
        print(f"{name}: {_shown(counts)}", *failures[:10], sep="\n    ", flush=True)
    print(f"all: {_shown(total)}")
    return int(total["failed"] > 0)


def _shown(counts: Counter[str]) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items())) or "none"


def constants(case: Case, *names: str) -> Case:
    """The same with some inputs as constants."""
    return replace(case, fixed=names)


def floats(*shape: int, seed: int = 0) -> Array:
    """Numbers of a normal distribution."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def whole(*shape: int, seed: int = 0, dtype: Any = np.int64) -> Array:
    """Small integers, with equals among them."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def ints(*values: Any) -> Array:
    """A vector of int64."""
    return np.array(values, np.int64)


if __name__ == "__main__":
    sys.exit(main())
