"""One node as an operator's function sees it: checked attributes, inputs as values, a builder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.attributes import Attributes
from rnncc.frontends.onnx.errors import NeedsValue
from rnncc.frontends.onnx.formulas.elements import elements_of
from rnncc.frontends.onnx.signature import (
    TEXT,
    Signature,
    check_node,
    schema_of,
    signature_of,
    stated_signature,
)
from rnncc.frontends.onnx.values import Array, Dims, Value, are_held, as_objects, name_of
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.types import NARROW_FLOATS, WIDE, dims_of, dtype_of, shape_text
from rnncc.nn import unsigned
from rnncc.records import record
from rnncc.scalar import Scalar

if TYPE_CHECKING:
    from onnx import NodeProto

    from rnncc.frontends.onnx.scope import Scope

SINGLE = ("f32",)
FLOATS = (*SINGLE, "f64")
INTEGERS = ("i32", "i64")
NUMBERS = (*FLOATS, *INTEGERS)
COMPUTED = (*NUMBERS, "i1")
"""The types that compiled code computes in."""
STORED = (*COMPUTED, *WIDE)
"""The types of values at run time; the narrow ones among them are widened where they are computed
with."""
WRAPPING = {
    *("Add", "Sub", "Mul", "Sum", "ReduceSum", "Equal", "MatMul", "CumProd"),
    *("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"),
}
"""Operators that give the same bits whether integers are signed or not, and so take uint64."""
ORDERING = {"Less", "LessOrEqual", "Greater", "GreaterOrEqual"}
"""Operators that take uint64 less 2^63, which orders them as signed integers."""
MAX_FOLDED = 1 << 26
"""How many numbers are computed at import."""
MAX_SIZES = 1 << 14
"""Of a vector, such as the parts of a Split; a tensor's axes are fewer."""

Result = SSAValue | Value | Array | None
Function = Callable[["Node"], Result | Sequence[Result]]
FoldOne = Callable[["Node", list[Array]], Array | None]
Fold = FoldOne | Callable[["Node", list[Array]], Sequence[Array] | Value | None]


@record
class OnnxOperator:
    """How an operator is read.

    Attributes:
        build: appends its ops; its docstring is the formula, and ends with what is refused.
        fold: its outputs from known inputs alone, with sizes among them; None where it cannot.
        signature: what may be written, where the standard has no schema of it.
        fixed: the inputs whose known numbers are no parameters that training changes: statistics of
            data, as those of batches, and scales of stored integers.
    """

    build: Function
    fold: Fold | None = None
    signature: Signature | None = None
    fixed: tuple[int, ...] = ()

    @staticmethod
    def of_numbers(function: Scalar) -> OnnxOperator:
        """An operator that a user's function of numbers is."""

        def build(n: Node) -> SSAValue:
            return n.b.apply(function, *(n.x(i, FLOATS) for i in range(len(n.inputs))))

        return OnnxOperator(build)


def contributed(
    build: Function, inputs: str, attributes: str = "", outputs: int = 1
) -> OnnxOperator:
    """An operator without a schema; the texts are those of `stated_signature`."""
    return OnnxOperator(build, signature=stated_signature(inputs, attributes, outputs))


class Node(Attributes):
    """A node, and where its ops go.

    Attributes:
        b: the builder.
        opset: the version of the operators of its domain.
        signature: what may be written; None of a user's function.
    """

    def __init__(
        self,
        op: NodeProto,
        scope: Scope,
        opset: int,
        domain: str,
        place: str,
        operator: OnnxOperator | None,
    ) -> None:
        super().__init__(op, schema_of(op.op_type, opset, domain), scope.model, place)
        self.scope, self.opset = scope, opset
        self.b: Builder = scope.b
        stated = None if operator is None else operator.signature
        self.signature = stated or signature_of(op.op_type, opset, domain)
        self.inputs = [scope.read(name, self.location) if name else None for name in op.input]
        while self.inputs and self.inputs[-1] is None:
            self.inputs.pop()
        signature = self.signature
        self._groups = {} if signature is None else check_node(self, signature)
        self._lacks_most = False

    @property
    def inside(self) -> str:
        """What messages say before a node of a graph in this one."""
        return f"{self.location.node}: "

    # Inputs

    def has(self, index: int) -> bool:
        """Whether an input is there."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def value(self, index: int) -> Value:
        """An input that must be there."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is None:
            raise self.error(f"lacks its input {index}")
        return value

    def _shown(self, index: int) -> str:
        return f'input "{self.op.input[index]}"'

    def _tensor(self, index: int) -> Value:
        """An input that is no list and no optional value."""
        value = self.value(index)
        if not value.is_tensor:
            raise self.error(f"{self._shown(index)} is {value}, not a tensor")
        return value

    def x(self, index: int = 0, dtypes: Sequence[str] = STORED) -> SSAValue:
        """An input as a computed value of one of some types, widened if need be."""
        value = self._tensor(index)
        unfit = value.dtype not in dtypes or (value.dtype in NARROW_FLOATS and self._stays_wide)
        if unfit and value.dtype != "text" and WIDE.get(value.dtype) in dtypes:
            wide = self.scope.widened(value)
            return self._ordered(wide, index) if value.dtype == "u64" else wide
        if value.dtype not in dtypes:
            name, allowed = TEXT.get(value.dtype, value.dtype), [TEXT[d] for d in dtypes]
            what = f"{self._shown(index)} is {name}, supported: {', '.join(allowed)}"
            raise self.unsupported(what)
        return self.scope.ssa(value)

    def built_as(self, name: str) -> Value:
        """The first result of an operator on the inputs and attributes that the node has now."""
        return self.results_of(self.scope.model.operators[name])[0]

    def results_of(self, operator: OnnxOperator) -> list[Value]:
        """All of an operator's, on the inputs that the node has now."""
        built: Any = operator.build(self)
        results = cast(Sequence[Any], built if isinstance(built, (list, tuple)) else [built])
        return [self.scope.value(self, at, result) for at, result in enumerate(results)]

    def bits(self, index: int) -> SSAValue:
        """An input of uint64 as the int64 of its bits."""
        return self.scope.widened(self._tensor(index))

    def text_numbers(self, index: int) -> SSAValue:
        """An input of texts as their numbers, int32: equal ones for equal texts."""
        return self.scope.widened(self._tensor(index))

    def _ordered(self, bits: SSAValue, index: int) -> SSAValue:
        """An input of uint64, whose bits are an int64's, for an operator that computes with it."""
        if self.op.op_type in WRAPPING:
            return bits
        if self.op.op_type in ORDERING:
            return unsigned.ordered(self.b, bits)
        known = ", ".join(sorted(WRAPPING | ORDERING))
        raise self.unsupported(f"computes with uint64, {self._shown(index)}", f"supported: {known}")

    @property
    def _stays_wide(self) -> bool:
        """Whether inputs are computed floats that are not rounded yet, and the result may be so."""
        wide = self.scope.model.wide
        return self.result_type(0) in NARROW_FLOATS and any(
            v is not None and v.made in wide for v in self.inputs
        )

    def maybe(self, index: int, dtypes: Sequence[str] = STORED) -> SSAValue | None:
        """An input that may be missing."""
        return self.x(index, dtypes) if self.has(index) else None

    def dims(self, index: int = 0) -> Dims:
        """The shape of an input."""
        return self._tensor(index).dims

    def static(self, index: int = 0) -> list[int]:
        """The shape of an input, in numbers."""
        dims = self.dims(index)
        if not all(d.is_static for d in dims):
            what = f"{self._shown(index)} of shape {shape_text(dims)} has open sizes"
            raise self.unsupported(what, "--shape gives an input's sizes")
        return [int(d) for d in dims]

    def known(self, index: int) -> Array:
        """The numbers of an input, sizes that are open among them."""
        value, model = self._tensor(index), self.scope.model
        constant = model.numbers_behind(value)
        if constant is not None and not value.varying:
            return constant
        inputs = model.inputs_behind(value)
        what = f"{self._shown(index)} is computed by the model, and must be known"
        why = "it decides the shape or form of the result"
        why += "; --max-iterations may bound it" * self._lacks_most
        raise NeedsValue(self.location, what, why, inputs)

    def most_given(self) -> Dim | None:
        """The most that the user says computed numbers of rows may be, unless the model is trained;
        if the user does not, the node's errors say how."""
        model = self.scope.model
        if model.training:
            return None
        self._lacks_most = model.max_iterations is None
        return model.max_iterations

    def numbers(self, index: int) -> Array:
        """The numbers of an input, all of them known."""
        array = self.known(index)
        if array.dtype == object:
            sizes = ", ".join(str(d) for d in array.reshape(-1))
            what = f"{self._shown(index)} holds open sizes: {sizes}"
            raise self.unsupported(what, "--shape gives an input's sizes")
        return array

    def sizes(self, index: int) -> list[Dim]:
        """A vector of sizes, of which those that are equal to others are these."""
        array = self.known(index)
        if array.ndim > 1 or (array.dtype != object and array.dtype.kind not in "iu"):
            raise self.error(f"{self._shown(index)} is not a vector of integers")
        if array.size > MAX_SIZES:
            raise self.error(f"{self._shown(index)} holds {array.size} sizes, at most {MAX_SIZES}")
        sizes = [Dim.of(d if isinstance(d, Dim) else int(d)) for d in array.reshape(-1)]
        for kept, gone in self.scope.model.known.same:
            sizes = [kept if size == gone else size for size in sizes]
        return sizes

    def places(self, index: int) -> list[Dim | SSAValue]:
        """A vector of integers, of which those that the run decides are computed."""
        value = self._tensor(index)
        if value.known is not None and value.known.ndim < 2:
            return list(as_objects(value.known).reshape(-1))
        if value.rank != 1:
            raise self.error(f"{self._shown(index)} is not a vector of integers")
        self.static(index)
        return elements_of(self.b, self.b.cast(self.x(index, INTEGERS), "i64"))

    def known_integers(self, index: int) -> list[int]:
        """A vector of integers."""
        self.numbers(index)
        return [int(size) for size in self.sizes(index)]

    def scalar(self, index: int) -> Any:
        """One number."""
        array = self.numbers(index)
        if array.size != 1:
            raise self.error(f"{self._shown(index)} holds {array.size} numbers, not one")
        return array.reshape(-1)[0].item()

    def size(self, index: int) -> Dim:
        """One integer or open size."""
        array = self.known(index)
        if array.size != 1 or (array.dtype != object and array.reshape(-1)[0] % 1):
            raise self.error(f"{self._shown(index)} is not a single integer")
        return Dim.of(array.astype(object).reshape(-1)[0])

    # Axes

    def axis(self, axis: int, rank: int) -> int:
        """An axis, counted from the front."""
        if not -rank <= axis < rank:
            raise self.error(f"axis {axis} of a tensor of rank {rank}")
        return axis % rank

    def axes(self, axes: Sequence[int], rank: int) -> list[int]:
        """Several axes, counted from the front, each once."""
        counted = [self.axis(axis, rank) for axis in axes]
        if len(set(counted)) < len(counted):
            raise self.error(f"axes {list(axes)} name one twice")
        return counted

    def check_broadcast(self) -> None:
        """Raise `CompileError` unless the shapes of all inputs broadcast as NumPy's do."""
        try:
            shapes = [v.known.shape for v in self.inputs if v is not None and v.known is not None]
            np.broadcast_shapes(*shapes)
        except ValueError as error:
            shown = " and ".join(shape_text(v.dims) for v in self.inputs if v is not None)
            raise self.error(f"shapes do not broadcast: {shown}") from error

    # Results

    def result_type(self, index: int) -> str | None:
        """The element type of an output, where the standard's schema tells it; of operators without
        one the narrow type of the first floats among the inputs."""
        if self.signature is not None and self.signature.results:
            return self.signature.result_type(index, self._groups)
        floats = (*FLOATS, *NARROW_FLOATS)
        first = next((v.dtype for v in self.inputs if v is not None and v.dtype in floats), None)
        return first if first in NARROW_FLOATS else None

    def like(self, y: SSAValue, x: SSAValue) -> SSAValue:
        """y; raises `CompileError` if it has grown beyond x's shape by broadcasting."""
        if dims_of(y) != dims_of(x):
            shapes = f"{shape_text(dims_of(x))} to {shape_text(dims_of(y))}"
            raise self.differ(dims_of(y), dims_of(x), f"would broadcast {shapes}")
        return y

    def plus(self, y: SSAValue, index: int, dtypes: Sequence[str] = FLOATS) -> SSAValue:
        """y plus an input that may be missing, and that does not grow it."""
        added = self.maybe(index, dtypes)
        return y if added is None else self.like(self.b.add(y, added), y)

    def literal(self, array: Array, name: str = "") -> SSAValue:
        """Numbers that are known: a constant, where they are many a parameter that training does
        not change."""
        return self.scope.ssa(replace(Value.of(array, name), fixed=True))

    def everywhere(self, number: Array, dims: Sequence[Dim]) -> SSAValue:
        """A known number without axes, in a shape."""
        if are_held(number):
            return self.b.fill(float(number), dims, name_of(number.dtype))
        return self.b.broadcast(self.literal(number), dims, [])

    def full(self, value: float, like: SSAValue | str) -> SSAValue:
        """One number, of a type."""
        return self.b.fill(value, (), like if isinstance(like, str) else dtype_of(like))
