"""The CPUs that code can be written for: what LLVM tells of this one, and of those by name."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any

from rnncc.codegen.cpu.machine import measured
from rnncc.codegen.cpu.machine.core import AMX
from rnncc.codegen.cpu.machine.cpus import CPUS
from rnncc.codegen.cpu.machine.families import Family, family_of, tuned_for
from rnncc.codegen.cpu.machine.features import BASELINE, features_of_cpu
from rnncc.codegen.cpu.machine.permitted import permitted
from rnncc.codegen.cpu.target import CpuTarget
from rnncc.codegen.llvm.host import Host, host
from rnncc.errors import CompileError
from rnncc.names import did_you_mean
from rnncc.platforms import (
    ENVIRONMENTS,
    PLATFORMS,
    Platform,
    architecture_of,
    full_triple,
    is_whole,
    platform_of,
    system_of,
)

PORTABLE = {
    "x86-64-v2": (4, 16, False),
    "x86-64-v3": (8, 16, True),
    "x86-64-v4": (16, 32, True),
}
"""cpu -> lanes, registers, fused multiply-add."""
BYTE_DOTS = {"avx512vnni", "avxvnni", "dotprod"}
"""Extensions that add four products of bytes to a sum in one instruction."""
DEFAULT = {"x86_64": "x86-64-v3", "aarch64": "generic"}
"""Architecture -> the cpu of a triple that is not this machine's."""


def resolve(triple: str | None, cpu: str | None, knobs: Mapping[str, int]) -> CpuTarget:
    """A machine as `resolve_target` has it, with settings of the code generator."""
    return replace(resolve_target(triple, cpu), **knobs)


def load(code: bytes) -> Any:
    """An object in this process."""
    from rnncc.codegen.llvm.objects import load_object

    return load_object(code)


def resolve_target(triple: str | None = None, cpu: str | None = None) -> CpuTarget:
    """A machine.

    Args:
        triple: a name or a triple of `rnncc.platforms`; this machine's by default.
        cpu: `native` (the default where the triple is this machine's) or one of LLVM's names.
    Raises:
        CompileError: for a triple or cpu that is not supported.
    """
    own = host().triple
    platform = platform_of(own if triple is None else triple)
    if platform is None and triple not in (None, own):
        listed = "`rnncc targets` lists names, and triples of their kinds do"
        hint = did_you_mean(triple or "", PLATFORMS, listed)
        raise CompileError("", f"target {triple!r} is not supported", hint)
    if triple not in (None, own, *PLATFORMS) and not is_whole(triple):
        hint = f"its last word may be {', '.join(ENVIRONMENTS[system_of(triple)])}"
        raise CompileError("", f"target {triple!r} is not supported", hint)
    if cpu is not None and "," in cpu:
        what = f"{cpu!r} names several CPUs, for which there are libraries in files alone"
        raise CompileError("--cpu", what, "rnncc compile, rnncc.build; or name one CPU")
    is_named = triple in PLATFORMS
    chosen = platform.triple if platform is not None and is_named else triple or own
    architecture = architecture_of(chosen)
    if cpu == "native" and architecture != architecture_of(own):
        raise CompileError("", f"cpu 'native' is of this machine, not of {chosen}", "name a cpu")
    is_here = architecture == architecture_of(own) and system_of(chosen) == system_of(own)
    if cpu == "native" or (cpu is None and is_here and not is_named):
        return _native(chosen)
    assert platform is not None
    default = platform.cpu if is_named else DEFAULT.get(architecture, platform.cpu)
    return _named(platform, chosen, default if cpu is None else cpu)


def _named(platform: Platform, triple: str, cpu: str) -> CpuTarget:
    """A machine by the name of its CPU."""
    architecture = architecture_of(triple)
    _check_cpu(architecture, cpu)
    if architecture not in BASELINE or platform.system != "linux":
        triple = full_triple(triple)
    if architecture not in BASELINE:
        row = platform
        sizes = row.lanes, row.registers, row.fma
        if row.compact:
            return CpuTarget(triple, cpu, row.features, *sizes, chains=1, compact=True)
        return CpuTarget(triple, cpu, row.features, *sizes)
    lanes, registers, fma = _vectors(architecture, triple, cpu)
    is_plain = cpu in PORTABLE or cpu == BASELINE[architecture]
    wide = lanes >= 8 or architecture == "aarch64"
    # LLVM takes a while to answer, and levels and baselines have none of these.
    extensions = features_of_cpu(triple, cpu) if wide and not is_plain else ()
    family = family_of(cpu)
    dots = not BYTE_DOTS.isdisjoint(extensions), "avx512bf16" in extensions and family.quick_bf16
    tiles = _tiles(triple, extensions)
    # Tuned for some CPUs, LLVM would cut vectors of 512 bits in two.
    features = "-prefer-256-bit" if lanes == 16 else ""
    return _sized(CpuTarget(triple, cpu, features, lanes, registers, fma, *dots, tiles), family)


def _sized(target: CpuTarget, family: Family) -> CpuTarget:
    """A machine with what code is sized by."""
    return replace(
        target,
        cache=family.near,
        l1=family.l1,
        l2_read=family.l2_read,
        l2_streams=family.l2_streams,
        tall=family.tall,
        ahead=family.ahead,
        far=family.far,
        far_rows=family.far_rows,
        chains=family.chains,
    )


def _native(triple: str) -> CpuTarget:
    """This machine's vectors and instructions, and its family's sizes."""
    cpu, has_amx = host().cpu, "amx-tile" in host().has
    family = measured.refined(cpu, family_of(cpu, has_amx))
    target = _with_vectors(triple, host(), family)
    return _sized(replace(target, tuned=tuned_for(cpu, has_amx)), family)


def _with_vectors(triple: str, own: Host, family: Family) -> CpuTarget:
    cpu, features, has = own.cpu, own.features, own.has
    if architecture_of(triple) == "aarch64":
        return CpuTarget(triple, cpu, features, 4, 32, True, "dotprod" in has)
    if {"avx512f", "avx512vl"} <= has:
        dots = "avx512vnni" in has, "avx512bf16" in has and family.quick_bf16
        tiles = _tiles(triple, has) if not has.isdisjoint(AMX.values()) and permitted() else ()
        return CpuTarget(triple, cpu, f"{features},-prefer-256-bit", 16, 32, True, *dots, tiles)
    lanes = 8 if "avx2" in has else 4
    dots = lanes == 8 and "avxvnni" in has
    return CpuTarget(triple, cpu, features, lanes, 16, "fma" in has, dots)


def _tiles(triple: str, names: Container[str]) -> tuple[str, ...]:
    """Types of weights that a machine multiplies as matrices: Linux lets libraries ask for it."""
    if system_of(triple) != "linux":
        return ()
    return tuple(dtype for dtype, name in AMX.items() if name in names)


def _vectors(architecture: str, triple: str, cpu: str) -> tuple[int, int, bool]:
    """Lanes, registers and fused multiply-add of a named cpu."""
    if architecture != "x86_64":
        return 4, 32, True
    if cpu in PORTABLE:
        return PORTABLE[cpu]
    features = features_of_cpu(triple, cpu)
    if "avx512f" in features:
        return PORTABLE["x86-64-v4"]
    # AMD's first CPUs with AVX fuse by FMA4 alone, which LLVM then uses.
    fused = "avx" in features and not {"fma", "fma4"}.isdisjoint(features)
    return PORTABLE["x86-64-v3" if fused else "x86-64-v2"]


def _check_cpu(architecture: str, cpu: str) -> None:
    if cpu not in CPUS[architecture]:
        hint = did_you_mean(cpu, CPUS[architecture], "`rnncc targets` lists some")
        raise CompileError("", f"cpu {cpu!r} is not one that LLVM knows for {architecture}", hint)
