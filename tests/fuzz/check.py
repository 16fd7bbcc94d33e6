"""What is done with a case: import, passes, code, and runs under guard pages, compared."""

from __future__ import annotations

import random
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from rnncc_runtime import Model, TrainableModel

import rnncc
from rnncc.driver import in_memory
from rnncc.errors import CompileError
from rnncc.frontends.caffe2 import import_net
from rnncc.frontends.onnx.importer import import_model
from rnncc.ir.program import Program
from rnncc.ir.types import FLOATS, dtype_of
from rnncc.options import Options
from tests.codegen.guarded import guards
from tests.fuzz import fuzz_mlir, ways
from tests.fuzz.arrays import agreement, difference, draw_inputs, draw_sizes, most_calls
from tests.fuzz.cases import Case, Failure, Result
from tests.fuzz.harness import TooSlowError, kind_of, time_limit
from tests.fuzz.machine import call_guarded
from tests.fuzz.oracles import (
    PERTURBATIONS,
    Interpreted,
    UndecidedError,
    any_of,
    of_call,
    of_calls,
    onnxruntime_of,
    perturbed,
    stacked,
)
from tests.golden import Arrays
from tests.training.models import run_guarded, with_gradients

SOURCES = Path(rnncc.__file__).parent
LIMIT_SECONDS = 40
"""By the clock, for one case, interpreters included."""
SIZES = 4
"""How many sizes a model is called with at least, where there are as many calls."""
GROUP = 32
"""Calls of the same sizes, where there are more."""
MOST_SECONDS = 8
"""After which a model is not called again."""
MAX_ITERATIONS = 8
MOST_GIVEN = 50
"""The largest element of an input of a training."""
ROUNDED = 0.2
"""Of the models, how many are also compiled with rounded weights."""


def check(case: Case, calls: int = SIZES) -> Result:
    """Compile a case and call it with inputs drawn from its seed."""
    result, begun = Result(), process_time()
    try:
        with time_limit(LIMIT_SECONDS):
            _check(case, calls, result)
    except CompileError as error:
        result.outcome, result.reason = "refused", kind_of(error.what)
        if "\n" in str(error) or len(str(error)) > 2000:
            result.failures.append(Failure("message", result.reason, str(error)))
    except BaseException as error:
        kinds: dict[type, str] = {TooSlowError: "slow", MemoryError: "memory"}
        kind = kinds.get(type(error), "error")
        result.failures.append(Failure(kind, _place(error), traceback.format_exc()))
    if result.failures:
        result.outcome = "failed"
    result.seconds = process_time() - begun
    return result


def read(case: Case) -> Program:
    """The program of a case."""
    options = {"max_iterations": MAX_ITERATIONS, "training": case.train, "name": "net"}
    if case.name.startswith("onnx"):
        return import_model(case.source, **options)
    if case.name.startswith("rnn"):
        return fuzz_mlir.read(case.source.decode(), case.init)
    return import_net(case.source, case.init, dict(case.shapes), **options)


def _check(case: Case, calls: int, result: Result) -> None:
    program, rng = read(case), random.Random(case.seed)
    program.module.verify()
    result.outcome = "accepted"
    drawn = ways.draw_options(rng, program)
    options = Options.of(program, {"max_iterations": MAX_ITERATIONS, **drawn})
    model = in_memory.compile_in_memory(program, None, options)
    assert isinstance(model, Model)
    compare = _Comparison(case, program, model, result)
    groups = min(calls, max(SIZES, -(-calls // GROUP)))
    end = process_time() + MOST_SECONDS
    for _ in range(groups):
        sizes = draw_sizes(rng, model)
        if sizes is not None and process_time() < end:
            count = min(-(-calls // groups), most_calls(model, sizes))
            compare.calls(sizes, [draw_inputs(rng, model, sizes) for _ in range(count)])
    if rng.random() < ROUNDED:
        _round(program, rng, result)
    if case.train:
        _train(program, rng, result)


class _Comparison:
    """Calls of one model by machine code, by the interpreter and by ONNX Runtime."""

    def __init__(self, case: Case, program: Program, model: Model, result: Result) -> None:
        self._program, self._model, self._result = program, model, result
        self._interpreter = Interpreted(program)
        asks = case.oracle and case.name.startswith("onnx")
        self._ask = onnxruntime_of(case) if asks else None

    def calls(self, sizes: Mapping[str, int], draws: Sequence[Arrays]) -> None:
        """Compare calls of the same sizes; those that are refused with a code do not count."""
        results = call_guarded(self._model, draws) or [None] * len(draws)
        if results[0] is not None:
            told = ways.difference(self._model, self._program, draws[0], sizes, results[0])
            if told is not None:
                self._fail("bits", f"sizes {sizes}\n{told}\n{_printed(draws[0])}")
        pairs = [(given, made) for given, made in zip(draws, results, strict=True) if made]
        self._result.runs += len(pairs)
        if pairs:
            self._compare(sizes, stacked([p[0] for p in pairs]), stacked([p[1] for p in pairs]))

    def _compare(self, sizes: Mapping[str, int], inputs: Arrays, got: Arrays) -> None:
        """The first axis of the arrays is that of the calls."""
        calls = len(next(iter(got.values())))
        try:
            self._judge(sizes, inputs, got, calls)
        except UndecidedError:
            self._result.unstable += calls == 1
            for i in range(calls) if calls > 1 else ():
                self._compare(sizes, of_calls(inputs, [i]), of_calls(got, [i]))

    def _judge(self, sizes: Mapping[str, int], inputs: Arrays, got: Arrays, calls: int) -> None:
        want = self._interpreter.run(inputs, sizes, calls, np.float32)
        asked, answered = self._asked(inputs, got, want)
        agree = agreement(got, want) & agreement(got, asked)
        if not agree.all():
            differ = [of_calls(arrays, ~agree) for arrays in (inputs, got, asked)]
            odd = np.flatnonzero(agreement(got, want)[~agree])
            counted = self._explain(sizes, differ[0], differ[1], differ[2], odd)
            answered[~agree] &= counted
            agree[~agree] = counted
        self._result.compared += int(agree.sum())
        self._result.unstable += int((~agree).sum())
        self._result.oracle += int((agree & answered).sum())

    def _asked(
        self, inputs: Arrays, got: Arrays, want: Arrays
    ) -> tuple[Arrays, np.ndarray[Any, Any]]:
        """What ONNX Runtime makes of the calls, our results where it says nothing; where it does.

        It is not asked where results are NaN: what of is ours to say (math.md).
        """
        made = {name: array.copy() for name, array in got.items()}
        calls = len(next(iter(got.values())))
        unasked = np.full(calls, self._ask is None)
        for array in want.values():
            unasked |= any_of(np.isnan(array)) if array.dtype.kind == "f" else False
        answered = np.zeros(calls, bool)
        for i in np.flatnonzero(~unasked).tolist():
            results = self._ask(of_call(inputs, i)) if self._ask else {}
            answered[i] = bool(results)
            for name, array in results.items():
                if not array.size:
                    continue  # no rows of a loop: of what shape only its body says
                ours = made[name][i, ...]  # a view, also of numbers without axes
                for told, axis in self._program.counts.get(name, ()):
                    made[told][i] = array.shape[axis]
                    ours = ours[(slice(None),) * axis + (slice(array.shape[axis]),)]
                if ours.shape == array.shape:
                    ours[...] = array
                else:
                    shapes = ours.shape, array.shape
                    self._fail("import", f"{name}: shape {shapes[0]}, expected {shapes[1]}")
        return made, answered

    def _explain(
        self,
        sizes: Mapping[str, int],
        inputs: Arrays,
        got: Arrays,
        asked: Arrays,
        odd: np.ndarray[Any, Any],
    ) -> np.ndarray[Any, Any]:
        """Calls that differ by more than a bound for all: those of which something can be said.

        Args:
            odd: numbers of calls in which the interpreter agrees with us, and the other does not.
        """
        calls = len(next(iter(got.values())))
        exact, allowed, stable = self._interpreter.sensitivity(inputs, sizes, calls)
        for i in odd.tolist():  # what NaN becomes on the way is not the standard's to say
            stable[i] &= not self._interpreter.is_invalid(of_calls(inputs, [i]), sizes)
            stable[i] &= self._is_steady(of_call(inputs, i), of_call(asked, i))
        for stage, wanted in {"code": exact, "import": asked}.items():
            wrong = np.flatnonzero(stable & ~agreement(got, wanted, allowed)).tolist()
            if wrong:
                given, ours, theirs, slack = (
                    of_call(arrays, wrong[0]) for arrays in (inputs, got, wanted, allowed)
                )
                told = difference(ours, theirs, slack)
                self._fail(stage, f"sizes {sizes}\n{told}\n{_printed(given)}")
                break
        return stable

    def _is_steady(self, inputs: Arrays, asked: Arrays) -> bool:
        """Whether ONNX Runtime gives about the same if inputs are rounded in other ways."""
        rng = np.random.default_rng(0)
        for _ in range(PERTURBATIONS if self._ask else 0):
            moved = {n: perturbed(rng, a).astype(a.dtype) for n, a in inputs.items()}
            again = self._ask(moved) if self._ask else {}
            if again and difference(again, asked) is not None:
                return False
        return True

    def _fail(self, stage: str, text: str) -> None:
        where = f"{stage} of {_operators(self._program)}"
        self._result.failures.append(Failure("wrong", where, text))


def _round(program: Program, rng: random.Random, result: Result) -> None:
    """A call with weights of bf16 or int8: no oracle, but ways to call that change no bit."""
    options = {"precision": rng.choice(["bf16", "int8"]), "max_iterations": MAX_ITERATIONS}
    options |= ways.draw_options(rng, program)
    try:
        model = in_memory.compile_in_memory(program, None, Options.of(program, options))
    except CompileError:
        return
    assert isinstance(model, Model)
    for _ in range(2):
        sizes = draw_sizes(rng, model)
        inputs = None if sizes is None else draw_inputs(rng, model, sizes)
        made = call_guarded(model, [inputs]) if inputs else None
        if sizes is None or inputs is None or not made or made[0] is None:
            continue
        result.runs += 1
        told = ways.difference(model, program, inputs, sizes, made[0])
        if told is not None:
            text = f"{options}, sizes {sizes}\n{told}\n{_printed(inputs)}"
            result.failures.append(Failure("wrong", f"rounded {_operators(program)}", text))


def _train(program: Program, rng: random.Random, result: Result) -> None:
    """Outputs and gradients of the compiled training program against the interpreter's."""
    options: dict[str, Any] = {**training_options(program), "threads": rng.random() < 0.3}
    try:
        both = with_gradients(program.copy(), options["outputs_with_grads"])
        model = in_memory.compile_in_memory(program, None, Options.of(program, options))
    except CompileError:
        return
    assert isinstance(model, TrainableModel)
    sizes = draw_sizes(rng, model)
    if sizes is None:
        return
    symbols = [sizes[name] for name in model.metadata["symbols"]]
    if model._functions["tape_bytes"](*symbols) < 0:
        return  # refused sizes
    inputs = {name: bounded(array) for name, array in draw_inputs(rng, model, sizes).items()}
    outer = outer_grads(model, sizes)
    if outer is None:
        return
    with guards(end=True) as memory:
        try:
            outputs, grads = run_guarded(model, inputs, outer, sizes, memory)
        except AssertionError as error:
            if "error code" in str(error):
                return
            raise
    told = ways.training_difference(model, inputs, outer, outputs, grads)
    if told is not None:
        text = f"sizes {sizes}\n{told}\n{_printed(inputs)}"
        result.failures.append(Failure("wrong", f"training of {_operators(program)}", text))
    got = outputs | {f"grad:{name}": array for name, array in grads.items()}
    given = inputs | {f"grad:{name}": array for name, array in outer.items()}
    result.runs += 1
    stacks = [stacked([arrays]) for arrays in (given, got)]
    try:
        exact, allowed, stable = Interpreted(both).sensitivity(stacks[0], sizes, 1)
    except UndecidedError:
        result.unstable += 1
        return
    result.unstable += int(not stable[0])
    result.compared += int(stable[0])
    if stable[0] and not agreement(stacks[1], exact, allowed)[0]:
        told = difference(got, of_call(exact, 0), of_call(allowed, 0))
        text = f"sizes {sizes}\n{told}\n{_printed(given)}"
        result.failures.append(Failure("gradient", _operators(program), text))


def training_options(program: Program) -> dict[str, Any]:
    """How a program is trained: from all outputs that are floats."""
    floats = [name for name, value in program.net.outputs.items() if dtype_of(value) in FLOATS]
    return {"train": True, "outputs_with_grads": floats, "max_iterations": MAX_ITERATIONS}


def bounded(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Numbers that do not overflow: 0 times infinity is NaN where a gradient of 0 is computed, and
    nothing where it is left out.
    """
    if array.dtype.kind != "f":
        return array
    return np.clip(np.nan_to_num(array, nan=1.0), -MOST_GIVEN, MOST_GIVEN).astype(array.dtype)


def outer_grads(model: TrainableModel, sizes: Mapping[str, int]) -> Arrays | None:
    """Of the outputs; None where one would have a negative size."""
    shapes = {
        name: tuple(s.evaluate(sizes) for s in model.outputs[name].sizes)
        for name in model._output_grads
    }
    if min((size for shape in shapes.values() for size in shape), default=0) < 0:
        return None
    rng = np.random.default_rng(0)
    dtypes = {name: model.outputs[name].dtype for name in shapes}
    return {n: rng.standard_normal(s).astype(dtypes[n]) for n, s in shapes.items()}


def _operators(program: Program) -> str:
    """The kinds of ops that a program is made of, the rarest and most telling ones."""
    kinds = {op.name for op in program.module.walk()} - {"builtin.module", "func.func"}
    common = {"rnn.net", "rnn.yield", "rnn.param", "rnn.fill"}
    return ", ".join(sorted(kinds - common))[:120]


def _printed(inputs: Mapping[str, np.ndarray[Any, Any]]) -> str:
    with np.printoptions(threshold=20, edgeitems=3):
        return "\n".join(f"{name} {array.shape} {array}" for name, array in inputs.items())


def _place(error: BaseException) -> str:
    """The exception, and the innermost place in rnncc that it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if str(SOURCES) in f.filename] or list(frames)
    last = ours[-1]
    return f"{type(error).__name__} in {Path(last.filename).name}:{last.name}"
