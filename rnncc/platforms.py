"""The machines and systems that code can be written for: a row each. Light: it imports no package.

What depends on the system alone, such as the files of a library, is in `SYSTEMS`.
"""

from __future__ import annotations

import re

from rnncc.records import record

LINE = 64
"""Bytes of a line of the cache, of most machines."""
LINE_FLOATS = LINE // 4
PAGE = 4096
"""Bytes whose addresses a processor translates at once, and that it does not prefetch beyond."""


@record
class System:
    """What all machines of an operating system, or of none, have in common.

    Attributes:
        title: its name in texts.
        objects: the format of its object files: elf, coff, macho or wasm.
        library: the kind of its linked product, None where programs take the static library.
        products: the files that can be made; `by_default` without a choice.
    """

    title: str
    objects: str
    library: str | None
    products: tuple[str, ...]
    by_default: tuple[str, ...]


SYSTEMS = {
    "linux": System(
        "Linux", "elf", "so",
        ("so", "h", "py", "o", "a", "pc", "cmake", "wheel"), ("so", "h", "py"),
    ),
    "windows": System("Windows", "coff", "dll", ("dll", "lib", "h", "o", "a"), ("dll", "lib", "h")),
    "macos": System("macOS", "macho", "dylib", ("dylib", "h", "o", "a"), ("dylib", "h")),
    "ios": System("iOS", "macho", None, ("h", "o", "a"), ("a", "h")),
    "wasm": System(
        "WebAssembly", "wasm", "wasm", ("wasm", "js", "ts", "h", "o", "a"), ("wasm", "js", "ts"),
    ),
    "bare": System("no system", "elf", None, ("h", "o", "a"), ("a", "h")),
}  # fmt: skip


@record
class Platform:
    """A machine and its system.

    Attributes:
        name: what `--target` takes.
        title: for people.
        triple, cpu, features: as LLVM names them.
        lanes: float32 elements of a vector register; 1 where there are none.
        registers: those that sums may be kept in.
        fma: whether it multiplies and adds in one rounding.
        compact: whether code is to be small: flash and RAM are counted in kilobytes, and what
            speeds up batches or long sequences costs more than it gives.
    """

    name: str
    title: str
    triple: str
    cpu: str
    features: str = ""
    lanes: int = 4
    registers: int = 32
    fma: bool = True
    compact: bool = False

    @property
    def system(self) -> str:
        """A key of `SYSTEMS`."""
        return system_of(self.triple)


_X86, _ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
_WASM = "+simd128,+bulk-memory,+sign-ext,+nontrapping-fptoint,+mutable-globals"
_EABI = "unknown-none-eabihf"
_RV64, _RV32 = "+m,+a,+f,+d,+c", "+m,+a,+f,+c"

PLATFORMS = {
    row.name: row
    for row in (
        Platform("x86-64-v2", "x86-64 Linux, SSE4.2", _X86, "x86-64-v2", "", 4, 16, False),
        Platform("x86-64-v3", "x86-64 Linux, AVX2 and FMA", _X86, "x86-64-v3", "", 8, 16),
        Platform("x86-64-v4", "x86-64 Linux, AVX-512", _X86, "x86-64-v4", "", 16, 32),
        Platform("aarch64", "AArch64 Linux", _ARM, "generic"),
        Platform("android-arm64", "AArch64 Android", "aarch64-unknown-linux-android21", "generic"),
        Platform(
            "armv7", "ARMv7 Linux, NEON and VFPv4, hard float",
            "armv7-unknown-linux-gnueabihf", "generic", "+neon,+vfp4", 4, 16,
        ),
        Platform(
            "riscv64", "64-bit RISC-V Linux (RV64GC)",
            "riscv64-unknown-linux-gnu", "generic-rv64", _RV64, 1, 32,
        ),
        Platform(
            "riscv64-v", "64-bit RISC-V Linux with vectors (RV64GCV)",
            "riscv64-unknown-linux-gnu", "generic-rv64", f"{_RV64},+v", 4, 32,
        ),
        Platform(
            "riscv32", "32-bit RISC-V without a system (RV32IMAFC)",
            "riscv32-unknown-none-elf", "generic-rv32", _RV32, 1, 32, compact=True,
        ),
        Platform(
            "wasm32", "WebAssembly with simd128",
            "wasm32-unknown-unknown", "generic", _WASM, 4, 16, False,
        ),
        Platform(
            "wasm32-relaxed", "WebAssembly with relaxed SIMD",
            "wasm32-unknown-unknown", "generic", f"{_WASM},+relaxed-simd", 4, 16, True,
        ),
        Platform(
            "wasm64", "WebAssembly with simd128 and 64-bit addresses",
            "wasm64-unknown-unknown", "generic", _WASM, 4, 16, False,
        ),
        Platform("windows-x64", "x86-64 Windows", "x86_64-pc-windows-gnu", "x86-64-v3", "", 8, 16),
        Platform("windows-arm64", "AArch64 Windows", "aarch64-pc-windows-gnu", "generic"),
        Platform("macos-arm64", "Apple silicon macOS", "arm64-apple-macosx11.0.0", "apple-m1"),
        Platform(
            "macos-x64", "x86-64 macOS", "x86_64-apple-macosx10.13.0", "x86-64-v3", "", 8, 16
        ),
        Platform("ios-arm64", "iOS", "arm64-apple-ios13.0.0", "apple-a7"),
        Platform(
            "cortex-m4", "Cortex-M4F", f"thumbv7em-{_EABI}", "cortex-m4", "", 1, 32, compact=True,
        ),
        Platform(
            "cortex-m7", "Cortex-M7", f"thumbv7em-{_EABI}", "cortex-m7", "", 1, 32, compact=True,
        ),
        Platform(
            "cortex-m33", "Cortex-M33",
            f"thumbv8m.main-{_EABI}", "cortex-m33", "", 1, 32, compact=True,
        ),
        Platform(
            "cortex-m55", "Cortex-M55 with Helium",
            f"thumbv8.1m.main-{_EABI}", "cortex-m55", "", 4, 8, compact=True,
        ),
    )
}  # fmt: skip
"""Those with a short name; the order is that of `rnncc targets`."""


_BEGINNINGS = (
    *((system, system) for system in ("linux", "windows", "macos", "ios")),
    ("macos", "darwin"),
    ("bare", "none"),
)
"""Systems, and how the words of triples begin that mean them."""
ENVIRONMENTS = {
    "linux": (
        *("gnu", "gnueabi", "gnueabihf", "musl", "musleabi", "musleabihf"),
        *("android", "androideabi", "ohos"),
    ),
    "windows": ("gnu", "msvc"),
    "macos": ("macho",),
    "ios": ("macho", "simulator"),
    "wasm": ("unknown", "none", "wasi", "wasip1", "wasip2", "emscripten"),
    "bare": ("elf", "eabi", "eabihf"),
}
"""System -> what may be the last word of its triples. With others, such as gnux32, pointers may be
of another size, or calls pass arguments in another way."""


def architecture_of(triple: str) -> str:
    """The first word of a triple, arm64 being another name of aarch64."""
    name = triple.split("-")[0]
    return "aarch64" if name == "arm64" else name


def system_of(triple: str) -> str:
    """The key of `SYSTEMS` that a triple names, or nothing."""
    words = triple.split("-")
    if words[0].startswith("wasm"):
        return "wasm"
    systems = (key for key, begin in _BEGINNINGS for word in words[1:] if word.startswith(begin))
    return next(systems, "")


def is_whole(triple: str) -> bool:
    """Whether each word of a system's triple is known: it ends with the system, or with one of its
    environments behind that; both may have versions. A vendor may have any name."""
    system, words = system_of(triple), triple.partition("-")[2]
    begins = "|".join(begin for key, begin in _BEGINNINGS if key == system)
    last = rf"(?:{'|'.join(ENVIRONMENTS[system])})[0-9.]*"
    ending = last if system == "wasm" else rf"(?:{begins})x?[0-9.]*(?:-{last})?"
    return re.fullmatch(rf"(?:[a-z0-9_]+-)?{ending}", words, re.ASCII) is not None


def full_triple(triple: str) -> str:
    """With a vendor, without which LLVM would take the system for one and miss the float ABI."""
    words = triple.split("-")
    is_short = len(words) > 1 and any(words[1].startswith(begin) for _, begin in _BEGINNINGS)
    return "-".join([words[0], "unknown", *words[1:]]) if is_short else triple


def flushes_denormals(architecture: str) -> bool:
    """Whether its CPUs have a mode in which denormals are zeros."""
    return architecture in ("x86_64", "aarch64") or architecture.startswith(("arm", "thumb"))


def pointer_bytes(triple: str) -> int:
    """Bytes of an address, and of `size_t`."""
    return 8 if "64" in architecture_of(triple) else 4


def word_bits(triple: str) -> int:
    """Of the integers that one instruction computes with."""
    return 64 if system_of(triple) == "wasm" else 8 * pointer_bytes(triple)


def platform_of(target: str) -> Platform | None:
    """The row that a name or a triple means: of a triple the first of its kind, else None."""
    if target in PLATFORMS:
        return PLATFORMS[target]
    kind = architecture_of(target), system_of(target)
    rows = (r for r in PLATFORMS.values() if (architecture_of(r.triple), r.system) == kind)
    return next(rows, None)
