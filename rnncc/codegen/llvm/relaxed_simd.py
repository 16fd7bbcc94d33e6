"""Selections for WebAssembly with relaxed SIMD, of which LLVM would make relaxed minima and maxima.

`x < y ? x : y` gives y where either is NaN; `f32x4.relaxed_min` may give either or NaN, as the
engine likes. In: a module's text after all passes. Out: the same with vectors of floats selected by
`v128.bitselect`, which LLVM leaves alone.
"""

from __future__ import annotations

import re

_SELECT = re.compile(
    r"^  (?P<name>%\S+) = select <(?P<lanes>\d+) x i1> (?P<mask>%\S+), "
    r"(?P<type><\d+ x (?P<kind>float|double)>) (?P<x>.+), (?P=type) (?P<y>.+?)(?:, !.*)?$",
    re.MULTILINE,
)
_BITS = {"float": 32, "double": 64}


def keep_selections(text: str) -> str:
    """A module's text whose selections LLVM compiles as they are."""
    text = _SELECT.sub(_selection, text)
    for bits in _BITS.values():
        if f"@llvm.wasm.bitselect.{_suffix(bits)}(" in text:
            register = _register(bits)
            parameters = ", ".join([register] * 3)
            text += f"\ndeclare {register} @llvm.wasm.bitselect.{_suffix(bits)}({parameters})\n"
    return text


def _selection(match: re.Match[str]) -> str:
    """The lines in place of a `select`: registers in parts of 128 bits, the last one filled up."""
    name, lanes, bits = match["name"], int(match["lanes"]), _BITS[match["kind"]]
    whole, register, own = f"<{lanes} x i{bits}>", _register(bits), name[1:].strip('"')
    count = 128 // bits
    parts = -(-lanes // count)
    assert parts <= 2, "vectors are of 256 bits at most"
    lines = [f'%"{own}.mask" = sext <{lanes} x i1> {match["mask"]} to {whole}']
    lines += [
        f'%"{own}.{side}" = bitcast {match["type"]} {match[side]} to {whole}' for side in ("x", "y")
    ]
    for part in range(parts):
        for side in ("x", "y", "mask"):
            indices = _indices(range(part * count, (part + 1) * count), lanes)
            value = f'{whole} %"{own}.{side}", {whole} poison'
            lines.append(f'%"{own}.{side}{part}" = shufflevector {value}, {indices}')
        operands = ", ".join(f'{register} %"{own}.{side}{part}"' for side in ("x", "y", "mask"))
        call = f"call {register} @llvm.wasm.bitselect.{_suffix(bits)}({operands})"
        lines.append(f'%"{own}.part{part}" = {call}')
    both = [f'%"{own}.part{part}"' for part in range(parts)] + ["poison"]
    joined = f"{register} {both[0]}, {register} {both[1]}, {_indices(range(lanes), lanes)}"
    lines.append(f'%"{own}.all" = shufflevector {joined}')
    lines.append(f'{name} = bitcast {whole} %"{own}.all" to {match["type"]}')
    return "\n".join(f"  {line}" for line in lines)


def _suffix(bits: int) -> str:
    return f"v{128 // bits}i{bits}"


def _register(bits: int) -> str:
    return f"<{128 // bits} x i{bits}>"


def _indices(lanes: range, known: int) -> str:
    """A mask of a shuffle; lanes beyond those that are known are open."""
    words = [f"i32 {lane}" if lane < known else "i32 poison" for lane in lanes]
    return f"<{len(words)} x i32> <{', '.join(words)}>"
