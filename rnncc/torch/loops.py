# pyright: basic, reportMissingImports=false
"""A loop over time as it is called: compiled in float32, interpreted in float64."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol
from weakref import WeakValueDictionary

import numpy as np
import torch
from rnncc_runtime import Model, TrainableModel

import rnncc
from rnncc.errors import CompileError
from rnncc.frontends.torch.cell import Step, scan_program
from rnncc.frontends.torch.types import type_name
from rnncc.ir.program import Program

Array = np.ndarray[Any, Any]
_lock = threading.Lock()
Arrays = dict[str, Array]
Tensors = Sequence[torch.Tensor]


class Code(Protocol):
    """A net that can be run; arrays go by the net's names."""

    def infer(self, inputs: Arrays, out: Arrays) -> None:
        """Compute the outputs."""
        ...

    def forward(self, inputs: Arrays, out: Arrays) -> Any:
        """Compute the outputs; returns what `backward` needs."""
        ...

    def backward(self, tape: Any, grads: Arrays, out: Arrays) -> None:
        """Compute the gradients that have a place in `out`."""
        ...


class CompiledCode:
    """Machine code, compiled when it is first needed; safe to share between threads."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._lock = threading.Lock()
        self._models: dict[bool, Any] = {}

    def infer(self, inputs: Arrays, out: Arrays) -> None:
        """Compute the outputs."""
        model: Model = self._model(False)
        model.run(inputs, out)

    def forward(self, inputs: Arrays, out: Arrays) -> Any:
        """Compute the outputs; returns the tape."""
        model: TrainableModel = self._model(True)
        return model.forward(inputs, out)[1]

    def backward(self, tape: Any, grads: Arrays, out: Arrays) -> None:
        """Compute the gradients that have a place in `out`; uses the tape up."""
        model: TrainableModel = self._model(True)
        model.backward(tape, grads, wanted=out, out=out)

    def _model(self, train: bool) -> Any:
        found = self._models.get(train)
        if found is None:
            with self._lock:
                if train not in self._models:
                    self._models[train] = rnncc.compile(self._program, train=train)
                found = self._models[train]
        return found


class InterpretedCode:
    """The interpreter in float64: slow, for `torch.autograd.gradcheck`."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def infer(self, inputs: Arrays, out: Arrays) -> None:
        """Compute the outputs."""
        self._run(self._program, inputs, out)

    def forward(self, inputs: Arrays, out: Arrays) -> Any:
        """Compute the outputs; returns what they were computed from."""
        self.infer(inputs, out)
        return inputs

    def backward(self, tape: Any, grads: Arrays, out: Arrays) -> None:
        """Compute the gradients that have a place in `out`."""
        from rnncc.ir.types import FLOATS, dims_of, dtype_of

        net, sizes = self._program.net, {"T": len(next(iter(tape.values())))}
        given = {**tape}
        for name, value in net.outputs.items():
            if dtype_of(value) in FLOATS:
                shape = [d.evaluate(sizes) for d in dims_of(value)]
                given[f"grad:{name}"] = grads.get(name, np.zeros(shape))
        made = {f"grad:{name}": array for name, array in out.items()}
        self._run(self._gradients, given, made)

    @cached_property
    def _gradients(self) -> Program:
        from rnncc.ir.types import FLOATS, dtype_of
        from rnncc.passes.differentiate import differentiate

        net = self._program.net
        outer = [name for name, v in net.outputs.items() if dtype_of(v) in FLOATS]
        inner = [name for name, v in net.inputs.items() if dtype_of(v) in FLOATS]
        return differentiate(self._program, outer, inner)

    @staticmethod
    def _run(program: Program, inputs: Arrays, out: Arrays) -> None:
        from rnncc.ir.interpreter import run

        results = run(program, inputs, np.float64)
        for name, array in out.items():
            array[...] = results[name]


@dataclass(frozen=True)
class Loop:
    """A net over tensors.

    Attributes:
        code: what computes it.
        inputs: their names, in order.
        outputs: name, shape behind T or whole, dtype, whether it has T rows.
    """

    code: Code
    inputs: Sequence[str]
    outputs: Sequence[Output]

    def make_outputs(self, steps: int) -> list[torch.Tensor]:
        """New tensors for the outputs."""
        return [
            torch.empty((steps, *o.shape) if o.sequence else o.shape, dtype=o.dtype)
            for o in self.outputs
        ]

    def infer(self, tensors: Tensors) -> list[torch.Tensor]:
        """The outputs alone."""
        results = self.make_outputs(len(tensors[0]))
        self.code.infer(self._inputs(tensors), self._outputs(results))
        return results

    def forward(self, tensors: Tensors) -> tuple[list[torch.Tensor], Any]:
        """The outputs, and the tape."""
        results = self.make_outputs(len(tensors[0]))
        return results, self.code.forward(self._inputs(tensors), self._outputs(results))

    def backward(
        self,
        tape: Any,
        grads: Sequence[torch.Tensor | None],
        tensors: Tensors,
        wanted: Sequence[bool],
    ) -> list[torch.Tensor | None]:
        """The gradients of the inputs that are wanted."""
        given = {
            o.name: as_array(grad)
            for o, grad in zip(self.outputs, grads, strict=True)
            if grad is not None
        }
        made = [
            torch.empty(tensor.shape, dtype=tensor.dtype) if want else None
            for tensor, want in zip(tensors, wanted, strict=True)
        ]
        out = {n: g.numpy() for n, g in zip(self.inputs, made, strict=True) if g is not None}
        self.code.backward(tape, given, out)
        return made

    def _inputs(self, tensors: Tensors) -> Arrays:
        return {n: as_array(t) for n, t in zip(self.inputs, tensors, strict=True)}

    def _outputs(self, tensors: Tensors) -> Arrays:
        return {o.name: t.numpy() for o, t in zip(self.outputs, tensors, strict=True)}


@dataclass(frozen=True)
class Output:
    """A tensor that a loop makes."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    sequence: bool


_codes: WeakValueDictionary[tuple[bool, str], Code] = WeakValueDictionary()


def as_array(tensor: torch.Tensor) -> Array:
    """A tensor's memory as an array; one that is not contiguous is copied."""
    return tensor.detach().contiguous().numpy()


def loop_of(step: Step, reverse: bool) -> Loop:
    """The loop of a step; equal ones share their code.

    Raises:
        CompileError: an operator is not supported; a state changes its type; dtypes are mixed.
    """
    wide = _is_wide(step)
    program = scan_program(step, reverse)
    key = wide, str(program.module)
    with _lock:
        code = _codes.get(key)
        if code is None:
            code = _codes[key] = InterpretedCode(program) if wide else CompiledCode(program)
    outputs = list[Output]()
    results: Any = step.graph.graph.output_node().args[0]
    for name, node in zip(program.net.outputs, results, strict=True):
        value: torch.Tensor = node.meta["val"]
        shape = tuple(int(size) for size in value.shape)
        outputs.append(Output(name, shape, value.dtype, name.startswith("y")))
    return Loop(code, list(program.net.inputs), outputs)


def _is_wide(step: Step) -> bool:
    """Whether floats are float64.

    Raises:
        CompileError: some are, others are not.
    """
    found = [*step.row_types, *step.state_types, *step.inputs]
    found += [
        v for node in step.graph.graph.nodes if isinstance(v := node.meta.get("val"), torch.Tensor)
    ]
    kinds = {x.dtype for x in found if x.is_floating_point()}
    if len(kinds) > 1:
        names = ", ".join(sorted(map(type_name, kinds)))
        raise CompileError("", f"{names} in one cell: all floats must be of one type")
    return torch.float64 in kinds
