"""What results are compared with: the interpreter, for many calls at once, and ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property, partial
from typing import Any
from unittest import mock

import numpy as np

from rnncc.ir import interpreter
from rnncc.ir.attributes import get_ints
from rnncc.ir.interpreter import run
from rnncc.ir.ops.base import RnnOp
from rnncc.ir.ops.control import Scan
from rnncc.ir.ops.elementwise import Maximum, Minimum, Mul
from rnncc.ir.ops.functions import Exp, Sigmoid
from rnncc.ir.ops.linear import Matmul, Reduce
from rnncc.ir.program import Program
from rnncc.ir.types import FLOATS, dtype_of
from rnncc.passes.instances import instances
from tests.frontends.onnx.exact_sums import exact_session
from tests.fuzz.cases import Case
from tests.golden import Arrays

SMALL, LARGE = 1e-18, 1e3
"""Of other inputs rounding decides, in other places here than there: that mean + (x - mean) is x,
or that a square is not 0. They are compared with the interpreter alone."""
PERTURBATIONS = 8
NOISE = 5e-7
"""Relative: some units in float32's last place."""
MOST_ALLOWED = 0.02
"""Of an output's largest element; where rounding may change more, nothing is compared."""
MANY = "the_calls"
"""The symbol for their number."""
_LEAST: dict[type, float] = {Exp: float(np.finfo(np.float32).tiny), Sigmoid: 2.0**-24}
"""Results below which other code has zeros: ours of denormals (math.md), ONNX Runtime's sigmoid
below -18."""
Real = type[np.floating[Any]]


class UndecidedError(Exception):
    """An index lies outside of its axis: in what no output needs, which is not computed, or where
    rounding has moved it."""


class Interpreted:
    """A program for many calls at once: arrays have one more axis in front, that of the calls.

    One call is computed by the program as it is, several by `instances` of it.
    """

    def __init__(self, program: Program) -> None:
        self.program = replace(program, counts={})  # with the rows that do not count

    @cached_property
    def _many(self) -> Program:
        return instances(self.program, list(self.program.net.inputs), MANY)

    def run(self, inputs: Arrays, sizes: Mapping[str, int], calls: int, real: Real) -> Arrays:
        """The outputs of calls with inputs of the same sizes; raises `UndecidedError`."""
        many = calls > 1 and bool(self.program.net.inputs)
        given = inputs if many else {name: array[0] for name, array in inputs.items()}
        try:
            with np.errstate(all="ignore"):
                if many:
                    return run(self._many, given, real, {**sizes, MANY: calls})
                alone = run(self.program, given, real, sizes)
        except ValueError as error:
            if "an index outside" in str(error):
                raise UndecidedError from error
            raise
        return {name: np.repeat(array[None], calls, 0) for name, array in alone.items()}

    def sensitivity(
        self, inputs: Arrays, sizes: Mapping[str, int], calls: int
    ) -> tuple[Arrays, Arrays, np.ndarray[Any, Any]]:
        """The outputs in float64, by how much float32 may miss each element, and which calls count.

        What it may miss is what rounding the inputs and all results on the way does, and computing
        in float32, with fused multiply-adds or without, sums and products in any order, with small
        powers of e or zeros in their place, and with either of two zeros, does. Calls in which
        rounding decides about whole numbers, NaN or overflow do not count: nothing can be said.
        """
        exact = self.run(inputs, sizes, calls, np.float64)
        others = [self.run(inputs, sizes, calls, np.float32)]
        with mock.patch.object(Matmul, "evaluate", _unfused(Matmul.evaluate)):
            others.append(self.run(inputs, sizes, calls, np.float32))
        with mock.patch.object(Reduce, "evaluate", _one_by_one(Reduce.evaluate)):
            others.append(self.run(inputs, sizes, calls, np.float32))
        with mock.patch.object(interpreter, "_run_scan", _large_first(interpreter._run_scan)):
            others.append(self.run(inputs, sizes, calls, np.float32))
        with ExitStack() as stack:
            for kind, least in _LEAST.items():
                evaluate = _passing(kind.evaluate, partial(_flushed, least=least))
                stack.enter_context(mock.patch.object(kind, "evaluate", evaluate))
            others.append(self.run(inputs, sizes, calls, np.float32))
        with ExitStack() as stack:
            for kind in (Maximum, Minimum, Reduce):
                evaluate = _with_other_zeros(kind.evaluate)
                stack.enter_context(mock.patch.object(kind, "evaluate", evaluate))
            others.append(self.run(inputs, sizes, calls, np.float64))
        with self._watched(_snapped):
            others.append(self.run(inputs, sizes, calls, np.float64))
        rng = np.random.default_rng(0)
        for _ in range(PERTURBATIONS):
            moved = {name: perturbed(rng, array) for name, array in inputs.items()}
            with self._watched(lambda result: _rounded(rng, result)):
                others.append(self.run(moved, sizes, calls, np.float64))
        allowed, stable = Arrays(), np.ones(calls, bool)
        for name, array in exact.items():
            rows = [np.asarray(other[name]) for other in others]
            if array.dtype.kind != "f":
                stable &= ~any_of(np.any([row != array for row in rows], axis=0))
                allowed[name] = np.zeros(array.shape)
                continue
            changed = [np.isfinite(row) != np.isfinite(array) for row in rows]
            changed += [np.isinf(array) & (row != array) for row in rows]
            changed += [np.isnan(row) != np.isnan(array) for row in rows]
            stable &= ~any_of(np.any(changed, axis=0))
            with np.errstate(all="ignore"):
                spread = np.max([np.abs(row - array) for row in rows], axis=0, initial=0)
            allowed[name] = 50 * np.nan_to_num(spread, posinf=0)
            stable &= largest(allowed[name]) <= MOST_ALLOWED * (largest(array) + 1e-6)
        return exact, allowed, stable

    def is_invalid(self, inputs: Arrays, sizes: Mapping[str, int]) -> bool:
        """Whether one call has a NaN or an infinity on its way, even if no output shows it."""
        seen = list[bool]()

        def look(result: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
            seen.append(result.dtype.kind == "f" and not np.isfinite(result).all())
            return result

        with self._watched(look):
            self.run(inputs, sizes, 1, np.float32)
        return any(seen)

    @contextmanager
    def _watched(self, look: Callable[[Any], Any]) -> Generator[None]:
        """Let all results of ops pass through a function."""
        ops = [*self.program.module.walk(), *self._many.module.walk()]
        with ExitStack() as stack:
            for kind in {type(op) for op in ops if isinstance(op, RnnOp)}:
                if "evaluate" in dir(kind):
                    evaluate = _passing(kind.evaluate, look)
                    stack.enter_context(mock.patch.object(kind, "evaluate", evaluate))
            yield


def _unfused(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    """Products of matrices whose infinities are those of any order without fused multiply-adds.

    A product beyond float32 is infinite where it is rounded before it is added, so that it makes
    NaN of an infinity of the other sign; fused, or in float64, it is a finite number.
    """

    def made(op: Matmul, context: Any, *arrays: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        y = evaluate(op, context, *arrays)
        a, b = arrays
        if y.dtype.kind != "f" or _is_bounded(a, b):
            return y
        a = np.swapaxes(a, -1, -2) if op.transpose_a else a
        b = np.swapaxes(b, -1, -2) if op.transpose_b else b
        above, below = np.zeros_like(y), np.zeros_like(y)
        for k in range(a.shape[-1]):
            term = a[..., :, k, None] * b[..., None, k, :]
            above, below = above + np.maximum(term, 0), below + np.minimum(term, 0)
        return np.where(np.isfinite(above) & np.isfinite(below), y, above + below)

    return made


def _one_by_one(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    """Sums of the terms above zero, and of those below, each in order.

    Of what cancels, or drifts as many equal terms are rounded in one direction, no order of adding
    them sees more.
    """

    def made(op: Reduce, context: Any, *arrays: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        y = evaluate(op, context, *arrays)
        if op.kind.data != "sum" or y.dtype.kind != "f" or not arrays[0].size:
            return y
        axes = get_ints(op.axes)
        terms = np.moveaxis(arrays[0], axes, range(len(axes))).reshape(-1, *y.shape)
        above, below = (np.add.accumulate(f(terms, 0)) for f in (np.maximum, np.minimum))
        return np.asarray(above[-1] + below[-1], y.dtype)

    return made


def _with_other_zeros(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    """Extrema with a zero of the other sign where there is one of each: which it is, is open."""

    def made(op: Any, context: Any, *arrays: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        y = evaluate(op, context, *arrays)
        if y.dtype.kind != "f" or (isinstance(op, Reduce) and op.kind.data == "sum"):
            return y
        if not arrays[0].size:
            return y
        terms = np.stack(np.broadcast_arrays(*arrays))
        if isinstance(op, Reduce):
            axes = get_ints(op.axes)
            terms = np.moveaxis(arrays[0], axes, range(len(axes))).reshape(-1, *y.shape)
        zero, below = terms == 0, np.signbit(terms)
        is_open = (zero & below).any(axis=0) & (zero & ~below).any(axis=0) & (y == 0)
        return np.where(is_open, -y, y)

    return made


def _large_first(run_scan: Callable[..., Any]) -> Callable[..., Any]:
    """Products over the rows of loops: of the factors beyond 1 times that of the others.

    Of factors that overflow together while the others underflow, NaN, which some order makes.
    """

    def made(context: Any, params: Any, op: Scan, consts: Any, carry: Any, xs: Any) -> Any:
        pairs = _products(op)
        if pairs is None:
            return run_scan(context, params, op, consts, carry, xs)
        finals = [np.asarray(init) for init in carry]
        for i, x in pairs:
            beyond = np.abs(xs[x]) > 1
            large, small = (np.where(beyond == kept, xs[x], 1) for kept in (True, False))
            product = np.multiply.reduce(large) * np.multiply.reduce(small)
            finals[i] = np.asarray(finals[i] * product, finals[i].dtype)
        return finals

    return made


def _products(op: Scan) -> list[tuple[int, int]] | None:
    """The numbers of the floats that a loop carries and of the rows that it multiplies them by;
    None if it does anything else."""
    _, carry, rows = op.groups
    pairs = list[tuple[int, int]]()
    for i, value in enumerate(op.yields[0]):
        factors = list(value.owner.operands) if isinstance(value.owner, Mul) else []
        if carry[i] not in factors or dtype_of(value) not in FLOATS:
            return None
        factors.remove(carry[i])
        if factors[0] not in rows:
            return None
        pairs.append((i, rows.index(factors[0])))
    return None if op.ys or op.gate is not None else pairs


def _flushed(array: np.ndarray[Any, Any], least: float) -> np.ndarray[Any, Any]:
    """Zeros for what is smaller; times infinity NaN."""
    return np.where(np.abs(array) < least, array * 0, array)


def _is_bounded(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Whether no sum of products of two arrays' elements overflows float32."""
    most = [np.abs(array.astype(np.float64)).max(initial=0) for array in (a, b)]
    return bool(most[0] * most[1] * max(a.shape) < np.finfo(np.float32).max)


def any_of(flags: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Of each call, whether one of its elements is true."""
    return np.asarray(flags.reshape(len(flags), -1).any(axis=1))


def largest(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Of each call, the largest of its finite elements."""
    finite = np.where(np.isfinite(array), np.abs(array), 0.0)
    return np.asarray(finite.reshape(len(array), -1).max(axis=1, initial=0))


def stacked(calls: Sequence[Arrays]) -> Arrays:
    """The arrays of several calls, with one more axis in front."""
    return {name: np.stack([arrays[name] for arrays in calls]) for name in calls[0]}


def of_calls(arrays: Arrays, places: Sequence[int] | np.ndarray[Any, Any]) -> Arrays:
    """Those of some calls."""
    return {name: array[places] for name, array in arrays.items()}


def of_call(arrays: Arrays, place: int) -> Arrays:
    """Those of one call, as it has them."""
    return {name: np.asarray(array[place]) for name, array in arrays.items()}


def _passing(evaluate: Callable[..., Any], look: Callable[[Any], Any]) -> Callable[..., Any]:
    def made(*given: Any) -> Any:
        return look(evaluate(*given))

    return made


def perturbed(rng: np.random.Generator, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Floats by some units in float32's last place up or down; others as they are."""
    if array.dtype.kind != "f":
        return array
    return array * (1 + NOISE * rng.uniform(-1, 1, array.shape))


def _snapped(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Integers for what rounding may make one, such as 1 for tanh 9, which noise never hits."""
    if array.dtype.kind != "f":
        return array
    with np.errstate(all="ignore"):
        whole = np.round(array)
        return np.where(np.abs(array - whole) <= NOISE * np.abs(array), whole, array)


def _rounded(rng: np.random.Generator, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Perturbed where float32 does not hold the number."""
    if array.dtype != np.float64:
        return array
    with np.errstate(all="ignore"):
        return np.where(array == array.astype(np.float32), array, perturbed(rng, array))


def _is_plain(array: np.ndarray[Any, Any]) -> bool:
    """Whether ONNX Runtime is asked about an input; several of its operators end the process where
    there are no elements."""
    sizes = np.abs(array.astype(np.float64))
    return array.size > 0 and bool((((sizes >= SMALL) & (sizes < LARGE)) | (sizes == 0)).all())


def onnxruntime_of(case: Case) -> Callable[[Arrays], Arrays] | None:
    """What runs the model by ONNX Runtime; None where it does not take it, or is not there."""
    try:
        import onnxruntime
    except ModuleNotFoundError:
        return None

    onnxruntime.set_default_logger_severity(4)
    try:
        session = exact_session(case.source)
    except Exception:
        return None
    kinds = {i.name: i.type for i in session.get_inputs()}
    names = [output.name for output in session.get_outputs()]

    def ask(inputs: Arrays) -> Arrays:
        if not all(map(_is_plain, inputs.values())):
            return {}
        feeds = {name: inputs[name] for name in kinds if name in inputs}
        for name, array in feeds.items():
            if "int64" in kinds[name]:
                feeds[name] = array.astype(np.int64)
        try:
            results: Any = session.run(None, feeds)
        except Exception:
            return {}
        arrays = zip(names, results, strict=True)
        return {name: array for name, array in arrays if isinstance(array, np.ndarray)}

    return ask
