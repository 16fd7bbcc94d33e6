"""One ONNX model by rnncc and by ONNX Runtime: outputs, speed, time and memory of compiling."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import onnx
import onnxruntime

import rnncc

Arrays = dict[str, np.ndarray[Any, Any]]
ROUNDS, ROUND_SECONDS = 15, 0.02
SIZES = ((1, 6), (3, 9), (2, 17))
"""Of batches, and of other open sizes: one draw each."""
SCALES = (1, 8, 64, 1000)
"""What open sizes but batches are multiplied by where ONNX Runtime does not take the first."""
BATCHES = ("N", "batch", "batch_size", "bs", "BatchSize")
OPTIONS = ("shapes", "bind", "max_iterations")
"""Of `rnncc.compile` that may be told beside a model."""
RTOL = 1e-4
MOST_TOLD = 300
"""Characters of what ONNX Runtime says."""


@dataclass
class Compared:
    """What came out of one model.

    Attributes:
        state: equal, wrong, refused, or not run where ONNX Runtime does not take it.
        why: of what is not equal.
        error: the largest difference of floats, as a part of the largest element.
        ratios: ONNX Runtime's time over ours, for each draw of sizes.
        seconds: of compiling.
        megabytes: the most memory of the process, after compiling.
    """

    name: str
    state: str
    why: str = ""
    error: float = 0.0
    ratios: list[float] = field(default_factory=list[float])
    seconds: float = 0.0
    megabytes: int = 0


def compare(path: Path) -> Compared:
    """Compile a model and compare it at several sizes.

    `NAME.json` beside it may hold `integers` (input -> least and largest), `shapes` (as
    `rnncc.compile` takes them), `bind`, `max_iterations`, `draws` (in the place of `SIZES`),
    `sizes` (a list of symbol -> size), and `tolerance` (the largest difference, as a part of the
    largest element).
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        return Compared(path.stem, "not run", f"ONNX Runtime: {str(error)[:MOST_TOLD]}")
    told = told_beside(path)
    drawn = list(draws(session, told))
    if not drawn:
        return Compared(path.stem, "not run", "ONNX Runtime takes none of the sizes")
    begun = perf_counter()
    given = {name: told[name] for name in OPTIONS if name in told}
    try:
        model: Any = rnncc.compile(path, **given)
    except rnncc.CompileError as error:
        return Compared(path.stem, "refused", str(error).replace(str(path), ""))
    made = Compared(path.stem, "equal", seconds=perf_counter() - begun)
    made.megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    for inputs, expected in drawn:
        bound = {n: a for n, a in inputs.items() if n in model.inputs}
        try:
            most = told.get("tolerance", RTOL)
            made.error = max(made.error, _difference(model.run(bound), expected, most))
        except (AssertionError, ValueError, RuntimeError) as error:
            made.state, made.why = "wrong", f"{_sizes(inputs)}: {error}"
            return made
        made.ratios.append(_ratio(partial(model.run, bound), partial(session.run, None, inputs)))
    return made


def compare_into(pipe: Any, path: Path) -> None:
    """`compare` in a process of its own; what fails there is told."""
    try:
        pipe.send(compare(path))
    except Exception as error:
        pipe.send(Compared(path.stem, "wrong", f"{type(error).__name__}: {error}"))


def told_beside(path: Path) -> dict[str, Any]:
    """What `NAME.json` holds, if it is there."""
    beside = path.with_suffix(".json")
    return json.loads(beside.read_text()) if beside.exists() else {}


def draws(session: Any, told: Mapping[str, Any]) -> Iterator[tuple[Arrays, Arrays]]:
    """Inputs at several sizes, with what ONNX Runtime gives for them."""
    names = [output.name for output in session.get_outputs()]
    rng = np.random.default_rng(0)
    for batch, other in told.get("draws", SIZES):
        for scale in SCALES:
            sizes = _Sizes(batch, other * scale)
            inputs = {i.name: _array(i, sizes, told, rng) for i in session.get_inputs()}
            try:
                expected = session.run(None, inputs)
            except Exception:
                continue
            if not all(np.isfinite(y).all() for y in expected if y.dtype.kind == "f"):
                continue  # means of nothing: windows do not fit
            yield inputs, dict(zip(names, expected, strict=True))
            break
    for sizes in told.get("sizes", ()):
        inputs = {i.name: _array(i, sizes, told, rng) for i in session.get_inputs()}
        yield inputs, dict(zip(names, session.run(None, inputs), strict=True))


class _Sizes(dict[str, int]):
    """One size for batches, one for all others."""

    def __init__(self, batch: int, other: int) -> None:
        super().__init__()
        self._batch, self._other = batch, other

    def __missing__(self, name: str) -> int:
        return self._batch if name in BATCHES else self._other


def _array(
    info: Any, sizes: Mapping[str, int], told: Mapping[str, Any], rng: np.random.Generator
) -> np.ndarray[Any, Any]:
    declared = told.get("shapes", {}).get(info.name) or info.shape
    # an axis without a name is the batch in front, and else another size
    shape = [
        size if isinstance(size, int) else sizes[size or ("N" if at == 0 else "")]
        for at, size in enumerate(declared)
    ]
    if info.name in told.get("bind", {}):
        return np.array(told["bind"][info.name], _dtype(info.type))
    dtype = _dtype(info.type)
    if dtype.kind == "f":
        return np.asarray(rng.standard_normal(shape), dtype)
    if dtype.kind == "b":
        return np.asarray(rng.integers(0, 2, shape), dtype)
    limits = told.get("integers", {}).get(info.name, (1, 3))
    least, largest = (sizes[limit] if isinstance(limit, str) else limit for limit in limits)
    return np.asarray(rng.integers(least, largest + 1, shape), dtype)


def _dtype(kind: str) -> np.dtype[Any]:
    """The NumPy type of `tensor(float)`."""
    name = kind.removeprefix("tensor(").removesuffix(")").upper()
    return onnx.helper.tensor_dtype_to_np_dtype(getattr(onnx.TensorProto, name))


def _difference(made: Mapping[str, Any], expected: Arrays, most: float) -> float:
    worst = 0.0
    for name, right in expected.items():
        ours = made[name]
        assert ours.shape == right.shape, f"{name} has shape {ours.shape}, not {right.shape}"
        assert ours.dtype == right.dtype, f"{name} is of {ours.dtype}, not {right.dtype}"
        if right.dtype.kind != "f":
            assert np.array_equal(ours, right), f"{name} differs"
            continue
        assert np.array_equal(np.isnan(ours), np.isnan(right)), f"{name} has other NaNs"
        scale = float(np.max(np.abs(right), initial=1e-3, where=np.isfinite(right)))
        apart = float(np.nanmax(np.abs(ours - right), initial=0)) / scale
        assert apart < most, f"{name} differs by {apart:.2g} of its scale"
        worst = max(worst, apart)
    return worst


def _ratio(ours: Callable[[], Any], theirs: Callable[[], Any]) -> float:
    """Their time over ours: medians of rounds in turn."""
    begun = perf_counter()
    ours()
    theirs()
    calls = max(1, int(ROUND_SECONDS / (perf_counter() - begun)))
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for function, kept in zip((ours, theirs), times, strict=True):
            begun = perf_counter()
            for _ in range(calls):
                function()
            kept.append(perf_counter() - begun)
    return float(np.median(times[1]) / np.median(times[0]))


def _sizes(inputs: Arrays) -> str:
    return ", ".join(f"{name}{list(a.shape)}" for name, a in inputs.items())
