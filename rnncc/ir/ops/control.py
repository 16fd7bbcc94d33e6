"""Ops with regions: the net itself and loops over time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, BoolAttr, IntAttr, StringAttr
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    AttrSizedResultSegments,
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsolatedFromAbove, IsTerminator, Pure, RecursiveMemoryEffect

from rnncc.ir.attributes import dim_attr, get_dim, get_text
from rnncc.ir.dims import Dim
from rnncc.ir.ops.base import Sized
from rnncc.ir.ops.checks import expect, expect_equal
from rnncc.ir.ports import Kind, Role, role_of
from rnncc.ir.types import Tensor, dims_of, dtype_of, shape_text, tensor

NONE: Mapping[str, Role] = MappingProxyType({})
RoleList = ArrayAttr[ArrayAttr[StringAttr]]
"""The roles of ports: for each that has one its name, kind and `of`."""


@irdl_op_definition
class Yield(IRDLOperation):
    """Ends a region and hands its values out."""

    name = "rnn.yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator(), Pure())

    def __init__(self, values: Sequence[SSAValue]) -> None:
        super().__init__(operands=[list(values)])


@irdl_op_definition
class Net(IRDLOperation):
    """A whole net: one block whose arguments are the named inputs and whose yield is the outputs"""

    name = "rnn.net"
    sym_name = prop_def(StringAttr)
    input_names = prop_def(ArrayAttr)
    output_names = prop_def(ArrayAttr)
    added_inputs = opt_prop_def(RoleList)
    added_outputs = opt_prop_def(RoleList)
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove())

    def __init__(
        self, name: str, inputs: Sequence[str], outputs: Sequence[str], body: Block
    ) -> None:
        properties: dict[str, Attribute] = {
            "sym_name": StringAttr(name),
            "input_names": name_list(inputs),
            "output_names": name_list(outputs),
        }
        super().__init__(properties=properties, regions=[Region(body)])

    @property
    def inputs(self) -> dict[str, SSAValue]:
        """Input name -> block argument."""
        return dict(zip(names_of(self.input_names), self.body.block.args, strict=True))

    @property
    def outputs(self) -> dict[str, SSAValue]:
        """Output name -> value."""
        return dict(zip(names_of(self.output_names), terminator(self.body.block), strict=True))

    @property
    def input_roles(self) -> dict[str, Role]:
        """Of the inputs that passes added."""
        return _roles(self.added_inputs)

    @property
    def output_roles(self) -> dict[str, Role]:
        """Of the outputs that passes added."""
        return _roles(self.added_outputs)

    def inputs_of(self, kind: Kind | None) -> dict[str, SSAValue]:
        """The inputs of a kind; the net's own, where it is None."""
        return _of_kind(self.inputs, self.input_roles, kind)

    def outputs_of(self, kind: Kind | None) -> dict[str, SSAValue]:
        """The outputs of a kind; the net's own, where it is None."""
        return _of_kind(self.outputs, self.output_roles, kind)

    def give(self, outputs: Mapping[str, SSAValue], roles: Mapping[str, Role] = NONE) -> None:
        """Let these values be the outputs, and no others; those that stay keep their roles."""
        end = self.body.block.last_op
        assert isinstance(end, Yield)
        end.operands = list(outputs.values())
        self.output_names = name_list(outputs)
        # the role of an output that is gone goes with it: another may get its name
        self.added_outputs = _role_list({**self.output_roles, **roles}, outputs)

    def name_inputs(self, names: Iterable[str], roles: Mapping[str, Role] = NONE) -> None:
        """Name the arguments; inputs that stay keep their roles."""
        self.input_names = name_list(names)
        self.added_inputs = _role_list({**self.input_roles, **roles}, names_of(self.input_names))

    def name_added(self, inputs: Iterable[str], roles: Mapping[str, Role] = NONE) -> None:
        """Name the inputs that stand behind those with names."""
        self.name_inputs([*names_of(self.input_names), *inputs], roles)

    def verify_(self) -> None:
        expect(len(self.input_names) == len(self.body.block.args), "an input has no name")
        expect(len(self.output_names) == len(terminator(self.body.block)), "an output has no name")
        expect(self.input_roles.keys() <= set(names_of(self.input_names)), "a role of no input")
        expect(self.output_roles.keys() <= set(names_of(self.output_names)), "a role of no output")
        # `inputs` is a dict: equal names leave it shorter
        expect(len(self.inputs) == len(self.input_names), "two inputs have one name")
        expect(len(self.outputs) == len(self.output_names), "two outputs have one name")


@irdl_op_definition
class Scan(Sized):
    """Run the body once a time step, first row of `xs` first; last first with `reverse`.

    body: (consts..., carry..., row of each of xs...) -> (carry..., row of each of ys...).
    The carry starts as `inits` and ends as `finals`; `ys` are the rows in order of time.

    With a `gate`, the number of an argument of the body that is one bool, only those steps run at
    whose start it is true; they follow each other. A step that does not run leaves the carry as it
    is; its rows of ys are false where they are bools, else unspecified: nothing may read them.
    A gate that is carried ends the loop where it is false; with `limited`, to be still true
    after the last step is an error of the run. So a conditional is a loop of one step.
    """

    name = "rnn.scan"
    SIZES: ClassVar[tuple[str, ...]] = ("length",)
    consts = var_operand_def()
    inits = var_operand_def()
    xs = var_operand_def()
    length = prop_def(StringAttr)
    reverse = prop_def(BoolAttr)
    gate = opt_prop_def(IntAttr)
    limited = opt_prop_def(BoolAttr)
    finals = var_result_def()
    ys = var_result_def()
    body = region_def("single_block")
    irdl_options = (
        AttrSizedOperandSegments(as_property=True),
        AttrSizedResultSegments(as_property=True),
    )
    traits = traits_def(IsolatedFromAbove(), RecursiveMemoryEffect())

    def __init__(
        self,
        consts: Sequence[SSAValue],
        inits: Sequence[SSAValue],
        xs: Sequence[SSAValue],
        body: Block,
        length: Dim,
        reverse: bool = False,
        gate: SSAValue | None = None,
        limited: bool = False,
    ) -> None:
        """`gate`: an argument of the body."""
        rows = terminator(body)[len(inits) :]
        ys = [tensor([length, *dims_of(row)], dtype_of(row)) for row in rows]
        properties: dict[str, Attribute] = {
            "length": dim_attr(length),
            "reverse": BoolAttr.from_bool(reverse),
        }
        if gate is not None:
            properties["gate"] = IntAttr(body.args.index(gate))
            properties["limited"] = BoolAttr.from_bool(limited)
        super().__init__(
            operands=[list(consts), list(inits), list(xs)],
            result_types=[[v.type for v in inits], ys],
            regions=[Region(body)],
            properties=properties,
        )

    @property
    def steps(self) -> Dim:
        """How many time steps it takes."""
        return get_dim(self.length)

    @property
    def open(self) -> SSAValue | None:
        """The argument of the body that tells whether a step runs; None where all do."""
        return None if self.gate is None else self.body.block.args[self.gate.data]

    @property
    def skips(self) -> bool:
        """Whether a step may run behind one that did not: the gate is read row by row."""
        return self.open in self.groups[2]

    @property
    def is_limited(self) -> bool:
        """Whether it is an error to be still open after the last step."""
        return self.limited is not None and bool(self.limited)

    @property
    def groups(self) -> tuple[Sequence[SSAValue], Sequence[SSAValue], Sequence[SSAValue]]:
        """The body's arguments for consts, carry and rows of xs."""
        args, k = self.body.block.args, len(self.consts)
        c = k + len(self.inits)
        return args[:k], args[k:c], args[c:]

    @property
    def yields(self) -> tuple[Sequence[SSAValue], Sequence[SSAValue]]:
        """The body's values for the carry and the rows of ys."""
        values = terminator(self.body.block)
        return values[: len(self.inits)], values[len(self.inits) :]

    def row_of(self, y: SSAValue) -> SSAValue:
        """The body's value that one of ys holds, row by row."""
        return next(
            row for sequence, row in zip(self.ys, self.yields[1], strict=True) if sequence is y
        )

    def sequence_of(self, row: SSAValue) -> SSAValue:
        """The one of ys that holds a value that the body yields."""
        return next(y for y, yielded in zip(self.ys, self.yields[1], strict=True) if yielded is row)

    def verify_(self) -> None:
        steps = self.steps
        expect(not steps.is_static or int(steps) >= 0, f"{steps} steps, which is below 0")
        for x in self.xs:
            shown = shape_text(dims_of(x))
            expect_equal(dims_of(x)[:1], (self.steps,), f"a sequence of {shown}, not {self.steps}")
        expected = [v.type for v in (*self.consts, *self.inits)] + [row_type(x) for x in self.xs]
        actual = [v.type for v in self.body.block.args]
        expect(actual == expected, f"the body takes {actual}, expected {expected}")
        if self.gate is not None:
            number = self.gate.data
            expect(0 <= number < len(actual), f"the gate is argument {number} of {len(actual)}")
        if self.open is not None:
            expect(self.open.type == tensor((), "i1"), f"the gate is {self.open.type}, not a bool")
        carried = self.open in self.groups[1]
        expect(carried or not self.is_limited, "a loop is limited, and no gate that it carries")
        carry, rows = self.yields
        expect([v.type for v in carry] == [v.type for v in self.inits], "the carry changes type")
        expect([v.type for v in rows] == [row_type(y) for y in self.ys], "ys differ from the body")


def terminator(block: Block) -> tuple[SSAValue, ...]:
    """The values that a block's yield hands out."""
    last = block.last_op
    assert isinstance(last, Yield), "a block ends in rnn.yield"
    return tuple(last.values)


def row_type(value: SSAValue) -> Tensor:
    """The type of one time step of a sequence."""
    return tensor(dims_of(value)[1:], dtype_of(value))


def name_list(names: Iterable[str]) -> ArrayAttr[StringAttr]:
    """Names as an attribute."""
    return ArrayAttr(StringAttr(name) for name in names)


def names_of(attribute: ArrayAttr) -> list[str]:
    """The texts of a list of names."""
    return [get_text(name) for name in attribute.data]


def _roles(attribute: RoleList | None) -> dict[str, Role]:
    """Port -> role."""
    rows = [] if attribute is None else [names_of(row) for row in attribute.data]
    return {name: role_of(kind, of) for name, kind, of in rows}


def _of_kind(
    values: Mapping[str, SSAValue], roles: Mapping[str, Role], kind: Kind | None
) -> dict[str, SSAValue]:
    kinds = {name: role.kind for name, role in roles.items()}
    return {name: value for name, value in values.items() if kinds.get(name) == kind}


def _role_list(roles: Mapping[str, Role], names: Collection[str]) -> RoleList | None:
    """The roles of some ports as an attribute; None where they have none."""
    rows = [name_list([name, *role]) for name, role in roles.items() if name in names]
    return ArrayAttr(rows) if rows else None


OPS = [Net, Scan, Yield]
