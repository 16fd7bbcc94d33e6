"""The body of a kernel as C: a statement for each op."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from xdsl.ir import Block, Operation, SSAValue

from rnncc.codegen.reference import expressions as c
from rnncc.errors import CompileError
from rnncc.ir.attributes import get_dim
from rnncc.ir.ops import casts
from rnncc.ir.ops import elementwise as ew
from rnncc.ir.ops.apply import Apply
from rnncc.ir.ops.base import Unary
from rnncc.ir.ops.control import Yield, terminator
from rnncc.ir.ops.random import MASK, Uniform
from rnncc.ir.ops.source import Constant, Fill, Size
from rnncc.ir.precision import stored_bits
from rnncc.ir.types import FLOATS, NARROW_FLOATS, dtype_of
from rnncc.kern.kernels import Index

FUNCTIONS = {
    **{name: name for name in ("exp", "log", "tanh", "erf", "sqrt", "log1p", "expm1")},
    "abs": "fabs",
}
"""Functions of one number -> libm's for double."""
OWN = ("sigmoid", "sin", "cos")
"""Those that are functions of `prelude.py`."""
ROUNDINGS = {"floor": "floor", "ceil": "ceil", "even": "rint", "trunc": "trunc"}
COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
BITS = {"and": "&", "or": "|", "xor": "^"}
LOGIC = {"and": "&&", "or": "||", "xor": "!="}
MULTIPLY_ADDS = {"add": "{} * {} + {}", "sub": "{} * {} - {}", "from": "{2} - {0} * {1}"}
INFIX = {ew.Add: "+", ew.Sub: "-", ew.Mul: "*", ew.Div: "/"}


def statements(
    block: Block, arguments: Mapping[SSAValue, str], reserved: Collection[str]
) -> tuple[list[str], list[str]]:
    """The statements of a body, and what it yields.

    Args:
        arguments: an expression for each argument that the body uses.
        reserved: names that have another meaning.
    """
    names, lines = dict(arguments), list[str]()
    for number, op in enumerate(op for op in block.ops if not isinstance(op, Yield)):
        result = op.results[0]
        text = _expression(op, [names[value] for value in op.operands])
        if isinstance(op, Constant | Fill):
            names[result] = text
        # Compilers warn of a variable that nobody reads.
        elif result.first_use:
            name = f"{op.name.split('.')[1]}_{number}"
            names[result] = f"{name}_value" if name in reserved else name
            lines.append(f"const {c.VALUE_TYPES[dtype_of(result)]} {names[result]} = {text};")
    return lines, [names[value] for value in terminator(block)]


def _expression(op: Operation, xs: list[str]) -> str:
    if isinstance(op, Constant | Fill | Size | Index):
        return _source(op)
    if isinstance(op, ew.Select | ew.Compare | ew.Logical | ew.Not | ew.StopGradient):
        return _choice(op, xs)
    match op:
        case casts.Cast():
            return _cast(xs[0], dtype_of(op.operands[0]), op.dtype.data)
        case casts.Bitcast():
            return f"rnncc_bits_{dtype_of(op.x)}({xs[0]})"
        case Uniform():
            stream = op.stream.data & MASK
            return f"rnncc_uniform((uint32_t){xs[0]}, (uint32_t){xs[1]}, UINT32_C({stream}))"
        case Apply():
            what = "a user's function is LLVM code, which the reference target cannot take in"
            raise CompileError(str(op.location), what, "compile for a CPU")
        case _ if dtype_of(op.operands[0]) in FLOATS:
            return _float(op, xs, dtype_of(op.operands[0]))
        case _:
            return _integer(op, xs, dtype_of(op.operands[0]))


def _source(op: Constant | Fill | Size | Index) -> str:
    match op:
        case Constant() | Fill():
            value = op.array().item() if isinstance(op, Constant) else op.value.value.data
            # C has no floats of 16 bits: a constant is its bits.
            narrow = dtype_of(op.y) in NARROW_FLOATS
            value = stored_bits(value, dtype_of(op.y)) if narrow else value
            return c.number(value, dtype_of(op.y))
        case Size():
            return _from_i64(c.factor(get_dim(op.dim)), dtype_of(op.y))
        case Index():
            return _from_i64(c.axis(op.axis.data), dtype_of(op.y))


def _choice(op: Operation, xs: list[str]) -> str:
    """Conditions, and what they choose."""
    match op:
        case ew.Select():
            return "{} ? {} : {}".format(*xs)
        case ew.Compare():
            return f"{xs[0]} {COMPARISONS[op.kind.data]} {xs[1]}"
        case ew.Logical():
            return f"{xs[0]} {LOGIC[op.kind.data]} {xs[1]}"
        case ew.Not():
            return f"!{xs[0]}"
        case _:
            return xs[0]


def _float(op: Operation, xs: list[str], dtype: str) -> str:
    letter, ending, name = c.LETTERS[dtype], c.ENDINGS[dtype], op.name.split(".")[1]
    match op:
        case ew.Add() | ew.Sub() | ew.Mul() | ew.Div():
            return f"{xs[0]} {INFIX[type(op)]} {xs[1]}"
        case ew.MultiplyAdd():
            return MULTIPLY_ADDS[op.kind.data].format(*xs)
        case ew.Neg():
            # Of a negative constant `--` would be another operator.
            return f"-({xs[0]})"
        case ew.Relu():
            return f"rnncc_maximum{ending}(0.0{letter}, {xs[0]})"  # of two zeros x
        case ew.Maximum() | ew.Minimum():
            return f"rnncc_{name}{ending}({xs[0]}, {xs[1]})"
        case ew.Rem():
            return f"fmod{letter}({xs[0]}, {xs[1]})"
        case ew.Round():
            return f"{ROUNDINGS[op.kind.data]}{letter}({xs[0]})"
        case Unary() if name in OWN:
            return f"rnncc_{name}{ending}({xs[0]})"
        case Unary():
            return f"{FUNCTIONS[name]}{letter}({xs[0]})"
        case _:
            raise AssertionError(f"{op.name} has no code")


def _integer(op: Operation, xs: list[str], dtype: str) -> str:
    """Sums and products wrap around, which only unsigned numbers may do in C."""
    match op:
        case ew.Add() | ew.Sub() | ew.Mul():
            a, b = (f"(u{c.C_TYPES[dtype]}){x}" for x in xs)
            return f"({c.C_TYPES[dtype]})({a} {INFIX[type(op)]} {b})"
        case ew.Div():
            return f"rnncc_quotient_{dtype}({xs[0]}, {xs[1]})"
        case ew.Rem():
            return f"rnncc_rest_{dtype}({xs[0]}, {xs[1]})"
        case ew.Bits() if op.kind.data in BITS:
            return f"{xs[0]} {BITS[op.kind.data]} {xs[1]}"
        case ew.Bits():
            return f"rnncc_{op.kind.data}_{dtype}({xs[0]}, {xs[1]})"
        case ew.Maximum() | ew.Minimum():
            order = ">" if isinstance(op, ew.Maximum) else "<"
            return f"{xs[0]} {order} {xs[1]} ? {xs[0]} : {xs[1]}"
        case _:
            raise CompileError(str(op.location), f"{op.name} of {dtype}")


def _cast(x: str, old: str, new: str) -> str:
    if new == "i1":
        return f"{x} != 0"
    if "bf16" in (old, new) or "f16" in (old, new):
        return f"rnncc_{old}_to_{new}({x})"
    if old in FLOATS and new not in FLOATS:
        return f"rnncc_to_{new}{c.ENDINGS[old]}({x})"
    return x if old == new else f"({c.C_TYPES[new]}){x}"


def _from_i64(text: str, dtype: str) -> str:
    if dtype == "i1":
        return f"{text} != 0"
    return text if dtype == "i64" else f"({c.C_TYPES[dtype]}){text}"
