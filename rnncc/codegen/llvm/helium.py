"""Comparisons of floats for Helium, in forms that LLVM 22 translates rightly.

To compare with a number that all lanes share, or with zero, it puts that number second, and with it
turns `s > x` into `x < s`. In Helium's instructions `lt` and `le` are what `ge` and `gt` are not:
of NaN they are true, so that x < s was, and `uno x, x`, which becomes `uno x, 0`, was false.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from rnncc.codegen.llvm.values import I32, declared, selection

SWAPPED = {"ogt": "olt", "oge": "ole", "ult": "ugt", "ule": "uge"}
"""Relations of which LLVM compares the first operand with the second -> those of which it compares
the second with the first."""
PLAIN = {"oeq", "une", *SWAPPED.values()}
LANES = 4
_WORDS = ir.VectorType(I32, LANES)


def compare(b: Any, relation: str, x: Any, y: Any) -> Any:
    """The flags of a comparison of two or four lanes, such that what LLVM puts first shares no
    number that it knows of."""
    if relation in SWAPPED:
        relation, x, y = SWAPPED[relation], y, x
    if relation == "uno" and x is y:
        relation = "une"
    assert relation in PLAIN, relation
    if x.type.count == LANES:
        return b.compare(f"fcmp {relation}", x, _opaque(b, y))
    twice = selection(0, 1, 0, 1)  # LLVM would widen them by itself, and then go wrong
    wide = [b.shuffle_vector(side, side, twice) for side in (x, y)]
    flags = b.compare(f"fcmp {relation}", wide[0], _opaque(b, wide[1]))
    return b.shuffle_vector(flags, flags, selection(0, 1))


def _opaque(b: Any, x: Any) -> Any:
    """x, by way of a saturating shift by no bits, which LLVM leaves as it is."""
    name = "llvm.arm.mve.vqshl.imm.v4i32"
    shift = declared(b.module, name, _WORDS, [_WORDS, I32, I32])
    return b.bitcast(b.call(shift, [b.bitcast(x, _WORDS), I32(0), I32(1)]), x.type)
