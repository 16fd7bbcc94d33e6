"""One library with code for several CPUs of an architecture, one of which is taken at run time.

In: a planned library for each CPU, over one block of weights. Out: one module. Each version is
optimised by itself, as a library for that CPU alone is; the exported functions, which run on any
CPU of the architecture, ask once which of them there is, and call that version's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from rnncc.codegen.cpu.library.entries import (
    add_metadata,
    declare_weights,
    emit_module,
    keep_inside,
    text_constant,
)
from rnncc.codegen.cpu.library.supported import asking_text, supported_text
from rnncc.codegen.cpu.machine.core import Core
from rnncc.codegen.cpu.machine.features import BASELINE
from rnncc.codegen.cpu.target import CpuTarget
from rnncc.codegen.llvm import objects
from rnncc.codegen.llvm.values import I32, POINTER, Value, declared
from rnncc.codegen.target import Code, Forms
from rnncc.kern.library import Library

_CHOICE = """
@{name}_known = internal global i32 0
define i32 @{name}_version() {machine} {{
entry:
  %known = load atomic i32, ptr @{name}_known monotonic, align 4
  %is_known = icmp ne i32 %known, 0
  br i1 %is_known, label %done, label %ask
ask:
  %number0 = add i32 1, 0
{questions}
  store atomic i32 %number{last}, ptr @{name}_known monotonic, align 4
  br label %done
done:
  %version = phi i32 [ %known, %entry ], [ %number{last}, %ask ]
  ret i32 %version
}}
define i32 @{name}_supported() {machine} {{
  %number = call i32 @{name}_version()
  %later = icmp ugt i32 %number, 1
  br i1 %later, label %yes, label %ask
ask:
  %first = call i32 @{name}_0_supported()
  ret i32 %first
yes:
  ret i32 1
}}
define ptr @{name}_missing_feature() {machine} {{
  %supported = call i32 @{name}_supported()
  %none = icmp eq i32 %supported, 0
  br i1 %none, label %ask, label %fits
ask:
  %missing = call ptr @{name}_0_missing_feature()
  ret ptr %missing
fits:
  ret ptr null
}}
"""
"""The number of the version, from 1 up: the last one that the CPU has all for, else the first.

It is found once. Threads that look for it at the same time find the same, and may all store it."""
_QUESTION = """\
  %has{i} = call i32 @{name}_{i}_supported()
  %is{i} = icmp ne i32 %has{i}, 0
  %number{i} = select i1 %is{i}, i32 {number}, i32 %number{before}"""


def write_versions(
    name: str,
    versions: Sequence[tuple[Library, CpuTarget]],
    metadata: dict[str, Any],
    weights: np.ndarray[Any, Any],
) -> Code:
    """The module of a library.

    Args:
        name: the library's; those of the versions become `NAME_0` and so on.
        versions: planned, of equal interfaces; of those that a CPU has all for the last is taken.
        metadata: of the whole.
        weights: the block that all versions read.
    """
    compiled = [_Version(f"{name}_{i}", *version) for i, version in enumerate(versions)]
    first = versions[0][1]
    # What chooses a version must run on every CPU.
    target = Core(first.triple, BASELINE[first.architecture], "", 4, 16, False)
    module = ir.Module(name)
    module.triple = target.triple
    block = declare_weights(module, name, len(weights))
    for function in compiled[0].functions:
        _add_function(module, name, function, compiled, block)
    _add_chosen_cpu(module, name, [compilation.target.cpu for compilation in compiled])
    add_metadata(module, name, metadata)
    text, choice = str(module), _choice(name, compiled, target)

    def finish() -> Forms:
        optimised = objects.optimise(text, target, weights=(name, weights))
        optimised.take_in(choice, [f"{name}_version"])
        for compilation in compiled:
            optimised.take_in(compilation.optimised(), compilation.names)
        return {
            "llvm": lambda: optimised.text,
            "asm": lambda: optimised.assembly,
            "obj": lambda: optimised.object_code,
        }

    return Code(text, ".ll", finish)


class _Version:
    """The code for one CPU.

    Attributes:
        functions: exported name, without the library's -> what does that here.
        computing: names of those that take the weights first.
    """

    def __init__(self, name: str, library: Library, target: CpuTarget) -> None:
        library.name, self.name, self.target = name, name, target
        self.features = target.extensions_of(library)
        code = emit_module(library, target)
        module: Any = code.module
        sizes = {size: module.globals[f"{name}_{size}"] for size in code.sizes}
        self.functions: dict[str, ir.Function] = {**code.entries, **sizes}
        self.computing = set(code.entries)
        self.names = [function.name for function in self.functions.values()]
        keep_inside(code.module, set(self.names))
        self.text, self.linked = str(code.module), code.linked

    def optimised(self) -> str:
        """The module as that of a library for this CPU alone, each function marked with it."""
        code = objects.optimise(self.text, self.target, linked=self.linked)
        machine = f'"target-cpu"="{self.target.cpu}" "target-features"="{self.target.features}"'
        return re.sub(r"^(define .*) \{$", rf"\1 {machine} {{", code.text, flags=re.MULTILINE)

    def supported(self) -> str:
        """What asks the CPU, not exported."""
        text = supported_text(self.name, self.features, self.target)
        return re.sub(r"^define (?!internal)", "define internal ", text, flags=re.MULTILINE)


def _add_function(
    module: ir.Module, name: str, exported: str, versions: Sequence[_Version], weights: Value
) -> None:
    """An exported function: the chosen version's, given the weights if it computes."""
    functions = [version.functions[exported] for version in versions]
    whole = functions[0].function_type
    computes = exported in versions[0].computing
    types = whole.args[1:] if computes else whole.args
    kind = ir.FunctionType(whole.return_type, types)
    function = ir.Function(module, kind, f"{name}_{exported}")
    arguments = [weights, *function.args] if computes else list(function.args)

    def call(builder: ir.IRBuilder, number: int) -> None:
        own = ir.Function(module, whole, functions[number].name)
        builder.ret(builder.call(own, arguments, tail=True))

    _choose(module, name, function, call, len(versions))


def _add_chosen_cpu(module: ir.Module, name: str, cpus: Sequence[str]) -> None:
    """`NAME_chosen_cpu`: the name of the CPU whose version is taken, a constant."""
    function = ir.Function(module, ir.FunctionType(POINTER, []), f"{name}_chosen_cpu")

    def give(builder: ir.IRBuilder, number: int) -> None:
        builder.ret(text_constant(module, f"{name}_cpu_{number}", cpus[number]))

    _choose(module, name, function, give, len(cpus))


def _choose(
    module: ir.Module,
    name: str,
    function: ir.Function,
    write: Callable[[ir.IRBuilder, int], None],
    count: int,
) -> None:
    """A function's body: what `write` writes for the version that is taken."""
    builder: Any = ir.IRBuilder(function.append_basic_block("entry"))
    version = declared(module, f"{name}_version", I32, [])
    blocks = [function.append_basic_block(f"version{i}") for i in range(count)]
    switch = builder.switch(builder.call(version, []), blocks[0])
    for number, block in enumerate(blocks):
        if number:
            switch.add_case(I32(number + 1), block)
        write(ir.IRBuilder(block), number)


def _choice(name: str, versions: Sequence[_Version], target: Core) -> str:
    """What finds the version, as LLVM's text, and tells whether there is one."""
    machine = f'nounwind "target-cpu"="{target.cpu}" "target-features"=""'
    questions = [
        _QUESTION.format(name=name, i=i, number=i + 1, before=i - 1)
        for i in range(1, len(versions))
    ]
    last = len(versions) - 1
    text = _CHOICE.format(name=name, machine=machine, questions="\n".join(questions), last=last)
    features = {name for version in versions for name in version.features}
    supported = "".join(version.supported() for version in versions)
    return text + supported + asking_text(name, features, target.architecture)
