"""How large the parts of an object file are, of any format that LLVM reads."""

from __future__ import annotations

from dataclasses import field
from typing import Any, cast

import llvmlite.binding

from rnncc.records import record

llvm = cast(Any, llvmlite.binding)  # its type stubs are of an older version
CONSTANTS = (
    *(".rodata", ".rdata", ".data", ".sdata", ".srodata", ".ARM.exidx", ".eh_frame"),
    *(".xdata", ".pdata", "__const", "__literal", "__cstring", "__eh_frame", "DATA"),
)
"""How the names of sections begin that a program holds beside its code."""
_FUNCTION = ".text."


@record
class SectionBytes:
    """Bytes of an object that become part of a program.

    Attributes:
        code, constants: all.
        functions: of those that have sections of their own, which linkers drop one by one.
    """

    code: int
    constants: int
    functions: dict[str, int] = field(default_factory=dict[str, int])


def parts_of(code: bytes) -> SectionBytes:
    """What an object holds."""
    text, constants, functions = 0, 0, dict[str, int]()
    for section in llvm.ObjectFileRef.from_data(code).sections():
        name, size = (section.name() or b"").decode(errors="replace"), section.size()
        if section.is_text():
            text += size
            if name.startswith(_FUNCTION):
                functions[name.removeprefix(_FUNCTION)] = size
        elif name.startswith(CONSTANTS):
            constants += size
    return SectionBytes(text, constants, functions)
