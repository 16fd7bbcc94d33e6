"""The exported functions of a library (docs/abi.md).

In: a library's kernel programs. Out: an LLVM module. What computes takes the packed weights as a
first pointer; `add_exports` makes the functions that users call, for code with the weights in it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from llvmlite import ir

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.finished_sums import finished_sums
from rnncc.codegen.cpu.function import emit_program
from rnncc.codegen.cpu.kernel import emit_kernel
from rnncc.codegen.cpu.library.denormals import flushing
from rnncc.codegen.cpu.library.entry_points import emit_entry_point
from rnncc.codegen.cpu.machine.core import Core
from rnncc.codegen.cpu.orders.loop_orders import LoopOrders, loop_orders
from rnncc.codegen.cpu.outlined import OutlinedKernels
from rnncc.codegen.cpu.parts import MANY
from rnncc.codegen.cpu.sizes import emit_size, emit_threads
from rnncc.codegen.cpu.threads import alone
from rnncc.codegen.llvm.user_functions import applied_texts
from rnncc.codegen.llvm.values import I8, I32, POINTER
from rnncc.kern.entry_points import entry_points
from rnncc.kern.exports import size_functions
from rnncc.kern.library import Library
from rnncc.planning.late_packs import late_packs
from rnncc.planning.threading_cost import CYCLE, ThreadingCost
from rnncc.sizes import BATCH, TIME

PART = 4
"""The place of a program's `part`: behind weights, tables and workspace."""
SHORT = 8_000 * CYCLE
"""Work of a step in which what sizes decide takes a hundredth of the time or more."""


@dataclass
class LibraryModule:
    """A library's module.

    Attributes:
        entries: exported name, without the model's -> the function, which takes the weights first.
        sizes: exported functions that tell bytes or threads, given the sizes.
        linked: modules that it calls functions of: those that users wrote.
    """

    module: ir.Module
    entries: dict[str, ir.Function] = field(default_factory=dict[str, ir.Function])
    sizes: list[str] = field(default_factory=list[str])
    linked: list[str] = field(default_factory=list[str])


def emit_module(
    library: Library, target: Core, metadata: dict[str, Any] | None = None
) -> LibraryModule:
    """All functions of a model, the weights passed in; `metadata`: if it tells them."""
    module = ir.Module(library.name)
    module.triple = target.triple
    code = LibraryModule(module, linked=applied_texts(library, target))
    late = {} if target.compact else late_packs(library)  # there each row reads all weights
    finished = {} if target.compact else finished_sums(library.programs.values())
    shared = OutlinedKernels(library.programs.values(), target, emit_kernel, late, finished)
    orders = _loop_orders(library, target, shared, library.shared)
    calls = _programs(module, library, target, shared, orders)
    if len(calls) == 1:
        code.entries |= _emit_plain(library, calls["run"], target)
    else:
        single = None if "step" not in calls else _single_step(module, library, target, shared)
        code.entries |= {
            entry.name: emit_entry_point(
                module, library, entry, calls, target, single if entry.name == "step" else None
            )
            for entry in entry_points(library)
        }
    if library.flushes:
        code.entries = flushing(code.entries, target)
    for size in size_functions(library):
        name = f"{library.name}_{size.name}"
        emit_size(module, name, size.bytes, size.symbols, target, size.bounds)
        code.sizes.append(size.name)
    if library.shared:
        worth = _threading_cost(library, target, orders)
        emit_threads(module, f"{library.name}_threads", worth, library.symbols, target)
        code.sizes.append("threads")
    if metadata is not None:
        add_metadata(module, library.name, metadata)
    return code


def threading_cost_of(library: Library, target: Core) -> ThreadingCost:
    """What a call of a library takes of a team."""
    shared = OutlinedKernels(library.programs.values(), target, emit_kernel)
    return _threading_cost(library, target, _loop_orders(library, target, shared, True))


def _threading_cost(
    library: Library, target: Core, orders: Mapping[str, LoopOrders]
) -> ThreadingCost:
    apart = {loop for several in orders.values() for loop in several}
    return ThreadingCost.of(library.programs.values(), target.lanes, apart)


def _loop_orders(
    library: Library, target: Core, shared: OutlinedKernels, several: bool
) -> dict[str, LoopOrders]:
    """Of each program."""
    programs = library.programs.items()
    return {part: loop_orders(p.func, target, shared, several) for part, p in programs}


def _programs(
    module: ir.Module,
    library: Library,
    target: Core,
    shared: OutlinedKernels,
    orders: Mapping[str, LoopOrders],
) -> dict[str, ir.Function]:
    """The programs, each for one of several threads if the library is; what calls them checks its
    sizes, but where it is the caller."""
    checked = library.streaming is not None or library.training is not None
    return {
        part: emit_program(
            module,
            program,
            f"{library.name}_{part}",
            target,
            shared,
            orders[part],
            library.shared,
            checked,
            bounds=library.whole_bounds,
        )
        for part, program in library.programs.items()
    }


def _single_step(
    module: ir.Module, library: Library, target: Core, shared: OutlinedKernels
) -> ir.Function | None:
    """One step of one sequence, where it is so short that it counts to know that beforehand."""
    step = library.programs["step"]
    # Known sizes leave no loop, division or table of pointers: a step of an LSTM of 8 units takes
    # 230 instructions instead of 1,100.
    fixed = {symbol: 1 for symbol in (TIME, BATCH) if symbol in step.symbols}
    work = ThreadingCost.of([step], target.lanes).work.evaluate(dict.fromkeys(step.symbols, 1))
    if not fixed or work > SHORT or target.compact or len(step.buffers) > MANY:
        return None
    prefix = f"{library.name}_step"
    orders = loop_orders(step.func, target, shared, False)
    function = emit_program(module, step, prefix, target, shared, orders, checked=True, fixed=fixed)
    # Inlined in the one place that calls it: no other module needs it.
    function.linkage = "internal"
    function.attributes.add("alwaysinline")  # so that tables of pointers become registers
    return function


def _emit_plain(library: Library, call: ir.Function, target: Core) -> dict[str, ir.Function]:
    """Of a library of one program: the caller's structs are its tables of pointers."""
    if not library.shared:
        return {"run": call}
    types = [t for number, t in enumerate(call.function_type.args) if number != PART]
    signature = ir.FunctionType(I32, types)
    function = ir.Function(call.module, signature, f"{library.name}_run_alone")
    emit = CpuEmit.begin(function, target, library.symbols)
    arguments = list(function.args)
    arguments.insert(PART, alone(emit))
    emit.b.ret(emit.b.call(call, arguments))
    return {"run": function, "run_part": call}


def add_exports(code: LibraryModule, library: Library) -> None:
    """The functions without weights: those that the library holds are passed on."""
    weights = declare_weights(code.module, library.name, library.weights)
    keep_inside(code.module, _exported(code, library))
    for entry, inner in code.entries.items():
        if entry == "step":
            inner.attributes.add("alwaysinline")  # a short one takes no longer than a few calls
        types = inner.function_type.args[1:]
        signature = ir.FunctionType(I32, types)
        function = ir.Function(code.module, signature, f"{library.name}_{entry}")
        builder = ir.IRBuilder(function.append_basic_block())
        builder.ret(builder.call(inner, [weights, *function.args], tail=True))


def declare_weights(module: ir.Module, name: str, size: int) -> ir.GlobalVariable:
    """The block of so many bytes that a library holds."""
    weights = ir.GlobalVariable(module, ir.ArrayType(I8, max(size, 1)), f"{name}_weights")
    weights.global_constant = True
    weights.linkage = "external"
    return weights


def keep_inside(module: ir.Module, exported: Collection[str]) -> None:
    """Let no other module see functions, but for some."""
    for function in module.functions:
        if not function.is_declaration and function.name not in exported:
            function.linkage = "internal"


def forbid_unwinding(module: ir.Module) -> None:
    """Say that no function throws, so that none refers to what unwinds the stack."""
    for function in module.functions:
        if not function.is_declaration:
            function.attributes.add("nounwind")


def prefer_small(module: ir.Module) -> None:
    """Have LLVM write short functions, and let linkers drop those that nobody calls."""
    for function in module.functions:
        if not function.is_declaration:
            function.attributes.add("minsize")
            function.attributes.add("optsize")
            function.section = f".text.{function.name}"
    text = module.globals[f"{module.name}_metadata_text"]
    text.section = f".rodata.{text.name}"


def _exported(code: LibraryModule, library: Library) -> set[str]:
    return {f"{library.name}_{name}" for name in (*code.sizes, "metadata")}


def add_metadata(module: ir.Module, name: str, metadata: dict[str, Any]) -> None:
    """`NAME_metadata`, and its text."""
    constant = text_constant(module, f"{name}_metadata_text", json.dumps(metadata))
    function = ir.Function(module, ir.FunctionType(POINTER, []), f"{name}_metadata")
    ir.IRBuilder(function.append_basic_block()).ret(constant)


def text_constant(module: ir.Module, name: str, text: str) -> ir.GlobalVariable:
    """A text as C has it, ended by a zero; no other module sees it."""
    characters = bytearray(text.encode() + b"\0")
    constant = ir.GlobalVariable(module, ir.ArrayType(I8, len(characters)), name)
    constant.initializer = ir.Constant(constant.value_type, characters)
    constant.global_constant, constant.linkage = True, "private"
    return constant
