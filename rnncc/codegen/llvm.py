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
from rnncc.codegen.features import features_of_cpu, needed
from rnncc.codegen.target import Target, architecture_of
from rnncc.errors import CompileError

llvm = cast(Any, llvmlite.binding)  # its type stubs are of an older version
LINUX = re.compile(r"(x86_64|aarch64|arm64)(-\w+)?-linux(-(gnu|musl|android\d*))?")
PORTABLE = {
    "x86-64-v2": (4, 16, False),
    "x86-64-v3": (8, 16, True),
    "x86-64-v4": (16, 32, True),
}
"""cpu -> lanes, registers, fused multiply-add."""


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
    architecture = architecture_of(chosen)
    if architecture not in CPUS or (chosen != host and not LINUX.fullmatch(chosen)):
        hint = "x86_64-linux-gnu and aarch64-linux-gnu are"
        raise CompileError("", f"target {chosen!r} is not supported", hint)
    native = architecture == architecture_of(host)
    if cpu == "native" and not native:
        raise CompileError("", f"cpu 'native' is of this machine, not of {chosen}", "name a cpu")
    if native and cpu in (None, "native"):
        return _native(chosen)
    cpu = cpu or ("x86-64-v3" if architecture == "x86_64" else "generic")
    _check_cpu(architecture, cpu)
    lanes, registers, fma = _vectors(architecture, chosen, cpu)
    known = () if cpu in PORTABLE or lanes < 8 else features_of_cpu(chosen, cpu)
    dots = "avx512vnni" in known or "avxvnni" in known, "avx512bf16" in known
    features = "-prefer-256-bit" if lanes == 16 else ""
    return Target(chosen, cpu, features, lanes, registers, fma, *dots)


def _native(triple: str) -> Target:
    features = llvm.get_host_cpu_features()
    text = features.flatten()
    if architecture_of(triple) == "aarch64":
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
    features = features_of_cpu(triple, cpu)
    if "avx512f" in features:
        return PORTABLE["x86-64-v4"]
    fused = "avx" in features and not {"fma", "fma4"}.isdisjoint(features)
    return PORTABLE["x86-64-v3" if fused else "x86-64-v2"]


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
    if architecture_of(target.triple) != "x86_64":
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


def inlined(text: str, triple: str, name: str) -> str:
    """The IR of a function after LLVM has taken in all functions that it may."""
    module, machine = _parse(text, triple), _machine(triple, "", "")
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    builder.getModulePassManager().run(module, builder)
    return str(module.get_function(name))


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
    if architecture_of(target.triple) == architecture_of(llvm.get_default_triple()):
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
    lacking = "another architecture"
    if target.architecture == own.architecture:
        lacking = ", ".join(sorted(set(needed(target)) - set(needed(own))))
    if lacking:
        what = f"code for {target.cpu} ({target.triple}) does not run on this machine, a {own.cpu}"
        raise CompileError("", f"{what}: {lacking}", "rnncc.build writes it to files")


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
