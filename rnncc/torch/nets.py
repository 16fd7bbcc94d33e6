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
from rnncc.passes.gradients.activity import has_slopes_of_others, sources_of_outputs
from rnncc.passes.gradients.gradient_program import gradient_program
from rnncc.passes.gradients.tangents import tangents
from rnncc.passes.gradients.unread_ends import has_unread_ends, stop_unread_ends
from rnncc.passes.instances import instances
from rnncc.passes.outputs import (
    fresh_prefix,
    fresh_symbol,
    keep_outputs,
    stop_other_outputs,
)
from rnncc.records import record
from rnncc.sizes import TIME
from rnncc.torch.codes import Codes, HostTape
from rnncc.torch.cuda import DeviceTape, GpuCode
from rnncc.torch.devices import new_like

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
    def undifferentiated(self) -> Sequence[int]:
        """The others."""
        return [i for i in range(len(self.inputs)) if i not in self.differentiated]

    @cached_property
    def is_converted(self) -> bool:
        """Whether some tensor is another to PyTorch than to the code."""
        return bool(self.converted) or any(o.kind != o.dtype for o in self.outputs)

    @cached_property
    def reached_by_some(self) -> frozenset[int]:
        """Those of them that another output, which has gradients too, does not depend on."""
        return frozenset().union(*(self.differentiated - own for own in self.sources if own))

    @cached_property
    def _models(self) -> dict[tuple[Any, ...], list[torch.Tensor]]:
        """Of the outputs, by the device and the values of the sizes: a number each that looks like
        an array."""
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

    def to_train(self, device: torch.device, seeded: tuple[int, ...] | None = None) -> TorchNet:
        """The net whose tape serves gradients of these outputs alone; by default those that had
        gradients last.

        Zeros are the gradients of all others. On a GPU nobody waits to see whether they became NaN:
        where they can, this is a net with stops at the other outputs, and at unread ends of loops.
        """
        if not self.runs_late(device):
            return self
        code = self.code
        if seeded is not None:
            code.trained = seeded
        seeded = code.trained
        if seeded is None or not self.is_at_risk(seeded):
            return self
        outputs = frozenset(self.outputs[i].name for i in seeded)

        def make(program: Program) -> Program:
            return stop_other_outputs(stop_unread_ends(program, outputs), outputs)

        return self.derived(("stopped", outputs), make)

    def is_at_risk(self, seeded: tuple[int, ...]) -> bool:
        """Whether zeros as gradients of all that these outputs do not depend on can become NaN."""
        risk = self._known_risks.get(seeded)
        if risk is None:
            program, outputs = self.program, frozenset(self.outputs[i].name for i in seeded)
            risk = has_slopes_of_others(program, outputs) or has_unread_ends(program, outputs)
            self._known_risks[seeded] = risk
        return risk

    @cached_property
    def _known_risks(self) -> dict[tuple[int, ...], bool]:
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

    def infer(self, tensors: Tensors, device: torch.device) -> list[torch.Tensor]:
        """The outputs alone."""
        results = self._make_outputs(tensors, device)
        self.code.on(device, self._steps(tensors)).infer(tensors, results)
        return results

    def forward(
        self, tensors: Tensors, device: torch.device
    ) -> tuple[list[torch.Tensor], HostTape | DeviceTape]:
        """The outputs, and the tape."""
        results = self._make_outputs(tensors, device)
        code = self.code.on(device, self._steps(tensors))
        return results, code.forward(tensors, results)

    def backward(
        self,
        tape: HostTape | DeviceTape,
        grads: Sequence[torch.Tensor | None],
        tensors: Tensors,
        requested: Sequence[bool],
        device: torch.device,
    ) -> list[torch.Tensor | None]:
        """The gradients of the inputs that are wanted."""
        gradients = [
            new_like(x) if is_requested else None
            for x, is_requested in zip(tensors, requested, strict=True)
        ]
        code: Any = self.code.on(device, self._steps(tensors))  # the one that left the tape
        code.backward(tape, grads, gradients)
        return gradients

    def _steps(self, tensors: Tensors) -> int | None:
        """T of a call, where there is one."""
        place = self.sizes.get(TIME)
        return None if place is None else _size_at(tensors, place)

    def runs_late(self, device: torch.device) -> bool:
        """Whether a call returns before its results are there: on a GPU."""
        return isinstance(self.code.on(device), GpuCode)

    def _make_outputs(self, tensors: Tensors, device: torch.device) -> list[torch.Tensor]:
        key = device, *[_size_at(tensors, place) for place in self.sizes.values()]
        models = self._models.get(key) or remember(self._models, key, self._modelled(*key))
        return [new_like(x) for x in models]

    def _modelled(self, device: torch.device, *values: int) -> list[torch.Tensor]:
        sizes = dict(zip(self.sizes, values, strict=True))
        # a call whose sizes would be negative is refused, but first its outputs are made
        shapes = [[max(0, d.evaluate(sizes)) for d in o.dims] for o in self.outputs]
        pairs = zip(shapes, self.outputs, strict=True)
        return [torch.empty((), dtype=o.dtype, device=device).expand(shape) for shape, o in pairs]


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
