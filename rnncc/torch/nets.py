# pyright: basic, reportMissingImports=false
"""A net as PyTorch calls it: compiled for the device of its tensors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

import torch
from rnncc_runtime.compiled import remember
from xdsl.ir import SSAValue

from rnncc.errors import CompileError
from rnncc.frontends.torch.interface import Dtypes
from rnncc.frontends.torch.types import NARROW, TORCH_DTYPES
from rnncc.ir.bounds import bounds_of
from rnncc.ir.dims import Dim
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of, dtype_of
from rnncc.options import PRECISIONS
from rnncc.passes.activity import has_slopes_of_others, sources_of_outputs
from rnncc.passes.gradient_program import gradient_program
from rnncc.passes.instances import instances
from rnncc.passes.outputs import (
    fresh_prefix,
    fresh_symbol,
    keep_outputs,
    stop_other_outputs,
)
from rnncc.passes.tangents import tangents
from rnncc.passes.unread_ends import has_unread_ends, stop_unread_ends
from rnncc.records import record
from rnncc.sizes import TIME
from rnncc.torch.codes import Codes, HostCode
from rnncc.torch.cuda import GpuCode
from rnncc.torch.devices import common_device

_lock = threading.Lock()
_codes: WeakValueDictionary[tuple[str, str], Codes] = WeakValueDictionary()
Tensors = Sequence[torch.Tensor]


@record
class Output:
    """A tensor that a net makes; the shape's sizes are formulas.

    Attributes:
        dtype: what the net makes.
        kind: what it is in PyTorch: a complex tensor is made as floats, with a last axis of the two
            parts, floats of 16 bits as float32, integers of 8 and 16 bits as int32.
    """

    name: str
    dims: tuple[Dim, ...]
    dtype: torch.dtype
    kind: torch.dtype


_Place = tuple[int, int, int, int]
"""An input's number, an axis, a factor and a summand."""


@record
class TorchNet:
    """A net over tensors.

    Attributes:
        program: what it computes.
        code: what computes it, on each device.
        inputs: their names, in order.
        outputs: what it makes, in order.
        sources: for each output the numbers of the inputs that it has gradients for.
        sizes: symbol -> an input and its axis whose size is factor · symbol + summand.
        converted: the inputs' numbers that are of fewer bits in PyTorch, and what they are.
    """

    program: Program
    code: Codes
    inputs: Sequence[str]
    outputs: Sequence[Output]
    sources: Sequence[frozenset[int]]
    sizes: Mapping[str, _Place]
    converted: Mapping[int, torch.dtype]

    @staticmethod
    def of(program: Program, dtypes: Dtypes, precision: str = "fp32") -> TorchNet:
        """The net of a program; equal ones without parameters inside share their code.

        Args:
            dtypes: what inputs and outputs are in PyTorch.
            precision: of products.
        """
        code = _code_of(program, precision)
        net = program.net
        numbers = {name: number for number, name in enumerate(net.inputs)}
        ends = net.outputs.items()
        own = {n: TORCH_DTYPES[dtype_of(v)] for n, v in ends}
        kinds = {**own, **dtypes.outputs}
        outputs = [Output(n, dims_of(v), own[n], kinds[n]) for n, v in ends]
        names = sources_of_outputs(program)
        sources = [frozenset(numbers[n] for n in names[o.name]) for o in outputs]
        converted = {n: dtype for n, dtype in enumerate(dtypes.inputs) if dtype in NARROW}
        places = _places(net.inputs.values())
        return TorchNet(program, code, list(net.inputs), outputs, sources, places, converted)

    def __reduce__(self) -> tuple[Any, ...]:
        others = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "code"}
        return _restored, (self.code.precision, others)

    @cached_property
    def differentiated(self) -> frozenset[int]:
        """The numbers of the inputs that some output has gradients for."""
        return frozenset().union(*self.sources)

    @cached_property
    def reached_by_some(self) -> frozenset[int]:
        """Those of them that another output, which has gradients too, does not depend on."""
        return frozenset().union(*(self.differentiated - own for own in self.sources if own))

    @cached_property
    def _shapes(self) -> dict[tuple[int, ...], list[tuple[int, ...]]]:
        """Those of the outputs, by the values of the sizes."""
        return {}

    def derived(self, key: Hashable, make: Callable[[Program], Program]) -> TorchNet:
        """Another net, of what a pass makes of this program; made once for each key.

        What is complex or of fewer bits is to it what it is to the code.
        """
        known = self.code.derived
        with _lock:
            derived = known.get(key)
        if derived is None:
            bounds = bounds_of(self.program.net, self.program.bounds)
            program = replace(make(self.program), bounds=bounds)
            net = TorchNet.of(program, Dtypes([], {}), self.code.precision)
            with _lock:
                derived = known.setdefault(key, net)
        return derived

    def gradients(
        self, seeded: Sequence[int], requested: Sequence[int], once: bool = False
    ) -> TorchNet:
        """The gradients of some inputs, given the inputs and those of some outputs.

        Args:
            once: whether nobody differentiates them again.

        Raises:
            CompileError: they are not known well enough to be differentiated again.
        """
        outputs = [self.outputs[i].name for i in seeded]
        inputs = [self.inputs[i] for i in requested]

        def make(program: Program) -> Program:
            prefix = fresh_prefix(program, "d")
            read = stop_unread_ends(program, outputs) if once else program
            gradients = gradient_program(read, outputs, inputs, prefix, once)
            return keep_outputs(gradients, [prefix + name for name in inputs])

        return self.derived(("gradients", once, *outputs, None, *inputs), make)

    def to_train(self, tensors: Tensors, seeded: Iterable[int] | None = None) -> TorchNet:
        """The net whose tape serves gradients of these outputs alone; by default those that had
        gradients last.

        Zeros are the gradients of all others. On a GPU nobody waits to see whether they became NaN:
        where they can, this is a net with stops at the other outputs, and at unread ends of loops.
        """
        if not self.runs_late(tensors):
            return self
        code = self.code
        if seeded is not None:
            code.trained = frozenset(self.outputs[i].name for i in seeded)
        outputs = code.trained
        if outputs is None or not self.is_at_risk(outputs):
            return self

        def make(program: Program) -> Program:
            return stop_other_outputs(stop_unread_ends(program, outputs), outputs)

        return self.derived(("stopped", outputs), make)

    def is_at_risk(self, outputs: frozenset[str]) -> bool:
        """Whether zeros as gradients of all that these outputs do not depend on can become NaN."""
        if outputs not in self._known_risks:
            program = self.program
            risk = has_slopes_of_others(program, outputs) or has_unread_ends(program, outputs)
            self._known_risks[outputs] = risk
        return self._known_risks[outputs]

    @cached_property
    def _known_risks(self) -> dict[frozenset[str], bool]:
        return {}

    def tangents(self, of: Sequence[int]) -> TorchNet:
        """The tangents of the outputs of floats, given the inputs and the tangents of some.

        Raises:
            CompileError: they are not known.
        """
        inputs = [self.inputs[i] for i in of]

        def make(program: Program) -> Program:
            prefix = fresh_prefix(program, "t")
            result = tangents(program, inputs, prefix)
            return keep_outputs(result, [n for n in result.net.outputs if n.startswith(prefix)])

        return self.derived(("tangents", *inputs), make)

    def instances(self, of: Sequence[int]) -> TorchNet:
        """The net over many instances: some inputs, and all outputs, have an axis more in front."""
        inputs = [self.inputs[i] for i in of]

        def make(program: Program) -> Program:
            return instances(program, inputs, fresh_symbol(program, "I"))

        return self.derived(("instances", *inputs), make)

    def infer(self, tensors: Tensors) -> list[torch.Tensor]:
        """The outputs alone."""
        device = self.device(tensors)
        results = self._make_outputs(tensors, device)
        code = self.code.on(device, self._steps(tensors))
        on_cpu = device.type == "cpu"
        if on_cpu and isinstance(code, HostCode) and code.infer_in_place(tensors, results):
            return results
        code.infer(self._inputs(tensors), self._outputs(results))
        return results

    def forward(self, tensors: Tensors) -> tuple[list[torch.Tensor], Any]:
        """The outputs, and the tape."""
        device = self.device(tensors)
        results = self._make_outputs(tensors, device)
        code = self.code.on(device, self._steps(tensors))
        if device.type == "cpu" and isinstance(code, HostCode):
            tape = code.forward_in_place(tensors, results)
            if tape is not None:
                return results, tape
        return results, code.forward(self._inputs(tensors), self._outputs(results))

    def backward(
        self,
        tape: Any,
        grads: Sequence[torch.Tensor | None],
        tensors: Tensors,
        requested: Sequence[bool],
    ) -> list[torch.Tensor | None]:
        """The gradients of the inputs that are wanted."""
        seeds = {
            o.name: _dense(grad)
            for o, grad in zip(self.outputs, grads, strict=True)
            if grad is not None
        }
        gradients = [
            torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
            if is_requested
            else None
            for tensor, is_requested in zip(tensors, requested, strict=True)
        ]
        out = {n: g for n, g in zip(self.inputs, gradients, strict=True) if g is not None}
        code = self.code.on(self.device(tensors), self._steps(tensors))
        code.backward(tape, seeds, out)
        return gradients

    def _steps(self, tensors: Tensors) -> int | None:
        """T of a call, where there is one."""
        place = self.sizes.get(TIME)
        return None if place is None else _size_at(tensors, place)

    def runs_late(self, tensors: Tensors) -> bool:
        """Whether a call returns before its results are there: on a GPU."""
        return isinstance(self.code.on(self.device(tensors)), GpuCode)

    def device(self, tensors: Tensors) -> torch.device:
        """The device that the first of the inputs are on, or all of them.

        Raises:
            CompileError: they are on several.
        """
        return common_device(self.inputs, tensors)

    def _make_outputs(self, tensors: Tensors, device: torch.device) -> list[torch.Tensor]:
        values = tuple([_size_at(tensors, place) for place in self.sizes.values()])
        shapes = self._shapes.get(values)
        if shapes is None:
            sizes = dict(zip(self.sizes, values, strict=True))
            # a call whose sizes would be negative is refused, but first its outputs are made
            output_shapes = [tuple(max(0, d.evaluate(sizes)) for d in o.dims) for o in self.outputs]
            shapes = remember(self._shapes, values, output_shapes)
        pairs = zip(shapes, self.outputs, strict=True)
        return [torch.empty(shape, dtype=o.dtype, device=device) for shape, o in pairs]

    def _inputs(self, tensors: Tensors) -> dict[str, torch.Tensor]:
        return {n: _dense(t) for n, t in zip(self.inputs, tensors, strict=True)}

    def _outputs(self, tensors: Tensors) -> dict[str, torch.Tensor]:
        return {o.name: t for o, t in zip(self.outputs, tensors, strict=True)}


def _code_of(program: Program, precision: str) -> Codes:
    key = precision, str(program.module)
    with _lock:
        code = None if program.arrays else _codes.get(key)
        if code is None:
            code = _codes[key] = Codes(program, precision)
    return code


def _restored(precision: str, others: dict[str, Any]) -> TorchNet:
    """A net of another process: its code is compiled anew, or found on disk."""
    return TorchNet(code=_code_of(others["program"], precision), **others)


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor's memory; one that is not contiguous, or not negated yet, is copied."""
    if tensor._is_zerotensor():  # tangents that autograd knows to be zeros have no memory
        tensor = torch.zeros(tensor.shape, dtype=tensor.dtype, device=tensor.device)
    return tensor.detach().resolve_neg().contiguous()


def check_precision(precision: str, frozen: bool = False) -> None:
    """Refuse a precision that there is not; int8 is of weights that the code holds."""
    offered = PRECISIONS if frozen else [kind for kind in PRECISIONS if kind != "int8"]
    if precision not in offered:
        what = f"precision {precision!r} is not one of {', '.join(offered)}"
        raise CompileError("", what)


def drawn_seed(device: torch.device) -> torch.Tensor:
    """A net's seed of random numbers, from PyTorch's generator for a device."""
    return torch.randint(2**31 - 1, (), dtype=torch.int32, device=device)


def _size_at(tensors: Tensors, place: _Place) -> int:
    number, axis, factor, add = place
    return (tensors[number].shape[axis] - add) // factor


def _places(inputs: Iterable[SSAValue]) -> dict[str, _Place]:
    """Where each symbol of sizes can be read."""
    places = dict[str, _Place]()
    for number, value in enumerate(inputs):
        for axis, dim in enumerate(dims_of(value)):
            if len(dim.symbols) == 1:
                symbol = next(iter(dim.symbols))
                factor, summand = dim.coefficient((symbol,)), dim.coefficient()
                if dim == Dim.of(symbol) * factor + summand:
                    places.setdefault(symbol, (number, axis, factor, summand))
    return places
