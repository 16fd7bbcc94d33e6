"""rnncc on an NVIDIA GPU: a case compiled for it, its arrays there before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
from rnncc_runtime.cuda import CudaModel, Device, DeviceArray

import rnncc
from rnncc.bench import repository
from rnncc.bench.cases import NET, Case
from rnncc.bench.contenders import ALONE, Array, Setup, Workload
from rnncc.driver.drawn import drawn
from rnncc.sizes import TIME

GRADIENT = 0.01
"""Of every element of the outputs, as training starts backward."""
STREAM = 0
"""Calls are put on it, and waited for together."""


def make(case: Case, setup: Setup = ALONE) -> Workload | None:
    """The case's net, compiled for the first GPU; results stay there."""
    if setup.threads > 1 or (case.mode == "train" and setup.precision != "fp32"):
        return None
    net, init = repository.source(case)
    options: dict[str, Any] = {**case.compile_options, "device": "cuda"}
    if case.mode == "train":
        trainable: Any = rnncc.compile(net, init, train=True, **options)
        return _training(trainable, case)
    options["precision"] = setup.precision
    model = cast(CudaModel, rnncc.compile(net, init, **options))
    return _step(model, case) if case.mode == "step" else _run(model, case)


def _run(model: CudaModel, case: Case) -> Workload:
    inputs = _there(drawn(model.inputs, case.dims, case.ragged))
    names = list(model.outputs) if case.cell == NET else ["y"]
    out = _empty({name: model.outputs[name] for name in names}, case)
    return _call(lambda: model.run(inputs, out=out, stream=STREAM), model.device, out)


def _step(model: CudaModel, case: Case) -> Workload:
    """A step of a stream, called from Python."""
    stream = model.stream(batch=case.batch, on=STREAM)
    sizes = {**case.dims, TIME: 1}
    inputs = _there(drawn(stream.inputs, sizes))
    shape = [size.evaluate(sizes) for size in stream.outputs["y"].sizes]
    out = {"y": DeviceArray.empty(shape, np.float32)}
    return _call(lambda: stream.step(inputs, out=out), model.device, out)


def _training(model: Any, case: Case) -> Workload:
    inputs = _there(drawn(model.inputs, case.dims, case.ragged))
    outputs, tape = model.forward(inputs)
    floats = [name for name, spec in model.outputs.items() if spec.dtype.kind == "f"]
    names = floats if case.cell == NET else ["y"]
    full = {name: np.full(outputs[name].shape, GRADIENT, np.float32) for name in names}
    output_grads = _there(full)
    grads = model.backward(tape, output_grads)

    def run() -> object:
        _, tape = model.forward(inputs, out=outputs, stream=STREAM)
        return model.backward(tape, output_grads, out=grads, stream=STREAM)

    return _call(run, model.device, outputs)


def _there(arrays: Mapping[str, Array]) -> dict[str, DeviceArray]:
    return {name: DeviceArray.of(array) for name, array in arrays.items()}


def _empty(specs: Mapping[str, Any], case: Case) -> dict[str, DeviceArray]:
    return _there(drawn(specs, case.dims))


def _call(run: Callable[[], object], device: Device, out: Mapping[str, DeviceArray]) -> Workload:
    def wait() -> None:
        with device.current():
            device.wait(STREAM)

    def result() -> Array:
        run()
        wait()
        return out["y"].numpy()

    return Workload(run, result if "y" in out else None, wait=wait)
