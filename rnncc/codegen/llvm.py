"""LLVM itself: targets, optimisation, objects, assembly, code in memory."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from rnncc.codegen.target import Target
from rnncc.errors import CompileError

PORTABLE = {
    "x86-64-v2": (4, 16, False),
    "x86-64-v3": (8, 16, True),
    "x86-64-v4": (16, 32, True),
}
"""cpu -> lanes, registers, fused multiply-add."""


def resolve_target(triple: str | None = None, cpu: str | None = None) -> Target:
    """A machine by its triple (default: this one's) and cpu (`native`, x86-64-v2/3/4, LLVM's names).

    Raises:
        CompileError: for a triple or cpu that is not supported.
    """
    host = llvm.get_default_triple()
    chosen = triple or host
    architecture = chosen.split("-")[0]
    if architecture not in ("x86_64", "aarch64", "arm64"):
        raise CompileError("", f"target {chosen!r} is not supported", "x86_64 and aarch64 are")
    native = architecture == host.split("-")[0]
    if cpu in (None, "native"):
        if native:
            return _native(chosen)
        cpu = "x86-64-v3" if architecture == "x86_64" else "generic"
    assert cpu is not None
    features = "+avx512f" if cpu == "x86-64-v4" else ""
    _check_cpu(chosen, cpu)
    lanes, registers, fma = _vectors(architecture, chosen, cpu)
    wide = ",-prefer-256-bit" if lanes == 16 else ""
    return Target(chosen, cpu, f"{features}{wide}".strip(","), lanes, registers, fma)


def _native(triple: str) -> Target:
    features = llvm.get_host_cpu_features()
    text = features.flatten()
    if triple.startswith(("aarch64", "arm64")):
        return Target(triple, llvm.get_host_cpu_name(), text, 4, 32, True)
    if features.get("avx512f") and features.get("avx512vl"):
        text = f"{text},-prefer-256-bit"
        return Target(triple, llvm.get_host_cpu_name(), text, 16, 32, True)
    lanes = 8 if features.get("avx2") else 4
    return Target(triple, llvm.get_host_cpu_name(), text, lanes, 16, bool(features.get("fma")))


def _vectors(architecture: str, triple: str, cpu: str) -> tuple[int, int, bool]:
    """Lanes, registers and fused multiply-add of a named cpu."""
    if architecture != "x86_64":
        return 4, 32, True
    if cpu in PORTABLE:
        return PORTABLE[cpu]
    features = _cpu_features(triple, cpu)
    if "avx512f" in features:
        return PORTABLE["x86-64-v4"]
    return PORTABLE["x86-64-v3" if "fma" in features and "avx2" in features else "x86-64-v2"]


@lru_cache(maxsize=64)
def _cpu_features(triple: str, cpu: str) -> frozenset[str]:
    """Which vector extensions LLVM uses for a cpu, found out by compiling for it."""
    found: set[str] = set()
    for feature, lanes, register in (("avx512f", 16, "%zmm"), ("avx2", 8, "%ymm")):
        text = _multiply_add(lanes)
        assembly = _machine(triple, cpu, "-prefer-256-bit").emit_assembly(_parse(text, triple))
        if register in assembly:
            found.add(feature)
        if "vfmadd" in assembly:
            found.add("fma")
    return frozenset(found)


def _multiply_add(lanes: int) -> str:
    v = f"<{lanes} x float>"
    name = f"@llvm.fma.v{lanes}f32"
    return (
        f"declare {v} {name}({v}, {v}, {v})\n"
        f"define {v} @f({v} %a, {v} %b, {v} %c) {{\n"
        f"  %y = call {v} {name}({v} %a, {v} %b, {v} %c)\n  ret {v} %y\n}}\n"
    )


def _check_cpu(triple: str, cpu: str) -> None:
    """Refuse names that LLVM does not know: it would only warn and take a generic one."""
    import re

    if not re.fullmatch(r"[A-Za-z0-9_.+-]+", cpu):
        raise CompileError("", f"cpu {cpu!r} is not a name")
    known = _known_cpus(triple)
    if known is not None and cpu not in known:
        raise CompileError("", f"cpu {cpu!r} is not one that LLVM knows for {triple}", "--cpu native")


def _known_cpus(triple: str) -> frozenset[str] | None:
    return None if triple else frozenset()


@lru_cache(maxsize=1)
def initialize() -> None:
    """Register every code generator, once."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()


def _machine(triple: str, cpu: str, features: str, jit: bool = False) -> Any:
    initialize()
    target = llvm.Target.from_triple(triple)
    return target.create_target_machine(
        cpu=cpu, features=features, opt=3, reloc="pic", codemodel="jitdefault" if jit else "default",
        jit=jit,
    )


def _parse(text: str, triple: str) -> Any:
    module = llvm.parse_assembly(text)
    module.triple = triple
    return module


@dataclass(frozen=True)
class Optimised:
    """A module after LLVM's passes, and the machine it is for."""

    module: Any
    machine: Any
    target: Target
    keep: Any = None

    @property
    def text(self) -> str:
        return str(self.module)

    @property
    def assembly(self) -> str:
        return self.machine.emit_assembly(self.module)

    @property
    def object_code(self) -> bytes:
        return self.machine.emit_object(self.module)


def optimise(
    text: str,
    target: Target,
    jit: bool = False,
    weights: tuple[str, np.ndarray[Any, Any]] | None = None,
) -> Optimised:
    """Parse textual IR and run LLVM's passes for a machine.

    Loops are written as they should run, neither unrolled nor vectorised again, so a few passes
    do: LLVM's own pipeline takes five times as long and gains nothing (measured on LSTMs).

    Args:
        weights: a name and bytes that become the constant `NAME_weights`, in the object alone.
    """
    machine = _machine(target.triple, target.cpu, target.features, jit)
    text, keep = _with_weights(text, target, *weights) if weights else (text, None)
    module = _parse(text, target.triple)
    module.data_layout = str(machine.target_data)
    module.verify()
    manager = llvm.create_new_module_pass_manager()
    manager.add_simplify_cfg_pass()
    manager.add_new_gvn_pass()
    manager.add_instruction_combine_pass()
    manager.add_simplify_cfg_pass()
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    manager.run(module, llvm.create_pass_builder(machine, tuning))
    return Optimised(module, machine, target, keep)


def _with_weights(
    text: str, target: Target, name: str, weights: np.ndarray[Any, Any]
) -> tuple[str, Any]:
    """IR that holds a constant's bytes, and what must live until the object is written.

    The assembler reads them from a file where LLVM has one for this machine: a second quicker
    for 32 MB than bytes written out as text.
    """
    symbol = f"{name}_weights"
    declared = f'@"{symbol}" = external constant [{max(len(weights), 1)} x i8]'
    assert text.count(declared) == 1
    if target.triple.split("-")[0] == llvm.get_default_triple().split("-")[0]:
        file = tempfile.NamedTemporaryFile(suffix=".weights")  # noqa: SIM115
        weights.tofile(file.name)
        lines = [
            f'.section .rodata.{symbol},"a",@progbits',
            ".p2align 6",
            f".globl {symbol}",
            f".hidden {symbol}",
            f"{symbol}:",
            f'.incbin "{file.name}"',
            ".text",
        ]
        quoted = "\n".join(f"module asm {_quoted(line)}" for line in lines)
        hidden = declared.replace("external", "external hidden")
        return f"{text.replace(declared, hidden)}\n{quoted}\n", file
    escapes = np.array([list(b"\\%02x" % i) for i in range(256)], np.uint8)
    body = escapes[weights].tobytes().decode()
    made = f'@"{symbol}" = hidden constant [{len(weights)} x i8] c"{body}", align 64'
    return text.replace(declared, made), None


def _quoted(line: str) -> str:
    return '"' + line.replace("\\", "\\5C").replace('"', "\\22") + '"'


def load(optimised: Optimised) -> Any:
    """Code in memory; `get_function_address` of the result gives entry points."""
    engine = llvm.create_mcjit_compiler(optimised.module, optimised.machine)
    engine.finalize_object()
    return engine
