"""Where a program's buffers lie in C: ports, the planned workspace, arrays of parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from xdsl.ir import Block, BlockArgument, SSAValue

from rnncc.codegen.reference import expressions as c
from rnncc.codegen.reference.liveness import live_pointers
from rnncc.ir.attributes import get_dim
from rnncc.ir.dims import Dim
from rnncc.kern.access import buffer_dtype
from rnncc.kern.dialect import Buffer, For, Row, ShiftedRow
from rnncc.kern.largest import Largest
from rnncc.kern.program import KernelProgram
from rnncc.kern.signatures import NULL_POINTER
from rnncc.names import c_names


class Pointers:
    """Pointers to a program's buffers.

    Args:
        params: the names of the arrays that hold packed parameters, by their place.
        reserved: what no pointer may be called.

    Attributes:
        names: of values, in C.
        live: the values that code needs.
        inputs, outputs: the names of the ports in the struct that `struct` declares.
    """

    def __init__(
        self, program: KernelProgram, params: Mapping[int, str], reserved: Iterable[str]
    ) -> None:
        self.program, self.params, self.reserved = program, params, set(reserved)
        self.names: dict[SSAValue, str] = {}
        self.live = live_pointers(program)
        self.labels = {buffer.label.data: buffer for buffer in reversed(program.buffers)}
        members = [port.name for port in (*program.inputs, *program.outputs)]
        names = c_names(members)
        self.inputs, self.outputs = names[: len(program.inputs)], names[len(program.inputs) :]

    def struct(self, prefix: str) -> list[str]:
        reads = zip(self.program.inputs, self.inputs, strict=True)
        writes = zip(self.program.outputs, self.outputs, strict=True)
        members = [f"    const {c.C_TYPES[p.dtype]} *{name};" for p, name in reads]
        members += [f"    {c.C_TYPES[p.dtype]} *{name};" for p, name in writes]
        name = f"{prefix}_ports"
        title = f"/* What the program `{prefix}` reads, then what it writes. */"
        return [title, f"struct {name} {{", *(members or ["    char none;"]), "};", ""]

    def declarations(self) -> list[str]:
        """A pointer to each buffer; null ones that are needed end the call."""
        lines = list[str]()
        if self.program.workspace:
            needed = f"{c.largest(self.program.workspace)} > 0"
            lines += [f"if (workspace == NULL && {needed})", f"    return {NULL_POINTER};"]
        for op in self.program.buffers:
            if op.role.data == "param":
                self.names[op.y] = self._array(op)
                continue
            # An input that no kernel reads may be NULL.
            if op.role.data == "input" and op.default is None and op.y.first_use:
                lines += [f"if ({self.argument(op.y)} == NULL)", f"    return {NULL_POINTER};"]
            if op.y in self.live:
                text = self._begin_of(op)
                self.names[op.y] = self.fresh(op.label.data)
                lines += declared(op.y, self.names[op.y], text)
        return lines

    def _begin_of(self, op: Buffer) -> str:
        """Where a buffer begins."""
        # Without const: a loop's variable may lead to an input first and to an output then.
        argument, cast = self.argument(op.y), f"({kind_of(op.y)} *)"
        if op.role.data == "input":
            if op.default is None:
                return f"{cast}{argument}"
            default = self._home(self.labels[op.default.data])
            return f"{argument} != NULL ? {cast}{argument} : {default}"
        if op.role.data == "output":
            assert argument is not None
            return (
                argument
                if op.fallback_size == 0
                else f"{argument} != NULL ? {argument} : {self._home(op)}"
            )
        if op.within is not None:
            return self.names[self.labels[op.within.data].y]
        return self._home(op)

    def _home(self, op: Buffer) -> str:
        """A buffer at its planned place."""
        kind = c.C_TYPES[op.dtype]
        if op.role.data == "param":
            return f"({kind} *){self._array(op)}"
        assert op.offset is not None, f"{op.label.data} has no offset"
        offset = c.largest(Largest.parse(op.offset.data))
        return f"({kind} *)workspace" if offset == "0" else f"({kind} *)(workspace + {offset})"

    def _array(self, op: Buffer) -> str:
        assert op.offset is not None
        return self.params[int(get_dim(op.offset))]

    def fresh(self, label: str) -> str:
        """A name for it that nothing else has."""
        [name] = c_names([label], self.reserved)
        self.reserved.add(name)
        return name

    def label_of(self, value: SSAValue) -> str:
        """The buffer that a pointer leads to, or one of those."""
        while True:
            owner = value.owner
            match owner:
                case Buffer():
                    return owner.label.data
                case Row() | ShiftedRow():
                    value = owner.buffer
                case For():
                    value = owner.inits[next(i for i, v in enumerate(owner.finals) if v is value)]
                case Block():
                    loop = owner.parent_op()
                    assert isinstance(loop, For) and isinstance(value, BlockArgument)
                    value = loop.inits[value.index]
                case _:
                    raise AssertionError(f"{owner.name} gives no buffer")

    def place(self, value: SSAValue, index: Dim, stride: Dim) -> str:
        """Where a row begins, in its ring where the buffer keeps one."""
        ring = value.owner.rows_kept if isinstance(value.owner, Buffer) else None
        if ring is None:
            return c.size(index * stride)
        kept = "0" if ring == 1 else f"{c.factor(index)} % {ring}"
        if (argument := self.argument(value)) is not None:  # only what stands in for it is a ring
            kept = f"({argument} != NULL ? {c.size(index)} : {kept})"
        return f"{kept} * {c.factor(stride)}"

    def argument(self, value: SSAValue) -> str | None:
        """The caller's pointer to an input with a default, or to an output."""
        op = value.owner
        assert isinstance(op, Buffer)
        sides = {"input": (self.program.inputs, self.inputs)}
        sides["output"] = self.program.outputs, self.outputs
        if op.role.data not in sides:
            return None
        ports, names = sides[op.role.data]
        return f"ports->{names[[port.name for port in ports].index(op.label.data)]}"


def kind_of(value: SSAValue) -> str:
    """The type in C of what a pointer leads to."""
    return c.C_TYPES[buffer_dtype(value)]


def declared(value: SSAValue, name: str, text: str) -> list[str]:
    """The declaration of a pointer that stays."""
    head = f"{kind_of(value)} *const {name} ="
    long = len(head) + len(text) > 90
    return [head, f"    {text};"] if long else [f"{head} {text};"]
