"""The seal of a tape: what forward leaves at its start, and backward checks and breaks.

A tape is memory of the caller. Its seal follows from the address of a constant of the library and
from the sizes, so that a tape of another library, of other sizes, one that no forward pass has
filled, or one that a backward pass has used up, is an error and not a read out of bounds.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.llvm.values import I64, Value
from rnncc.kern.signatures import BAD_TAPE, NULL_POINTER, OK
from rnncc.kern.training import SPREAD

_BROKEN = I64(0)


class TapeSeal:
    """The seal of a call's tape.

    Args:
        emit: of a function with a tape.
        name: the library's.
        tape: the caller's memory.
        sizes: of all symbols.

    Attributes:
        value: the seal.
    """

    def __init__(self, emit: CpuEmit, name: str, tape: Value, sizes: Sequence[Value]) -> None:
        self._emit, self._tape = emit, tape
        seal = emit.b.ptrtoint(_constant(emit.module, f"{name}_tape_seal"), I64)
        for size in sizes:
            seal = emit.b.mul(emit.b.xor(seal, size), ir.Constant(I64, SPREAD))
        self.value = emit.b.or_(seal, I64(1))  # none is broken

    def check(self) -> None:
        """End the call unless the tape is sealed."""
        seal = self._emit.b.load(self._tape, typ=I64, align=8)
        self._emit.fail_if(self._emit.b.icmp_unsigned("!=", seal, self.value), BAD_TAPE)
        self._emit.together()  # all threads have looked before one of them breaks it

    def open(self) -> None:
        """No tape yet, whatever a call before has left there."""
        with self._emit.alone():
            self._write(_BROKEN)

    def close(self, code: Value) -> None:
        """Seal the tape if forward ended well."""
        ended_well = self._emit.b.icmp_signed("==", code, ir.Constant(code.type, OK))
        with self._emit.alone(), self._emit.when(ended_well):
            self._write(self.value)

    def break_unless_refused(self, code: Value) -> None:
        """A tape that backward has begun to read is used up."""
        b = self._emit.b
        # NULL is found before anything is read: the caller may call again.
        accepted = b.icmp_signed("!=", code, ir.Constant(code.type, NULL_POINTER))
        with self._emit.alone(), self._emit.when(accepted):
            self._write(_BROKEN)

    def _write(self, seal: Value) -> None:
        self._emit.b.store(seal, self._tape, align=8)


def _constant(module: ir.Module, name: str) -> Value:
    """A constant whose address no other library of the process has."""
    if name not in module.globals:
        constant = ir.GlobalVariable(module, I64, name)
        constant.initializer = I64(0)
        constant.global_constant = True
        constant.linkage = "internal"
    return module.globals[name]
