"""`NAME_supported` and `NAME_missing_feature`: whether a library runs on the present CPU.

They are IR text of their own, for the architecture's baseline: any other function of a library may
begin with an instruction that the CPU lacks. They walk a table of what the library needs, and ask
`cpuid`, or on AArch64 what Linux tells: a loop, as LLVM's time grows with the code.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rnncc.codegen.cpu.machine.core import Core
from rnncc.codegen.cpu.machine.features import BASELINE, SIGNS, TILES, Sign
from rnncc.codegen.cpu.machine.permitted import ARCH_PRCTL, REQUEST, TILE_DATA
from rnncc.platforms import pointer_bytes

_LACKING = """
@{name}_signs = private constant [{count} x [8 x i32]] [{rows}]
@{name}_features = private constant [{length} x i8] c"{names}"

define internal ptr @{name}_lacking() {machine} {{
entry:
  %state = call i64 @{name}_state()
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %there ]
  %last = phi i64 [ 0, %entry ], [ %word, %there ]
  %more = icmp ult i64 %i, {count}
  br i1 %more, label %row, label %all
row:
  %sign = getelementptr [8 x i32], ptr @{name}_signs, i64 %i
  %leaf = load i32, ptr %sign
  %is_new = icmp ne i32 %leaf, 0
  br i1 %is_new, label %ask, label %test
ask:
  %subleaf_at = getelementptr i32, ptr %sign, i64 1
  %subleaf = load i32, ptr %subleaf_at
  %register_at = getelementptr i32, ptr %sign, i64 2
  %register = load i32, ptr %register_at
  %told = call i64 @{name}_word(i32 %leaf, i32 %subleaf, i32 %register)
  br label %test
test:
  %word = phi i64 [ %last, %row ], [ %told, %ask ]
  %shift_at = getelementptr i32, ptr %sign, i64 3
  %shift32 = load i32, ptr %shift_at
  %shift = zext i32 %shift32 to i64
  %mask_at = getelementptr i32, ptr %sign, i64 4
  %mask32 = load i32, ptr %mask_at
  %mask = zext i32 %mask32 to i64
  %least_at = getelementptr i32, ptr %sign, i64 5
  %least32 = load i32, ptr %least_at
  %least = zext i32 %least32 to i64
  %saves_at = getelementptr i32, ptr %sign, i64 6
  %saves32 = load i32, ptr %saves_at
  %saves = zext i32 %saves32 to i64
  %shifted = lshr i64 %word, %shift
  %bits = and i64 %shifted, %mask
  %enough = icmp uge i64 %bits, %least
  %saved = and i64 %state, %saves
  %usable = icmp eq i64 %saved, %saves
  %both = and i1 %enough, %usable
  br i1 %both, label %there, label %missing
there:
  %next = add i64 %i, 1
  br label %head
missing:
  %name_at = getelementptr i32, ptr %sign, i64 7
  %name = load i32, ptr %name_at
  %feature = getelementptr i8, ptr @{name}_features, i32 %name
  ret ptr %feature
all:
  ret ptr null
}}
define ptr @{name}_missing_feature() {machine} {{
  %missing = call ptr @{name}_lacking()
  ret ptr %missing
}}
define i32 @{name}_supported() {machine} {{
  %missing = call ptr @{name}_lacking()
  %none = icmp eq ptr %missing, null
  %result = zext i1 %none to i32
  ret i32 %result
}}
"""
"""A row of the table: leaf (0: the word of the row before), subleaf, register, shift, mask, least,
state, and where the feature's name is."""

_CPUID = 'call { i32, i32, i32, i32 } asm sideeffect "cpuid", "={ax},={bx},={cx},={dx},{ax},{cx}"'
_OF_X86 = """
define internal i64 @{name}_word(i32 %leaf, i32 %subleaf, i32 %register) {machine} {{
  %range = and i32 %leaf, -2147483648
  %first = {cpuid} (i32 %range, i32 0)
  %last = extractvalue {{ i32, i32, i32, i32 }} %first, 0
  %known = icmp ule i32 %leaf, %last
  br i1 %known, label %ask, label %none
ask:
  %words = {cpuid} (i32 %leaf, i32 %subleaf)
  %a = extractvalue {{ i32, i32, i32, i32 }} %words, 0
  %b = extractvalue {{ i32, i32, i32, i32 }} %words, 1
  %c = extractvalue {{ i32, i32, i32, i32 }} %words, 2
  %d = extractvalue {{ i32, i32, i32, i32 }} %words, 3
  %is_a = icmp eq i32 %register, 0
  %is_b = icmp eq i32 %register, 1
  %is_c = icmp eq i32 %register, 2
  %c_or_d = select i1 %is_c, i32 %c, i32 %d
  %b_to_d = select i1 %is_b, i32 %b, i32 %c_or_d
  %word = select i1 %is_a, i32 %a, i32 %b_to_d
  %wide = zext i32 %word to i64
  ret i64 %wide
none:
  ret i64 0
}}
define internal i64 @{name}_state() {machine} {{
  %word = call i64 @{name}_word(i32 1, i32 0, i32 2)
  %osxsave = and i64 %word, 134217728
  %readable = icmp ne i64 %osxsave, 0
  br i1 %readable, label %read, label %none
read:
  %pair = call {{ i32, i32 }} asm sideeffect "xgetbv", "={{ax}},={{dx}},{{cx}}" (i32 0)
  %state = extractvalue {{ i32, i32 }} %pair, 0
  %wide = zext i32 %state to i64
  {leave}
  ret i64 %usable
none:
  ret i64 0
}}
"""
_ALL_STATE = "%usable = add i64 %wide, 0"
_LEAVE = f"""%refused = call i64 asm sideeffect "syscall", \
"={{ax}},{{ax}},{{di}},{{si}},~{{rcx}},~{{r11}},~{{memory}}" \
(i64 {ARCH_PRCTL}, i64 {REQUEST}, i64 {TILE_DATA})
  %given = icmp eq i64 %refused, 0
  %kept = select i1 %given, i64 -1, i64 {~(1 << TILE_DATA)}
  %usable = and i64 %wide, %kept"""
"""Linux is asked for AMX's registers (`machine/permitted.py`), which count if it gives them."""
_ASK = """
@llvm.global_ctors = appending global [1 x {{ i32, ptr, ptr }}] [{{ i32, ptr, ptr }} \
{{ i32 65535, ptr @{name}_ask, ptr null }}]
define internal void @{name}_ask() nounwind "target-cpu"="{cpu}" "target-features"="" {{
  %supported = call i32 @{name}_supported()
  ret void
}}
"""
_OF_LINUX = """
declare {long} @getauxval({long})
define internal i64 @{name}_word(i32 %key, i32 %subleaf, i32 %register) {machine} {{
  %long = {key} i32 %key to {long}
  %told = call {long} @getauxval({long} %long)
  %word = {word} {long} %told to i64
  ret i64 %word
}}
"""
_ALL = """
define i32 @{name}_supported() {machine} {{
  ret i32 1
}}
define ptr @{name}_missing_feature() {machine} {{
  ret ptr null
}}
"""
_NO_STATE = """
define internal i64 @{name}_state() {machine} {{
  ret i64 0
}}
"""


def supported_text(name: str, features: Sequence[str], target: Core) -> str:
    """Both functions of a library, as LLVM's text.

    Args:
        name: the library's.
        features: what it needs, keys of `SIGNS`.
        target: the machine it is for.
    """
    every_sign = SIGNS.get(target.architecture, {})
    signs = {n: every_sign[n] for n in features if n in every_sign}
    signs = dict(sorted(signs.items(), key=lambda pair: pair[1].word))
    cpu = BASELINE.get(target.architecture, target.cpu)
    # For the least CPU there is: these functions must run on any.
    machine = f'nounwind "target-cpu"="{cpu}" "target-features"=""'
    long = 8 * pointer_bytes(target.triple)
    asks = any(sign.state & TILES for sign in signs.values())
    if target.architecture == "x86_64":
        text = _OF_X86 + _LACKING
    elif "linux" in target.triple:
        text = _OF_LINUX + _NO_STATE + _LACKING
    else:  # there is nobody to ask
        text = _ALL
    return (text if signs else _ALL).format(
        name=name,
        machine=machine,
        cpuid=_CPUID,
        leave=_LEAVE if asks else _ALL_STATE,
        long=f"i{long}",
        key="zext" if long > 32 else "bitcast",
        word="bitcast" if long > 32 else "zext",
        count=len(signs),
        rows=", ".join(_rows(signs)),
        length=sum(len(feature) + 1 for feature in signs),
        names="".join(f"{feature}\\00" for feature in signs),
    )


def asking_text(name: str, features: Collection[str], architecture: str) -> str:
    """What has a library ask the system as it is loaded, so that those may call it who do not ask
    what it needs; nothing where the CPU alone decides.

    Args:
        name: the library's; its `NAME_supported` asks.
    """
    signs = SIGNS.get(architecture, {})
    if not any(signs[n].state & TILES for n in features if n in signs):
        return ""
    return _ASK.format(name=name, cpu=BASELINE[architecture])


def _rows(signs: dict[str, Sign]) -> list[str]:
    """The table, sorted by words, so that each word is asked for once."""
    rows, last, place = list[str](), None, 0
    for feature, sign in signs.items():
        word = sign.word
        # 0x80000001 as the signed number that LLVM's text has.
        leaf = word.leaf - (1 << 32 if word.leaf >> 31 else 0) if word != last else 0
        numbers = leaf, word.subleaf, word.register, sign.shift, sign.mask, sign.least
        row = ", ".join(f"i32 {number}" for number in (*numbers, sign.state, place))
        rows.append(f"[8 x i32] [{row}]")
        last, place = word, place + len(feature) + 1
    return rows
