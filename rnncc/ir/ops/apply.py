"""A user's own function of numbers, element by element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from xdsl.ir import Attribute, Data, SSAValue
from xdsl.irdl import irdl_attr_definition, irdl_op_definition, prop_def, var_operand_def

from rnncc.ir.ops.base import Array, Context, Cost, Elementwise, Grads, Properties, Variadic
from rnncc.ir.ops.checks import expect, expect_float
from rnncc.ir.types import Tensor
from rnncc.scalar import Scalar

if TYPE_CHECKING:
    from xdsl.ir import Operation
    from xdsl.parser import AttrParser  # a twentieth of what the command imports
    from xdsl.printer import Printer

    from rnncc.ir.builder import Builder


@irdl_attr_definition
class FunctionAttr(Data[Scalar]):
    """A function; shown by symbols that its code decides, and never read back."""

    name = "rnn.function"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Scalar:
        parser.raise_error("a user's function cannot be read from text")

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_list(self.data.symbols, printer.print_string_literal)


@irdl_op_definition
class Apply(Elementwise, Variadic):
    """y = f(xs...), f a function that a user wrote: see `rnncc.elementwise`"""

    name = "rnn.apply"
    COST: ClassVar[Cost] = Cost.FUNCTION
    xs = var_operand_def()
    function = prop_def(FunctionAttr)

    @classmethod
    def infer_element(cls, properties: Properties, *types: Tensor) -> Tensor:
        function = _scalar(properties["function"])
        takes = f"{function.name} takes {function.count} values, not {len(types)}"
        expect(len(types) == function.count, takes)
        for type_ in types:
            expect_float(type_)
        return super().infer_element(properties, *types)

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return self.function.data(*arrays).astype(arrays[0].dtype)

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        """dy · ∂f/∂x, for each x"""
        xs = list(self.xs)
        slopes = [self.function.data.partial(i) for i in range(len(xs))]
        return [b.mul(dy, b.apply(slope, *xs)) for slope in slopes]


def _scalar(attribute: Attribute) -> Scalar:
    assert isinstance(attribute, FunctionAttr)
    return attribute.data


OPS: list[type[Operation]] = [Apply]
ATTRIBUTES: list[Any] = [FunctionAttr]
