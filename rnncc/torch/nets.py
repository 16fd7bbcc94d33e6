# pyright: basic, reportMissingImports=false
"""A net as PyTorch calls it: compiled in float32, interpreted in float64."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol
from weakref import WeakValueDictionary

import numpy as np
import torch
from rnncc_runtime import Model, Parallel, TrainableModel
from xdsl.ir import SSAValue

import rnncc
from rnncc.errors import CompileError
from rnncc.frontends.torch.types import DTYPES, type_name
from rnncc.ir.dims import Dim
from rnncc.ir.program import Program
from rnncc.ir.types import FLOATS, dims_of, dtype_of
from rnncc.torch.threads import parallel

Array = np.ndarray[Any, Any]
_lock = threading.Lock()
_codes: WeakValueDictionary[tuple[bool, str], Code] = WeakValueDictionary()
_DTYPES = {name: dtype for dtype, name in DTYPES.items() if dtype != torch.float64}
Arrays = dict[str, Array]
Tensors = Sequence[torch.Tensor]


class Code(Protocol):
    """A net that can be run; arrays go by the net's names."""

    def prepare(self, train: bool) -> None:
        """Do now what takes long."""
        ...

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
    """Machine code, compiled when it is first needed; safe to share between threads.

    A call is computed by as many of PyTorch's number of threads as are worth it.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._lock = threading.Lock()
        self._models: dict[tuple[bool, bool], Any] = {}

    def prepare(self, train: bool) -> None:
        """Compile."""
        self._model(train, parallel())

    def infer(self, inputs: Arrays, out: Arrays) -> None:
        """Compute the outputs."""
        threads = parallel()
        model: Model = self._model(False, threads)
        model.run(inputs, out, threads)

    def forward(self, inputs: Arrays, out: Arrays) -> Any:
        """Compute the outputs; returns the tape."""
        threads = parallel()
        model: TrainableModel = self._model(True, threads)
        return model.forward(inputs, out, pool=threads)[1]

    def backward(self, tape: Any, grads: Arrays, out: Arrays) -> None:
        """Compute the gradients that have a place in `out`; uses the tape up."""
        threads = parallel()
        model: TrainableModel = self._model(True, threads)
        model.backward(tape, grads, wanted=out, out=out, pool=threads)

    def _model(self, train: bool, threads: Parallel | None) -> Any:
        """Code that several threads can compute serves one as well."""
        found = self._models.get((train, True))
        if found is None and threads is None:
            found = self._models.get((train, False))
        return found or self._made((train, threads is not None))

    def _made(self, kind: tuple[bool, bool]) -> Any:
        with self._lock:
            if kind not in self._models:
                train, shared = kind
                self._models[kind] = rnncc.compile(self._program, train=train, threads=shared)
            return self._models[kind]


class InterpretedCode:
    """The interpreter in float64: slow, for `torch.autograd.gradcheck`."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def prepare(self, train: bool) -> None:
        """Nothing."""

    def infer(self, inputs: Arrays, out: Arrays) -> None:
        """Compute the outputs."""
        self._run(self._program, inputs, out)

    def forward(self, inputs: Arrays, out: Arrays) -> Any:
        """Compute the outputs; returns what they were computed from."""
        self.infer(inputs, out)
        return inputs, {name: np.zeros_like(array) for name, array in out.items()}

    def backward(self, tape: Any, grads: Arrays, out: Arrays) -> None:
        """Compute the gradients that have a place in `out`."""
        inputs, zeros = tape
        given = {f"grad:{name}": grads.get(name, zeros[name]) for name in self._outer}
        made = {f"grad:{name}": array for name, array in out.items()}
        self._run(self._gradients, inputs | given, made)

    @cached_property
    def _outer(self) -> list[str]:
        return _floats(self._program.net.outputs)

    @cached_property
    def _gradients(self) -> Program:
        from rnncc.passes.differentiate import differentiate

        return differentiate(self._program, self._outer, _floats(self._program.net.inputs))

    @staticmethod
    def _run(program: Program, inputs: Arrays, out: Arrays) -> None:
        from rnncc.ir.interpreter import run

        results = run(program, inputs, np.float64)
        for name, array in out.items():
            array[...] = results[name]


@dataclass(frozen=True)
class Output:
    """A tensor that a net makes; the shape's sizes are formulas."""

    name: str
    dims: tuple[Dim, ...]
    dtype: torch.dtype


_Place = tuple[int, int, int, int]
"""An input's number, an axis, a factor and a summand."""


@dataclass(frozen=True)
class TorchNet:
    """A net over tensors.

    Attributes:
        code: what computes it.
        inputs: their names, in order.
        outputs: what it makes, in order.
        sizes: symbol -> an input and its axis whose size is factor · symbol + summand.
    """

    code: Code
    inputs: Sequence[str]
    outputs: Sequence[Output]
    sizes: Mapping[str, _Place]

    @staticmethod
    def of(program: Program, wide: bool) -> TorchNet:
        """The net of a program; equal ones without parameters inside share their code.

        Args:
            wide: whether floats are float64.
        """
        key = wide, str(program.module)
        with _lock:
            code = None if program.arrays else _codes.get(key)
            if code is None:
                code = InterpretedCode(program) if wide else CompiledCode(program)
                _codes[key] = code
        net = program.net
        outputs = [Output(n, dims_of(v), _dtype(v, wide)) for n, v in net.outputs.items()]
        return TorchNet(code, list(net.inputs), outputs, _places(net.inputs.values()))

    def infer(self, tensors: Tensors) -> list[torch.Tensor]:
        """The outputs alone."""
        results = self._make_outputs(tensors)
        self.code.infer(self._inputs(tensors), self._outputs(results))
        return results

    def forward(self, tensors: Tensors) -> tuple[list[torch.Tensor], Any]:
        """The outputs, and the tape."""
        results = self._make_outputs(tensors)
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

    def _make_outputs(self, tensors: Tensors) -> list[torch.Tensor]:
        sizes = {
            symbol: (tensors[number].shape[axis] - add) // factor
            for symbol, (number, axis, factor, add) in self.sizes.items()
        }
        shapes = [tuple(d.evaluate(sizes) for d in o.dims) for o in self.outputs]
        return [torch.empty(s, dtype=o.dtype) for s, o in zip(shapes, self.outputs, strict=True)]

    def _inputs(self, tensors: Tensors) -> Arrays:
        return {n: as_array(t) for n, t in zip(self.inputs, tensors, strict=True)}

    def _outputs(self, tensors: Tensors) -> Arrays:
        return {o.name: t.numpy() for o, t in zip(self.outputs, tensors, strict=True)}


def as_array(tensor: torch.Tensor) -> Array:
    """A tensor's memory as an array; one that is not contiguous is copied."""
    return tensor.detach().contiguous().numpy()


def check_tensor(x: torch.Tensor) -> None:
    """Refuse what compiled code cannot read."""
    if x.device.type != "cpu" or x.layout != torch.strided:
        raise CompileError("", f"a tensor on {x.device} ({x.layout}): only dense ones on the CPU")


def is_wide(tensors: Iterable[Any]) -> bool:
    """Whether the floats of a graph are float64, given all its tensors; other values may be there.

    Raises:
        CompileError: some are, others are not.
    """
    floats = (x for x in tensors if isinstance(x, torch.Tensor) and x.is_floating_point())
    kinds = {x.dtype for x in floats}
    if len(kinds) > 1:
        names = ", ".join(sorted(map(type_name, kinds)))
        raise CompileError("", f"{names} in one graph: all floats must be of one type")
    return torch.float64 in kinds


def _places(inputs: Iterable[SSAValue]) -> dict[str, _Place]:
    """Where each symbol of sizes can be read."""
    found = dict[str, _Place]()
    for number, value in enumerate(inputs):
        for axis, dim in enumerate(dims_of(value)):
            if len(dim.symbols) == 1:
                symbol = next(iter(dim.symbols))
                factor, summand = dim.coefficient((symbol,)), dim.coefficient()
                if dim == Dim.of(symbol) * factor + summand:
                    found.setdefault(symbol, (number, axis, factor, summand))
    return found


def _floats(values: Mapping[str, SSAValue]) -> list[str]:
    return [name for name, value in values.items() if dtype_of(value) in FLOATS]


def _dtype(value: SSAValue, wide: bool) -> torch.dtype:
    name = dtype_of(value)
    return torch.float64 if wide and name == "f32" else _DTYPES[name]
