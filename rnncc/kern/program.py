"""A net in the `kern` dialect with the arrays that go into the library."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType

from rnncc.errors import CompileError
from rnncc.ir.dims import Dim, product
from rnncc.ir.ports import Kind, Role
from rnncc.ir.types import ITEM_BYTES, dtype_of
from rnncc.kern.dialect import Buffer, Func
from rnncc.kern.largest import Largest
from rnncc.records import record


@record
class Port:
    """An input or output: blob name, shape, element type.

    An `optional` input has a default, which the library holds. One that a pass added to the
    model's own has a `role`.
    """

    name: str
    dims: tuple[Dim, ...]
    dtype: str
    optional: bool = False
    role: Role | None = None

    @property
    def bytes(self) -> Dim:
        return product(self.dims) * ITEM_BYTES[self.dtype]

    @property
    def kind(self) -> Kind | None:
        return None if self.role is None else self.role.kind

    @property
    def of(self) -> str:
        """What of the model it belongs to: itself, where it is the model's own."""
        return self.name if self.role is None else self.role.of


@dataclass
class KernelProgram:
    """A module that holds one `kern.func`.

    Attributes:
        arrays: label of a `param` buffer -> its elements, flat, packed as the kernels read them.
        inputs, outputs: in the order of the library's structs; a buffer's label is the port's name.
        parameters: the ports that were packed in.
        bounds: the number of steps of a run -> the most that it can be, as buffers have it.
        workspace, weights: bytes, once planned.
        spread: whether memory was planned for a GPU: see `rnncc.planning.layout.plan`.
    """

    module: ModuleOp
    name: str
    source: str
    symbols: list[str]
    inputs: list[Port]
    outputs: list[Port]
    parameters: list[Port]
    arrays: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict[str, np.ndarray[Any, Any]])
    bounds: dict[str, Dim | int] = field(default_factory=dict[str, "Dim | int"])
    workspace: Largest = field(default_factory=Largest)
    weights: int = 0
    spread: bool = False

    def __str__(self) -> str:
        return str(self.module)

    @property
    def func(self) -> Func:
        op = self.module.body.block.first_op
        assert isinstance(op, Func)
        return op

    @property
    def buffers(self) -> list[Buffer]:
        """Every buffer, in order of declaration."""
        return [op for op in self.func.walk() if isinstance(op, Buffer)]

    def refuse_doubles(self) -> None:
        """Refuse a net that computes with float64, for a target without code for it.

        Raises:
            CompileError: a buffer or a value is float64.
        """
        hint = "compile it for a CPU"
        for op in self.func.walk():
            if isinstance(op, Buffer) and op.dtype == "f64":
                what = f"{op.label.data} is float64: not supported"
                raise CompileError(self.source, what, hint)
            tensors = (v for v in op.results if isinstance(v.type, TensorType))
            if any(dtype_of(v) == "f64" for v in tensors):
                raise CompileError(self.source, "it computes with float64: not supported", hint)
