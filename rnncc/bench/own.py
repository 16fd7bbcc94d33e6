"""rnncc: a case compiled in memory."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from llvmlite import ir
from rnncc_runtime import Model, Pool, Stream, TrainableModel, describe, load
from rnncc_runtime.memory import Memory

import rnncc
from rnncc.bench import repository
from rnncc.bench.cases import NET, Case
from rnncc.bench.contenders import ALONE, Array, Setup, Workload
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.codegen.llvm import objects
from rnncc.codegen.llvm.emit import Emit
from rnncc.codegen.llvm.values import I32, I64, POINTER, Value
from rnncc.driver.drawn import drawn
from rnncc.formats import ELF
from rnncc.sizes import TIME
from rnncc.sources import head

GRADIENT = 0.01
"""Of every element of the outputs, as training starts backward."""


def make(case: Case, setup: Setup = ALONE) -> Workload | None:
    """The case's net, compiled for this machine."""
    net, init = repository.source(case)
    if case.mode == "step" and setup.threads > 1:
        return None
    if case.mode == "train" and setup.precision != "fp32":
        return None
    pool = Pool(setup.threads) if setup.threads > 1 else None
    if case.cell == NET and head(Path(case.net), len(ELF)) == ELF:
        return _of_library(Path(case.net), case, pool)
    chosen: dict[str, Any] = {**case.compile_options, "threads": pool is not None}
    if case.mode == "train":
        return _training(rnncc.compile(net, init, train=True, **chosen), case, pool)
    chosen["precision"] = setup.precision
    if case.mode == "step":
        return _step(_library(net, init, chosen), case)
    return _run(cast(Model, rnncc.compile(net, init, **chosen)), case, pool)


def _of_library(path: Path, case: Case, pool: Pool | None) -> Workload:
    """A library that was compiled before, whatever its file is called."""
    name = describe(path)["name"]
    if case.mode == "train":
        return _training(load(path, name, train=True), case, pool)
    return _run(load(path, name), case, pool)


def _library(net: Any, init: Any, options: dict[str, Any]) -> Model:
    """A shared library: code in memory alone has its constants further off, which counts here."""
    with tempfile.TemporaryDirectory() as folder:
        built = rnncc.build(net, init, out=folder, **options)
        assert built.library is not None
        return load(built.library)


def _run(model: Model, case: Case, pool: Pool | None) -> Workload:
    """Whole sequences, into the same arrays each time; of a cell all of y alone."""
    inputs = drawn(model.inputs, case.dims, case.ragged)
    names = list(model.outputs) if case.cell == NET else ["y"]
    out = _empty({name: model.outputs[name] for name in names}, case)

    def run() -> object:
        return model.run(inputs, out=out, pool=pool)

    return Workload(run, _result(run, out))


def _training(model: TrainableModel, case: Case, pool: Pool | None) -> Workload:
    """Forward and backward, into the same arrays each time."""
    inputs = drawn(model.inputs, case.dims, case.ragged)
    outputs, tape = model.forward(inputs)
    floats = [n for n, spec in model.outputs.items() if spec.dtype.kind == "f"]
    names = floats if case.cell == NET else ["y"]
    output_grads = {name: np.full_like(outputs[name], GRADIENT) for name in names}
    grads = model.backward(tape, output_grads)

    def run() -> object:
        _, tape = model.forward(inputs, out=outputs, pool=pool)
        return model.backward(tape, output_grads, out=grads, pool=pool)

    return Workload(run, _result(run, outputs))


def _step(model: Model, case: Case) -> Workload:
    """One step of a stream, called from C as often as asked."""
    stream: Stream = model.stream(batch=case.batch)
    arrays = drawn(stream.inputs, {**case.dims, TIME: 1})
    inputs = {name: _aligned(array) for name, array in arrays.items()}
    shape = [size.evaluate({**case.dims, TIME: 1}) for size in stream.outputs["y"].sizes]
    out = {"y": _aligned(np.zeros(shape, np.float32))}

    def run() -> object:
        return stream.step(inputs, out=out)

    run()
    return Workload(run, _result(run, out), _from_c(stream))


def _aligned(array: Array) -> Array:
    """A copy at a multiple of 64 bytes, as a program in C would have it."""
    copy = Memory(array.nbytes).bytes.view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _empty(specs: Any, case: Case) -> dict[str, Array]:
    return {name: np.empty_like(array) for name, array in drawn(specs, case.dims).items()}


def _result(run: Callable[[], object], out: dict[str, Array]) -> Callable[[], Array] | None:
    if "y" not in out:
        return None

    def result() -> Array:
        run()
        return out["y"]

    return result


def _from_c(stream: Stream) -> Callable[[int], object]:
    """The last step of a stream again, so many times, in a loop of machine code."""
    last = stream._last  # pyright: ignore[reportPrivateUsage]
    step: Any = stream._step  # pyright: ignore[reportPrivateUsage]
    assert last is not None
    bound: tuple[int, ...] = step.args if isinstance(step, partial) else ()
    function: Any = step.func if isinstance(step, partial) else step
    arguments = (*bound, *last.arguments)
    address = ctypes.cast(function, ctypes.c_void_p).value
    pointers = len(arguments) - len(stream.metadata["symbols"])
    repeat = _repeater(pointers, len(arguments) - pointers)
    return lambda count: repeat(count, address, *arguments)


def _repeater(pointers: int, sizes: int) -> Any:
    """Code that calls a function on such arguments, so many times: `(count, function, ...)`."""
    target = resolve_target()
    types = [POINTER] * pointers + [I64] * sizes
    module = ir.Module()
    kind = ir.FunctionType(ir.VoidType(), [I64, POINTER, *types])
    emit = Emit.begin(ir.Function(module, kind, "repeat"), target, [])
    count, callee, *arguments = cast(Sequence[Value], emit.b.function.args)
    pointer: Any = ir.PointerType(ir.FunctionType(I32, types))  # a call asks for its type
    pointer.is_opaque = True
    callee.type = pointer

    def iteration(index: Value, carried: list[Value]) -> list[Value]:
        emit.b.call(callee, arguments)
        return []

    emit.loop(count, iteration)
    emit.b.ret_void()
    engine = objects.load(objects.optimise(str(module), target, jit=True))
    signature = [ctypes.c_int64, *[ctypes.c_void_p] * (pointers + 1), *[ctypes.c_int64] * sizes]
    repeat: Any = ctypes.CFUNCTYPE(None, *signature)(engine.get_function_address("repeat"))
    repeat.engine = engine
    return repeat
