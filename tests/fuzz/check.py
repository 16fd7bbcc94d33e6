"""What is done with a case: import, passes, code, and runs under guard pages, compared."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from rnncc_runtime import Model, ModelError, TrainableModel
from rnncc_runtime.memory import ALIGNMENT

import rnncc
from rnncc.driver import in_memory
from rnncc.errors import CompileError
from rnncc.frontends.caffe2 import import_net
from rnncc.frontends.onnx.importer import import_model
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.ir.types import FLOATS, dtype_of
from rnncc.options import Options
from tests.codegen.guarded import Guards, address, guards, table
from tests.fuzz.arrays import disagreement, draw_inputs, is_invalid, sensitivity
from tests.fuzz.cases import Case, Failure, Result
from tests.fuzz.harness import TooSlowError, kind_of, time_limit
from tests.golden import Arrays
from tests.training.models import run_guarded, with_gradients

SOURCES = Path(rnncc.__file__).parent
LIMIT_SECONDS = 40
"""By the clock, for one case, interpreters included."""
RUNS = 4
WORKSPACE = 1 << 28
MAX_ITERATIONS = 8
LARGE = 1e20
"""Of larger inputs rounding decides, in other places here than there."""


def check(case: Case, runs: int = RUNS) -> Result:
    """Compile a case and run it on inputs drawn from its seed."""
    result, begun = Result(), process_time()
    try:
        with time_limit(LIMIT_SECONDS):
            _check(case, runs, result)
    except CompileError as error:
        result.outcome, result.reason = "refused", kind_of(error.what)
        if "\n" in str(error) or len(str(error)) > 2000:
            result.failures.append(Failure("message", result.reason, str(error)))
    except BaseException as error:
        kind = {TooSlowError: "slow", MemoryError: "memory"}.get(type(error), "error")
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
    return import_net(case.source, case.init, dict(case.shapes), **options)


def _check(case: Case, runs: int, result: Result) -> None:
    program = read(case)
    program.module.verify()
    result.outcome = "accepted"
    options = Options.of(program, {"max_iterations": MAX_ITERATIONS})
    model = in_memory.compile_in_memory(program, None, options)
    assert isinstance(model, Model)
    rng = random.Random(case.seed)
    ask = _onnxruntime(case) if case.oracle and case.name.startswith("onnx") else None
    for _ in range(runs):
        drawn = draw_inputs(rng, model)
        if drawn is not None:
            _compare(program, model, *drawn, ask, result)
    if case.train:
        _train(program, rng, result)


def _compare(
    program: Program,
    model: Model,
    sizes: dict[str, int],
    inputs: Arrays,
    ask: Callable[[Arrays], Arrays] | None,
    result: Result,
) -> None:
    """One run by machine code, by the interpreter, and by ONNX Runtime."""
    got = _guarded(model, inputs)
    if got is None:
        return  # refused with a code, or too large
    result.runs += 1
    try:
        with np.errstate(all="ignore"):
            want = run(program, inputs, np.float32, sizes)
    except ValueError:  # an index outside of its axis, in what no output needs: code leaves it out
        result.unstable += 1
        return
    has_nan = any(np.isnan(a).any() for a in want.values() if a.dtype.kind == "f")
    asked = ask(inputs) if ask is not None and not has_nan else {}  # where is ours to say: math.md
    differs = {"code": disagreement(got, want), "import": disagreement(got, asked)}
    if not any(differs.values()):
        result.compared += 1
        result.oracle += bool(asked)
        return
    if differs["code"] is None and is_invalid(program, inputs, sizes):
        asked = {}  # what NaN becomes is not the standard's to say
    analysed = sensitivity(program, inputs, sizes)
    if analysed is None:
        result.unstable += 1
        return
    exact, allowed = analysed
    differs = {
        "code": disagreement(got, exact, allowed),
        "import": disagreement(got, asked, allowed),
    }
    result.compared += 1
    result.oracle += bool(asked)
    for stage, text in differs.items():
        if text is not None:
            told = f"sizes {sizes}\n{_printed(inputs)}\n{text}"
            result.failures.append(Failure("wrong", f"{stage} of {_operators(program)}", told))
            return


def _guarded(model: Model, inputs: Arrays) -> Arrays | None:
    """The outputs, every block flush against pages that nobody may touch."""
    try:
        sizes = model._sizes(list(inputs.values()), [None] * len(model.outputs))
    except ModelError:
        return None
    count = sum(int(np.prod(shape, dtype=object)) for shape in sizes.outputs)
    if max(sizes.workspace, count * 4) > WORKSPACE:
        return None
    first: Arrays | None = None
    for end in (True, False):
        with guards(end) as memory:
            outputs = _call(model, inputs, sizes, memory)
        if outputs is None:
            return None
        if first is not None and _bits(first) != _bits(outputs):
            raise AssertionError("two runs differ in bits")
        first = outputs
    return first


def _call(model: Model, inputs: Arrays, sizes: Any, memory: Guards) -> Arrays | None:
    held = [memory.array(np.ascontiguousarray(array)) for array in inputs.values()]
    results = [
        memory.array(np.full(shape, 77, spec.dtype))
        for spec, shape in zip(model.outputs.values(), sizes.outputs, strict=True)
    ]
    room = -(-sizes.workspace // ALIGNMENT) * ALIGNMENT
    workspace = memory.array(np.full(room, 0xFF, np.uint8))
    tables = table(held), table(results)
    code = model._functions["run"](*tables, address(workspace), *sizes.symbols)
    if code:
        return None
    return {name: np.array(array) for name, array in zip(model.outputs, results, strict=True)}


def _train(program: Program, rng: random.Random, result: Result) -> None:
    """Outputs and gradients of the compiled training program against the interpreter's."""
    floats = [name for name, value in program.net.outputs.items() if dtype_of(value) in FLOATS]
    options = {"train": True, "outputs_with_grads": floats, "max_iterations": MAX_ITERATIONS}
    try:
        both = with_gradients(program.copy(), floats)
        model = in_memory.compile_in_memory(program, None, Options.of(program, options))
    except CompileError:
        return
    assert isinstance(model, TrainableModel)
    drawn = draw_inputs(rng, model)
    if drawn is None:
        return
    sizes, inputs = drawn
    outer: Arrays = {}
    for name in model._given:
        shape = tuple(s.evaluate(sizes) for s in model.outputs[name].sizes)
        if min(shape, default=0) < 0:
            return
        outer[name] = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    with guards(end=True) as memory:
        try:
            outputs, grads = run_guarded(model, inputs, outer, sizes, memory)
        except AssertionError as error:
            if "error code" in str(error):
                return
            raise
    got = outputs | {f"grad:{name}": array for name, array in grads.items()}
    given = inputs | {f"grad:{name}": array for name, array in outer.items()}
    result.runs += 1
    analysed = sensitivity(both, given, sizes)
    if analysed is None:
        result.unstable += 1
        return
    result.compared += 1
    if (text := disagreement(got, *analysed)) is not None:
        told = f"sizes {sizes}\n{_printed(given)}\n{text}"
        result.failures.append(Failure("gradient", _operators(program), told))


def _onnxruntime(case: Case) -> Callable[[Arrays], Arrays] | None:
    """What runs the model by ONNX Runtime; None where it does not take it, or is not there."""
    try:
        import onnxruntime
    except ModuleNotFoundError:
        return None

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    onnxruntime.set_default_logger_severity(4)
    # Constant folding and fusions are ONNX Runtime's own; their faults are not ours to find.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(
            case.source, options, providers=["CPUExecutionProvider"]
        )
    except Exception:
        return None
    kinds = {i.name: i.type for i in session.get_inputs()}
    names = [output.name for output in session.get_outputs()]

    def ask(inputs: Arrays) -> Arrays:
        if any(array.size == 0 or not (np.abs(array) < LARGE).all() for array in inputs.values()):
            return {}  # without elements several operators of ONNX Runtime end the process
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


def _bits(arrays: Arrays) -> list[bytes]:
    return [array.tobytes() for array in arrays.values()]
