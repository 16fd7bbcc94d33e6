# pyright: basic, reportMissingImports=false
"""What computes a net: machine code for each device that its tensors may be on.

The code for a GPU takes tensors. All else takes arrays, which share the memory of tensors on the
CPU.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from math import prod
from typing import Any, Protocol

import numpy as np
import torch
from rnncc_runtime import Model, Parallel, TrainableModel

import rnncc
from rnncc.errors import CompileError
from rnncc.frontends.torch.types import TORCH_DTYPES
from rnncc.ir.ops.linear import Matmul
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of, dtype_of
from rnncc.records import record
from rnncc.torch import devices
from rnncc.torch.cuda import GpuCode
from rnncc.torch.devices import PLAIN_TENSORS
from rnncc.torch.threads import parallel

MUCH = 1 << 18
"""Weights from which on code of its own for a single step is worth compiling: LSTMs of 128, 256,
512 and 1024 units take 1.0, 0.9, 0.7 and 0.5 of the time then."""
Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
Named = Mapping[str, torch.Tensor]
Tensors = Sequence[torch.Tensor]
Placed = dict[str, tuple[torch.Tensor, int]]
"""Tensors, and where they lie."""


class NetCode(Protocol):
    """A net that can be run; arrays go by the net's names."""

    def prepare(self, train: bool) -> None:
        """Do now what takes long."""
        ...

    def infer(self, inputs: Arrays, out: Arrays) -> None:
        """Compute the outputs."""
        ...

    def infer_at(self, tensors: Tensors, places: Sequence[int]) -> None:
        """Compute the outputs; all tensors in order, inputs first, and where they lie."""
        ...

    def forward(self, inputs: Arrays, out: Arrays) -> Any:
        """Compute the outputs; returns what `backward` needs."""
        ...

    def forward_at(self, tensors: Tensors, places: Sequence[int]) -> Any:
        """The same of `infer_at`'s; what it returns is for `backward_at`."""
        ...

    def backward(self, tape: Any, grads: Arrays, out: Arrays) -> None:
        """Compute the gradients that have a place in `out`."""
        ...

    def backward_at(self, tape: Any, grads: Placed, out: Placed) -> None:
        """The same of tensors with their places."""
        ...


class CompiledCode:
    """Machine code, compiled when it is first needed; safe to share between threads.

    A call is computed by as many of PyTorch's number of threads as are worth it.

    Args:
        max_steps: the most steps of a call, if that is known.
    """

    def __init__(self, program: Program, precision: str, max_steps: int | None = None) -> None:
        self._program, self._precision, self._max_steps = program, precision, max_steps
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

    def infer_at(self, tensors: Tensors, places: Sequence[int]) -> None:
        """Compute the outputs; all tensors in order, inputs first, and where they lie."""
        threads = parallel()
        model: Model = self._model(False, threads)
        model.run_at(tensors, places, threads)

    def forward(self, inputs: Arrays, out: Arrays) -> Any:
        """Compute the outputs; returns the tape."""
        threads = parallel()
        model: TrainableModel = self._model(True, threads)
        return model.forward(inputs, out, pool=threads)[1]

    def forward_at(self, tensors: Tensors, places: Sequence[int]) -> Any:
        """The same of `infer_at`'s; the tape is for `backward_at`."""
        threads = parallel()
        model: TrainableModel = self._model(True, threads)
        return model.forward_at(tensors, places, threads)

    def backward_at(self, tape: Any, grads: Placed, out: Placed) -> None:
        """Compute the gradients that have a place; uses the tape up."""
        threads = parallel()
        model: TrainableModel = self._model(True, threads)
        model.backward_at(tape, grads, out, threads)

    def backward(self, tape: Any, grads: Arrays, out: Arrays) -> None:
        """Compute the gradients that have a place in `out`; uses the tape up."""
        threads = parallel()
        model: TrainableModel = self._model(True, threads)
        model.backward(tape, grads, wanted=out, out=out, pool=threads)

    def _model(self, train: bool, threads: Parallel | None) -> Any:
        """Code that several threads can compute serves one as well."""
        model = self._models.get((train, True))
        if model is None and threads is None:
            model = self._models.get((train, False))
        return model or self._made((train, threads is not None))

    def _made(self, kind: tuple[bool, bool]) -> Any:
        with self._lock:
            if kind not in self._models:
                train, shared = kind
                model = rnncc.compile(
                    self._program,
                    train=train,
                    threads=shared,
                    precision=self._precision,
                    max_steps=self._max_steps,
                )
                net = self._program.net  # calls by places rely on the order
                assert [*model.inputs, *model.outputs] == [*net.inputs, *net.outputs]
                self._models[kind] = model
            return self._models[kind]


class HostCode:
    """A net on arrays as one on tensors: they share their memory, or are copied from a GPU."""

    def __init__(self, code: NetCode, dtypes: Sequence[torch.dtype]) -> None:
        self._code, self._dtypes = code, dtypes

    def prepare(self, train: bool) -> None:
        """Do now what takes long."""
        self._code.prepare(train)

    def infer_in_place(self, inputs: Tensors, out: Tensors) -> bool:
        """Compute new, dense outputs on the CPU, if the inputs can be read as they lie there: no
        array is made of any."""
        placed = self._all_placed(inputs, out)
        if placed is not None:
            self._code.infer_at(*placed)
        return placed is not None

    def _all_placed(self, inputs: Tensors, out: Tensors) -> tuple[Tensors, list[int]] | None:
        """What is read and written, and where it lies: None where an input is no dense memory of
        its dtype on the CPU, or something is empty."""
        tensors, places = list[torch.Tensor](), list[int]()
        for x, dtype in zip(inputs, self._dtypes, strict=True):
            if type(x) not in PLAIN_TENSORS or x.dtype != dtype:
                return None
            if x.is_neg() or not x.is_contiguous():
                return None
            x, place = _place(x, dtype)
            tensors.append(x)
            places.append(place)
        tensors += out
        places += [x.data_ptr() for x in out]
        return None if 0 in places else (tensors, places)

    def infer(self, inputs: Named, out: Named) -> None:
        """Compute the outputs."""
        with _arrays_of(out) as results:
            self._code.infer(_arrays(inputs), results)

    def forward_in_place(self, inputs: Tensors, out: Tensors) -> Any:
        """As `infer_in_place`; what `backward` needs, or None."""
        placed = self._all_placed(inputs, out)
        if placed is None:
            return None
        tensors, _ = placed
        tape = self._code.forward_at(*placed)
        count = len(inputs)
        return _TapeInPlace(tape, [*tensors[:count], *(x.detach() for x in out)])

    def forward(self, inputs: Named, out: Named) -> Any:
        """Compute the outputs; returns what `backward` needs."""
        with _arrays_of(out) as results:
            return self._code.forward(_arrays(inputs), results)

    def backward(self, tape: Any, grads: Named, out: Named) -> None:
        """Compute the gradients that have a place in `out`."""
        if isinstance(tape, _TapeInPlace):
            places = [
                {n: _place(x, x.dtype) for n, x in tensors.items()} for tensors in (grads, out)
            ]
            self._code.backward_at(tape.tape, *places)
            return
        with _arrays_of(out) as results:
            self._code.backward(tape, _arrays(grads), results)


@record
class _TapeInPlace:
    """The tape of tensors that were read and written where they lie.

    Attributes:
        kept: what has their memory until the tape is used, and does not hold the graph.
    """

    tape: Any
    kept: Tensors


def _place(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, int]:
    """A tensor of a dtype on the CPU, and where it lies.

    One whose elements are not aligned is copied: only one to read, as new ones are aligned.
    """
    place = x.data_ptr()
    if place % dtype.itemsize:
        x = x.clone()
        place = x.data_ptr()
    return x, place


def _arrays(tensors: Named) -> Arrays:
    return {name: tensor.cpu().numpy() for name, tensor in tensors.items()}


@contextmanager
def _arrays_of(tensors: Named) -> Generator[Arrays]:
    """Arrays to write into, which the tensors are in the end."""
    arrays = _arrays(tensors)
    yield arrays
    for name, tensor in tensors.items():
        if tensor.device.type != "cpu":
            tensor.copy_(torch.from_numpy(arrays[name]))


class Codes:
    """A net's code for every device; safe to share between threads.

    Attributes:
        derived: the nets of what passes make of its program, such as its gradients.
        trained: the outputs that had gradients last.
        precision: of products.
    """

    def __init__(self, program: Program, precision: str) -> None:
        self.derived: dict[Any, Any] = {}
        self.trained: frozenset[str] | None = None
        self._program, self.precision = program, precision
        self._host = self._on_host()
        self._gpus: dict[int, GpuCode] = {}

    def _on_host(self, max_steps: int | None = None) -> HostCode:
        inputs = [TORCH_DTYPES[dtype_of(value)] for value in self._program.net.inputs.values()]
        return HostCode(CompiledCode(self._program, self.precision, max_steps), inputs)

    def on(self, device: torch.device, steps: int | None = None) -> HostCode | GpuCode:
        """The code for tensors on a device; a net with float64 is computed on the CPU.

        Args:
            steps: T of a call. A single step has code of its own where it reads many weights,
                which it packs on its way.

        Raises:
            CompileError: a CPU would have to round weights that are not in the code.
        """
        gpu = None if self._has_doubles else devices.gpu_of(device)
        if gpu is None:
            if self.precision != "fp32" and not self._program.arrays:
                what = f"precision {self.precision} is for float32 tensors on a GPU"
                raise CompileError("", what, "leave it out, or move module and tensors there")
            return self._host_of_step if steps == 1 and self._packs_much else self._host
        return self._gpus.get(gpu.number) or self._gpus.setdefault(
            gpu.number, GpuCode(self._program, gpu, self.precision)
        )

    @cached_property
    def _host_of_step(self) -> HostCode:
        """Code for calls of one step at most."""
        return self._on_host(1)

    @cached_property
    def _packs_much(self) -> bool:
        """Whether a call packs so many weights that it is given that to do so takes time."""
        products = any(isinstance(op, Matmul) for op in self._program.module.walk())
        shapes = [dims_of(x) for x in self._program.net.inputs.values()]
        weights = [prod(map(int, s)) for s in shapes if len(s) == 2 and all(d.is_static for d in s)]
        return products and sum(weights) >= MUCH

    @cached_property
    def _has_doubles(self) -> bool:
        values = (value for op in self._program.module.walk() for value in op.results)
        return any(dtype_of(value) == "f64" for value in values)
