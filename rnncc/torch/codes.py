# pyright: basic, reportMissingImports=false
"""What computes a net: machine code for each device that its tensors may be on.

Tensors are in the order of the net's inputs and outputs.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import Any, TypeVar

import torch
from rnncc_runtime import Model, Parallel, TrainableModel
from rnncc_runtime.memory import Memory

import rnncc
from rnncc.errors import CompileError
from rnncc.frontends.torch.types import TORCH_DTYPES
from rnncc.ir.ops.linear import Matmul
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of, dtype_of
from rnncc.records import record
from rnncc.torch import devices
from rnncc.torch.cuda import GpuCode
from rnncc.torch.devices import PLAIN_TENSORS, check_dtypes, dense
from rnncc.torch.model_order import check_order, differentiated
from rnncc.torch.threads import parallel

MUCH = 1 << 18
"""Weights from which on code of its own for a single step is worth compiling: LSTMs of 128, 256,
512 and 1024 units take 1.0, 0.9, 0.7 and 0.5 of the time then."""
Tensors = Sequence[torch.Tensor]
Optionals = Sequence[torch.Tensor | None]
T = TypeVar("T", torch.Tensor, torch.Tensor | None)


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
        self._differentiated: tuple[list[int], list[int]] = [], []

    def prepare(self, train: bool) -> None:
        """Compile."""
        self._model(train, parallel())

    def infer(self, tensors: Tensors, places: Sequence[int]) -> None:
        """Compute the outputs; all tensors in order, inputs first, and where they lie."""
        threads = parallel()
        model: Model = self._model(False, threads)
        model.run_at(tensors, places, threads)

    def forward(self, tensors: Tensors, places: Sequence[int]) -> Any:
        """The same; returns the tape."""
        threads = parallel()
        model: TrainableModel = self._model(True, threads)
        return model.forward_at(tensors, places, threads)

    def backward(self, tape: Any, grads: Optionals, out: Optionals) -> None:
        """Compute gradients; uses the tape up.

        Args:
            grads: of each output, or None.
            out: where that of each input goes, or None.
        """
        model: TrainableModel = tape.model  # PyTorch may have another number of threads by now
        threads = parallel() if model is self._models.get((True, True)) else None
        outputs, inputs = self._differentiated
        seeds, results = [grads[i] for i in outputs], [out[i] for i in inputs]
        places = [0 if x is None else place(x) for x in (*seeds, *results)]
        model.backward_at(tape, seeds, results, places, threads)

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
                check_order(self._program.net, model.metadata)
                if train:
                    self._differentiated = differentiated(self._program.net, model.metadata)
                self._models[kind] = model
            return self._models[kind]


class HostCode:
    """A net's code for the CPU, on tensors; what it cannot read or write where it lies is copied.

    Args:
        names, dtypes: of the inputs.
    """

    def __init__(
        self, code: CompiledCode, names: Sequence[str], dtypes: Sequence[torch.dtype]
    ) -> None:
        self._code, self._names, self._dtypes = code, names, dtypes

    def prepare(self, train: bool) -> None:
        """Do now what takes long."""
        self._code.prepare(train)

    def infer(self, inputs: Tensors, out: Tensors) -> None:
        """Compute new, dense outputs.

        Raises:
            ArrayError: an input is of another dtype.
        """
        results = _on_host(out)
        tensors = [*self._inputs(inputs), *results]
        self._code.infer(tensors, [place(x) for x in tensors])
        _hand_over(results, out)

    def forward(self, inputs: Tensors, out: Tensors) -> HostTape:
        """The same; returns what `backward` needs."""
        read, results = self._inputs(inputs), _on_host(out)
        tensors = [*read, *results]
        tape = self._code.forward(tensors, [place(x) for x in tensors])
        _hand_over(results, out)
        return HostTape(tape, read, [x.detach() for x in results])

    def backward(self, tape: HostTape, grads: Optionals, out: Optionals) -> None:
        """Compute the gradients that have a place in `out`, of those that outputs have."""
        seeds = [None if grad is None else _readable(grad) for grad in grads]
        results = _on_host(out)
        self._code.backward(tape.tape, seeds, results)
        _hand_over(results, out)

    def _inputs(self, tensors: Tensors) -> list[torch.Tensor]:
        check_dtypes(self._names, tensors, self._dtypes)
        return [_readable(x) for x in tensors]


@record
class HostTape:
    """The tape, and the tensors that were read and written where they lie, which do not hold the
    graph; they have their memory until the tape is used.
    """

    tape: Any
    inputs: Tensors
    outputs: Tensors


_NOWHERE = Memory(1)


def place(x: torch.Tensor) -> int:
    """Where a tensor lies; an empty one lies nowhere, and is there even so."""
    return x.data_ptr() or _NOWHERE.address


def _readable(x: torch.Tensor) -> torch.Tensor:
    """A tensor as code for the CPU reads it: dense, aligned, and on the CPU."""
    if type(x) not in PLAIN_TENSORS or not x.is_cpu:
        x = torch.from_numpy(dense(x).detach().cpu().numpy())
    x = dense(x)
    return x.detach().clone() if x.data_ptr() % x.itemsize else x


def _on_host(tensors: Sequence[T]) -> Sequence[T]:
    """Tensors to write into, in the place of those that are all on one device: themselves, if that
    is the CPU."""
    if next((x.is_cpu for x in tensors if x is not None), True):
        return tensors
    copies: Any = [None if x is None else torch.empty_like(x, device="cpu") for x in tensors]
    return copies


def _hand_over(results: Optionals, tensors: Optionals) -> None:
    """Let tensors be what was written in their place."""
    if results is tensors:
        return
    for x, result in zip(tensors, results, strict=True):
        if x is not None and result is not None:
            x.copy_(result)


class Codes:
    """A net's code for every device; safe to share between threads.

    Attributes:
        derived: the nets of what passes make of its program, such as its gradients.
        trained: the numbers of the outputs that had gradients last.
        precision: of products.
    """

    def __init__(self, program: Program, precision: str) -> None:
        self.derived: dict[Any, Any] = {}
        self.trained: tuple[int, ...] | None = None
        self._program, self.precision = program, precision
        self._host = self._on_host()
        self._gpus: dict[int, GpuCode] = {}

    def _on_host(self, max_steps: int | None = None) -> HostCode:
        inputs = [TORCH_DTYPES[dtype_of(value)] for value in self._program.net.inputs.values()]
        code = CompiledCode(self._program, self.precision, max_steps)
        return HostCode(code, list(self._program.net.inputs), inputs)

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
