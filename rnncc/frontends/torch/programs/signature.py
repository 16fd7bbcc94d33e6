# pyright: basic, reportMissingImports=false
"""What an exported program says of its inputs and outputs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    InputKind,
    OutputKind,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)

from rnncc.errors import CompileError
from rnncc.frontends.torch.interface import Dtypes, declared
from rnncc.frontends.torch.loops import Tensor
from rnncc.frontends.torch.sizes import Sizes
from rnncc.frontends.torch.types import as_computed, type_name
from rnncc.ir.builder import Builder
from rnncc.records import record

_HELD = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


@record
class ProgramSignature:
    """The inputs and outputs of a program, by the names of its graph's nodes.

    Attributes:
        tensors: all of the graph, as fakes.
        given: the inputs that are tensors of the user.
        held: input -> the name of the module's tensor that it is.
        changed: the name of a buffer -> the node that computes its new value.
        params: the names of those held that are parameters of the net; others are inputs.
        leaving: PyTorch's descriptions of the outputs, but for buffers that keep their values.
        kept: for each of all outputs whether it is such a buffer.
    """

    tensors: Mapping[str, torch.Tensor]
    given: Sequence[str]
    held: Mapping[str, str]
    changed: Mapping[str, str]
    params: Collection[str]
    leaving: Sequence[Any]
    kept: Sequence[bool]

    @staticmethod
    def of(program: ExportedProgram, packed: bool) -> ProgramSignature:
        """That of a program.

        Args:
            packed: whether tensors that the module holds, and does not change, are parameters.

        Raises:
            CompileError: an argument that is a number, or a buffer whose type changes.
        """
        inputs, outputs = program.graph_signature.input_specs, program.graph_signature.output_specs
        _check_fixed(inputs)
        values = {node.name: node.meta.get("val") for node in program.graph.nodes}
        tensors = {name: x for name, x in values.items() if isinstance(x, torch.Tensor)}
        from_user = [spec.arg.name for spec in inputs if spec.kind == InputKind.USER_INPUT]
        held = {spec.arg.name: str(spec.target) for spec in inputs if spec.kind in _HELD}
        kept = [_keeps_buffer(spec, held) for spec in outputs]
        leaving = [spec for spec, keeps in zip(outputs, kept, strict=True) if not keeps]
        mutations = [spec for spec in leaving if spec.kind == OutputKind.BUFFER_MUTATION]
        changed = {str(spec.target): spec.arg.name for spec in mutations}
        for name, target in held.items():
            if target in changed:
                _check_type(target, tensors[name], tensors[changed[target]])
        return ProgramSignature(
            tensors,
            [name for name in from_user if name in tensors],
            held,
            changed,
            set(held.values()) - changed.keys() if packed else set(),
            leaving,
            kept,
        )

    def declare(self, b: Builder, sizes: Sizes) -> dict[str, Tensor]:
        """Add the net's inputs, the user's first, and its parameters."""
        values = dict[str, Tensor]()
        for name in (*self.given, *self.held):
            tensor, target = self.tensors[name], self.held.get(name)
            dims = [sizes(size) for size in tensor.shape]
            if target is None:
                values[name] = declared(b, b.input, name, tensor, dims, name)
            elif target in self.params:
                values[name] = declared(b, b.param, target, tensor, dims, target)
            else:
                free = b.free_name(target)
                values[name] = declared(b, b.input, free, tensor, dims, free)
        return values

    def outputs(self, results: Sequence[Any]) -> tuple[dict[str, Tensor], list[Any]]:
        """The net's outputs, new values of buffers first, and what is returned."""
        outputs, returned = dict[str, Tensor](), list[Any]()
        is_one = [spec.kind for spec in self.leaving].count(OutputKind.USER_OUTPUT) == 1
        values = [value for value, keeps in zip(results, self.kept, strict=True) if not keeps]
        for spec, value in zip(self.leaving, values, strict=True):
            if spec.kind == OutputKind.BUFFER_MUTATION:
                outputs[new_value_of(spec.target)] = value
            elif spec.kind != OutputKind.USER_OUTPUT:
                what = f"what is given from outside is changed in place: {spec.target}"
                raise CompileError("", what)
            elif isinstance(spec.arg, TensorArgument):
                name = "y" if is_one else f"y{len(returned)}"
                outputs[name] = value
                returned.append(name)
            else:
                returned.append(value)
        return outputs, returned

    def arrays(self, exported: ExportedProgram) -> dict[str, np.ndarray[Any, Any]]:
        """The values of the parameters.

        Raises:
            CompileError: a tensor of another type than the graph reads.
        """
        nodes = {target: name for name, target in self.held.items() if target in self.params}
        return {t: _array(exported, t, self.tensors[name]) for t, name in nodes.items()}

    def dtypes(self, outputs: Iterable[str]) -> Dtypes:
        """What the net's inputs and its outputs, which have these names, are in PyTorch."""
        inputs = [n for n in (*self.given, *self.held) if self.held.get(n) not in self.params]
        nodes = [s.arg.name for s in self.leaving if isinstance(s.arg, TensorArgument)]
        made_as = {n: self.tensors[node].dtype for n, node in zip(outputs, nodes, strict=True)}
        return Dtypes([self.tensors[name].dtype for name in inputs], made_as)


def new_value_of(buffer: str) -> str:
    """The name of the output that is a buffer's new value."""
    return f"new_{buffer}"


def held_tensor(exported: ExportedProgram, target: str) -> torch.Tensor:
    """A parameter, buffer or constant by its name."""
    known: Mapping[str, Any] = {**exported.constants, **exported.state_dict}
    return known[target]


def _check_fixed(specs: Iterable[Any]) -> None:
    """Refuse arguments that are numbers of Python, other ones at each call."""
    for spec in specs:
        if isinstance(spec.arg, SymIntArgument | SymFloatArgument | SymBoolArgument):
            what = "is a number of Python that may change, which is not supported"
            raise CompileError(spec.arg.name, what, "give it as a tensor, or keep it fixed")


def _check_type(target: str, old: torch.Tensor, new: torch.Tensor) -> None:
    if old.dtype != new.dtype or old.shape != new.shape:
        texts = (f"{type_name(x.dtype)} {list(x.shape)}" for x in (old, new))
        raise CompileError(target, "a buffer is {} before a call and {} after it".format(*texts))


def _keeps_buffer(spec: Any, held: Mapping[str, str]) -> bool:
    """Whether a buffer is given its own value, as in `self.k = self.k.to(x.device)`."""
    return spec.kind == OutputKind.BUFFER_MUTATION and held.get(spec.arg.name) == spec.target


def _array(exported: ExportedProgram, target: str, expected: torch.Tensor) -> np.ndarray[Any, Any]:
    """Its values now; a file may hold a tensor of another kind than the graph reads."""
    held = held_tensor(exported, target)
    if held.dtype != expected.dtype or held.shape != expected.shape:
        kinds = (f"{type_name(x.dtype)} {list(x.shape)}" for x in (held, expected))
        raise CompileError(target, "is {}, and the graph reads {}".format(*kinds))
    tensor = as_computed(held.detach().cpu())
    real = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    return real.numpy().copy()
