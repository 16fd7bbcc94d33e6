"""LLVM itself: targets, optimisation, objects, assembly, code in memory."""

from __future__ import annotations

import difflib
import re
import tempfile
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import llvmlite.binding
import numpy as np

from rnncc.codegen.cpus import CPUS
from rnncc.codegen.target import Target
from rnncc.errors import CompileError

llvm = cast(Any, llvmlite.binding)  # its type stubs are of an older version
LINUX = re.compile(r"(x86_64|aarch64|arm64)(-\w+)?-linux(-(gnu|musl|android\d*))?")
PORTABLE = {
    "x86-64-v2": (4, 16, False),
    "x86-64-v3": (8, 16, True),
    "x86-64-v4": (16, 32, True),
}
"""cpu -> lanes, registers, fused multiply-add."""
DOTS = """
declare i32 @llvm.vector.reduce.add.v64i32(<64 x i32>)
define i32 @f(<64 x i8> %a, <64 x i8> %b) {
  %x = zext <64 x i8> %a to <64 x i32>
  %y = sext <64 x i8> %b to <64 x i32>
  %p = mul <64 x i32> %x, %y
  %s = call i32 @llvm.vector.reduce.add.v64i32(<64 x i32> %p)
  ret i32 %s
}
define <16 x bfloat> @g(<16 x float> %a) {
  %r = fptrunc <16 x float> %a to <16 x bfloat>
  ret <16 x bfloat> %r
}
"""
"""What shows whether a cpu has instructions for sums of products of bytes, and of bf16."""


def resolve_target(triple: str | None = None, cpu: str | None = None) -> Target:
    """A machine.

    Args:
        triple: this machine's by default.
        cpu: `native` (the default where the triple is this machine's) or one of LLVM's names.
    Raises:
        CompileError: for a triple or cpu that is not supported.
    """
    host = llvm.get_default_triple()
    chosen = triple or host
    architecture = _architecture(chosen)
    if architecture not in CPUS or (chosen != host and not LINUX.fullmatch(chosen)):
        hint = "x86_64-linux-gnu and aarch64-linux-gnu are"
        raise CompileError("", f"target {chosen!r} is not supported", hint)
    native = architecture == _architecture(host)
    if cpu == "native" and not native:
        raise CompileError("", f"cpu 'native' is of this machine, not of {chosen}", "name a cpu")
    if native and cpu in (None, "native"):
        return _native(chosen)
    cpu = cpu or ("x86-64-v3" if architecture == "x86_64" else "generic")
    _check_cpu(architecture, cpu)
    lanes, registers, fma = _vectors(architecture, chosen, cpu)
    known = frozenset[str]() if cpu in PORTABLE or lanes < 8 else _cpu_features(chosen, cpu)
    dots = "byte_dot" in known, "bf16_dot" in known and lanes == 16
    features = "-prefer-256-bit" if lanes == 16 else ""
    return Target(chosen, cpu, features, lanes, registers, fma, *dots)


def _architecture(triple: str) -> str:
    name = triple.split("-")[0]
    return "aarch64" if name == "arm64" else name


def _native(triple: str) -> Target:
    features = llvm.get_host_cpu_features()
    text = features.flatten()
    if _architecture(triple) == "aarch64":
        return Target(triple, llvm.get_host_cpu_name(), text, 4, 32, True)
    if features.get("avx512f") and features.get("avx512vl"):
        text = f"{text},-prefer-256-bit"
        dots = bool(features.get("avx512vnni")), bool(features.get("avx512bf16"))
        return Target(triple, llvm.get_host_cpu_name(), text, 16, 32, True, *dots)
    lanes = 8 if features.get("avx2") else 4
    dot = lanes == 8 and bool(features.get("avxvnni"))
    fma = bool(features.get("fma"))
    return Target(triple, llvm.get_host_cpu_name(), text, lanes, 16, fma, dot)


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


@cache
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
    assembly = _machine(triple, cpu, "-prefer-256-bit").emit_assembly(_parse(DOTS, triple))
    for feature, instruction in (("byte_dot", "vpdpbusd"), ("bf16_dot", "vcvtneps2bf16")):
        if instruction in assembly:
            found.add(feature)
    return frozenset(found)


def _multiply_add(lanes: int) -> str:
    v = f"<{lanes} x float>"
    name = f"@llvm.fma.v{lanes}f32"
    return (
        f"declare {v} {name}({v}, {v}, {v})\n"
        f"define {v} @f({v} %a, {v} %b, {v} %c) {{\n"
        f"  %y = call {v} {name}({v} %a, {v} %b, {v} %c)\n  ret {v} %y\n}}\n"
    )


def _check_cpu(architecture: str, cpu: str) -> None:
    if cpu not in CPUS[architecture]:
        near = difflib.get_close_matches(cpu, CPUS[architecture], 3)
        hint = f"did you mean {' or '.join(near)}?" if near else "rnncc targets lists some"
        raise CompileError("", f"cpu {cpu!r} is not one that LLVM knows for {architecture}", hint)


@cache
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
        cpu=cpu,
        features=features,
        opt=3,
        reloc="pic",
        codemodel="jitdefault" if jit else "default",
        jit=jit,
    )


def _parse(text: str, triple: str) -> Any:
    module = llvm.parse_assembly(text)
    module.triple = triple
    return module


_options = threading.Lock()
"""LLVM's options are the process's."""


@contextmanager
def _quick_passes(target: Target) -> Generator[None]:
    """On x86-64 without strength reduction of loops, a third of the time that machine code takes.

    It gains nothing where loops are written as they should run: 14 nets were as fast without it, to
    1 % on average. Others, such as numba, find the option as it was.
    """
    if _architecture(target.triple) != "x86_64":
        yield
        return
    with _options:
        llvm.set_option("", "--disable-lsr=true")
        try:
            yield
        finally:
            llvm.set_option("", "--disable-lsr=false")


@dataclass(frozen=True)
class Optimised:
    """A module after LLVM's passes, and the machine it is for."""

    module: Any
    machine: Any
    target: Target
    keep: Any = None

    @property
    def text(self) -> str:
        """LLVM IR."""
        return str(self.module)

    @property
    def assembly(self) -> str:
        """The machine's assembly language."""
        with _quick_passes(self.target):
            return self.machine.emit_assembly(self.module)

    @property
    def object_code(self) -> bytes:
        """A relocatable object."""
        with _quick_passes(self.target):
            return self.machine.emit_object(self.module)


def optimise(
    text: str,
    target: Target,
    jit: bool = False,
    weights: tuple[str, np.ndarray[Any, Any]] | None = None,
    linked: Sequence[str] = (),
) -> Optimised:
    """Parse textual IR and run LLVM's passes for a machine.

    Loops are written as they should run, neither unrolled nor vectorised again, and functions that
    should be inlined say so; so a few passes do: LLVM's own pipeline takes five times as long and
    gains nothing (measured on LSTMs).

    Args:
        weights: a name and bytes that become the constant `NAME_weights`, in the object alone.
        linked: modules whose functions it calls; these get all of LLVM's passes.
    """
    machine = _machine(target.triple, target.cpu, target.features, jit)
    text, keep = _with_weights(text, target, *weights) if weights else (text, None)
    module = _parse(text, target.triple)
    module.data_layout = str(machine.target_data)
    for other in linked:
        _link(module, other, machine)
    module.verify()
    manager = llvm.create_new_module_pass_manager()
    manager.add_always_inliner_pass()
    manager.add_sroa_pass()
    manager.add_simplify_cfg_pass()
    manager.add_new_gvn_pass()
    manager.add_instruction_combine_pass()
    manager.add_simplify_cfg_pass()
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    manager.run(module, llvm.create_pass_builder(machine, tuning))
    return Optimised(module, machine, target, keep)


def _link(module: Any, text: str, machine: Any) -> None:
    """Take in a module's functions, optimised."""
    other = _parse(text, module.triple)
    other.data_layout = module.data_layout
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(other, builder)
    names = [function.name for function in other.functions if not function.is_declaration]
    module.link_in(other)
    for name in names:
        module.get_function(name).linkage = "internal"


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
    if _architecture(target.triple) == _architecture(llvm.get_default_triple()):
        file, path = _on_disk(weights)
        lines = [
            f'.section .rodata.{symbol},"a",@progbits',
            ".p2align 6",
            f".globl {symbol}",
            f".hidden {symbol}",
            f"{symbol}:",
            f'.incbin "{path}"',
            ".text",
        ]
        quoted = "\n".join(f"module asm {_quoted(line)}" for line in lines)
        hidden = declared.replace("external", "external hidden")
        return f"{text.replace(declared, hidden)}\n{quoted}\n", file
    escapes = np.array([list(b"\\%02x" % i) for i in range(256)], np.uint8)
    body = escapes[weights].tobytes().decode()
    made = f'@"{symbol}" = hidden constant [{len(weights)} x i8] c"{body}", align 64'
    return text.replace(declared, made), None


def _on_disk(weights: np.ndarray[Any, Any]) -> tuple[Any, str]:
    """A temporary file of bytes, and its path for this process; it goes when it is closed.

    Raises:
        CompileError: it cannot be written.
    """
    try:
        file: Any = tempfile.TemporaryFile()  # noqa: SIM115, lives on: returned
        path = f"/proc/self/fd/{file.fileno()}"
        if not Path(path).exists():  # no Linux, or without /proc
            file = tempfile.NamedTemporaryFile(suffix=".weights")  # noqa: SIM115
            path = file.name
        file.write(weights.data)
        file.flush()
    except OSError as error:
        what = f"cannot write: {error.strerror or error}"
        raise CompileError(tempfile.gettempdir(), what) from error
    return file, path


def _quoted(line: str) -> str:
    return '"' + line.replace("\\", "\\5C").replace('"', "\\22") + '"'


def check_runs_here(target: Target) -> None:
    """Refuse code for another machine.

    Raises:
        CompileError: this machine lacks what the target has.
    """
    own = resolve_target()
    same = _architecture(target.triple) == _architecture(own.triple)
    if (
        not same
        or target.lanes > own.lanes
        or (target.fma and not own.fma)
        or (target.byte_dot and not own.byte_dot)
        or (target.bf16_dot and not own.bf16_dot)
    ):
        what = f"code for {target.cpu} ({target.triple}) does not run on this machine, a {own.cpu}"
        raise CompileError("", what, "rnncc.build writes it to files")


def load(optimised: Optimised) -> Any:
    """Code in memory; `get_function_address` of the result gives entry points."""
    engine = llvm.create_mcjit_compiler(optimised.module, optimised.machine)
    engine.finalize_object()
    return engine


def load_object(code: bytes) -> Any:
    """As `load`, of an object that a machine for code in memory has made."""
    triple = llvm.get_default_triple()
    machine = _machine(triple, "", "", jit=True)
    engine = llvm.create_mcjit_compiler(_parse("", triple), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine
