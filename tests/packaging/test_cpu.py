"""For which CPUs a library is: what it needs, and that it says so before it would crash."""

from __future__ import annotations

import ctypes
import re
from functools import cache
from pathlib import Path

import llvmlite.binding as binding
import pytest
import rnncc_runtime
from rnncc_runtime import LoadError

import rnncc
from rnncc.codegen.cpu.library.supported import supported_text
from rnncc.codegen.cpu.machine.features import LEVELS, SIGNS, features_of_cpu, needed
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.codegen.llvm import objects
from rnncc.errors import CompileError
from rnncc.options import Options
from rnncc.packaging.elf import Elf
from tests.compiling import bytes_of, text_of

X86, ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
HERE = resolve_target()
on_x86 = pytest.mark.skipif(HERE.architecture != "x86_64", reason="needs an x86-64 CPU")


@cache
def lacking() -> str:
    """A cpu that has what this one has not."""
    cpus = ("diamondrapids", "sapphirerapids", "bdver4")
    own = set(needed(HERE))
    return next(cpu for cpu in cpus if not own >= set(features_of_cpu(X86, cpu)))


@on_x86
def test_what_a_cpu_has_is_what_it_tells() -> None:
    """Each extension by itself: there, if LLVM finds it on this machine too."""
    host = binding.get_host_cpu_features()
    names = list(SIGNS["x86_64"])
    text = "".join(supported_text(f"m{n}", [name], HERE) for n, name in enumerate(names))
    engine = objects.load(objects.optimise(text, HERE, jit=True))
    for number, name in enumerate(names):
        at = engine.get_function_address(f"m{number}_supported")
        assert ctypes.CFUNCTYPE(ctypes.c_int)(at)() == int(host[name]), name
        at = engine.get_function_address(f"m{number}_missing_feature")
        told = ctypes.CFUNCTYPE(ctypes.c_char_p)(at)()
        assert told == (None if host[name] else name.encode())


def test_features_by_name() -> None:
    for level, features in LEVELS.items():
        assert sorted(features) == sorted(features_of_cpu(X86, level))
    assert not {"sse3", "avx"} & set(features_of_cpu(X86, "x86-64"))
    assert {"avx512fp16", "avxvnni"} <= set(features_of_cpu(X86, "sapphirerapids"))
    assert "avx512bf16" not in features_of_cpu(X86, "icelake-server")
    assert not features_of_cpu(ARM, "generic")
    assert {"lse", "rcpc", "dotprod"} <= set(features_of_cpu(ARM, "neoverse-n1"))
    assert "sve" not in features_of_cpu(ARM, "neoverse-n1")
    assert {"sve2", "i8mm", "bf16"} <= set(features_of_cpu(ARM, "neoverse-v2"))
    assert needed(resolve_target(X86, "x86-64-v3")) == list(LEVELS["x86-64-v3"])


@on_x86
def test_a_library_for_another_cpu(tmp_path: Path) -> None:
    """An error from Python and a refusal in C, not an illegal instruction."""
    cpu = lacking()
    made = rnncc.build(rnncc.cells.elman(3, 4), out=tmp_path, name="other", cpu=cpu)
    assert made.library is not None and made.header is not None
    with pytest.raises(LoadError, match=rf"compiled for {cpu}, and this CPU has no \w+; compile"):
        rnncc_runtime.load(made.library)
    library = ctypes.CDLL(str(made.library))
    library.other_missing_feature.restype = library.other_metadata.restype = ctypes.c_char_p
    assert library.other_supported() == 0
    assert library.other_missing_feature().decode() not in needed(HERE)
    assert f'"cpu": "{cpu}"' in library.other_metadata().decode()
    header = " ".join(made.header.read_text().replace(" * ", " ").split())
    assert f"It runs on a CPU that has {', '.join(needed(resolve_target(X86, cpu)))}." in header
    with pytest.raises(CompileError, match=f"code for {cpu} .* does not run on this machine"):
        rnncc.compile(rnncc.cells.elman(3, 4), cpu=cpu)


def test_a_library_for_this_cpu(tmp_path: Path) -> None:
    made = rnncc.build(rnncc.cells.elman(3, 4), out=tmp_path, name="other")
    assert made.library is not None
    library = ctypes.CDLL(str(made.library))
    assert library.other_supported() == 1
    assert rnncc_runtime.load(made.library).metadata["features"] == needed(HERE)
    image = bytearray(made.library.read_bytes())
    image[18:20] = (8).to_bytes(2, "little")  # MIPS
    foreign = tmp_path / "libforeign.so"  # another file: what is loaded is not to be written to
    foreign.write_bytes(image)
    with pytest.raises(LoadError, match=r"compiled for machine 8 .*, and this machine is"):
        rnncc_runtime.load(foreign)


@pytest.mark.parametrize(
    ("triple", "cpu", "beyond"),
    [
        (X86, "diamondrapids", r"%[xyz]mm|%r(1[6-9]|2\d|3[01])|\bsarx|\bshlx|\bbzhi|\{nf\}"),
        (ARM, "neoverse-v2", r"\b[zp]\d+\.|\bld(add|apr)|\bcas"),
    ],
)
def test_the_check_is_for_any_cpu(triple: str, cpu: str, beyond: str) -> None:
    """Its own code has nothing of what it asks for, while other code is free to."""
    options = {"target": triple, "cpu": cpu, "name": "other"}
    assembly = text_of(rnncc.cells.elman(3, 4), None, Options.of(None, options), "asm")
    assert isinstance(assembly, str)
    bodies = dict(re.findall(r"^(\w+):(.*?)^\.Lfunc_end", assembly, re.MULTILINE | re.DOTALL))
    helpers = ["word", "state"] if triple == X86 else ["word"]
    for name in ("lacking", "supported", "missing_feature", *helpers):
        assert not re.search(beyond, bodies.pop(f"other_{name}")), name
    if triple == X86:
        assert re.search(beyond, "".join(bodies.values()))


@pytest.mark.parametrize(("cpu", "more"), [("neoverse-n1", {"getauxval"}), ("generic", set[str]())])
def test_what_a_library_for_aarch64_needs(cpu: str, more: set[str]) -> None:
    options = Options.of(None, {"target": ARM, "cpu": cpu, "name": "other"})
    code = bytes_of(rnncc.cells.elman(3, 4), None, options)
    assert isinstance(code, bytes)
    undefined = {s.name for s in Elf(code).symbols if s.is_global and not s.is_defined}
    assert undefined - {"_GLOBAL_OFFSET_TABLE_"} == more
