"""Users' functions of numbers as vector code.

In: the LLVM IR of one number's function (`rnncc/scalar`). Out: a module in which it stands once for
every vector length asked for, as a loop over the lanes that LLVM vectorises.
"""

from __future__ import annotations

from llvmlite import ir

from rnncc.codegen.llvm.double_math import math_of
from rnncc.codegen.llvm.machine import Machine
from rnncc.codegen.llvm.values import I32, I64, POINTER, declared
from rnncc.codegen.llvm.vector import FORMATS, Vector, real_of
from rnncc.ir.ops.apply import Apply
from rnncc.ir.types import ITEM_BYTES, dtype_of
from rnncc.kern.library import Library
from rnncc.scalar.code import MATH, FunctionCode


def applied_type(lanes: int, count: int, dtype: str) -> ir.FunctionType:
    """Of a function of so many vectors."""
    element = _element(dtype)
    type_ = element if lanes == 1 else ir.VectorType(element, lanes)
    return ir.FunctionType(type_, [type_] * count)


def applied_name(code: FunctionCode, lanes: int) -> str:
    """Of the function for so many lanes."""
    return f"{code.symbol}.x{lanes}"


def applied_texts(library: Library, target: Machine) -> list[str]:
    """A module for each function that users wrote, of those that a library calls."""
    ops = [op for p in library.programs.values() for op in p.func.walk() if isinstance(op, Apply)]
    functions = {op.function.data.code(dtype_of(op.y)): len(op.xs) for op in ops}
    return [applied_text(code, count, target) for code, count in functions.items()]


def applied_text(code: FunctionCode, count: int, target: Machine) -> str:
    """The module, as LLVM IR, not yet optimised."""
    module = ir.Module()
    module.triple = target.triple
    kind = ir.FunctionType(I32, [POINTER, POINTER, *[_element(code.dtype)] * count])
    scalar = ir.Function(module, kind, code.symbol)
    # A vector holds half as many doubles.
    halves = [max(1, lanes // 2) for lanes in target.lane_counts if code.dtype == "f64"]
    for lanes in {1, *target.lane_counts, *halves}:
        _add_vector(module, scalar, code, lanes)
    text = code.text.replace("define", "define internal", 1)
    functions = MATH[code.dtype]
    for called in code.calls & functions.keys():
        name = _add_math(module, functions[called], target, code.dtype)
        text = text.replace(f"@{called}(", f"@{name}(")
    # The scalar function is defined in the text, so that its declaration goes.
    return str(module).replace(str(scalar), "") + text


def _element(dtype: str) -> ir.Type:
    return FORMATS[real_of(dtype)][0]


def _add_vector(module: ir.Module, scalar: ir.Function, code: FunctionCode, lanes: int) -> None:
    """The lanes lie in memory while the loop runs; LLVM keeps them in registers."""
    count, element, align = len(scalar.args) - 2, _element(code.dtype), ITEM_BYTES[code.dtype]
    kind = applied_type(lanes, count, code.dtype)
    function = ir.Function(module, kind, applied_name(code, lanes))
    b = ir.IRBuilder(function.append_basic_block())
    rooms = [b.alloca(element, lanes) for _ in range(count + 1)]
    for room in rooms:
        room.type = POINTER
    for room, argument in zip(rooms[1:], function.args, strict=True):
        b.store(argument, room, align=align)
    entry, head, done = b.block, b.append_basic_block(), b.append_basic_block()
    b.branch(head)
    b.position_at_end(head)
    i = b.phi(I64)
    i.add_incoming(I64(0), entry)
    places = [b.gep(room, [i], source_etype=element) for room in rooms]
    values = [b.load(place, typ=element, align=align) for place in places[1:]]
    b.call(scalar, [places[0], ir.Constant(POINTER, None), *values])
    following = b.add(i, I64(1))
    i.add_incoming(following, head)
    b.cbranch(b.icmp_signed("<", following, I64(lanes)), head, done)
    b.position_at_end(done)
    b.ret(b.load(rooms[0], typ=function.function_type.return_type, align=align))


def _add_math(module: ir.Module, name: str, target: Machine, dtype: str) -> str:
    """An elementary function of one number, to be inlined."""
    symbol = f"scalar.{name}"
    if symbol not in module.globals:
        function = ir.Function(module, ir.FunctionType(_element(dtype), [_element(dtype)]), symbol)
        function.linkage = "internal"
        function.attributes.add("alwaysinline")
        b = ir.IRBuilder(function.append_basic_block())
        math = math_of(module, Vector(1, target.fma, real_of(dtype), rounds=target.rounds))
        b.ret(math.function(name)(b, function.args[0]))
    return symbol


def declare_applied(
    module: ir.Module, code: FunctionCode, lanes: int, count: int
) -> ir.GlobalValue:
    """The function for so many lanes, in the module that calls it."""
    kind = applied_type(lanes, count, code.dtype)
    return declared(module, applied_name(code, lanes), kind.return_type, kind.args)
