"""An IR builder that writes the text of an instruction at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from llvmlite import ir

from rnncc.codegen.llvm import helium
from rnncc.codegen.llvm.values import I32, selection

_FLOAT = ir.FloatType()
_COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


class Result(ir.Value):
    """What an instruction gives: its type, and the name that others read it by."""

    __slots__ = ("reference", "type")

    def __init__(self, type_: ir.Type, reference: str) -> None:
        self.type = type_
        self.reference = reference

    def get_reference(self) -> str:
        """As llvmlite's own values say it."""
        return self.reference


def undefined(type_: ir.Type) -> Result:
    """Any value: of a vector in one word, where llvmlite names each lane."""
    return Result(type_, "undef")


def _binary(opname: str) -> Callable[..., Any]:
    def write(
        self: TextBuilder, lhs: Any, rhs: Any, name: str = "", flags: Sequence[str] = ()
    ) -> Any:
        op = " ".join((opname, *flags)) if flags else opname
        text = f"{op} {lhs.type} {lhs.get_reference()}, {rhs.get_reference()}"
        return self.write(lhs.type, text, name)

    return write


def _cast(opname: str) -> Callable[..., Any]:
    def write(self: TextBuilder, value: Any, typ: Any, name: str = "") -> Any:
        if value.type == typ:
            return value
        return self.write(typ, f"{opname} {_typed(value)} to {typ}", name)

    return write


class TextBuilder(ir.IRBuilder):
    """Writes what most code is made of without llvmlite's objects.

    These take ten times as long, and keep their operands and theirs, some five objects each, until
    the whole module is written: Python's collector looked through them again and again. What is
    completed later (phi nodes, room on the stack, branches) and what is rare are llvmlite's.
    Operands of a wrong type are found by LLVM as it reads the text.
    """

    def write(self, type_: Any, text: str, name: str = "") -> Result:
        """Append an instruction that gives a value."""
        block: Any = self.block
        reference = f'%"{block.scope.register(name, deduplicate=True)}"'
        self._insert(f"{reference} = {text}")
        return Result(type_, reference)

    add, sub, mul = _binary("add"), _binary("sub"), _binary("mul")
    sdiv, srem, udiv, urem = _binary("sdiv"), _binary("srem"), _binary("udiv"), _binary("urem")
    shl, ashr, lshr = _binary("shl"), _binary("ashr"), _binary("lshr")
    and_, or_, xor = _binary("and"), _binary("or"), _binary("xor")
    fadd, fsub, fmul, fdiv = _binary("fadd"), _binary("fsub"), _binary("fmul"), _binary("fdiv")
    bitcast, trunc, zext, sext = _cast("bitcast"), _cast("trunc"), _cast("zext"), _cast("sext")
    sitofp, uitofp = _cast("sitofp"), _cast("uitofp")
    fptosi, fptoui = _cast("fptosi"), _cast("fptoui")
    fptrunc, fpext = _cast("fptrunc"), _cast("fpext")

    def icmp_signed(self, cmpop: str, lhs: Any, rhs: Any, name: str = "") -> Any:
        return self._compare("icmp", "s", cmpop, lhs, rhs, name)

    def icmp_unsigned(self, cmpop: str, lhs: Any, rhs: Any, name: str = "") -> Any:
        return self._compare("icmp", "u", cmpop, lhs, rhs, name)

    def fcmp_ordered(
        self, cmpop: str, lhs: Any, rhs: Any, name: str = "", flags: Sequence[str] = ()
    ) -> Any:
        return self._compare(" ".join(("fcmp", *flags)), "o", cmpop, lhs, rhs, name)

    def fcmp_unordered(
        self, cmpop: str, lhs: Any, rhs: Any, name: str = "", flags: Sequence[str] = ()
    ) -> Any:
        return self._compare(" ".join(("fcmp", *flags)), "u", cmpop, lhs, rhs, name)

    def _compare(self, op: str, kind: str, cmpop: str, lhs: Any, rhs: Any, name: str) -> Any:
        relation = _COMPARISONS.get(cmpop, cmpop)
        # Equality of integers has no sign: LLVM knows `eq`, and neither `seq` nor `ueq` of `icmp`.
        if cmpop in _COMPARISONS and (op != "icmp" or cmpop not in ("==", "!=")):
            relation = kind + relation
        if (
            isinstance(lhs.type, ir.VectorType)
            and lhs.type.element == _FLOAT
            and self.module.triple.startswith("thumb")
        ):
            return helium.compare(self, relation, lhs, rhs)
        return self.compare(f"{op} {relation}", lhs, rhs, name)

    def compare(self, relation: str, lhs: Any, rhs: Any, name: str = "") -> Any:
        """A comparison by its name in LLVM IR, such as `fcmp olt`."""
        count = lhs.type.count if isinstance(lhs.type, ir.VectorType) else 0
        text = f"{relation} {_typed(lhs)}, {rhs.get_reference()}"
        return self.write(_flags(count), text, name)

    def select(
        self, cond: Any, lhs: Any, rhs: Any, name: str = "", flags: Sequence[str] = ()
    ) -> Any:
        op = " ".join(("select", *flags))
        return self.write(lhs.type, f"{op} {_typed(cond)}, {_typed(lhs)}, {_typed(rhs)}", name)

    def load(self, ptr: Any, name: str = "", align: int | None = None, typ: Any = None) -> Any:
        type_ = ptr.allocated_type if typ is None else typ
        return self.write(type_, f"load {type_}, {_typed(ptr)}{_aligned(align)}", name)

    def store(self, value: Any, ptr: Any, align: int | None = None) -> Any:
        self._insert(f"store {_typed(value)}, {_typed(ptr)}{_aligned(align)}")

    def gep(
        self,
        ptr: Any,
        indices: Sequence[Any],
        inbounds: bool = False,
        name: str = "",
        source_etype: Any = None,
    ) -> Any:
        op = "getelementptr inbounds" if inbounds else "getelementptr"
        places = ", ".join([_typed(index) for index in indices])
        return self.write(ptr.type, f"{op} {source_etype}, {_typed(ptr)}, {places}", name)

    def extract_element(self, vector: Any, idx: Any, name: str = "") -> Any:
        text = f"extractelement {_typed(vector)}, {_typed(idx)}"
        return self.write(vector.type.element, text, name)

    def insert_element(self, vector: Any, value: Any, idx: Any, name: str = "") -> Any:
        text = f"insertelement {_typed(vector)}, {_typed(value)}, {_typed(idx)}"
        return self.write(vector.type, text, name)

    def shuffle_vector(self, vector1: Any, vector2: Any, mask: Any, name: str = "") -> Any:
        text = f"shufflevector {_typed(vector1)}, {_typed(vector2)}, {_typed(mask)}"
        return self.write(ir.VectorType(vector1.type.element, mask.type.count), text, name)

    def call(self, fn: Any, args: Sequence[Any], *more: Any, **named: Any) -> Any:
        if more or named or not isinstance(fn, ir.Function):
            return super().call(fn, args, *more, **named)
        return self._call(fn, args)

    def _call(self, function: Any, args: Sequence[Any]) -> Any:
        result, operands = function.function_type.return_type, ", ".join(map(_typed, args))
        text = f"call {result} {function.get_reference()}({operands})"
        return self._insert(text) if isinstance(result, ir.VoidType) else self.write(result, text)


def spread(b: ir.IRBuilder, value: Any, lanes: int) -> Any:
    """A value that the run decides, in every lane of a vector."""
    other = undefined(ir.VectorType(value.type, lanes))
    return b.shuffle_vector(b.insert_element(other, value, I32(0)), other, selection(*[0] * lanes))


def vector_of(b: ir.IRBuilder, values: Sequence[Any]) -> Any:
    """Values of one type as the lanes of a vector."""
    vector: Any = ir.Constant(ir.VectorType(values[0].type, len(values)), None)
    for lane, value in enumerate(values):
        vector = b.insert_element(vector, value, I32(lane))
    return vector


def _typed(value: Any) -> str:
    return f"{value.type} {value.get_reference()}"


def _aligned(align: int | None) -> str:
    return "" if align is None else f", align {align}"


@cache
def _flags(count: int) -> ir.Type:
    """What comparisons give: of so many elements, or of no vector."""
    flag = ir.IntType(1)
    return ir.VectorType(flag, count) if count else flag
