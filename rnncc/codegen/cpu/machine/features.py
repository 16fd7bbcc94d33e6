"""The extensions of its architecture that code for a machine may use, and how a CPU shows them.

Listed is what LLVM takes by itself for plain code, and AMX, which only products that are written
for it need; what needs intrinsics that rnncc does not write (AES, random numbers, transactions) is
no part of any library.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from rnncc.codegen.llvm.machine import Named
from rnncc.platforms import architecture_of
from rnncc.records import record

BASELINE = {"x86_64": "x86-64", "aarch64": "generic"}
"""Architectures of which LLVM tells what a cpu has -> the cpu of which every machine is one."""

YMM, ZMM, APX, TILES = 0x6, 0xE6, 1 << 19, 3 << 17
"""Registers that the system has to save, as bits of XCR0."""


@dataclass(frozen=True, order=True)
class Word:
    """A number that tells extensions: a register of `cpuid`, or an entry of the auxiliary vector.

    Attributes:
        leaf, subleaf: of `cpuid`; or the entry's key, and 0.
        register: of `cpuid`, 0 to 3 for eax, ebx, ecx and edx.
    """

    leaf: int
    subleaf: int = 0
    register: int = 0


@record
class Sign:
    """An extension is there if some bits of a word, as a number, are at least so much.

    Attributes:
        shift, mask: the bits: (word >> shift) & mask.
        state: bits that XCR0 needs.
    """

    word: Word
    shift: int
    state: int = 0
    mask: int = 1
    least: int = 1


def _signs(word: Word, shifts: str, state: int = 0) -> dict[str, Sign]:
    """Extensions that a word has a bit for, from a text of names and bits."""
    words = shifts.split()
    return {n: Sign(word, int(b), state) for n, b in zip(words[::2], words[1::2], strict=True)}


_LEAF7 = [Word(7, 0, register) for register in range(4)]
_LEAF7_1 = [Word(7, 1, register) for register in range(4)]
_X86 = {
    **_signs(Word(1, 0, 2), "sse3 0 cx16 13 ssse3 9 sse4.1 19 sse4.2 20 movbe 22 popcnt 23"),
    **_signs(Word(1, 0, 2), "avx 28 f16c 29 fma 12", YMM),
    **_signs(Word(0x80000001, 0, 2), "sahf 0 lzcnt 5 sse4a 6 prfchw 8 tbm 21"),
    **_signs(Word(0x80000001, 0, 2), "xop 11 fma4 16", YMM),
    **_signs(_LEAF7[1], "bmi 3 bmi2 8"),
    **_signs(_LEAF7[1], "avx2 5", YMM),
    **_signs(_LEAF7[1], "avx512f 16 avx512dq 17 avx512ifma 21 avx512cd 28 avx512bw 30", ZMM),
    **_signs(_LEAF7[1], "avx512vl 31", ZMM),
    **_signs(_LEAF7[2], "gfni 8"),
    **_signs(_LEAF7[2], "avx512vbmi 1 avx512vbmi2 6 avx512vnni 11 avx512bitalg 12", ZMM),
    **_signs(_LEAF7[2], "avx512vpopcntdq 14", ZMM),
    **_signs(_LEAF7[3], "avx512fp16 23", ZMM),
    **_signs(_LEAF7[3], "amx-bf16 22 amx-int8 25", TILES),
    **_signs(_LEAF7_1[0], "raoint 3 cmpccxadd 7 movrs 31"),
    **_signs(_LEAF7_1[0], "avxvnni 4 avxifma 23", YMM),
    **_signs(_LEAF7_1[0], "avx512bf16 5", ZMM),
    **_signs(_LEAF7_1[3], "avxvnniint8 4 avxneconvert 5 avxvnniint16 10", YMM),
    **_signs(_LEAF7_1[3], "egpr 21 push2pop2 21 ppx 21", APX),
    **_signs(Word(0x29, 0, 1), "ccmp 0 cf 0 ndd 0 nf 0 zu 0", APX),
    # A version number, not a bit.
    "avx10.1": Sign(Word(0x24, 0, 1), 0, ZMM, 0xFF, 1),
    "avx10.2": Sign(Word(0x24, 0, 1), 0, ZMM, 0xFF, 2),
}
# AT_HWCAP (16) and AT_HWCAP2 (26) of Linux's auxiliary vector.
_ARM = {
    **_signs(Word(16), "lse 8 fullfp16 10 rdm 12 jsconv 13 complxnum 14"),
    **_signs(Word(16), "rcpc 15 dotprod 20 sve 22 fp16fml 23 lse2 25 rcpc-immo 26 flagm 27"),
    **_signs(Word(26), "sve2 1 altnzcv 7 fptoint 8 i8mm 13 bf16 14 cssc 34 sve2p1 36 mops 43"),
    **_signs(Word(26), "hbc 44 sve-b16b16 45 rcpc3 46 lse128 47 lut 49 faminmax 50 fp8 51"),
}
_ARMV7 = _signs(Word(16), "neon 12 vfp4 16")
_RISCV = _signs(Word(16), "v 21")
SIGNS = {"x86_64": _X86, "aarch64": _ARM, "armv7": _ARMV7, "riscv64": _RISCV}
"""Architecture -> extension, as LLVM names it -> how it shows: by `cpuid`, or by Linux.

What every CPU of an architecture has, such as Neon, is not among them.
"""


_LEVEL2 = ("sse3", "cx16", "ssse3", "sse4.1", "sse4.2", "popcnt", "sahf")
_LEVEL3 = (*_LEVEL2, "movbe", "avx", "f16c", "fma", "lzcnt", "bmi", "bmi2", "avx2")
_LEVEL4 = (*_LEVEL3, "avx512f", "avx512dq", "avx512cd", "avx512bw", "avx512vl")
LEVELS = {"x86-64-v2": _LEVEL2, "x86-64-v3": _LEVEL3, "x86-64-v4": _LEVEL4}
"""What the levels of x86-64 are, which need not be found out."""


def needed(target: Named) -> list[str]:
    """The extensions without which plain code for a machine may not run, as LLVM names them.

    LLVM uses AMX for nothing by itself.
    """
    return [name for name in had(target) if not name.startswith("amx-")]


def had(target: Named) -> list[str]:
    """The extensions that a machine has, as LLVM names them."""
    flags = {text[1:]: text[0] == "+" for text in target.features.split(",") if text}
    architecture = architecture_of(target.triple)
    signs = SIGNS.get(architecture, flags)
    if architecture not in BASELINE:
        return [name for name in signs if flags.get(name)]
    if signs.keys() <= flags.keys():  # a machine that LLVM has looked at: this one
        return [name for name in signs if flags[name]]
    return list(LEVELS.get(target.cpu) or features_of_cpu(target.triple, target.cpu))


@cache
def features_of_cpu(triple: str, cpu: str) -> tuple[str, ...]:
    """The extensions of a cpu by its name, which LLVM does not tell.

    But it inlines a function only where the caller's machine has all that the function's has: a
    function for the same cpu and one extension more stays a call unless that is no more.
    """
    from rnncc.codegen.llvm.objects import inlined

    names = list(SIGNS[architecture_of(triple)])
    text = list[str]()
    for number, name in enumerate(names):
        machine = f'"target-cpu"="{cpu}" "target-features"="+{name}"'
        body = f"%y = mul i32 %x, {number + 3}\nret i32 %y"
        text.append(f"define internal i32 @with{number}(i32 %x) {machine} {{\n{body}\n}}")
    text.append(f'define i32 @caller(i32 %x0) "target-cpu"="{cpu}" {{')
    text += [f"%x{n + 1} = call i32 @with{n}(i32 %x{n})" for n in range(len(names))]
    text.append(f"ret i32 %x{len(names)}\n}}")
    calls = inlined("\n".join(text), triple, "caller")
    return tuple(name for n, name in enumerate(names) if f"@with{n}(" not in calls)
