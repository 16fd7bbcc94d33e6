"""The exported functions of a library (docs/abi.md).

In: a library's kernel programs. Out: an LLVM module. What computes takes the packed weights as a
first pointer; `add_exports` makes the functions that users call, for code with the weights in it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from llvmlite import ir

from rnncc.codegen.cpu.function import emit_program
from rnncc.codegen.cpu.streaming_entries import emit_sizes, emit_streaming
from rnncc.codegen.cpu.training_entries import emit_tape_bytes, emit_training
from rnncc.codegen.emit import I8, I32, I64, POINTER
from rnncc.codegen.target import Target
from rnncc.ir.library import Library

FUNCTIONS = {"run": 3}
"""Exported functions that compute -> how many pointers they take in front of the sizes."""


@dataclass
class Code:
    """A library's module.

    Attributes:
        entries: exported name, without the model's -> the function, which takes the weights first.
        sizes: exported functions that tell bytes, given the sizes.
    """

    module: ir.Module
    entries: dict[str, ir.Function] = field(default_factory=dict[str, ir.Function])
    sizes: list[str] = field(default_factory=list[str])


def emit_module(library: Library, target: Target, metadata: dict[str, Any]) -> Code:
    """All functions of a model, the weights passed in."""
    module = ir.Module(library.name)
    module.triple = target.triple
    code = Code(module)
    calls = {
        part: emit_program(module, program, f"{library.name}_{part}", target)
        for part, program in library.programs.items()
    }
    if library.streaming is not None:
        code.entries |= emit_streaming(module, library, calls, target)
        code.sizes += emit_sizes(module, library, target)
    else:
        if library.training is not None:
            code.entries |= emit_training(module, library, calls, target)
            emit_tape_bytes(module, library, target)
            code.sizes.append("tape_bytes")
        else:
            code.entries["run"] = calls["run"].function
        rooms = [call.workspace_bytes for call in calls.values()]
        _largest(code, library, "workspace_bytes", rooms)
    _metadata(module, library.name, metadata)
    return code


def add_exports(code: Code, library: Library) -> None:
    """The functions without weights: those that the library holds are passed on."""
    type_ = ir.ArrayType(I8, max(library.weights, 1))
    weights = ir.GlobalVariable(code.module, type_, f"{library.name}_weights")
    weights.global_constant = True
    weights.linkage = "external"
    for function in code.module.functions:
        if not function.is_declaration and function.name not in _exported(code, library):
            function.linkage = "internal"
    for entry, inner in code.entries.items():
        types = inner.function_type.args[1:]
        signature = ir.FunctionType(I32, types)
        function = ir.Function(code.module, signature, f"{library.name}_{entry}")
        builder = ir.IRBuilder(function.append_basic_block())
        builder.ret(builder.call(inner, [weights, *function.args], tail=True))


def _exported(code: Code, library: Library) -> set[str]:
    return {f"{library.name}_{name}" for name in (*code.sizes, "metadata")}


def _largest(code: Code, library: Library, name: str, parts: Sequence[ir.Function]) -> None:
    """A function of the sizes that tells the most of what others tell; -1 (as `size_t`) is most."""
    signature = ir.FunctionType(I64, [I64] * len(library.symbols))
    function = ir.Function(code.module, signature, f"{library.name}_{name}")
    b = ir.IRBuilder(function.append_basic_block())
    most, *others = [b.call(part, function.args) for part in parts]
    for size in others:
        most = b.select(b.icmp_unsigned(">", size, most), size, most)
    b.ret(most)
    code.sizes.append(name)


def _metadata(module: ir.Module, name: str, metadata: dict[str, Any]) -> None:
    text = bytearray(json.dumps(metadata).encode() + b"\0")
    type_ = ir.ArrayType(I8, len(text))
    constant = ir.GlobalVariable(module, type_, f"{name}_metadata_text")
    constant.initializer = ir.Constant(type_, text)
    constant.global_constant = True
    constant.linkage = "private"
    function = ir.Function(module, ir.FunctionType(POINTER, []), f"{name}_metadata")
    ir.IRBuilder(function.append_basic_block()).ret(constant)
