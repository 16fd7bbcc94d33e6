"""Which terms a product has, by the types of its rows and weights."""

from __future__ import annotations

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.gemm.bf16 import DotTerms, WidenedTerms
from rnncc.codegen.cpu.gemm.int8 import ExactTerms, ScaledTerms
from rnncc.codegen.cpu.gemm.terms import LeftOperand, Terms
from rnncc.codegen.llvm.values import Pointer
from rnncc.kern.kernels import Gemm


def terms_of(emit: CpuEmit, op: Gemm, left: LeftOperand, weights: list[Pointer]) -> Terms:
    """How the terms of weights of a type are summed."""
    match weights:
        case [packed, room, scales]:
            return ScaledTerms(emit, op, left, packed, room, scales)
        case [packed, room] if left.pointer.dtype == "i8":
            return ExactTerms(emit, op, left, packed, room)
        case [packed, room]:
            return DotTerms(emit, op, left, packed, room)
        case _:
            kind = WidenedTerms if weights[0].dtype == "bf16" else Terms
            return kind(emit, op, left, weights[0])
