"""The table of platforms: what LLVM says of each, which files there are, what objects ask for."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import llvmlite.binding
import numpy as np
import pytest

import rnncc
from rnncc.codegen import targets
from rnncc.codegen.llvm.objects import initialize
from rnncc.driver.compiling import compile_object
from rnncc.driver.remote import runners
from rnncc.driver.remote.boards import BOARDS
from rnncc.driver.remote.runners import Missing, RemoteProgram, Runner, find_runner
from rnncc.errors import CompileError
from rnncc.ir.builder import Builder
from rnncc.options import Options
from rnncc.packaging import linkers
from rnncc.packaging.products import KINDS
from rnncc.platforms import PLATFORMS, SYSTEMS, full_triple, platform_of, pointer_bytes, system_of
from tests.compiling import bytes_of, text_of
from tests.targets.running import compiled_for
from tests.targets.symbols import undefined

llvm = llvmlite.binding
every = pytest.mark.parametrize("name", PLATFORMS)
HELPERS = {
    "linux": {"getauxval", "_GLOBAL_OFFSET_TABLE_"},
    "windows": {"___chkstk_ms", "__chkstk"},
}
"""What objects may need but memory functions, by system: docs/targets.md says the same."""
DIVISION = {"armv7": {"__aeabi_idiv", "__aeabi_uidiv"}}
MEMORY = {"memcpy", "memset", "memmove"}
MEMORY |= {f"__aeabi_{name}{end}" for name in (*MEMORY, "memclr") for end in ("", "4", "8")}


FOREIGN = [name for name, row in PLATFORMS.items() if not row.triple.startswith("x86_64-unknown")]


def net() -> Any:
    return rnncc.cells.lstm(3, 5)


@every
def test_llvm_agrees(name: str) -> None:
    row = PLATFORMS[name]
    initialize()
    machine = llvm.Target.from_triple(row.triple).create_target_machine(cpu=row.cpu)
    layout = str(machine.target_data)
    found = re.search(r"(?:^|-)p:(\d+)", layout)
    assert pointer_bytes(row.triple) * 8 == (int(found[1]) if found else 64)
    assert layout.startswith("e-")  # little-endian, as the metadata and request formats are
    assert full_triple(row.triple) == row.triple
    target = targets.resolve(name)
    assert (target.triple, target.cpu) == (row.triple, row.cpu)
    assert target == targets.resolve(name)


@every
def test_products_are_of_the_system(name: str) -> None:
    row, system = targets.row_of(name), SYSTEMS[PLATFORMS[name].system]
    assert row.products == system.products
    assert set(system.by_default) <= set(system.products) <= KINDS.keys()
    assert system.library is None or system.library in system.products
    with pytest.raises(CompileError, match="the target does not make the product"):
        rnncc.build(net(), target=name, products=sorted(KINDS.keys() - set(row.products))[:1])


@pytest.mark.parametrize(
    ("triple", "name"),
    [
        ("riscv64-linux-musl", "riscv64"),
        ("x86_64-pc-windows-msvc", "windows-x64"),
        ("arm64-apple-darwin23", "macos-arm64"),
        ("thumbv7em-none-eabihf", "cortex-m4"),
    ],
)
def test_triples(triple: str, name: str) -> None:
    found = platform_of(triple)
    assert found is not None and system_of(found.triple) == system_of(PLATFORMS[name].triple)
    assert targets.resolve(triple).triple == full_triple(triple)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, "train") for name in FOREIGN),
        *((name, "int8") for name in ("armv7", "windows-x64", "cortex-m4", "riscv32")),
    ],
)
def test_objects_need_what_is_documented(name: str, kind: str) -> None:
    row = PLATFORMS[name]
    train, precision = kind == "train", "fp32" if kind == "train" else kind
    options = Options(name="net", target=name, train=train, precision=precision)
    code = bytes_of(net(), None, options)
    if row.system == "wasm":
        assert code[:4] == b"\0asm"
        return
    more = HELPERS.get(row.system, set()) | DIVISION.get(row.triple.split("-")[0], set())
    assert undefined(code) <= MEMORY | more


@pytest.mark.parametrize("name", ["armv7", "cortex-m4", "cortex-m33", "cortex-m55"])
def test_floats_are_passed_in_registers(name: str) -> None:
    """Else the linker complains, or a float's bits are lost."""
    text = text_of(net(), None, Options(name="net", target=name), "asm")
    assert re.search(r"\.eabi_attribute\s+28, 1\b", text)  # Tag_ABI_VFP_args
    assert "cantunwind" in text or "fnstart" not in text


def test_a_size_of_32_bits() -> None:
    """What does not fit `size_t` is out of range, and multiplies without the compiler's help."""
    text = text_of(net(), None, Options(name="net", target="wasm32"), "llvm")
    assert re.search(r"define i32 @net_workspace_bytes\(i64", text)
    assert "umul.with.overflow" not in text


def test_threads_are_refused_where_there_are_none() -> None:
    with pytest.raises(CompileError, match="there are no threads on wasm32"):
        bytes_of(net(), None, Options(name="net", target="wasm32", threads=True))


@pytest.mark.parametrize("name", ["windows-x64", "macos-arm64", "cortex-m4", "riscv32", "wasm32"])
def test_files_without_a_linker(name: str, tmp_path: Path) -> None:
    made = rnncc.build(net(), out=tmp_path, name="net", target=name, products=["o", "a", "h"])
    assert made.object is not None and made.archive is not None and made.header is not None
    assert made.object.suffix == (".obj" if name.startswith("windows") else ".o")
    content = made.archive.read_bytes()
    assert content.startswith(b"!<arch>\n")
    assert made.object.read_bytes() in content
    prefix = b"_" if name.startswith("macos") else b""
    assert prefix + b"net_run\0" in content[: content.index(made.object.read_bytes())]


def test_a_runner_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = tmp_path / "node"
    node.write_text("#!/bin/sh\nexec sleep 100\n")
    node.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name: str(node) if name == "node" else None)
    monkeypatch.setattr(runners, "TIMEOUT", 0.5)
    model = compiled_for(net(), None, "wasm32")
    with pytest.raises(CompileError, match=r"node did not end within 0\.5 s"):
        model.run({"x": np.zeros((2, 1, 3), np.float32)})


def test_a_target_without_a_name() -> None:
    with pytest.raises(CompileError, match="target '' is not supported"):
        targets.resolve("")


@pytest.mark.parametrize(
    "triple",
    [
        "x86_64-unknown-linux-gnu,foo",
        "x86_64-linux-gnu\n",
        "x86_64-linux-gnux32",  # whose pointers have 32 bits
        "aarch64-linuxfoo",
        "aarch64-pc-a-linux-gnu",
        "x86_64-linux-gnu-gnu",
        "arm64-apple-ios13.0-macabi",
        "thumbv7em-none-gnu",
        "wasm32-foo",
    ],
)
def test_triples_with_unknown_words(triple: str) -> None:
    with pytest.raises(CompileError, match=r"is not supported \(its last word may be \w+, "):
        targets.resolve(triple)


@pytest.mark.parametrize(
    "triple",
    [
        *(platform.triple for platform in PLATFORMS.values()),
        *("x86_64-linux", "aarch64-linux-android34", "x86_64-linux-gnu2.17", "wasm32-wasi"),
        *("armv7-none-linux-gnueabihf", "arm64-apple-darwin20.1.0", "x86_64-pc-windows-msvc"),
    ],
)
def test_triples_of_all_kinds(triple: str) -> None:
    assert targets.resolve(triple).triple


def test_an_engine_without_a_linker_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where there is node, but no lld."""
    monkeypatch.setattr(linkers, "_first", lambda names: None)
    monkeypatch.setattr(linkers, "find_zig", lambda *words: None)
    with pytest.raises(Missing, match="does not run here: found no linker for wasm32"):
        find_runner("wasm32")


@pytest.mark.parametrize(
    ("target", "named"),
    [
        ("aarch64", "aarch64-linux-musl"),
        ("android-arm64", "aarch64-linux-musl"),
        ("armv7", "arm-linux-musleabihf"),
        ("riscv64-v", "riscv64-linux-musl"),
        ("x86_64-linux-musl", "x86_64-linux-musl"),
    ],
)
def test_zig_links_static_programs_with_musl(
    target: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that emulators run; the GNU library it links into dynamic ones alone."""

    def which(name: str) -> str | None:
        return f"/usr/bin/{name}" if name.startswith("qemu-") else None

    monkeypatch.setattr(shutil, "which", which)
    monkeypatch.setattr(runners, "find_zig", lambda *words: ("python", "-m", "ziglang", *words))
    assert find_runner(target).compiler[-2:] == ("-target", named)


def test_functions_of_zig_that_take_doubles_elsewhere_are_not_linked() -> None:
    """On Cortex-M it passes floats in other registers than what eabihf means."""
    b = Builder.net("net")
    program = b.finish({"y": b.sqrt(b.input("x", ["N"], "f64"))})
    compiled = compile_object(program, None, Options(name="net", target="cortex-m4"))
    zig = Runner(("qemu-system-arm",), ("python", "-m", "ziglang", "cc"), BOARDS["cortex-m4"])
    with pytest.raises(Missing, match=r"ziglang's sqrt does not suit it \(apt-get install gcc-arm"):
        RemoteProgram(zig, compiled)
